//! A policy as judge: it reads the same prompt as the trained policy, and answers with a number from 1 to 5.
//!
//! Scores are stored in `CACHE/scores/HASH.jsonl`, one line per task, where the hash covers everything that decides
//! the answers. So each task is judged only once, and the same judge always splits the same tasks in the same way.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use burnish_core::{Message, Role, Task};
use burnish_recipe::split::{ScoringJudge, TASK};
use burnish_tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::RunError;
use crate::asked::{Asked, How};
use crate::model_files::policy_digests;
use burnish_rundir::files::FileError;

/// A judge gets this many tries per task before its answers count as unreadable.
const TRIES: u64 = 3;

/// A line of the file of scores.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Digest of the task's id and prompt.
    task: String,
    score: u8,
}

/// The score of each task, from the file of scores in `cache`. Missing scores are asked for and added to the file.
///
/// # Errors
/// If the judge can't be asked or gives no score, or the file can't be used.
pub(super) fn scores(judge: &ScoringJudge, tasks: &[Task], cache: &Path) -> Result<Vec<f64>, RunError> {
    let path = cache.join("scores").join(format!("{}.jsonl", hash(judge)?));
    let mut known = read(&path)?;
    let keys: Vec<String> = tasks.iter().map(key).collect::<Result<_, RunError>>()?;
    let open: Vec<usize> = (0..tasks.len()).filter(|at| !known.contains_key(&keys[*at])).collect();
    if !open.is_empty() {
        let mut asked = Judge::new(judge)?;
        let mut file = append(&path)?;
        for at in open {
            let score = asked.score(&tasks[at])?;
            let line = Line { task: keys[at].clone(), score };
            let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
            file.write_all(text.as_bytes()).map_err(FileError::on("write", &path))?;
            known.insert(line.task, score);
        }
    }
    Ok(keys.iter().map(|key| known.get(key).copied().map_or(f64::NAN, f64::from)).collect())
}

/// A hash of everything that decides the answers. Timeouts and retries for a server do not.
fn hash(judge: &ScoringJudge) -> Result<String, RunError> {
    let policy = match (&judge.path, &judge.endpoint) {
        (Some(path), _) => json!(policy_digests(path)?),
        (None, endpoint) => {
            json!(endpoint.as_ref().map(|endpoint| (&endpoint.url, &endpoint.model)))
        }
    };
    let whole = json!({ "format": 1, "policy": policy, "prompt": judge.prompt, "tokens": judge.tokens_max });
    Ok(burnish_env::digest(whole.to_string().as_bytes()))
}

/// The question about a task, without its truth and labels.
fn question(judge: &ScoringJudge, task: &Task) -> Vec<Message> {
    let said: Vec<&str> = task.prompt.iter().map(|message| message.content.as_str()).collect();
    vec![Message::new(Role::User, judge.prompt.replace(TASK, &said.join("\n")))]
}

/// The scores in the file. A line that an interrupted process left incomplete is ignored.
fn read(path: &Path) -> Result<BTreeMap<String, u8>, RunError> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(path).map_err(FileError::on("read", path))?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    // The first score of a task counts.
    let mut scores = BTreeMap::new();
    lines.for_each(|line| {
        scores.entry(line.task).or_insert(line.score);
    });
    Ok(scores)
}

/// The file of scores, positioned at the start of a line.
fn append(path: &Path) -> Result<fs::File, RunError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(FileError::on("create directory", folder))?;
    }
    let failed = || FileError::on("write", path);
    let is_cut = fs::read(path).is_ok_and(|text| text.last().is_some_and(|last| *last != b'\n'));
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed())?;
    if is_cut {
        file.write_all(b"\n").map_err(failed())?;
    }
    Ok(file)
}

fn key(task: &Task) -> Result<String, RunError> {
    let prompt = serde_json::to_string(&task.prompt)
        .map_err(|error| RunError::Refused(format!("task {} can't be written: {error}", task.id)))?;
    Ok(burnish_env::digest(format!("{}\n{prompt}", task.id).as_bytes()))
}

/// A judge that can be asked.
struct Judge<'a> {
    config: &'a ScoringJudge,
    policy: Asked,
}

impl<'a> Judge<'a> {
    fn new(config: &'a ScoringJudge) -> Result<Self, RunError> {
        // Always on the CPU: the stored scores are for every run with this judge, on whatever device.
        let (path, endpoint) = (config.path.as_deref(), config.endpoint.as_ref());
        let policy = Asked::named("split.scorer.judge", path, endpoint, &Device::cpu())?;
        Ok(Judge { config, policy })
    }

    fn score(&mut self, task: &Task) -> Result<u8, RunError> {
        let question = vec![question(self.config, task)];
        let mut answer = String::new();
        for seed in 0..TRIES {
            // Greedily first. A judge that rambles may do better at another try.
            let temperature = if seed == 0 { 0.0 } else { 1.0 };
            let how = How { temperature, tokens_max: self.config.tokens_max, seed };
            answer = self.policy.ask(question.clone(), how)?.pop().unwrap_or_default();
            if let Some(score) = read_score(&answer) {
                return Ok(score);
            }
        }
        Err(RunError::Refused(format!(
            "the judge gave task {} no score from 1 to 5 in {TRIES} answers, the last of which is {answer:?}; write into \
             `prompt` how to answer",
            task.id
        )))
    }
}

/// The score in an answer: its only whole number, apart from the scale in `4/5` and `4 out of 5`.
fn read_score(answer: &str) -> Option<u8> {
    let answer = answer.replace("out of 5", "").replace("/5", "").replace("/ 5", "");
    let is_inside = |c: char| c.is_alphanumeric() || c == '.' || c == '-';
    let words = answer.split(|c: char| !is_inside(c)).map(|word| word.trim_end_matches('.'));
    let numbers: Vec<&str> = words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).collect();
    let (first, rest) = numbers.split_first()?;
    if rest.iter().any(|number| number != first) {
        return None;
    }
    first.parse().ok().filter(|score| (1..=5).contains(score))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_read_where_the_answer_has_one_and_no_other_number() {
        for (answer, score) in [
            ("4", Some(4)),
            (" **3**.\n", Some(3)),
            ("Score: 2", Some(2)),
            ("5/5", Some(5)),
            ("I'd say 1 out of 5.", Some(1)),
            ("4. Yes, 4", Some(4)),
            ("3 or 4", None),
            ("3.5", None),
            ("6", None),
            ("0", None),
            ("-3", None),
            ("three", None),
            ("", None),
            ("step1", None),
        ] {
            assert_eq!(read_score(answer), score, "{answer}");
        }
    }
}
