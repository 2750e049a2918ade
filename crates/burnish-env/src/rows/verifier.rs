//! Verifiers: the interface to them, and the requests and answers of an external one.

use burnish_core::names::nearest;
use burnish_core::{Message, Verdict, json};
use burnish_verify::Verifier;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use super::built_in::BuiltIn;
use super::choice::{ByColumn, Coded, VerifierConfig};
use super::code::Code;
use super::config::Config;
use super::pool::Pool;
use crate::EnvError;

/// What is judged.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) task: &'a Value,
    pub(super) prompt: &'a [Message],
    pub(super) completion: &'a str,
    pub(super) messages: &'a [Message],
    /// The ground truth, if the row has one.
    pub(super) answer: Option<&'a str>,
    /// The reply of the model that was asked for the answer ([`Judge::extraction`]).
    #[serde(skip)]
    pub(super) extracted: Option<&'a str>,
    /// The episode's folders, by the server that works in them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) workspaces: &'a BTreeMap<String, PathBuf>,
}

/// Judges answers. Shared by all environments of a generator.
pub(super) trait Judge: Debug + Send + Sync {
    /// The judgement; any failure makes it unscored.
    fn judge(&self, request: &Request<'_>) -> Verdict;

    /// The question to a model that finds the answer in the completion, if one is needed.
    fn extraction(&self, request: &Request<'_>) -> Option<String> {
        let _ = request;
        None
    }

    /// Does judging an answer to this row take long, because a process must be waited for?
    fn is_slow(&self, row: &Value) -> bool {
        let _ = row;
        false
    }

    /// Makes sure that judging is possible here.
    ///
    /// # Errors
    /// If it is not: why.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The judge that the configuration asks for.
///
/// # Errors
/// If the verifier can't be made: names the key.
pub(super) fn judge_of(config: &Config) -> Result<Arc<dyn Judge>, EnvError> {
    match &config.verifier {
        VerifierConfig::Column(by) => Ok(Arc::new(Chosen::new(by, config)?)),
        verifier => one(verifier, config, "verifier"),
    }
}

/// The judge under `key`.
fn one(verifier: &VerifierConfig, config: &Config, key: &str) -> Result<Arc<dyn Judge>, EnvError> {
    match verifier {
        VerifierConfig::BuiltIn(verifier) => Ok(Arc::new(BuiltIn::new(*verifier, config))),
        VerifierConfig::Command(command) if !command.command.is_empty() => {
            Ok(Arc::new(External(Pool::new(config.folder(), command, key)?)))
        }
        VerifierConfig::Code(coded) => Ok(Arc::new(Code::new(&coded.code))),
        VerifierConfig::Elsewhere(_) => Ok(Arc::new(Somebody)),
        VerifierConfig::Command(_) | VerifierConfig::Column(_) => Ok(Arc::new(Nobody)),
    }
}

/// Judges each row with the verifier that a column names.
#[derive(Debug)]
struct Chosen {
    by: ByColumn,
    /// The verifiers by the column's values.
    judges: BTreeMap<String, Arc<dyn Judge>>,
}

impl Chosen {
    fn new(by: &ByColumn, config: &Config) -> Result<Self, EnvError> {
        let mut judges: BTreeMap<String, Arc<dyn Judge>> = BTreeMap::new();
        for verifier in Verifier::ALL {
            judges.insert(verifier.name().to_owned(), Arc::new(BuiltIn::new(verifier, config)));
        }
        judges.insert("code".to_owned(), Arc::new(Code::new(&Coded::default().code)));
        for (value, verifier) in &by.map {
            judges.insert(value.clone(), one(verifier, config, &format!("verifier.map.{value}"))?);
        }
        Ok(Chosen { by: by.clone(), judges })
    }

    fn of(&self, row: &Value) -> Result<&dyn Judge, String> {
        let value = self.by.value(row.as_object().ok_or("the task is no row")?)?;
        self.judges
            .get(&value)
            .map(|judge| &**judge)
            .ok_or_else(|| format!("no verifier is called `{value}`"))
    }
}

impl Judge for Chosen {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        self.of(request.task).map_or_else(Verdict::unscored, |judge| judge.judge(request))
    }

    fn extraction(&self, request: &Request<'_>) -> Option<String> {
        self.of(request.task).ok()?.extraction(request)
    }

    fn is_slow(&self, row: &Value) -> bool {
        self.of(row).is_ok_and(|judge| judge.is_slow(row))
    }

    /// Those that the configuration names.
    fn ready(&self) -> Result<(), String> {
        self.by.map.keys().filter_map(|value| self.judges.get(value)).try_for_each(|judge| judge.ready())
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

/// Leaves the judgement to others: a reward model.
#[derive(Debug)]
struct Somebody;

impl Judge for Somebody {
    fn judge(&self, _: &Request<'_>) -> Verdict {
        Verdict { rewards: BTreeMap::new(), has_success: false, ..Verdict::scored("", 0.0, false) }
    }
}

/// A command.
#[derive(Debug)]
struct External(Pool);

impl Judge for External {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        self.0.judge(request)
    }

    fn is_slow(&self, _: &Value) -> bool {
        true
    }
}

/// The answer of a verifier's process to one request, or what is wrong with it.
pub(super) type Answer = Result<Map<String, Value>, String>;

/// The answer to request `id`, alone on its line.
pub(super) fn read_answer(line: &str, id: u64) -> Answer {
    match parse(line)? {
        Value::Object(answer) => match id_of(&answer) {
            Ok(given) if given == id => Ok(answer),
            Ok(given) => Err(refused(line, &format!("answers request {given}, not {id}"))),
            Err(problem) => Err(refused(line, &problem)),
        },
        _ => Err(refused(line, "is not a JSON object")),
    }
}

/// The answers to the requests `ids`, in order, from the list on one line. A request without an answer gets an error.
///
/// # Errors
/// If the line is not a list of answers to these requests, each at most once; the whole line is then unusable.
pub(super) fn read_answers(line: &str, ids: &[u64]) -> Result<Vec<Answer>, String> {
    let Value::Array(answers) = parse(line)? else {
        return Err(refused(line, "is not a JSON list, as `verifier.batch` asks for"));
    };
    let mut found: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    for answer in answers {
        let Value::Object(answer) = answer else {
            return Err(refused(line, "holds something that is not a JSON object"));
        };
        let id = id_of(&answer).map_err(|problem| refused(line, &problem))?;
        if !ids.contains(&id) {
            return Err(refused(line, &format!("answers request {id}, which was not in the batch")));
        }
        if found.insert(id, answer).is_some() {
            return Err(refused(line, &format!("answers request {id} twice")));
        }
    }
    let missing = |id: &u64| format!("the verifier's list has no answer to request {id}");
    Ok(ids.iter().map(|id| found.remove(id).ok_or_else(|| missing(id))).collect())
}

fn parse(line: &str) -> Result<Value, String> {
    json::parse(line).map_err(|error| match line.contains("NaN") || line.contains("Infinity") {
        true => refused(line, "has a number that is not finite, which JSON does not know"),
        false => refused(line, &format!("is not JSON ({error}); only answers may go to stdout")),
    })
}

fn id_of(answer: &Map<String, Value>) -> Result<u64, String> {
    match answer.get("id") {
        Some(id) => {
            id.as_u64().ok_or_else(|| format!("answers request {id}, which is no number of a request"))
        }
        None => Err("has no `id`".to_owned()),
    }
}

fn refused(line: &str, what: &str) -> String {
    format!("the verifier's line {what}: {}", shortened(line))
}

/// What an answer may state.
const FIELDS: [&str; 10] = [
    "id",
    "reward",
    "rewards",
    "turn_rewards",
    "span_rewards",
    "success",
    "flags",
    "metrics",
    "feedback",
    "error",
];

/// The verdict in an answer.
pub(crate) fn read_verdict(answer: &Map<String, Value>) -> Result<Verdict, String> {
    if let Some(unknown) = answer.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        let meant =
            nearest(unknown, FIELDS).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        return Err(format!(
            "the verifier's answer has a field `{unknown}`, which is none of {}{meant}",
            FIELDS.join(", ")
        ));
    }
    let field = |key: &str| answer.get(key).filter(|value| !value.is_null());
    if let Some(reason) = field("error") {
        return Err(format!("the verifier could not judge: {}", as_text(reason)));
    }
    if field("reward").is_some() && field("rewards").is_some() {
        return Err("the verifier's answer has both `reward` and `rewards`, which would be paid twice: leave out one; \
                    `metrics` takes numbers that are not paid"
            .to_owned());
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
    let turns = field("turn_rewards").map(read_turns).transpose()?.unwrap_or_default();
    let spans = field("span_rewards").map(read_spans).transpose()?.unwrap_or_default();
    if rewards.is_empty() && turns.is_empty() && spans.is_empty() {
        return Err("the verifier's answer has neither `reward` nor `rewards`".to_owned());
    }
    let parts = turns.values().chain(spans.values()).flatten();
    parts.for_each(|(name, reward)| *rewards.entry(name.clone()).or_default() += reward);
    let stated = field("success")
        .map(|success| success.as_bool().ok_or("the verifier's `success` must be true or false"))
        .transpose()?;
    // Code that needs a yes or no gets one, but a reward above 0 is not a success that could be reported.
    let is_positive = || rewards.get("reward").copied().unwrap_or_else(|| rewards.values().sum()) > 0.0;
    let (success, has_success) = (stated.unwrap_or_else(is_positive), stated.is_some());
    let mut verdict =
        Verdict { rewards, turns, spans, success, has_success, ..Verdict::scored("", 0.0, false) };
    if let Some(flags) = field("flags") {
        let flags = flags.as_object().ok_or("the verifier's `flags` must be a table of true or false")?;
        for (name, flag) in flags {
            let flag = flag
                .as_bool()
                .ok_or_else(|| format!("the verifier's flag `{name}` must be true or false"))?;
            verdict.flags.insert(name.clone(), flag);
        }
    }
    if let Some(metrics) = field("metrics") {
        let metrics = metrics.as_object().ok_or("the verifier's `metrics` must be a table of numbers")?;
        for (name, value) in metrics {
            let number = value.as_f64().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| {
                format!("the verifier's metric `{name}` must be a finite number, not {value}")
            })?;
            verdict.metrics.insert(name.clone(), number);
        }
    }
    verdict.feedback = field("feedback").map(as_text);
    Ok(verdict)
}

/// The rewards of turns: a list with [an entry](read_earned) for each turn of the policy.
fn read_turns(value: &Value) -> Result<BTreeMap<usize, BTreeMap<String, f64>>, String> {
    let turns =
        value.as_array().ok_or("the verifier's `turn_rewards` must be a list, an entry for each turn")?;
    let earned = |(turn, earned)| Ok((turn, read_earned(earned)?));
    let turns = turns.iter().enumerate().filter(|(_, earned)| !earned.is_null());
    turns.map(earned).collect()
}

/// The rewards of spans: a table with [an entry](read_earned) for each name of a span.
fn read_spans(value: &Value) -> Result<BTreeMap<String, BTreeMap<String, f64>>, String> {
    let spans =
        value.as_object().ok_or("the verifier's `span_rewards` must be a table, an entry for each span")?;
    let earned = |(name, earned): (&String, &Value)| Ok((name.clone(), read_earned(earned)?));
    spans.iter().filter(|(_, earned)| !earned.is_null()).map(earned).collect()
}

/// The rewards of a part of an episode: a number, or a table of numbers.
fn read_earned(value: &Value) -> Result<BTreeMap<String, f64>, String> {
    let Value::Object(named) = value else {
        return Ok(BTreeMap::from([("reward".to_owned(), finite(value, "reward")?)]));
    };
    named.iter().map(|(name, reward)| Ok((name.clone(), finite(reward, name)?))).collect()
}

/// The greatest reward: squares of rewards and their sums must be numbers too.
const REWARD_MAX: f64 = 1e100;

fn finite(value: &Value, name: &str) -> Result<f64, String> {
    value.as_f64().filter(|reward| reward.abs() <= REWARD_MAX).ok_or_else(|| {
        format!("the verifier's reward `{name}` must be a finite number, at most {REWARD_MAX:e}, not {value}")
    })
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| json::line(value), str::to_owned)
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
        let by_turn =
            verdict(json!({"id": 3, "reward": 1, "turn_rewards": [0.5, null, {"tidy": 2, "reward": -1}]}))
                .unwrap();
        assert_eq!(by_turn.rewards, BTreeMap::from([("reward".into(), 0.5), ("tidy".into(), 2.0)]));
        assert_eq!(by_turn.by_turn(&BTreeMap::new(), 4, 2.5), [0.5, 0.0, 1.0, 1.0]);
        assert_eq!(verdict(json!({"id": 3, "turn_rewards": [1, 1]})).unwrap().rewards["reward"], 2.0);
        for (turns, problem) in [(json!({"0": 1}), "must be a list"), (json!(["much"]), "finite number")] {
            let error = verdict(json!({"id": 3, "turn_rewards": turns})).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let spans = json!({"thoughts": 0.5, "answer": {"tidy": 2, "reward": -1}, "rest": null});
        let by_span =
            verdict(json!({"id": 3, "reward": 1, "turn_rewards": [1], "span_rewards": spans})).unwrap();
        assert_eq!(by_span.rewards, BTreeMap::from([("reward".into(), 1.5), ("tidy".into(), 2.0)]));
        let of_span = |name: &str| by_span.spans.get(name).cloned();
        assert_eq!(of_span("thoughts"), Some(BTreeMap::from([("reward".into(), 0.5)])));
        assert_eq!(of_span("answer"), Some(BTreeMap::from([("tidy".into(), 2.0), ("reward".into(), -1.0)])));
        assert_eq!((of_span("rest"), by_span.turns.len()), (None, 1));
        assert_eq!(verdict(json!({"id": 3, "span_rewards": {"a": 2}})).unwrap().rewards["reward"], 2.0);
        for (spans, problem) in [(json!([1]), "must be a table"), (json!({"a": "much"}), "finite number")] {
            let error = verdict(json!({"id": 3, "span_rewards": spans})).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
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
        refuse(
            json!({"id": 3, "reward": 1, "rewards": {"right": 1}}),
            "the verifier's answer has both `reward` and `rewards`, which would be paid twice: leave out one; `metrics` \
             takes numbers that are not paid",
        );
        for (field, meant) in
            [("sucess", "; did you mean `success`?"), ("Reward", "; did you mean `reward`?"), ("note", "")]
        {
            let error = verdict(json!({"id": 3, "reward": 1, field: true})).unwrap_err();
            assert!(
                error.contains(&format!("`{field}`")) && error.ends_with(&format!("error{meant}")),
                "{error}"
            );
        }
        let not_a_number = "the verifier's reward `reward` must be a finite number, at most 1e100, not ";
        refuse(json!({"id": 3, "reward": "1"}), &format!("{not_a_number}\"1\""));
        refuse(json!({"id": 3, "reward": -1e160}), &format!("{not_a_number}-1e+160"));
        refuse(json!({"id": 3, "error": "no judge"}), "the verifier could not judge: no judge");
        refuse(json!({"id": 2}), "the verifier's line answers request 2, not 3: {\"id\":2}");
        refuse(json!({"reward": 1}), "the verifier's line has no `id`: {\"reward\":1}");
        refuse(json!([1]), "the verifier's line is not a JSON object: [1]");
        let nan = read_answer("{\"id\": 3, \"reward\": NaN}", 3).unwrap_err();
        assert!(nan.contains("not finite"), "{nan}");
        let long = read_answer(&"é".repeat(500), 3).unwrap_err();
        assert!(long.ends_with("é..."), "{long}");
    }

    #[test]
    fn a_list_of_answers_is_sorted_out_by_their_ids() {
        let line = r#"[{"id": 8, "reward": 1}, {"id": 6, "reward": 0}]"#;
        let answers = read_answers(line, &[6, 7, 8]).unwrap();
        assert_eq!(answers[0].as_ref().unwrap()["reward"], 0);
        assert_eq!(answers[1], Err("the verifier's list has no answer to request 7".into()));
        assert_eq!(answers[2].as_ref().unwrap()["reward"], 1);
        let refuse = |line: &str, expected: &str| {
            let error = read_answers(line, &[6, 7]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        refuse(r#"{"id": 6, "reward": 1}"#, "is not a JSON list, as `verifier.batch` asks for");
        refuse(r#"[{"id": 6}, {"id": 6}]"#, "answers request 6 twice");
        refuse(r#"[{"id": 5, "reward": 1}]"#, "answers request 5, which was not in the batch");
        refuse("[3]", "holds something that is not a JSON object");
        refuse(r#"[{"reward": 1}]"#, "has no `id`");
    }
}
