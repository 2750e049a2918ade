//! What judges: the seam for verifiers, and the external one: requests, answers, and what is made of silence.

use burnish_core::{Message, Verdict};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::compared::Compared;
use super::config::{CommandConfig, Config, VerifierConfig};
use super::process::{Process, find_program};
use crate::EnvError;
use crate::settings::config_error;

/// What is judged.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) task: &'a Value,
    pub(super) prompt: &'a [Message],
    pub(super) completion: &'a str,
    pub(super) messages: &'a [Message],
    /// The ground truth, where the row has one.
    pub(super) answer: Option<&'a str>,
}

/// Judges answers. Shared by all environments of a generator.
pub(super) trait Judge: Debug + Send + Sync {
    /// The judgement; whatever goes wrong makes it unscored.
    fn judge(&self, request: &Request<'_>) -> Verdict;
}

/// The judge that the configuration asks for.
///
/// # Errors
/// If there can be none: names the key.
pub(super) fn judge_of(config: &Config) -> Result<Arc<dyn Judge>, EnvError> {
    match &config.verifier {
        VerifierConfig::BuiltIn(verifier) => Ok(Arc::new(Compared::new(*verifier, config))),
        VerifierConfig::Command(command) if command.command.is_empty() => Ok(Arc::new(Nobody)),
        VerifierConfig::Command(command) => Ok(Arc::new(External::new(config, command)?)),
    }
}

/// Judges nothing.
#[derive(Debug)]
struct Nobody;

impl Judge for Nobody {
    fn judge(&self, _: &Request<'_>) -> Verdict {
        Verdict::unscored("no verifier is set, so nothing judges")
    }
}

/// A line to the verifier.
#[derive(Serialize)]
struct Line<'a> {
    id: u64,
    #[serde(flatten)]
    request: &'a Request<'a>,
}

/// A command: one process, started with the first request, and again when it fails.
#[derive(Debug)]
struct External {
    config: CommandConfig,
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    process: Option<Process>,
    /// Has the process answered since it was started?
    is_fresh: bool,
    requests: u64,
}

impl External {
    /// Nothing is started yet.
    ///
    /// # Errors
    /// If there is no such program.
    fn new(config: &Config, command: &CommandConfig) -> Result<Self, EnvError> {
        let external = External {
            config: command.clone(),
            folder: config.folder().map(PathBuf::from),
            state: Mutex::new(State { process: None, is_fresh: true, requests: 0 }),
        };
        find_program(&command.command, external.folder.as_deref())
            .map_err(|error| config_error("verifier.command", &external.not_started(&error)))?;
        Ok(external)
    }

    fn launch(&self) -> Result<Process, String> {
        Process::start(&self.config.command, self.folder.as_deref()).map_err(|error| self.not_started(&error))
    }

    fn not_started(&self, error: &std::io::Error) -> String {
        let place = self.folder.as_ref().map(|folder| format!(" in {}", folder.display()));
        let command = self.config.command.join(" ");
        format!("`{command}` can't be started{}: {error}", place.unwrap_or_default())
    }

    /// One exchange. A process that fails in it is killed; the next request starts another.
    fn ask(&self, state: &mut State, request: &Request<'_>) -> Result<Map<String, Value>, String> {
        let id = state.requests;
        state.requests += 1;
        let line = serde_json::to_string(&Line { id, request }).map_err(|error| error.to_string())?;
        // One that has ended since its last answer makes room for another, too.
        let mut process = match state.process.take_if(|process| process.is_running()) {
            Some(process) => process,
            None => {
                state.process = None;
                state.is_fresh = true;
                self.launch()?
            }
        };
        let answer = process
            .ask(line, self.config.patience(state.is_fresh))
            .map_err(|silence| silence.to_string())
            .and_then(|line| read_answer(&line, id));
        match answer {
            Ok(answer) => {
                state.is_fresh = false;
                state.process = Some(process);
                Ok(answer)
            }
            Err(problem) => match process.stop() {
                tail if tail.is_empty() => Err(problem),
                tail => Err(format!("{problem}; its stderr ends:\n{tail}")),
            },
        }
    }
}

impl Judge for External {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask(&mut state, request)
            .and_then(|answer| read_verdict(&answer))
            .unwrap_or_else(Verdict::unscored)
    }
}

/// The answer to request `id`.
fn read_answer(line: &str, id: u64) -> Result<Map<String, Value>, String> {
    let refuse = |what: String| Err(format!("the verifier's line {what}: {}", shortened(line)));
    let answer = match serde_json::from_str(line) {
        Ok(Value::Object(answer)) => answer,
        Ok(_) => return refuse("is not a JSON object".to_owned()),
        Err(_) if line.contains("NaN") || line.contains("Infinity") => {
            return refuse("has a number that is not finite, which JSON does not know".to_owned());
        }
        Err(error) => return refuse(format!("is not JSON ({error}); only answers may go to stdout")),
    };
    match answer.get("id") {
        Some(given) if given.as_u64() == Some(id) => Ok(answer),
        Some(given) => refuse(format!("answers request {given}, not {id}")),
        None => refuse("has no `id`".to_owned()),
    }
}

/// The verdict that an answer states.
fn read_verdict(answer: &Map<String, Value>) -> Result<Verdict, String> {
    let field = |key: &str| answer.get(key).filter(|value| !value.is_null());
    if let Some(reason) = field("error") {
        return Err(format!("the verifier could not judge: {}", as_text(reason)));
    }
    let mut rewards = BTreeMap::new();
    if let Some(reward) = field("reward") {
        rewards.insert("reward".to_owned(), finite(reward, "reward")?);
    }
    if let Some(named) = field("rewards") {
        let named = named.as_object().ok_or("the verifier's `rewards` must be a table of numbers")?;
        for (name, reward) in named {
            rewards.insert(name.clone(), finite(reward, name)?);
        }
    }
    if rewards.is_empty() {
        return Err("the verifier's answer has neither `reward` nor `rewards`".to_owned());
    }
    let stated = field("success")
        .map(|success| success.as_bool().ok_or("the verifier's `success` must be true or false"))
        .transpose()?;
    // What needs a yes or a no gets one, but a reward above 0 is no success that could be reported.
    let is_positive = || rewards.get("reward").copied().unwrap_or_else(|| rewards.values().sum()) > 0.0;
    let (success, has_success) = (stated.unwrap_or_else(is_positive), stated.is_some());
    let mut verdict = Verdict { rewards, success, has_success, ..Verdict::scored("", 0.0, false) };
    if let Some(flags) = field("flags") {
        let flags = flags.as_object().ok_or("the verifier's `flags` must be a table of true or false")?;
        for (name, flag) in flags {
            let flag = flag
                .as_bool()
                .ok_or_else(|| format!("the verifier's flag `{name}` must be true or false"))?;
            verdict.flags.insert(name.clone(), flag);
        }
    }
    verdict.feedback = field("feedback").map(as_text);
    Ok(verdict)
}

fn finite(value: &Value, name: &str) -> Result<f64, String> {
    value
        .as_f64()
        .filter(|reward| reward.is_finite())
        .ok_or_else(|| format!("the verifier's reward `{name}` must be a finite number, not {value}"))
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shortened(line: &str) -> String {
    const CHARS_MAX: usize = 200;
    match line.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(answer: Value) -> Result<Verdict, String> {
        read_answer(&answer.to_string(), 3).and_then(|answer| read_verdict(&answer))
    }

    #[test]
    fn one_reward_is_called_reward_and_success_is_reported_only_where_it_is_stated() {
        let good = verdict(json!({"id": 3, "reward": 0.5})).unwrap();
        assert_eq!(good, Verdict { has_success: false, ..Verdict::scored("reward", 0.5, true) });
        let stated = verdict(json!({"id": 3, "reward": 0.5, "success": true})).unwrap();
        assert_eq!(stated, Verdict::scored("reward", 0.5, true));
        assert!(!verdict(json!({"id": 3, "reward": 1, "success": null})).unwrap().has_success);
        assert!(!verdict(json!({"id": 3, "reward": 0})).unwrap().success);
        assert!(!verdict(json!({"id": 3, "reward": 1, "success": false})).unwrap().success);
    }

    #[test]
    fn named_rewards_flags_and_feedback_are_taken_over() {
        let verdict = verdict(json!({
            "id": 3, "rewards": {"right": 1.0, "long": -2.0}, "flags": {"parse_error": true}, "feedback": "hm"
        }))
        .unwrap();
        assert_eq!(verdict.rewards, BTreeMap::from([("long".into(), -2.0), ("right".into(), 1.0)]));
        assert!(!verdict.success && verdict.flags["parse_error"]);
        assert_eq!(verdict.feedback.as_deref(), Some("hm"));
    }

    #[test]
    fn an_answer_that_states_no_verdict_says_why() {
        let refuse = |answer: Value, expected: &str| assert_eq!(verdict(answer).unwrap_err(), expected);
        refuse(json!({"id": 3}), "the verifier's answer has neither `reward` nor `rewards`");
        refuse(json!({"id": 3, "rewards": {}}), "the verifier's answer has neither `reward` nor `rewards`");
        let not_a_number = "the verifier's reward `reward` must be a finite number, not \"1\"";
        refuse(json!({"id": 3, "reward": "1"}), not_a_number);
        refuse(json!({"id": 3, "error": "no judge"}), "the verifier could not judge: no judge");
        refuse(json!({"id": 2}), "the verifier's line answers request 2, not 3: {\"id\":2}");
        refuse(json!({"reward": 1}), "the verifier's line has no `id`: {\"reward\":1}");
        refuse(json!([1]), "the verifier's line is not a JSON object: [1]");
        let nan = read_answer("{\"id\": 3, \"reward\": NaN}", 3).unwrap_err();
        assert!(nan.contains("not finite"), "{nan}");
        let long = read_answer(&"é".repeat(500), 3).unwrap_err();
        assert!(long.ends_with("é..."), "{long}");
    }
}
