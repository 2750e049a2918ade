//! Whether reflection pays on a question, told by the question's words alone (First Try Matters, arXiv:2510.08308).
//!
//! ```text
//! question ─> words, bigrams ─> buckets ─> chance = σ(intercept + Σ weight[bucket] / √(number of buckets)) ─> when thoughts end
//! ```
//!
//! `burnish_eval::reflection` fits the model, from an evaluation whose verdicts say what reflection came to; the control
//! `first_try` of thoughts reads it. Here is what both need: the features of a question and the model as a file.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use twox_hash::XxHash3_64;

use crate::settings::SettingError;
use crate::{Message, Role};

/// Version of the file's format.
const FORMAT: u32 = 1;
/// Most buckets that a file may have.
pub const BUCKETS_MAX: u32 = 1 << 24;

/// A logistic regression on the hashed words of a question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReflectionModel {
    format: u32,
    /// Number of buckets that words are hashed into.
    pub buckets: u32,
    /// Weight of the squared weights in the loss that was minimised.
    pub l2: f64,
    /// The logit of a question without words.
    pub intercept: f64,
    /// Buckets whose weight is not 0, in ascending order, with their weight.
    pub weights: Vec<(u32, f64)>,
    /// Number of questions that it was fitted on.
    pub questions: usize,
    /// Share of them in which reflection paid; of a question with several answers, the share of its answers counts.
    pub positives: f64,
    /// How well it tells questions that it was not fitted on.
    pub held_out: HeldOut,
}

/// How well a model tells questions apart that were held out when it was fitted (k-fold).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOut {
    /// Number of parts, each of which was held out once.
    pub folds: usize,
    /// Mean log loss in nats.
    pub log_loss: f64,
    /// The same of the share of positives in the other parts, whatever the question.
    pub constant: f64,
    /// Lowest predicted chance, quartiles, highest.
    pub chances: [f64; 5],
}

impl ReflectionModel {
    /// A model of these numbers.
    ///
    /// # Errors
    /// As [`ReflectionModel::parse`].
    pub fn new(
        (buckets, l2): (u32, f64),
        (intercept, weights): (f64, Vec<(u32, f64)>),
        (questions, positives): (usize, f64),
        held_out: HeldOut,
    ) -> Result<Self, SettingError> {
        let model = ReflectionModel {
            format: FORMAT,
            buckets,
            l2,
            intercept,
            weights,
            questions,
            positives,
            held_out,
        };
        model.check()?;
        Ok(model)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Names the field that is missing, unknown, of the wrong type or out of its range.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let value = serde_json::from_str(text).map_err(|error| SettingError::new("", error.to_string()))?;
        let Value::Object(mut fields) = value else {
            return Err(SettingError::new("", "must be a JSON object, as `burnish fit-thoughts` writes it"));
        };
        let format: u32 = take(&mut fields, "", "format")?;
        if format != FORMAT {
            let problem = format!(
                "is {format}; this version reads {FORMAT}: write the file again with `burnish fit-thoughts`"
            );
            return Err(SettingError::new("format", problem));
        }
        let mut held: Map<String, Value> = take(&mut fields, "", "held_out")?;
        let held_out = HeldOut {
            folds: take(&mut held, "held_out.", "folds")?,
            log_loss: take(&mut held, "held_out.", "log_loss")?,
            constant: take(&mut held, "held_out.", "constant")?,
            chances: take(&mut held, "held_out.", "chances")?,
        };
        let model = ReflectionModel {
            format,
            buckets: take(&mut fields, "", "buckets")?,
            l2: take(&mut fields, "", "l2")?,
            intercept: take(&mut fields, "", "intercept")?,
            weights: take(&mut fields, "", "weights")?,
            questions: take(&mut fields, "", "questions")?,
            positives: take(&mut fields, "", "positives")?,
            held_out,
        };
        let unknown = |fields: Map<String, Value>, table: &str| match fields.keys().next() {
            Some(key) => Err(SettingError::new(format!("{table}{key}"), "is unknown")),
            None => Ok(()),
        };
        unknown(fields, "")?;
        unknown(held, "held_out.")?;
        model.check()?;
        Ok(model)
    }

    fn check(&self) -> Result<(), SettingError> {
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        let is_loss = |loss: f64| loss >= 0.0 && loss.is_finite();
        let HeldOut { folds, log_loss, constant, chances } = &self.held_out;
        let is_ascending = |chances: &[f64]| chances.windows(2).all(|pair| pair[0] <= pair[1]);
        let rules = [
            (
                "buckets",
                (1..=BUCKETS_MAX).contains(&self.buckets),
                "must be a whole number from 1 to 16777216",
            ),
            ("l2", self.l2 > 0.0 && self.l2.is_finite(), "must be a number above 0"),
            ("intercept", self.intercept.is_finite(), "must be a finite number"),
            ("questions", self.questions > 0, "must be 1 or more"),
            ("positives", is_share(&self.positives), "must be a share from 0 to 1"),
            ("held_out.folds", *folds > 1, "must be 2 or more"),
            ("held_out.log_loss", is_loss(*log_loss), "must be a number, 0 or more"),
            ("held_out.constant", is_loss(*constant), "must be a number, 0 or more"),
            (
                "held_out.chances",
                chances.iter().all(is_share) && is_ascending(chances),
                "must be five ascending numbers from 0 to 1",
            ),
        ];
        if let Some((key, _, rule)) = rules.into_iter().find(|(_, holds, _)| !holds) {
            return Err(SettingError::new(key, rule));
        }
        let mut least = 0;
        for (at, &(bucket, weight)) in self.weights.iter().enumerate() {
            let wrong = |problem: String| Err(SettingError::new(format!("weights[{at}]"), problem));
            if bucket >= self.buckets {
                return wrong(format!("is of bucket {bucket}, but there are {} only", self.buckets));
            }
            if bucket < least {
                return wrong(format!("is of bucket {bucket}: buckets must ascend, each once"));
            }
            if !weight.is_finite() {
                return wrong("must be a finite number".into());
            }
            least = bucket + 1;
        }
        Ok(())
    }

    /// The file's text.
    ///
    /// # Errors
    /// As `serde_json`, which no such model meets.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// The chance, from 0 to 1, that reflection turns a wrong first try into a right answer.
    #[must_use]
    pub fn chance(&self, question: &str) -> f64 {
        let present = features(question, self.buckets);
        let known = present.iter().filter_map(|bucket| {
            let at = self.weights.binary_search_by_key(bucket, |(bucket, _)| *bucket).ok()?;
            Some(self.weights[at].1)
        });
        let sum: f64 = known.sum();
        sigmoid(self.intercept + sum * scale(present.len()))
    }
}

/// The field called `key`, whose table's path, with a dot at its end, is `table`.
fn take<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    table: &str,
    key: &str,
) -> Result<T, SettingError> {
    let named = |problem: String| SettingError::new(format!("{table}{key}"), problem);
    let value = fields
        .shift_remove(key)
        .ok_or_else(|| named("is missing: write the file again with `burnish fit-thoughts`".into()))?;
    serde_json::from_value(value).map_err(|error| named(error.to_string()))
}

/// The probability of a logit.
#[must_use]
pub fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// The value of each of the `count` features that a question has: together they are a vector of length 1.
#[must_use]
pub fn scale(count: usize) -> f64 {
    1.0 / (count.max(1) as f64).sqrt()
}

/// The question that a conversation ends with: what the user said last, or the last message where no user spoke. It holds no
/// words of a chat template, and nothing that the policy does not read.
pub fn question(messages: &[Message]) -> &str {
    let asked = messages.iter().rev().find(|message| message.role == Role::User);
    asked.or(messages.last()).map_or("", |message| &message.content)
}

/// The buckets of a question's features, ascending, each once: every word and every two words that follow each other. A
/// word is a run of letters and digits in lower case; everything else only separates words. The bucket of a feature is the
/// XXH3 hash of its text (of two words with a blank between them; seed 0, 64 bits) modulo `buckets`, on every machine.
#[must_use]
pub fn features(question: &str, buckets: u32) -> Vec<u32> {
    let lower = question.to_lowercase();
    let words: Vec<&str> =
        lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    // The remainder is below a number of 32 bits.
    let bucket = |text: &str| (XxHash3_64::oneshot(text.as_bytes()) % u64::from(buckets.max(1))) as u32;
    let single = words.iter().map(|word| bucket(word));
    let double = words.windows(2).map(|pair| bucket(&pair.join(" ")));
    let all: BTreeSet<u32> = single.chain(double).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model() -> ReflectionModel {
        let held_out =
            HeldOut { folds: 5, log_loss: 0.5, constant: 0.6, chances: [0.1, 0.2, 0.2, 0.5, 0.875] };
        let weights = vec![(17, 1.5), (3000, -0.1)];
        ReflectionModel::new((4096, 0.01), (-0.25, weights), (239, 0.184), held_out).unwrap()
    }

    #[test]
    fn features_are_those_of_another_implementation() {
        // xxhash 4.1.0 of Python (XXH3 of xxHash 0.8.4): `xxhash.xxh3_64_intdigest(text.encode()) % buckets`.
        let task = "Make 24 from 3, 8.";
        assert_eq!(features(task, 4096), [414, 679, 991, 1264, 1375, 2258, 2838, 3050, 3716]);
        assert_eq!(
            features(task, 1_000_003),
            [18379, 80694, 211_845, 330_578, 403_145, 445_937, 550_815, 882_489, 932_297]
        );
        assert_eq!(features("Größe: ÉTÉ", 4096), [597, 1052, 1836]);
        assert_eq!(features(&"a".repeat(300), 4096), [3617]);
    }

    #[test]
    fn features_are_words_and_neighbours_whatever_stands_between_them() {
        let same = features("Make 24 from 3, 8.", 4096);
        assert_eq!(features("  make\n24 -- FROM (3)8", 4096), same);
        assert_eq!(same.len(), 9, "5 words and 4 bigrams: {same:?}");
        assert!(same.windows(2).all(|pair| pair[0] < pair[1]));
        // Order counts, by the bigrams; repetition does not.
        assert_ne!(features("make 24 from 8, 3", 4096), same);
        assert_eq!(features("a a a", 4096), features("a a", 4096));
        assert_eq!(features(" ,.-", 4096), Vec::<u32>::new());
        assert_eq!(features("any words at all", 1), [0]);
    }

    #[test]
    fn the_question_is_what_the_user_said_last() {
        let said = [
            Message::system("be short"),
            Message::user("an example"),
            Message::assistant("its answer"),
            Message::user("the question"),
            Message::assistant("so far"),
        ];
        assert_eq!(question(&said), "the question");
        assert_eq!(question(&said[..1]), "be short");
        assert_eq!(question(&[]), "");
    }

    #[test]
    fn a_chance_is_that_of_the_buckets_that_have_a_weight() {
        let mut model = model();
        let present = features("left or right", 4096);
        model.weights = vec![(present[0], 2.0), (present[3], -0.5)];
        assert!(!present.contains(&4095));
        model.weights.push((4095, 9.0));
        let logit: f64 = -0.25 + (2.0 - 0.5) / (5.0_f64).sqrt();
        assert!((model.chance("Left, or right?") - 1.0 / (1.0 + (-logit).exp())).abs() < 1e-15);
        assert!((model.chance("") - sigmoid(-0.25)).abs() < 1e-15);
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        assert_eq!(ReflectionModel::parse(&model().text().unwrap()).unwrap(), model());
    }

    #[test]
    fn a_broken_file_is_refused_by_field() {
        let whole = serde_json::to_value(model()).unwrap();
        let keys: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
        let refused = |value: &Value| ReflectionModel::parse(&value.to_string()).unwrap_err().to_string();
        for key in &keys {
            let mut missing = whole.clone();
            missing.as_object_mut().unwrap().shift_remove(key);
            assert!(refused(&missing).starts_with(&format!("{key}: is missing")), "{}", refused(&missing));
            let mut other = whole.clone();
            other[key] = json!("text");
            assert!(refused(&other).starts_with(&format!("{key}: invalid type")), "{}", refused(&other));
        }
        for (pointer, value, said) in [
            ("/format", json!(2), "format: is 2; this version reads 1"),
            ("/buckets", json!(0), "buckets: must be"),
            ("/buckets", json!(-4), "buckets: invalid value"),
            ("/l2", json!(0.0), "l2: must be"),
            ("/intercept", json!(null), "intercept: invalid type"),
            ("/questions", json!(0), "questions: must be"),
            ("/positives", json!(1.5), "positives: must be"),
            ("/weights/0", json!([17]), "weights: invalid length"),
            ("/weights/1/0", json!(4096), "weights[1]: is of bucket 4096"),
            ("/weights/1/0", json!(17), "weights[1]: is of bucket 17: buckets must ascend"),
            ("/held_out/folds", json!(1), "held_out.folds: must be"),
            ("/held_out/log_loss", json!(-0.1), "held_out.log_loss: must be"),
            ("/held_out/constant", json!("x"), "held_out.constant: invalid type"),
            ("/held_out/chances/0", json!(0.3), "held_out.chances: must be five ascending"),
            ("/held_out/chances", json!([0.1]), "held_out.chances: invalid length"),
        ] {
            let mut broken = whole.clone();
            *broken.pointer_mut(pointer).unwrap() = value;
            assert!(refused(&broken).starts_with(said), "{pointer}: {}", refused(&broken));
        }
        for (table, said) in [("", "more: is unknown"), ("/held_out", "held_out.more: is unknown")] {
            let mut broken = whole.clone();
            broken.pointer_mut(table).unwrap()["more"] = json!(1);
            assert_eq!(refused(&broken), said);
        }
        assert!(refused(&json!([1])).contains("must be a JSON object"));
        assert!(ReflectionModel::parse("{\"format\": 1").unwrap_err().to_string().contains("EOF"));
    }
}
