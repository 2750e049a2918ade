use burnish_tensor::DeviceError;

use crate::SampleError;

/// Why an update, or the scoring of samples, was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrainError {
    /// A sample's streams do not fit together.
    #[error("sample {sample}: {source}")]
    Sample {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// What is wrong with it.
        source: SampleError,
    },
    /// A sample is read in a direction in which the model does not read.
    #[error("sample {sample} is {}", if *is_noised {
        "noised, for a model of masked diffusion, and this model is causal"
    } else {
        "read from left to right, and this model reads in both directions (`is_causal` is false in its config.json): it \
         learns from noised samples"
    })]
    Direction {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// Whether it is noised.
        is_noised: bool,
    },
    /// What a sample's latent steps read is no hidden state of the model.
    #[error(
        "sample {sample}: its latent steps read {width} numbers each, but the model's hidden states have {hidden_size}"
    )]
    LatentWidth {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// Numbers that a step reads.
        width: usize,
        /// Width of the model.
        hidden_size: usize,
    },
    /// Some samples have latent steps whose inputs are known, and others have steps whose inputs are computed.
    #[error(
        "sample {sample}: its latent steps are recorded and those of others computed, or the other way round"
    )]
    LatentKinds {
        /// Index of the first sample that differs.
        sample: usize,
    },
    /// A token is not in the model's vocabulary.
    #[error("sample {sample}: token {token} has id {id}, which is not in the model's vocabulary")]
    UnknownToken {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// Index of the token.
        token: usize,
        /// The id.
        id: u32,
    },
    /// A sample does not fit into the context window.
    #[error(
        "sample {sample} has {tokens} tokens, but the model reads at most {tokens_max}: drop or truncate it"
    )]
    TooLong {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// Tokens that the model would have to read.
        tokens: usize,
        /// The model's context window.
        tokens_max: usize,
    },
    /// The objective needs what a sample does not have.
    #[error("sample {sample} has no {stream} log-probs, but the objective needs them: score it first")]
    Missing {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// `reference` or `teacher`.
        stream: &'static str,
    },
    /// The objective needs to know more about tokens than a sample has.
    #[error("sample {sample} does not say `{id}` of its tokens, which the objective needs")]
    MissingFact {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// The id of the fact or the span.
        id: String,
    },
    /// The objective compares whole distributions, but what it needs for that is missing or does not fit.
    #[error("sample {sample}: the objective needs {needs}, but its target {problem}")]
    Target {
        /// Index of the sample in the minibatch.
        sample: usize,
        /// What the objective asked for.
        needs: &'static str,
        /// What is wrong with what there is.
        problem: String,
    },
    /// A loss on whole distributions can't be computed here.
    #[error("a loss on whole distributions can't be computed: {problem}")]
    HeadLoss {
        /// Why.
        problem: &'static str,
    },
    /// The objective needs what is only known where the model is computed.
    #[error("the objective needs {needs}, which are not known where another machine has the weights")]
    Elsewhere {
        /// What it needs.
        needs: &'static str,
    },
    /// The objective returned another number of derivatives than it was given tokens.
    #[error("the objective gave {given} derivatives for {tokens} scored tokens")]
    Derivatives {
        /// What came back.
        given: usize,
        /// What was asked for.
        tokens: usize,
    },
    /// A number overflowed or is undefined; the weights are as they were before the update.
    #[error("update {update}: the {what} is {value}; nothing was updated (try a lower learning rate)")]
    NotFinite {
        /// Number of updates made before this one.
        update: u64,
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A gate needs the gradient of the head, which can't be measured.
    #[error("a gate of updates needs the gradient of the log-prob head, but {why}")]
    NoHead {
        /// What is missing, and what to do.
        why: &'static str,
    },
    /// The trainer was made for another model.
    #[error("the trainer was made for a model of {trainer} parameters, but this one has {model}")]
    OtherModel {
        /// Parameters that the optimiser has state for.
        trainer: usize,
        /// Parameters of the model.
        model: usize,
    },
    /// A GPU failed; its weights are as they were before the update.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
