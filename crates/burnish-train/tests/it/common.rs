//! Tiny models, samples and objectives.

use burnish_core::rng::Stream;
use burnish_model::{
    Architecture, Dtype, Loading, LoraConfig, Model, ModelConfig, ModelShape, Targets, Trains,
};
use burnish_rl::fact::{Fact, VALUES};
use burnish_rl::{BatchConstant, Evaluation, Needs, Objective, Streams, Totals};
use burnish_tensor::Precision;
use burnish_train::adamw::{AdamwConfig, MomentType};
use burnish_train::{Checkpointing, PassConfig, Proximal, Sample, TrainerConfig, totals};

pub(crate) const VOCAB: u32 = 19;

/// Two layers, with weights large enough that attention is far from uniform and every derivative is felt.
pub(crate) fn tiny_model(architecture: Architecture, is_tied: bool, dtype: Dtype) -> Model {
    let config = ModelConfig::new(&ModelShape {
        architecture,
        vocab_size: VOCAB as usize,
        hidden_size: 12,
        intermediate_size: 20,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 6,
        max_position_embeddings: 64,
        rope_theta: 1000.0,
        tie_word_embeddings: is_tied,
        dtype,
        delta_rule: None,
        masked: false,
    })
    .unwrap();
    let mut model = Model::init(config, 1);
    let mut random = Stream::new(2);
    for weight in model.params.data_mut() {
        *weight = 8.0 * *weight + 0.1 * random.normal() as f32;
        // Norms start at 1 and would end at 8.
        if *weight > 5.0 {
            *weight /= 8.0;
        }
    }
    model
}

pub(crate) fn qwen3() -> Model {
    tiny_model(Architecture::Qwen3, true, Dtype::F32)
}

/// A sample of random ids after `prompt`, in which about two of three later tokens are scored, with streams
/// that look like those of a policy a little older.
pub(crate) fn random_sample(prompt: &[u32], tail: usize, random: &mut Stream) -> Sample {
    let mut ids = prompt.to_vec();
    ids.extend((0..tail).map(|_| random.below(u64::from(VOCAB)) as u32));
    let tokens = ids.len();
    let mut logprobs =
        |spread: f64| -> Vec<f32> { (0..tokens).map(|_| (-3.0 + spread * random.normal()) as f32).collect() };
    let (model_logprobs, proximal, reference) = (logprobs(0.3), logprobs(0.3), logprobs(0.3));
    Sample {
        ids,
        noised: None,
        latents: None,
        // As after filters that kept about half of the mass.
        sampled_logprobs: model_logprobs.iter().map(|logprob| logprob + 0.7).collect(),
        model_logprobs,
        proximal: Proximal::Known(proximal),
        teacher: None,
        target: None,
        reference: Some(reference),
        advantages: (0..tokens).map(|_| random.normal() as f32).collect(),
        temperatures: (0..tokens).map(|_| 0.7 + 0.6 * random.uniform() as f32).collect(),
        loss_mask: (0..tokens).map(|at| at > 0 && at >= prompt.len() && random.uniform() < 0.7).collect(),
        group: 0,
        parts: Vec::new(),
        facts: Default::default(),
        direction: 0,
    }
}

/// Groups of rollouts that share a prompt long enough to be computed once, and one sample for itself.
pub(crate) fn random_batch(seed: u64) -> Vec<Sample> {
    let mut random = Stream::new(seed);
    let mut batch = Vec::new();
    for prompt_len in [18, 25] {
        let prompt: Vec<u32> = (0..prompt_len).map(|_| random.below(u64::from(VOCAB)) as u32).collect();
        let longer: Vec<u32> = [prompt.clone(), (0..17).collect()].concat();
        for tail in [5, 1, 9] {
            batch.push(random_sample(&prompt, tail, &mut random));
        }
        for tail in [3, 4] {
            batch.push(random_sample(&longer, tail, &mut random));
        }
    }
    batch.push(random_sample(&[3], 6, &mut random));
    batch
}

/// The model, loaded to be trained in another way.
pub(crate) fn loaded_as(model: &Model, loading: &Loading) -> Model {
    let dir = tempfile::tempdir().unwrap();
    model.save(dir.path()).unwrap();
    let mut loaded = Model::load_as(dir.path(), loading).unwrap();
    loaded.restrict_vocab(|id| model.vocab().contains(id));
    loaded
}

/// Adapters on every map of the layers, none of them still 0.
pub(crate) fn adapted(model: &Model, dropout: f64) -> Model {
    adapted_at(model, dropout, Targets::default())
}

/// Adapters on some maps.
pub(crate) fn adapted_at(model: &Model, dropout: f64, target_modules: Targets) -> Model {
    let lora = LoraConfig { rank: 2, alpha: 3.0, dropout, rslora: false, target_modules };
    let trains = Trains::Adapter(lora, 1);
    let mut adapted = loaded_as(model, &Loading { trains, ..Loading::default() });
    let mut stream = Stream::new(99);
    adapted.params.data_mut().iter_mut().for_each(|weight| *weight += 0.2 * stream.normal() as f32);
    adapted
}

/// The same weights, computed with in another precision. An adapter's base stays in f32.
pub(crate) fn computed_in(model: &Model, precision: Precision) -> Model {
    let mut other = model.clone();
    other.params = other.params.in_precision(precision);
    other
}

pub(crate) fn totals_of(batch: &[Sample]) -> Totals {
    totals(batch, batch, 1, 32, 0)
}

pub(crate) const CONFIG: TrainerConfig = TrainerConfig {
    adamw: AdamwConfig {
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.01,
        moments: MomentType::F32,
    },
    grad_norm_max: Some(1.0),
    pass: PassConfig { tokens_max: 64, checkpointing: Checkpointing::Off.always(), dropout: None },
};

/// A smooth objective that depends on every stream and weighs sequences by their length:
/// Σ over sequences of 1/length Σ [ −A·exp(π − proximal) + (π − reference)² / 8 − H/3 + behavior·π / 50 ].
pub(crate) struct EveryStream;

impl Objective for EveryStream {
    fn evaluate(&self, s: &Streams<'_>, totals: &Totals) -> Evaluation {
        let tokens = s.policy.len();
        let reference = s.reference.expect("every sample has a reference");
        let mut out = Evaluation::zero(tokens);
        for range in s.sequences {
            let weight = 1.0 / (range.len() * totals.sequences) as f64;
            for at in range.clone() {
                let ratio = (s.policy[at] - s.proximal[at]).exp();
                let drift = s.policy[at] - reference[at];
                let pull = s.behavior[at] / 50.0;
                out.loss += weight
                    * (drift * drift / 8.0 - s.advantage[at] * ratio - s.entropy[at] / 3.0
                        + pull * s.policy[at]);
                out.d_policy[at] = weight * (drift / 4.0 - s.advantage[at] * ratio + pull);
                out.d_entropy[at] = -weight / 3.0;
            }
        }
        out
    }
}

/// The squared distance of log-probs from values, inside of a span, as a mean over the batch's tokens.
pub(crate) struct InSpan;

impl InSpan {
    /// Gives a sample what the objective asks for.
    pub(crate) fn know(sample: &mut Sample) {
        let tokens = sample.ids.len();
        let numbers = |of: &dyn Fn(usize) -> f32| (0..tokens).map(of).collect::<Vec<f32>>();
        let values = numbers(&|at| -1.0 - (sample.ids[at] % 5) as f32 / 4.0);
        sample.facts.insert(VALUES.id.to_owned(), values);
        sample.facts.insert("span.thoughts".to_owned(), numbers(&|at| f32::from(u8::from(at % 3 > 0))));
    }
}

impl Objective for InSpan {
    fn needs(&self) -> Needs {
        Needs { batch_constants: true, ..Needs::default() }
    }

    /// The values, as they are for the whole batch.
    fn batch_constants(&self, whole: &Streams<'_>, _: &Totals) -> Vec<BatchConstant> {
        let values = whole.fact(&VALUES).expect("it is asked for");
        values.iter().map(|value| BatchConstant { value: *value, ..BatchConstant::default() }).collect()
    }

    fn facts(&self) -> Vec<&'static Fact> {
        vec![&VALUES]
    }

    fn spans(&self) -> Vec<String> {
        vec!["thoughts".to_owned()]
    }

    fn evaluate(&self, s: &Streams<'_>, totals: &Totals) -> Evaluation {
        let mut out = Evaluation::zero(s.policy.len());
        let (values, inside) = (s.fact(&VALUES).expect("asked"), s.span("thoughts").expect("asked"));
        for at in s.loss_positions(0..s.policy.len()) {
            let weight = inside[at] / totals.tokens as f64;
            assert_eq!(s.batch_constants[at].value, values[at]);
            let distance = s.policy[at] - values[at];
            out.loss += weight * distance.powi(2);
            out.d_policy[at] = 2.0 * weight * distance;
        }
        out
    }
}
