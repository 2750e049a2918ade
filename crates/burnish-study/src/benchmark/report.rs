//! The results of an evaluation, computed from its records: `summary.json`.

use std::collections::BTreeMap;

use burnish_core::StopReason;
use burnish_core::rng::{Address, Purpose};
use burnish_eval::{Counted, PassAtK};
use serde::{Deserialize, Serialize};

use super::language::Consistency;
use super::records::{Outcome, Record};
use super::settings::Settings;

/// The results of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Samples per item.
    pub samples: usize,
    /// How answers were sampled, in words.
    pub sampling: String,
    /// pass@k with intervals.
    #[serde(flatten)]
    pub whole: PassAtK,
    /// pass@k by label and value.
    pub by_label: BTreeMap<String, BTreeMap<String, PassAtK>>,
    /// By language, and for all of them (`all`): how often answers are right, in the language of their item, and
    /// both. Empty if the benchmark has only one language.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub languages: BTreeMap<String, Consistency>,
    /// Number of samples by outcome.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// Share of samples that a limit on tokens or the context window cut short.
    pub truncated_rate: f64,
    /// Mean number of tokens per sample.
    pub tokens_mean: f64,
}

impl Report {
    /// Summarises records.
    pub(super) fn of(settings: &Settings, records: &[Record], ks: &[usize]) -> Self {
        let seed = Address::new(settings.seed, Purpose::Bootstrap).seed();
        let items: Vec<Counted<'_>> = records
            .iter()
            .map(|record| Counted {
                labels: &record.labels,
                samples: record.samples.len(),
                correct: record.correct(),
            })
            .collect();
        let mut outcomes = BTreeMap::new();
        let (mut truncated, mut tokens, mut samples) = (0, 0, 0);
        for sample in records.iter().flat_map(|record| &record.samples) {
            *outcomes.entry(sample.outcome).or_insert(0) += 1;
            truncated += usize::from(sample.stop.is_some_and(StopReason::is_truncated));
            tokens += sample.tokens;
            samples += 1;
        }
        let per_sample = |count: usize| if samples == 0 { 0.0 } else { count as f64 / samples as f64 };
        Report {
            benchmark: settings.benchmark.clone(),
            samples: settings.samples,
            sampling: super::sampling::in_words(&settings.sampling, settings.sampling_from),
            whole: PassAtK::of(&items, ks, seed),
            by_label: PassAtK::by_label(&items, ks, seed),
            languages: Consistency::by_language(records, seed),
            outcomes,
            truncated_rate: per_sample(truncated),
            tokens_mean: per_sample(tokens),
        }
    }
}
