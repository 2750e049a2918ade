//! A training sample: a token sequence with what is known about every token.

use std::collections::BTreeMap;

use burnish_core::rng::Stream;
use burnish_core::{Branch, Source};

use crate::latents::{LatentInputs, Latents};
use crate::target::Target;

/// One branch of a trace, ready to be learned from. All vectors have one entry per token.
///
/// A token is *scored* if its [`loss_mask`](Sample::loss_mask) is set: its log-probability given the tokens before it
/// (or those of [`Sample::noised`]) is computed, and the objective sees it. Entries of the other streams at tokens that are not scored are never read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Token ids.
    pub ids: Vec<u32>,
    /// What a model of masked diffusion reads in place of `ids`, in both directions: some of them, with the mask in place
    /// of the others. Each scored token is predicted at its own place. `None`: the model reads `ids` from left to right,
    /// and each scored token is predicted by the tokens before it.
    pub noised: Option<Vec<u32>>,
    /// Its latent steps, if it has any.
    pub latents: Option<Latents>,
    /// Does the token count in the loss? From left to right never the first one: nothing comes before it that could
    /// predict it.
    pub loss_mask: Vec<bool>,
    /// Log-probability under the model that sampled the token, in nats ([`Branch::model_logprobs`]).
    pub model_logprobs: Vec<f32>,
    /// Log-probability with which the token was drawn, in nats ([`Branch::sampled_logprobs`]). An objective says which
    /// of the two it takes for that of the policy that sampled ([`burnish_rl::Needs::behavior`]).
    pub sampled_logprobs: Vec<f32>,
    /// The temperature at which the token was sampled, by which the logits are divided.
    pub temperatures: Vec<f32>,
    /// Advantage of the token.
    pub advantages: Vec<f32>,
    /// Log-probability under the reference policy, if an objective needs it.
    pub reference: Option<Vec<f32>>,
    /// Log-probability under the teacher, if an objective needs it.
    pub teacher: Option<Vec<f32>>,
    /// The teacher's distributions at the scored tokens, if an objective needs them.
    pub target: Option<Target>,
    /// The parts of the batch that each token belongs to, one bit each ([`burnish_rl::terms`]); empty if every token belongs to
    /// all.
    pub parts: Vec<u8>,
    /// Facts of single tokens, by the id of the fact or the span ([`burnish_rl::TokenFact`]), if an objective asks for them.
    pub facts: BTreeMap<String, Vec<f32>>,
    /// What is known about the log-probabilities at the start of the update.
    pub proximal: Proximal,
    /// Neighbours with the same number are compared with each other: the answers to a task, the two of a pair. Only an
    /// objective that asks for groups uses it.
    pub group: usize,
    /// Which of the two directions its task has ([`burnish_rl::Streams::directions`]).
    pub direction: u8,
}

/// What is known about the log-probabilities of a sample's tokens at the start of an update, that is, under the
/// proximal policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Proximal {
    /// Those of the model that sampled: exact while nothing was learned between sampling and this update.
    #[default]
    Sampling,
    /// Known, one per token.
    Known(Vec<f32>),
    /// Interpolated. For each token, how far it is on the way from the model that sampled to the current policy
    /// ([`burnish_rl::correction::loglinear_share`]).
    Between(Vec<f32>),
}

impl Proximal {
    /// The numbers that it has, one entry per token.
    fn stream(&self) -> Option<&Vec<f32>> {
        match self {
            Proximal::Sampling => None,
            Proximal::Known(stream) | Proximal::Between(stream) => Some(stream),
        }
    }
}

impl Sample {
    /// What the policy sampled on `branch`, with one advantage for all of its tokens.
    pub fn from_rollout(branch: &Branch, advantage: f64) -> Self {
        Sample::from_branch(branch, branch.sampled_mask.clone(), advantage as f32)
    }

    /// The answers on `branch` that were given to be imitated, at temperature 1.
    pub fn from_demonstration(branch: &Branch) -> Self {
        let loss_mask = branch.sources.iter().map(|source| *source == Source::Demonstration).collect();
        let temperatures = vec![1.0; branch.ids.len()];
        Sample { temperatures, ..Sample::from_branch(branch, loss_mask, 1.0) }
    }

    /// Plain text, of which every token but the first counts in the loss.
    pub fn of_text(ids: Vec<u32>) -> Self {
        let tokens = ids.len();
        Sample {
            ids,
            loss_mask: (0..tokens).map(|at| at > 0).collect(),
            model_logprobs: vec![0.0; tokens],
            sampled_logprobs: vec![0.0; tokens],
            temperatures: vec![1.0; tokens],
            advantages: vec![1.0; tokens],
            ..Sample::default()
        }
    }

    /// The same tokens as a model of masked diffusion learns them: each scored one is masked with probability `t`, which
    /// is uniform in (0, 1], and what is masked is predicted with the weight `1 / (t L)`, its advantage, for `L` scored
    /// tokens. `seed` decides `t` and the masks. (Sahoo et al. 2024, arXiv:2406.07524; Nie et al. 2025,
    /// arXiv:2502.09992, equation 5, with the mean over the answer's tokens.)
    #[must_use]
    pub fn with_noise(mut self, mask: u32, seed: u64) -> Self {
        let mut stream = Stream::new(seed);
        let share = 1.0 - stream.uniform();
        let weight = 1.0 / (share * self.scored_tokens() as f64);
        let mut noised = self.ids.clone();
        for (at, is_scored) in self.loss_mask.iter_mut().enumerate().filter(|(_, is_scored)| **is_scored) {
            *is_scored = stream.uniform() < share;
            if *is_scored {
                noised[at] = mask;
                self.advantages[at] = weight as f32;
            }
        }
        self.noised = Some(noised);
        self
    }

    /// The same tokens with only the state after the last of them scored, which is what a value model gives the whole
    /// sequence. It has one more token, which is never read, with the advantage of the last one in the loss.
    pub fn ending(&self) -> Self {
        let mut whole = self.clone();
        let label = self.scored().last().map_or(0.0, |at| self.advantages[at]);
        whole.loss_mask.fill(false);
        // Any token will do, because the value is that of the state before it.
        whole.ids.push(whole.ids.first().copied().unwrap_or_default());
        whole.loss_mask.push(true);
        whole.model_logprobs.push(0.0);
        whole.sampled_logprobs.push(0.0);
        whole.temperatures.push(1.0);
        whole.advantages.push(label);
        (whole.reference, whole.teacher, whole.target) = (None, None, None);
        whole.proximal = Proximal::Sampling;
        (whole.parts, whole.facts) = (Vec::new(), BTreeMap::new());
        whole
    }

    /// Keeps the first `tokens` tokens of a sample that was not sampled or scored.
    pub fn truncate(&mut self, tokens: usize) {
        self.ids.truncate(tokens);
        self.loss_mask.truncate(tokens);
        self.parts.truncate(tokens);
        self.facts.values_mut().for_each(|numbers| numbers.truncate(tokens));
        for stream in [
            &mut self.model_logprobs,
            &mut self.sampled_logprobs,
            &mut self.temperatures,
            &mut self.advantages,
        ] {
            stream.truncate(tokens);
        }
        if let Some(noised) = &mut self.noised {
            noised.truncate(tokens);
        }
        if let Some(latents) = &mut self.latents {
            latents.truncate(tokens);
        }
        (self.reference, self.teacher, self.target, self.proximal) = (None, None, None, Proximal::Sampling);
    }

    fn from_branch(branch: &Branch, mut loss_mask: Vec<bool>, advantage: f32) -> Self {
        if let Some(first) = loss_mask.first_mut() {
            *first = false;
        }
        Sample {
            ids: branch.ids.clone(),
            noised: None,
            latents: recorded(branch),
            loss_mask,
            model_logprobs: branch.model_logprobs.clone(),
            sampled_logprobs: branch.sampled_logprobs.clone(),
            temperatures: branch.temperatures.clone(),
            advantages: vec![advantage; branch.ids.len()],
            reference: None,
            teacher: None,
            target: None,
            parts: Vec::new(),
            facts: BTreeMap::new(),
            proximal: Proximal::Sampling,
            group: 0,
            direction: 0,
        }
    }

    /// Log-probability of token `at` at the start of the update, if it is known before the update; otherwise that under
    /// the model that sampled. How tokens were filtered plays no part: the proximal policy is the full softmax.
    pub fn old(&self, at: usize) -> f32 {
        match &self.proximal {
            Proximal::Known(proximal) => proximal[at],
            Proximal::Sampling | Proximal::Between(_) => self.model_logprobs[at],
        }
    }

    /// Indices of the scored tokens, in order.
    pub fn scored(&self) -> impl Iterator<Item = usize> + '_ {
        self.loss_mask.iter().enumerate().filter_map(|(at, is_scored)| is_scored.then_some(at))
    }

    /// Number of scored tokens.
    pub fn scored_tokens(&self) -> usize {
        self.loss_mask.iter().filter(|is_scored| **is_scored).count()
    }

    /// The tokens that the model has to read: all before the last scored one, as the rest predict nothing that counts; of
    /// noised ones all. Empty if no token is scored.
    pub fn inputs(&self) -> &[u32] {
        if let Some(noised) = &self.noised {
            return if self.loss_mask.contains(&true) { noised } else { &[] };
        }
        let end = self.loss_mask.iter().rposition(|is_scored| *is_scored).unwrap_or(0);
        &self.ids[..end]
    }

    /// Checks that the streams fit together.
    ///
    /// # Errors
    /// If they do not; the error names the stream, and the token if one is at fault.
    pub fn check(&self) -> Result<(), SampleError> {
        let tokens = self.ids.len();
        let reference = self.reference.as_ref().map_or(tokens, Vec::len);
        let teacher = self.teacher.as_ref().map_or(tokens, Vec::len);
        let proximal = self.proximal.stream().map_or(tokens, Vec::len);
        let noised = self.noised.as_ref().map_or(tokens, Vec::len);
        let parts = if self.parts.is_empty() { tokens } else { self.parts.len() };
        let streams = [
            ("loss_mask", self.loss_mask.len()),
            ("model_logprobs", self.model_logprobs.len()),
            ("sampled_logprobs", self.sampled_logprobs.len()),
            ("temperatures", self.temperatures.len()),
            ("advantages", self.advantages.len()),
            ("reference", reference),
            ("teacher", teacher),
            ("proximal", proximal),
            ("noised", noised),
            ("parts", parts),
        ];
        let facts = self.facts.values().map(|numbers| ("facts", numbers.len()));
        for (stream, len) in streams.into_iter().chain(facts) {
            if len != tokens {
                return Err(SampleError::Length { stream, len, tokens });
            }
        }
        if self.noised.is_none() && self.loss_mask.first() == Some(&true) {
            return Err(SampleError::FirstTokenScored);
        }
        if let Some(latents) = &self.latents {
            if self.noised.is_some() {
                return Err(SampleError::Latents { problem: "a noised sample is read all at once" });
            }
            latents.check(&self.loss_mask)?;
        }
        if let Some(target) = &self.target {
            target.check(self.scored_tokens())?;
        }
        for (stream, values) in self.float_streams() {
            if let Some(token) = self.scored().find(|&at| !values[at].is_finite()) {
                return Err(SampleError::Value { stream, token, value: values[token], range: "finite" });
            }
        }
        match self.scored().find(|&at| self.temperatures[at] <= 0.0) {
            Some(token) => Err(SampleError::Value {
                stream: "temperatures",
                token,
                value: self.temperatures[token],
                range: "above 0",
            }),
            None => Ok(()),
        }
    }

    fn float_streams(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        [
            ("model_logprobs", Some(&self.model_logprobs)),
            ("sampled_logprobs", Some(&self.sampled_logprobs)),
            ("temperatures", Some(&self.temperatures)),
            ("advantages", Some(&self.advantages)),
            ("reference", self.reference.as_ref()),
            ("teacher", self.teacher.as_ref()),
            ("proximal", self.proximal.stream()),
        ]
        .into_iter()
        .chain(self.facts.values().map(|numbers| ("facts", Some(numbers))))
        .filter_map(|(name, stream)| Some((name, stream?.as_slice())))
    }
}

/// The latent steps of a branch, with what they read when it was sampled.
fn recorded(branch: &Branch) -> Option<Latents> {
    let at: Vec<usize> = branch.latents.iter().map(|step| step.at).collect();
    let inputs = branch.latents.iter().flat_map(|step| &step.input).copied().collect();
    (!at.is_empty()).then_some(Latents { at, inputs: LatentInputs::Recorded(inputs) })
}

/// The streams of a sample do not fit together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// A stream does not have one entry per token.
    #[error("{stream} has {len} entries for {tokens} tokens")]
    Length {
        /// Which stream.
        stream: &'static str,
        /// Its length.
        len: usize,
        /// Number of tokens.
        tokens: usize,
    },
    /// The teacher's distributions do not match the scored tokens.
    #[error("target describes {positions} positions, but {scored} tokens are scored")]
    Target {
        /// The number of positions that it describes, rounded down.
        positions: usize,
        /// Number of scored tokens.
        scored: usize,
    },
    /// A log-prob of the teacher is not a number.
    #[error("target has a log-prob that is not a number, at scored token {at}")]
    TargetValue {
        /// Index among the scored tokens.
        at: usize,
    },
    /// The first token is marked to be scored.
    #[error("loss_mask is set at the first token, which nothing predicts")]
    FirstTokenScored,
    /// A latent step is where none can be.
    #[error(
        "token {token} of {tokens} is a latent step, which is neither the first one, nor scored, nor beyond the end"
    )]
    LatentToken {
        /// Index of the token.
        token: usize,
        /// Number of tokens.
        tokens: usize,
    },
    /// The latent steps make no sense.
    #[error("latent steps: {problem}")]
    Latents {
        /// What is wrong.
        problem: &'static str,
    },
    /// A number is out of range at a scored token.
    #[error("{stream} is {value} at token {token}, but must be {range}")]
    Value {
        /// Which stream.
        stream: &'static str,
        /// Index of the token.
        token: usize,
        /// Its value.
        value: f32,
        /// The allowed range.
        range: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch() -> Branch {
        Branch {
            ids: vec![7, 8, 9, 10],
            sources: vec![Source::Policy, Source::User, Source::Demonstration, Source::Policy],
            sampled_mask: vec![true, false, false, true],
            model_logprobs: vec![-1.0, 0.0, 0.0, -2.0],
            sampled_logprobs: vec![-1.0, 0.0, 0.0, -1.5],
            policy_versions: vec![1, 0, 0, 1],
            temperatures: vec![0.5, 1.0, 1.0, 0.5],
            turns: vec![0..1, 3..4],
            is_truncated: false,
            latents: Vec::new(),
        }
    }

    #[test]
    fn a_rollout_is_scored_where_the_policy_sampled_but_never_at_the_first_token() {
        let sample = Sample::from_rollout(&branch(), -0.5);
        assert_eq!(sample.loss_mask, [false, false, false, true]);
        assert_eq!(sample.advantages, [-0.5; 4]);
        assert_eq!(sample.temperatures, [0.5, 1.0, 1.0, 0.5]);
        assert_eq!(sample.model_logprobs, [-1.0, 0.0, 0.0, -2.0]);
        assert_eq!(sample.sampled_logprobs, [-1.0, 0.0, 0.0, -1.5]);
        assert_eq!(sample.old(3), -2.0, "the proximal policy is no filtered one");
        assert_eq!(sample.check(), Ok(()));
    }

    #[test]
    fn a_demonstration_is_scored_where_an_answer_was_given_at_temperature_one() {
        let sample = Sample::from_demonstration(&branch());
        assert_eq!(sample.loss_mask, [false, false, true, false]);
        assert_eq!(sample.temperatures, [1.0; 4]);
        assert_eq!(sample.inputs(), [7, 8]);
        assert_eq!(sample.check(), Ok(()));
    }

    #[test]
    fn noise_hides_what_is_scored_and_weighs_it_by_how_much_is_hidden() {
        let whole = Sample { loss_mask: vec![true, false, true, true], ..Sample::of_text(vec![7, 8, 9, 10]) };
        // The expectation of the weights of a sample is 1: E[(1 / (t L)) #masked] = 1.
        let (mut sum, mut squares, draws) = (0.0, 0.0, 20_000);
        for seed in 0..draws {
            let sample = whole.clone().with_noise(99, seed);
            assert_eq!(sample.check(), Ok(()));
            let noised = sample.noised.as_ref().unwrap();
            for ((read, id), is_learned) in noised.iter().zip(&sample.ids).zip(&sample.loss_mask) {
                assert_eq!(*is_learned, *read == 99, "what is masked is learned");
                assert!(*read == 99 || read == id);
            }
            assert_eq!(noised[1], 8, "what is not an answer is never masked");
            let weight: f64 = sample.scored().map(|at| f64::from(sample.advantages[at])).sum();
            (sum, squares) = (sum + weight, squares + weight * weight);
        }
        let (mean, n) = (sum / draws as f64, draws as f64);
        let error = ((squares / n - mean * mean) / n).sqrt();
        assert!((mean - 1.0).abs() < 4.0 * error, "{mean} +- {error}");
        assert_eq!(whole.clone().with_noise(99, 5), whole.with_noise(99, 5));
    }

    #[test]
    fn streams_that_do_not_fit_are_refused_by_name() {
        let good = Sample::from_rollout(&branch(), 1.0);
        let short = Sample { reference: Some(vec![0.0; 3]), ..good.clone() };
        assert_eq!(short.check(), Err(SampleError::Length { stream: "reference", len: 3, tokens: 4 }));
        let first = Sample { loss_mask: vec![true, false, false, false], ..good.clone() };
        assert_eq!(first.check(), Err(SampleError::FirstTokenScored));
        let cold = Sample { temperatures: vec![0.0; 4], ..good.clone() };
        assert_eq!(
            cold.check(),
            Err(SampleError::Value { stream: "temperatures", token: 3, value: 0.0, range: "above 0" })
        );
        let broken = Sample { model_logprobs: vec![f32::NAN; 4], ..good.clone() };
        assert!(matches!(broken.check(), Err(SampleError::Value { stream: "model_logprobs", token: 3, .. })));
        let broken = Sample { sampled_logprobs: vec![f32::NEG_INFINITY; 4], ..good };
        let error = broken.check();
        assert!(matches!(error, Err(SampleError::Value { stream: "sampled_logprobs", token: 3, .. })));
    }
}
