//! What engineers are told and say, and what comes of it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use burnish_core::knob::{Harder, Knob, KnobKind};
use burnish_core::{Message, PolicyError, Script, StopReason, Task, Turn, Verdict};
use burnish_episode::{Handle, Waited};
use burnish_reason::design::{Breakdown, Configuration, Design, Part, Rates, Round, Training};
use burnish_reason::{Made, MakeKind, Maker, Outcome, Played, StrategyConfig, World};
use burnish_rl::Part as _;
use serde_json::{Value, json};

use super::{Engineer, Module, Redesign, Rule, told};
use crate::testing::{NOWHERE, left, task};

fn knob(key: &str, kind: KnobKind, menu: &[f64], labels: &[(&str, &str)]) -> Knob {
    Knob {
        key: key.to_owned(),
        kind,
        of: if kind == KnobKind::Share { "sizes".to_owned() } else { String::new() },
        min: menu[0],
        max: menu[menu.len() - 1],
        menu: menu.to_vec(),
        harder: Harder::Up,
        tasks: labels_of(labels),
        help: String::new(),
    }
}

fn labels_of(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn knobs() -> Vec<Knob> {
    vec![
        knob("s3", KnobKind::Share, &[0.0, 0.5, 1.0], &[("size", "3")]),
        knob("s4", KnobKind::Share, &[0.0, 0.5, 1.0], &[("size", "4")]),
        knob("holes", KnobKind::Number, &[0.0, 0.1, 0.2, 0.3], &[("size", "3"), ("wait", "yes")]),
    ]
}

fn config() -> Value {
    json!({"s3": 1.5, "s4": 0.5, "holes": 0.1})
}

/// After a round in `config`. The rates are those of tasks of size 3 and 4, and of those of size 3 that need a wait.
fn design_in(config: Value, rates: [f64; 3]) -> Design {
    let rates_of = |tasks: usize, success: f64| Rates {
        tasks,
        success: Some(success),
        reward: Some(success),
        flags: BTreeMap::from([("collision".to_owned(), 1.0 - success)]),
    };
    let part = |labels: &[(&str, &str)], tasks: usize, success: f64| Part {
        labels: labels_of(labels),
        rates: rates_of(tasks, success),
    };
    let values = knobs().iter().filter_map(|knob| Some((knob.key.clone(), knob.value(&config)?))).collect();
    let evaluation = Breakdown {
        all: rates_of(40, (rates[0] + rates[1]) / 2.0),
        parts: vec![
            part(&[("size", "3")], 20, rates[0]),
            part(&[("size", "3"), ("wait", "yes")], 10, rates[2]),
            part(&[("size", "4")], 20, rates[1]),
        ],
    };
    Design {
        environment: "boards".to_owned(),
        config,
        knobs: knobs(),
        guideline: Some("Be kind.".to_owned()),
        round: Round { values, evaluation, training: Training::default(), ..Round::default() },
        history: Vec::new(),
    }
}

fn design(rates: [f64; 3]) -> Design {
    design_in(config(), rates)
}

/// What is known of boards, and of which configurations there are none.
struct Boards<'a> {
    design: Design,
    has_tasks: &'a dyn Fn(&Value) -> bool,
}

impl World for Boards<'_> {
    fn fresh(&self, _: u64, _: usize, _: usize) -> Result<Vec<Task>, String> {
        Err(NOWHERE.into())
    }

    fn judge(&self, _: &Task, _: &[Message]) -> Result<Verdict, String> {
        Err(NOWHERE.into())
    }

    fn play<'a>(
        &'a self,
        _: &'a Handle,
        _: &'a Task,
        _: &'a StrategyConfig,
    ) -> Waited<'a, Result<Outcome, String>> {
        Box::pin(async { Err(NOWHERE.into()) })
    }

    fn design(&self, only: &[String]) -> Result<Design, String> {
        let knobs = knobs().into_iter().filter(|knob| only.is_empty() || only.contains(&knob.key));
        Ok(Design { knobs: knobs.collect(), ..self.design.clone() })
    }

    fn check_config(&self, config: &Value) -> Result<Value, String> {
        (self.has_tasks)(config).then(|| config.clone()).ok_or("no such boards".to_owned())
    }
}

fn by(engineer: Engineer) -> Redesign {
    Redesign { engineer, ..Redesign::default() }
}

fn made_with(
    engineer: &Redesign,
    design: Design,
    has_tasks: &dyn Fn(&Value) -> bool,
    teacher: Option<&mut dyn burnish_core::Policy>,
) -> Result<Configuration, String> {
    let played = [Played { task: task(), episodes: Vec::new() }];
    let world = Boards { design, has_tasks };
    let mut finished = left(engineer, MakeKind::Config, &played, &world, teacher, None)?;
    match finished.made.pop() {
        Some(Made::Config(made)) if finished.made.is_empty() => Ok(*made),
        other => panic!("one configuration is made, and not {other:?}"),
    }
}

fn made(engineer: Engineer, design: Design) -> Configuration {
    made_with(&by(engineer), design, &|_| true, None).unwrap()
}

/// Whether the last attempt was taken over.
fn is_taken(made: &Configuration) -> bool {
    made.attempts.last().is_some_and(|last| last.problem.is_none())
}

#[test]
fn the_identity_changes_no_bit_and_tries_nothing() {
    let tried = Cell::new(0);
    let has_tasks = |_: &Value| {
        tried.set(tried.get() + 1);
        false
    };
    let made = made_with(&by(Engineer::Identity), design([1.0; 3]), &has_tasks, None).unwrap();
    assert_eq!((&made.config, is_taken(&made), tried.get()), (&config(), true, 0));
    assert!(made.attempts[0].changes.is_empty());
}

#[test]
fn what_is_made_has_the_rounds_before_it() {
    let mut second = design([1.0, 0.0, 1.0]);
    second.history.push(Round { reason: "of the first".to_owned(), played: 8, ..Round::default() });
    second.round.reason = "of the second".to_owned();
    let made = made(Engineer::Monotone, second.clone());
    assert_eq!(made.history, [second.history[0].clone(), second.round.clone()]);
    assert_eq!((made.environment.as_str(), made.reason.as_str()), ("boards", "Everything becomes harder."));
    assert!(made.told.contains("Round 2 in the environment boards"), "{}", made.told);
    let text = serde_json::to_string(&made).unwrap();
    assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), made, "it survives its file");
}

#[test]
fn chance_draws_from_the_menus_and_again_where_there_are_no_tasks() {
    let draws: Vec<Value> = (0..20)
        .map(|seed| {
            let said = super::rules::random(&design([1.0; 3]), seed);
            assert_eq!(said, super::rules::random(&design([1.0; 3]), seed));
            serde_json::from_str::<Value>(&said).unwrap()["config"].take()
        })
        .collect();
    let different: BTreeSet<String> = draws.iter().map(Value::to_string).collect();
    assert!(different.len() > 5, "{different:?}");
    for knob in knobs() {
        assert!(draws.iter().all(|drawn| knob.menu.contains(&drawn[&knob.key].as_f64().unwrap())));
    }
    // A value that no menu has, so that no draw leaves everything as it is.
    let odd = json!({"s3": 1.5, "s4": 0.5, "holes": 0.15});
    let (engineer, tried) = (by(Engineer::Random), Cell::new(0));
    let fourth = |_: &Value| {
        tried.set(tried.get() + 1);
        tried.get() == 4
    };
    let made = made_with(&engineer, design_in(odd.clone(), [1.0; 3]), &fourth, None).unwrap();
    assert_eq!((is_taken(&made), made.attempts.len()), (true, 4));
    assert_ne!(made.attempts[0].said, made.attempts[1].said);
    let sum = made.config["s3"].as_f64().unwrap() + made.config["s4"].as_f64().unwrap();
    // Where 0 is drawn for all of them, they stay.
    assert!((sum - 1.0).abs() < 1e-12 || sum == 2.0, "{sum}");
    let never = made_with(&engineer, design_in(odd.clone(), [1.0; 3]), &|_| false, None).unwrap();
    assert_eq!((&never.config, is_taken(&never), never.attempts.len()), (&odd, false, 50));
    assert_eq!(never.attempts[49].problem.as_deref(), Some("no such boards"));
}

#[test]
fn a_curriculum_moves_everything_to_what_is_harder() {
    let made = made(Engineer::Monotone, design([0.0; 3]));
    // Half of what size 3 has goes to size 4; holes move by one place.
    assert_eq!(made.config, json!({"s3": 0.375, "s4": 0.625, "holes": 0.2}));
    let further = self::made(Engineer::Monotone, design_in(made.config, [0.0; 3]));
    assert_eq!(further.config, json!({"s3": 0.1875, "s4": 0.8125, "holes": 0.3}));
}

#[test]
fn the_rule_gives_shares_to_what_is_solved_sometimes_and_follows_what_is_solved_often_or_rarely() {
    // Size 3 is solved without waits only, size 4 never.
    let made = made(Engineer::FailureGuided, design([0.5, 0.0, 0.0]));
    let share = |at: &str| made.config[at].as_f64().unwrap();
    // Shares 0.75 and 0.25; weights 0.25 + 0.05 and 0 + 0.05, which are 6/7 and 1/7.
    assert!((share("s3") - (0.375 + 0.5 * 6.0 / 7.0)).abs() < 1e-12, "{}", share("s3"));
    assert!((share("s3") + share("s4") - 1.0).abs() < 1e-12);
    assert_eq!(share("holes"), 0.0, "boards of size 3 that need a wait are never solved");
    assert!(made.reason.contains("holes is solved rarely: easier (0)"), "{}", made.reason);

    let often = self::made(Engineer::FailureGuided, design([1.0; 3]));
    assert_eq!(often.config["holes"], 0.2);

    // Nothing is known of the tasks on which a key acts.
    let mut unknown = design([1.0; 3]);
    unknown.round.evaluation.parts.clear();
    let made = self::made(Engineer::FailureGuided, unknown);
    assert_eq!((&made.config, is_taken(&made)), (&config(), true));
}

#[test]
fn only_the_named_keys_change() {
    let engineer = Redesign { keys: vec!["holes".to_owned()], ..by(Engineer::Monotone) };
    let made = made_with(&engineer, design([0.5; 3]), &|_| true, None).unwrap();
    assert_eq!(made.config, json!({"s3": 1.5, "s4": 0.5, "holes": 0.2}));
    assert!(!made.told.contains("s3 ="), "{}", made.told);
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let blind: Vec<Knob> = knobs().into_iter().map(|knob| Knob { harder: Harder::Unknown, ..knob }).collect();
    for engineer in [Engineer::Monotone, Engineer::FailureGuided] {
        let error = by(engineer).check_knobs(&blind).unwrap_err();
        assert!(error.key == "engineer" && error.problem.contains("harder"), "{error}");
        assert!(by(engineer).check_knobs(&knobs()).is_ok());
    }
    assert!(by(Engineer::Random).check_knobs(&blind).is_ok());
    let rule = |change: &dyn Fn(&mut Rule)| {
        let mut engineer = by(Engineer::Monotone);
        change(&mut engineer.rule);
        engineer
    };
    let twice = vec!["a".to_owned(), "a".to_owned()];
    let blinded = Redesign { without: vec![Module::Breakdown], ..by(Engineer::FailureGuided) };
    for (engineer, key, part) in [
        (Redesign { keys: twice, ..by(Engineer::Random) }, "keys", "twice"),
        (blinded, "without", "what that rule reads"),
        (rule(&|rule| rule.places = 0), "rule.places", "1 to 1000"),
        (rule(&|rule| rule.shift = 1.5), "rule.shift", "0 to 1"),
        (rule(&|rule| rule.low = 0.9), "rule.high", "above `rule.low`"),
        (rule(&|rule| rule.floor = 0.0), "rule.floor", "above 0"),
        (Redesign { tokens_max: 0, ..by(Engineer::Model) }, "tokens_max", "1 or more"),
        (Redesign { temperature: -1.0, ..by(Engineer::Model) }, "temperature", "0 (greedy)"),
    ] {
        let error = engineer.check().unwrap_err();
        assert!(error.key == key && error.problem.contains(part), "{error}");
    }
    assert!(Redesign::default().check().is_ok());
}

#[test]
fn an_engineer_is_told_rates_and_nothing_that_is_left_out() {
    let text = told::text(&design([1.0, 0.0, 1.0]), &Redesign::default());
    for part in
        ["size=3: 20 tasks, success 1", "size=3 wait=yes: 10 tasks", "collision 0.5", "Be kind.", "s3 = 1.5"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("worst at size=4"), "{text}");
    for (module, gone) in [
        (Module::Breakdown, "Results"),
        (Module::Guideline, "Be kind"),
        (Module::History, "The rounds before"),
        (Module::Summary, "Summary:"),
        (Module::Training, "Training,"),
    ] {
        let engineer = Redesign { without: vec![module], ..by(Engineer::Random) };
        let text = told::text(&design([1.0, 0.0, 1.0]), &engineer);
        for title in ["Results", "Be kind", "The rounds before", "Summary:", "Training,"] {
            assert_eq!(text.contains(title), title != gone, "{module:?}: {title}");
        }
    }
}

/// What comes of a model that answers this, which perhaps can't constrain its answers; also what it was asked, each with whether
/// the answer was constrained.
fn asked(
    engineer: &Redesign,
    constrains: bool,
    answer: &str,
) -> (Result<Configuration, String>, Vec<(String, bool)>) {
    let mut questions = Vec::new();
    let mut model = Script::new(|turn: &Turn| {
        let question = turn.messages[0].content.clone();
        let is_first = question.contains("Do not propose anything");
        let is_constrained = turn.sampling.grammar.is_some();
        questions.push((question, is_constrained));
        if is_constrained && !constrains {
            return Err(PolicyError::Unable("hold its answer to a grammar"));
        }
        let first = "It fails where agents wait {\"config\": {\"holes\": 9}}.";
        Ok(((if is_first { first } else { answer }).to_owned(), StopReason::EndToken))
    });
    let has_tasks = |config: &Value| config["holes"] != 0.0;
    let made = made_with(engineer, design([1.0; 3]), &has_tasks, Some(&mut model));
    drop(model);
    (made, questions)
}

#[test]
fn a_model_is_asked_and_what_makes_no_sense_leaves_the_environment_as_it_is() {
    let fine = "Sure: {\"reason\": \"more holes\", \"config\": {\"holes\": 0.3, \"bolts\": 1, \"s3\": NaN}}";
    for (answer, problem) in [
        ("I would rather not.", Some("there is no object")),
        ("{\"config\": {\"holes\": 0.3}, \"reason\": \"more\"", Some("there is no object")),
        (fine, None),
        ("{\"config\": {\"holes\": 0.0}}", Some("no such boards")),
    ] {
        let (made, questions) = asked(&by(Engineer::Model), true, answer);
        let made = made.unwrap();
        let attempt = &made.attempts[0];
        assert_eq!(attempt.problem.is_none(), problem.is_none(), "{attempt:?}");
        assert!(attempt.problem.iter().all(|told| told.contains(problem.unwrap())), "{attempt:?}");
        assert!(attempt.said.contains("where agents wait") && attempt.said.contains(answer), "{attempt:?}");
        match problem {
            Some(_) => assert_eq!(made.config, config()),
            None => {
                assert_eq!((made.config["holes"].as_f64(), made.reason.as_str()), (Some(0.3), "more holes"));
                let rejected: Vec<&str> = attempt.rejected.iter().map(|it| it.key.as_str()).collect();
                assert_eq!(rejected, ["bolts", "s3"]);
            }
        }
        assert_eq!(questions.len(), 2);
        assert!(questions[1].0.contains("It fails where agents wait"));
        assert_eq!((questions[0].1, questions[1].1), (false, true), "the proposal is constrained");
    }
}

#[test]
fn without_summaries_a_model_is_asked_once_and_one_that_can_not_constrain_its_answer_gives_it_freely() {
    let brief = Redesign { without: vec![Module::Summary], ..by(Engineer::Model) };
    let (made, questions) = asked(&brief, false, "{\"config\": {}}");
    assert!(is_taken(&made.unwrap()));
    let constrained: Vec<bool> = questions.iter().map(|(_, is_constrained)| *is_constrained).collect();
    assert_eq!(constrained, [true, false]);
    assert!(!asked(&brief, true, "{\"config\": {}}").1[0].0.contains("Summary"));
}

#[test]
fn a_model_that_can_not_read_so_much_says_nothing_and_one_that_fails_ends_the_run() {
    let answers = |error: fn() -> PolicyError| {
        let mut model = Script::new(move |_: &Turn| Err(error()));
        made_with(&by(Engineer::Model), design([1.0; 3]), &|_| true, Some(&mut model))
    };
    let made = answers(|| PolicyError::PromptTooLong { tokens: 900, tokens_max: 100 }).unwrap();
    assert_eq!(made.config, config());
    assert!(made.attempts[0].problem.as_ref().unwrap().contains("900 tokens"), "{made:?}");
    let error = answers(|| PolicyError::Failed("the lights went out".into())).unwrap_err();
    assert!(error.contains("the lights went out"), "{error}");
}
