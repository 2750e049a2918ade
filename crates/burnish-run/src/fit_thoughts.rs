//! Fits, on a finished evaluation, the model that tells by the question whether reflection pays; the control `first_try` of
//! thoughts decides by it (`docs/sampling.md`).
//!
//! Reference answers enter only here, through the verdicts of the evaluation that is read. What is written knows words of
//! questions; where it is used, nothing but the question is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use burnish_core::reflection::{ReflectionModel, question};
use burnish_engine::read_reflection_model;
use burnish_eval::reflection::{Fitting, Paid, fit};
use serde_json::Value;

use crate::RunError;
use crate::items::{ItemRecord, PlayedOutcome, PlayedSample};
use crate::records::{ITEMS, SETTINGS, SUMMARY};
use burnish_rundir::files::{FileError, write_atomic};

/// Verdict flags that say what reflection came to: whether the first try was right, and whether there was another.
const FLAGS: [&str; 2] = ["first_try", "reflected"];

/// A model that was fitted, and what it was fitted on.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The model.
    pub model: ReflectionModel,
    /// Items that it was fitted on.
    pub items: usize,
    /// Items whose question another evaluation asks, too.
    pub excluded: usize,
    /// Their answers.
    pub answers: usize,
    /// Answers that count for nothing: they could not be judged, or their prompt did not fit the context.
    pub left_out: usize,
    /// Answers in which reflection turned a wrong first try into a right answer.
    pub paid: usize,
}

/// Fits a model on the items of an evaluation: the directory of `burnish eval --out`, or its `items.jsonl`. Questions that
/// the items of the evaluation `without` ask are left out; nothing else is read of it.
///
/// # Errors
/// If an evaluation is not finished, the first one's items have no verdicts on reflection, its thoughts ended after a try
/// already, or there are too few questions of either kind.
pub fn of_evaluation(path: &Path, without: Option<&Path>, fitting: Fitting) -> Result<Fitted, RunError> {
    let file = items_file(path)?;
    refuse_closed(&file.with_file_name(SETTINGS))?;
    let mut excluded = BTreeSet::new();
    if let Some(without) = without {
        each_item(&items_file(without)?, |item| {
            excluded.insert(question(&item.prompt).to_owned());
            Ok(())
        })?;
    }
    let mut counts = Counts::default();
    each_item(&file, |item| match excluded.contains(question(&item.prompt)) {
        true => {
            counts.excluded += 1;
            Ok(())
        }
        false => counts.add(&item),
    })?;
    let Counts { questions, items, excluded, answers, left_out } = counts;
    let paid = questions.values().map(|paid| paid.paid).sum();
    let model = fit(&questions, fitting)
        .map_err(|error| RunError::Refused(format!("`{}`: {error}", file.display())))?;
    Ok(Fitted { model, items, excluded, answers, left_out, paid })
}

/// The items of a finished evaluation.
fn items_file(path: &Path) -> Result<PathBuf, RunError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let refuse = |problem: String| Err(RunError::Refused(format!("`{}` {problem}", path.display())));
    let file = path.join(ITEMS);
    if !file.exists() {
        return refuse(format!(
            "holds no {ITEMS}: give the directory of an evaluation that kept its records, `burnish eval {} --out DIR`",
            burnish_rundir::text::shell_path(path)
        ));
    }
    if !path.join(SUMMARY).exists() {
        return refuse(
            "holds an evaluation that is not finished: give the same command again, which goes on".into(),
        );
    }
    Ok(file)
}

/// Reads items one by one; an error of `read` is said with its line.
fn each_item(file: &Path, mut read: impl FnMut(ItemRecord) -> Result<(), String>) -> Result<(), RunError> {
    let text = fs::read_to_string(file).map_err(FileError::on("read", file))?;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let refuse =
            |problem: String| RunError::Refused(format!("`{}`, line {}: {problem}", file.display(), at + 1));
        let item: ItemRecord = burnish_core::json::read(line).map_err(|error| {
            refuse(format!("is no item of an evaluation of a recipe or a run (`burnish eval`): {error}"))
        })?;
        read(item).map_err(refuse)?;
    }
    Ok(())
}

/// Writes a model to a file, new or with another model.
///
/// # Errors
/// If something else is there, or it can't be written.
pub fn write(model: &ReflectionModel, path: &Path) -> Result<(), RunError> {
    if path.exists() && read_reflection_model(path).is_err() {
        return Err(RunError::Refused(format!(
            "`{}` is there already, and is no such file: choose another name",
            path.display()
        )));
    }
    let text = model.text().map_err(crate::records::unwritable)?;
    Ok(write_atomic(path, text.as_bytes())?)
}

/// Refuses an evaluation in which thoughts ended after a try: nobody knows what more of them would have come to.
fn refuse_closed(settings: &Path) -> Result<(), RunError> {
    if !settings.exists() {
        return Ok(());
    }
    let text = fs::read_to_string(settings).map_err(FileError::on("read", settings))?;
    let settings_of: Value = serde_json::from_str(&text)
        .map_err(|error| RunError::Refused(format!("`{}`: {error}", settings.display())))?;
    let controls = settings_of.pointer("/evaluation/sampling/thoughts/controls").and_then(Value::as_array);
    match controls.is_some_and(|all| all.iter().any(|control| control.get("first_try").is_some())) {
        true => Err(RunError::Refused(format!(
            "`{}`: thoughts ended after a try there (`first_try`), so it does not say what further reflection comes to; \
             evaluate without it",
            settings.display()
        ))),
        false => Ok(()),
    }
}

/// What the items say.
#[derive(Debug, Default)]
struct Counts {
    questions: BTreeMap<String, Paid>,
    items: usize,
    excluded: usize,
    answers: usize,
    left_out: usize,
}

impl Counts {
    /// Counts an item. Items that ask the same are one question.
    fn add(&mut self, item: &ItemRecord) -> Result<(), String> {
        self.items += 1;
        let of_question = self.questions.entry(question(&item.prompt).to_owned()).or_default();
        for sample in &item.samples {
            self.answers += 1;
            match paid(sample)? {
                Some(paid) => {
                    of_question.answers += 1;
                    of_question.paid += usize::from(paid);
                }
                None => self.left_out += 1,
            }
        }
        Ok(())
    }
}

/// Whether reflection paid in an answer: it is right, its first try was wrong, and there was another. `None` if it was not
/// judged.
fn paid(sample: &PlayedSample) -> Result<Option<bool>, String> {
    if matches!(sample.outcome, PlayedOutcome::Unscored | PlayedOutcome::PromptTooLong) {
        return Ok(None);
    }
    let flags = &sample.verdict.flags;
    let missing: Vec<String> =
        FLAGS.iter().filter(|flag| !flags.contains_key(**flag)).map(|flag| format!("`{flag}`")).collect();
    if !missing.is_empty() {
        return Err(format!(
            "its verdict has no flag {}, which says what reflection came to; `countdown` raises it, with \
             env.config.thoughts = {{ tries = {{ ... }} }}",
            missing.join(" and no flag ")
        ));
    }
    let [first, reflected] = FLAGS.map(|flag| flags.get(flag) == Some(&true));
    Ok(Some(sample.outcome == PlayedOutcome::Success && reflected && !first))
}

#[cfg(test)]
mod tests {
    use burnish_core::{Ending, Message, Verdict};

    use super::*;

    fn sample(is_right: bool, flags: &[(&str, bool)]) -> PlayedSample {
        let mut verdict = Verdict::scored("valid", f64::from(u8::from(is_right)), is_right);
        verdict.flags = flags.iter().map(|&(name, is_set)| (name.to_owned(), is_set)).collect();
        PlayedSample {
            answers: vec![Message::assistant("said")],
            transcript: String::new(),
            outcome: if is_right { PlayedOutcome::Success } else { PlayedOutcome::Failure },
            reward: Some(0.0),
            verdict,
            ending: Ending::Completed,
            is_cut_short: false,
            tokens: Some(3),
            surprisal: None,
        }
    }

    fn item(question: &str, samples: &[PlayedSample]) -> ItemRecord {
        ItemRecord {
            id: question.to_owned(),
            labels: BTreeMap::new(),
            prompt: vec![Message::system("be short"), Message::user(question)],
            samples: samples.to_vec(),
        }
    }

    fn judged(is_right: bool, first: bool, reflected: bool) -> PlayedSample {
        sample(is_right, &[("first_try", first), ("reflected", reflected), ("corrected", !first && is_right)])
    }

    fn lines(items: &[ItemRecord]) -> String {
        items.iter().map(|item| serde_json::to_string(item).unwrap() + "\n").collect()
    }

    fn fitting() -> Fitting {
        Fitting { folds: 2, ..Fitting::default() }
    }

    /// Questions with hens, where reflection pays, and without.
    fn farm() -> Vec<ItemRecord> {
        let of = |at: usize| match at % 2 {
            0 => item(&format!("{at} hens"), &[judged(true, false, true), judged(false, false, true)]),
            _ => item(&format!("{at} cows"), &[judged(true, true, true)]),
        };
        (0..20).map(of).collect()
    }

    #[test]
    fn reflection_pays_where_a_wrong_first_try_becomes_a_right_answer() {
        for (is_right, first, reflected, expected) in [
            (true, false, true, true),
            (true, true, true, false),
            (true, true, false, false),
            (false, false, true, false),
            // Its answer differs from its only try: nothing was reflected on.
            (true, false, false, false),
        ] {
            assert_eq!(paid(&judged(is_right, first, reflected)), Ok(Some(expected)));
        }
        let unscored = PlayedSample { outcome: PlayedOutcome::Unscored, ..sample(false, &[]) };
        assert_eq!(paid(&unscored), Ok(None));
        let error = paid(&sample(true, &[("reflected", true)])).unwrap_err();
        assert!(error.contains("no flag `first_try`,"), "{error}");
        let error = paid(&sample(true, &[])).unwrap_err();
        assert!(error.contains("no flag `first_try` and no flag `reflected`"), "{error}");
    }

    #[test]
    fn a_finished_evaluation_is_fitted_whatever_the_order_of_its_items() {
        let dir = tempfile::tempdir().unwrap();
        let write_file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let mut items = farm();
        let unscored = PlayedSample { outcome: PlayedOutcome::Unscored, ..sample(false, &[]) };
        items[3].samples.push(unscored);
        write_file("items.jsonl", &lines(&items));
        write_file("summary.json", "{}");
        let fitted = of_evaluation(dir.path(), None, fitting()).unwrap();
        assert_eq!((fitted.items, fitted.answers, fitted.left_out, fitted.paid), (20, 31, 1, 10));
        assert_eq!((fitted.model.questions, fitted.model.positives), (20, 0.25));
        assert!(fitted.model.chance("3 hens") > fitted.model.chance("3 cows") + 0.1);
        items.reverse();
        write_file("turned.jsonl", &lines(&items));
        let turned = of_evaluation(&dir.path().join("turned.jsonl"), None, fitting()).unwrap();
        assert_eq!(turned.model, fitted.model);
        // Questions that are asked elsewhere, with answers that nobody judged, are not fitted on.
        let asked = [item("0 hens", &[sample(true, &[])]), item("other", &[])];
        write_file("asked.jsonl", &lines(&asked));
        let without = dir.path().join("asked.jsonl");
        let less = of_evaluation(dir.path(), Some(&without), fitting()).unwrap();
        assert_eq!((less.items, less.excluded, less.answers, less.paid), (19, 1, 29, 9));
        write_file("items.jsonl", &lines(&farm()[1..]));
        assert_eq!(of_evaluation(dir.path(), None, fitting()).unwrap().model, less.model);
        let out = dir.path().join("model.json");
        for _ in 0..2 {
            write(&fitted.model, &out).unwrap();
            assert_eq!(read_reflection_model(&out).unwrap(), fitted.model);
        }
        let error = write(&fitted.model, &dir.path().join("items.jsonl")).unwrap_err().to_string();
        assert!(error.contains("is there already"), "{error}");
    }

    #[test]
    fn what_can_not_be_fitted_on_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let write_file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let refused = |path: &Path, parts: &[&str]| {
            let error = of_evaluation(path, None, fitting()).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        refused(dir.path(), &["holds no items.jsonl", "burnish eval"]);
        let whole = lines(&farm());
        write_file("items.jsonl", &whole);
        refused(dir.path(), &["not finished"]);
        write_file("summary.json", "{}");
        assert!(of_evaluation(dir.path(), None, fitting()).is_ok());
        let controls = "[{\"budget\": {}}, {\"first_try\": {\"tries\": 1}}]";
        let settings = |controls: &str| {
            format!("{{\"evaluation\": {{\"sampling\": {{\"thoughts\": {{\"controls\": {controls}}}}}}}}}")
        };
        write_file("eval.json", &settings(controls));
        refused(dir.path(), &["eval.json", "first_try"]);
        write_file("eval.json", &settings("[{\"budget\": {}}]"));
        assert!(of_evaluation(dir.path(), None, fitting()).is_ok());
        write_file("items.jsonl", &(whole.clone() + "{\"id\": \"gsm8k/0\"}\n"));
        refused(dir.path(), &["items.jsonl`, line 21: is no item"]);
        let bare = lines(&[item("a", &[sample(true, &[])])]);
        write_file("items.jsonl", &(whole + &bare));
        refused(dir.path(), &["line 21", "`first_try`", "`reflected`", "countdown"]);
        write_file("items.jsonl", &lines(&farm()[..2]));
        refused(dir.path(), &["items.jsonl", "reflection pays in 1"]);
        refused(&dir.path().join("absent.jsonl"), &["absent.jsonl"]);
    }
}
