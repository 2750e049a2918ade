//! The language of answers: what a record says about it, and the totals of an evaluation.

use std::collections::BTreeMap;

use burnish_eval::{Interval, bootstrap};
use burnish_verify::language::{Language, identify};
use serde::{Deserialize, Serialize};

use super::records::{Outcome, Record, Sample};

/// The language of an answer, compared with that of its item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spoken {
    /// The language that most of the text is in; `other` if it is none of the benchmark's, `undecided` if there are
    /// no words.
    pub found: String,
    /// Share of the text that is in the item's language, 0 to 1.
    pub share: f64,
    /// Whether that is enough for the answer to count as in the item's language.
    pub is_kept: bool,
}

impl Spoken {
    /// The language of a text, for an item in `language`.
    pub(super) fn of(text: &str, language: Language) -> Self {
        let found = identify(text);
        Spoken {
            found: found.name().to_owned(),
            share: found.share(language),
            is_kept: found.is_in(language),
        }
    }
}

/// How often answers are right, and how often they are in the language of their item: means over items, with
/// intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consistency {
    /// Number of items.
    pub items: usize,
    /// Share of right answers.
    pub correct: Interval,
    /// Share of answers in the item's language (LANG's LC).
    pub in_language: Interval,
    /// Share of answers that are both (LANG's LC&Acc).
    pub both: Interval,
    /// Number of answers by the language found in them.
    pub found: BTreeMap<String, usize>,
}

/// The key for all languages together.
const ALL: &str = "all";

impl Consistency {
    /// One entry per value of the label `language`, and one for all of them (`all`); empty if no language was
    /// checked. `seed` is an address of `Purpose::Bootstrap`.
    pub(super) fn by_language(records: &[Record], seed: u64) -> BTreeMap<String, Consistency> {
        let mut slices: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
        for record in records {
            let language = record.labels.get(super::source::LANGUAGE).map(String::as_str);
            for key in language.into_iter().chain([ALL]) {
                slices.entry(key).or_default().push(record);
            }
        }
        let of =
            |(key, records): (&str, Vec<&Record>)| Some((key.to_owned(), Consistency::of(&records, seed)?));
        slices.into_iter().filter_map(of).collect()
    }

    fn of(records: &[&Record], seed: u64) -> Option<Self> {
        let mean = |holds: &dyn Fn(&Sample) -> bool| {
            let share = |record: &&Record| {
                let count = record.samples.iter().filter(|sample| holds(sample)).count();
                count as f64 / record.samples.len().max(1) as f64
            };
            bootstrap::mean(&records.iter().map(share).collect::<Vec<_>>(), seed)
        };
        let is_right = |sample: &Sample| sample.outcome == Outcome::Correct;
        let is_kept = |sample: &Sample| sample.language.as_ref().is_some_and(|language| language.is_kept);
        let mut found = BTreeMap::new();
        for language in
            records.iter().flat_map(|record| &record.samples).filter_map(|sample| sample.language.as_ref())
        {
            *found.entry(language.found.clone()).or_insert(0) += 1;
        }
        if found.is_empty() {
            return None;
        }
        Some(Consistency {
            items: records.len(),
            correct: mean(&is_right)?,
            in_language: mean(&is_kept)?,
            both: mean(&|sample| is_right(sample) && is_kept(sample))?,
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(language: &str, samples: &[(Outcome, Option<&str>)]) -> Record {
        let sample = |&(outcome, found): &(Outcome, Option<&str>)| Sample {
            text: String::new(),
            reasoning: None,
            answer: None,
            outcome,
            feedback: None,
            tokens: 0,
            stop: None,
            language: found.map(|found| Spoken {
                found: found.to_owned(),
                share: f64::from(u8::from(found == language)),
                is_kept: found == language,
            }),
        };
        Record {
            id: language.to_owned(),
            labels: BTreeMap::from([("language".to_owned(), language.to_owned())]),
            prompt: Vec::new(),
            reference: String::new(),
            samples: samples.iter().map(sample).collect(),
        }
    }

    #[test]
    fn both_is_counted_answer_by_answer() {
        use Outcome::{Correct, Different};
        let records = [
            record("bn", &[(Correct, Some("en")), (Different, Some("bn"))]),
            record("bn", &[(Correct, Some("bn")), (Different, Some("undecided"))]),
            record("en", &[(Correct, Some("en")), (Correct, Some("en"))]),
        ];
        let found = Consistency::by_language(&records, 3);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["all", "bn", "en"]);
        let means = |key: &str| {
            let Consistency { items, correct, in_language, both, .. } = &found[key];
            (*items, correct.mean, in_language.mean, both.mean)
        };
        assert_eq!(means("bn"), (2, 0.5, 0.5, 0.25));
        assert_eq!(means("en"), (1, 1.0, 1.0, 1.0));
        assert_eq!(means("all"), (3, 2.0 / 3.0, 2.0 / 3.0, 0.5));
        assert_eq!(
            found["bn"].found,
            BTreeMap::from([("bn".into(), 2), ("en".into(), 1), ("undecided".into(), 1)])
        );
        let unchecked = [record("bn", &[(Correct, None)])];
        assert!(Consistency::by_language(&unchecked, 3).is_empty());
    }
}
