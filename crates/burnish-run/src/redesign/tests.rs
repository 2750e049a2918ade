//! What engineers say, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Ending, Episode, Message, Record as EpisodeRecord, Task, TaskId, Verdict};
use burnish_env::redesign::{Harder, Knob, KnobKind};
use burnish_recipe::{EngineerKind, Recipe, RuleSection, Source};
use serde_json::{Value, json};

use super::*;
use crate::test_server::{question, said, serve};

fn knob(key: &str, kind: KnobKind, menu: &[f64], labels: &[(&str, &str)]) -> Knob {
    Knob {
        key: key.to_owned(),
        kind,
        of: if kind == KnobKind::Share { "sizes".to_owned() } else { String::new() },
        min: menu[0],
        max: menu[menu.len() - 1],
        menu: menu.to_vec(),
        harder: Harder::Up,
        tasks: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        help: String::new(),
    }
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

/// Held-out tasks of two sizes, with and without waits; `solved` says which of them are solved.
fn played(solved: impl Fn(&str, &str) -> bool) -> (Vec<Task>, Vec<Episode>) {
    let (mut tasks, mut episodes) = (Vec::new(), Vec::new());
    for at in 0..40 {
        let (size, wait) = (if at % 2 == 0 { "3" } else { "4" }, if at % 4 < 2 { "yes" } else { "no" });
        let id = TaskId(format!("task-{at}"));
        let labels = [("size", size), ("wait", wait), ("name", &*format!("secret-{at}"))];
        tasks.push(Task {
            id: id.clone(),
            environment: "boards".into(),
            prompt: vec![Message::user(format!("secret prompt {at}"))],
            truth: json!({"secret": at}),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        });
        let is_solved = solved(size, wait);
        let mut verdict = Verdict::scored("plan", f64::from(u8::from(is_solved)), is_solved);
        verdict.flags = BTreeMap::from([("collision".to_owned(), !is_solved)]);
        verdict.feedback = Some("secret feedback".into());
        episodes.push(Episode {
            task: id,
            rollout: 0,
            traces: Vec::new(),
            partners: Vec::new(),
            verdict,
            ending: Ending::Completed,
            answers: vec![Message::assistant("secret answer")],
            record: EpisodeRecord::default(),
        });
    }
    (tasks, episodes)
}

fn context(solved: impl Fn(&str, &str) -> bool) -> Context {
    let (tasks, episodes) = played(solved);
    let breakdown = Breakdown::of(&tasks, &episodes, &BTreeMap::new(), &knobs());
    let values = knobs().iter().filter_map(|knob| Some((knob.key.clone(), knob.value(&config())?))).collect();
    Context {
        round: 1,
        rounds: 3,
        environment: "boards".to_owned(),
        knobs: knobs(),
        values,
        summary: Some(summary(&breakdown)),
        breakdown: Some(breakdown),
        guideline: Some("Be kind.".to_owned()),
        history: Some(Vec::new()),
        training: Some(Training::default()),
    }
}

const GRPO: &str = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[env]\nid = \"countdown\"\n[train]\nmethod = \
                    \"grpo\"\nmax_steps = 1\n";

fn recipe(redesign: &str) -> Recipe {
    Recipe::resolve(&Source::parse("r.toml", GRPO, &[format!("redesign={{{redesign}}}")]).unwrap()).unwrap()
}

fn of(kind: &str) -> Box<dyn Engineer> {
    let recipe = recipe(&format!("engineer=\"{kind}\""));
    engineer(&recipe, &recipe.redesign.clone().unwrap(), &knobs()).unwrap()
}

fn designed(
    engineer: &mut dyn Engineer,
    context: &Context,
    seed: u64,
    has_tasks: &mut dyn FnMut(&Value) -> Result<(), RunError>,
) -> Design {
    design(engineer, context, &config(), (Path::new("nowhere"), seed), has_tasks).unwrap()
}

fn refused() -> RunError {
    RunError::Refused("no such boards".to_owned())
}

#[test]
fn the_identity_changes_no_bit_and_tries_nothing() {
    let mut tried = 0;
    let design = designed(&mut *of("identity"), &context(|_, _| true), 1, &mut |_| {
        tried += 1;
        Err(refused())
    });
    assert_eq!((design.config, design.is_taken, tried), (config(), true, 0));
}

#[test]
fn chance_draws_from_the_menus_by_seed_and_round_and_again_where_there_are_no_tasks() {
    let context = context(|_, _| true);
    let draw = |seed| designed(&mut *of("random"), &context, seed, &mut |_| Ok(())).config;
    assert_eq!(draw(1), draw(1));
    let all: BTreeSet<String> = (0..20).map(|seed| draw(seed).to_string()).collect();
    assert!(all.len() > 5, "{all:?}");
    for config in (0..20).map(draw) {
        assert!(knobs()[2].menu.contains(&config["holes"].as_f64().unwrap()));
        let sum = config["s3"].as_f64().unwrap() + config["s4"].as_f64().unwrap();
        // Where 0 is drawn for all of them, they stay.
        assert!((sum - 1.0).abs() < 1e-12 || sum == 2.0, "{sum}");
    }
    // A value that no menu has, so that no draw leaves everything as it is.
    let odd = json!({"s3": 1.5, "s4": 0.5, "holes": 0.15});
    let draw_from = |has_tasks: &mut dyn FnMut(&Value) -> Result<(), RunError>| {
        design(&mut *of("random"), &context, &odd, (Path::new("nowhere"), 1), has_tasks).unwrap()
    };
    let mut tried = 0;
    let fourth = draw_from(&mut |_| {
        tried += 1;
        if tried < 4 { Err(refused()) } else { Ok(()) }
    });
    assert_eq!((fourth.is_taken, fourth.attempts.len()), (true, 4));
    let never = draw_from(&mut |_| Err(refused()));
    assert_eq!((&never.config, never.is_taken, never.attempts.len()), (&odd, false, 50));
}

#[test]
fn a_curriculum_moves_everything_to_what_is_harder() {
    let design = designed(&mut *of("monotone"), &context(|_, _| false), 1, &mut |_| Ok(()));
    // Half of what size 3 has goes to size 4; holes move by one place.
    assert_eq!(design.config, json!({"s3": 0.375, "s4": 0.625, "holes": 0.2}));
    let again = design.config.clone();
    let mut context = context(|_, _| false);
    context.values =
        knobs().iter().filter_map(|knob| Some((knob.key.clone(), knob.value(&again)?))).collect();
    let design = designed(&mut *of("monotone"), &context, 1, &mut |_| Ok(()));
    assert!(design.attempts[0].reason.contains("harder"));
}

#[test]
fn the_rule_gives_shares_to_what_is_solved_sometimes_and_follows_what_is_solved_often_or_rarely() {
    // Size 3 is solved without waits only, size 4 never.
    let some = context(|size, wait| size == "3" && wait == "no");
    let design = designed(&mut *of("failure_guided"), &some, 1, &mut |_| Ok(()));
    let share = |at: &str| design.config[at].as_f64().unwrap();
    // Shares 0.75 and 0.25; weights 0.25 + 0.05 and 0 + 0.05, which are 6/7 and 1/7.
    assert!((share("s3") - (0.375 + 0.5 * 6.0 / 7.0)).abs() < 1e-12, "{}", share("s3"));
    assert!((share("s3") + share("s4") - 1.0).abs() < 1e-12);
    assert_eq!(share("holes"), 0.0, "boards of size 3 that need a wait are never solved");
    let reason = &design.attempts[0].reason;
    assert!(reason.contains("holes is solved rarely: easier (0)"), "{reason}");

    let all = context(|_, _| true);
    let design = designed(&mut *of("failure_guided"), &all, 1, &mut |_| Ok(()));
    assert_eq!(design.config["holes"], 0.2);

    // Nothing is known of the tasks on which a key acts.
    let mut unknown = context(|_, _| true);
    unknown.breakdown.as_mut().unwrap().parts.clear();
    let design = designed(&mut *of("failure_guided"), &unknown, 1, &mut |_| Ok(()));
    assert_eq!((design.config, design.is_taken), (config(), true));
    assert_eq!(RuleSection::default().low, 0.2);
}

#[test]
fn a_rule_needs_to_know_what_is_harder() {
    let blind: Vec<Knob> = knobs().into_iter().map(|knob| Knob { harder: Harder::Unknown, ..knob }).collect();
    for kind in ["monotone", "failure_guided"] {
        let recipe = recipe(&format!("engineer=\"{kind}\""));
        let refused = engineer(&recipe, &recipe.redesign.clone().unwrap(), &blind);
        let error = refused.err().unwrap().to_string();
        assert!(error.contains("redesign.engineer") && error.contains("harder"), "{error}");
    }
}

#[test]
fn an_engineer_is_told_rates_and_no_task_and_nothing_that_is_switched_off() {
    let context = context(|size, _| size == "3");
    let text = context.text();
    for part in
        ["size=3: 20 tasks, success 1", "size=3 wait=yes: 10 tasks", "collision 0.5", "Be kind.", "s3 = 1.5"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("worst at size=4"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    let whole = format!("{context:?}");
    assert!(!whole.contains("secret"), "a label with a value for each task names tasks");

    for (module, gone) in [
        ("breakdown", "Results"),
        ("guideline", "Be kind"),
        ("history", "The rounds before"),
        ("summary", "Summary:"),
        ("training", "Training,"),
    ] {
        let recipe = recipe(&format!("engineer=\"random\", without=[\"{module}\"]"));
        let restricted = context.clone().restricted(&recipe.redesign.unwrap());
        let others = ["Results", "Be kind", "The rounds before", "Summary:", "Training,"];
        for title in others {
            assert_eq!(restricted.text().contains(title), title != gone, "{module}: {title}");
        }
    }
}

#[test]
fn a_model_on_a_server_is_asked_and_what_makes_no_sense_leaves_the_environment_as_it_is() {
    let answers = [
        ("I would rather not.", false, "there is no object"),
        ("{\"config\": {\"holes\": 0.3}, \"reason\": \"more\"", false, "there is no object"),
        (
            "Sure: {\"reason\": \"more holes\", \"config\": {\"holes\": 0.3, \"bolts\": 1, \"s3\": NaN}}",
            true,
            "",
        ),
        ("{\"config\": {\"holes\": 0.0}}", false, "no such boards"),
    ];
    for (answer, is_taken, problem) in answers {
        let (url, asked) = serve(move |_, body| match question(body).contains("Do not propose anything") {
            true => said("It fails where agents wait {\"config\": {\"holes\": 9}}."),
            false => said(answer),
        });
        let recipe =
            recipe(&format!("engineer=\"endpoint\", endpoint={{url=\"{url}\", model=\"m\", retries=0}}"));
        let redesign = recipe.redesign.clone().unwrap();
        assert_eq!(redesign.engineer, EngineerKind::Endpoint);
        let mut engineer = engineer(&recipe, &redesign, &knobs()).unwrap();
        let mut has_tasks = |config: &Value| if config["holes"] == 0.0 { Err(refused()) } else { Ok(()) };
        let design = designed(&mut *engineer, &context(|_, _| true), 1, &mut has_tasks);
        assert_eq!(design.is_taken, is_taken, "{answer}");
        let attempt = &design.attempts[0];
        assert!(attempt.problem.as_deref().unwrap_or_default().contains(problem), "{attempt:?}");
        assert!(attempt.said.contains("where agents wait") && attempt.said.contains(answer), "{attempt:?}");
        if is_taken {
            assert_eq!((design.config["holes"].as_f64(), attempt.reason.as_str()), (Some(0.3), "more holes"));
            let rejected: Vec<&str> = attempt.rejected.iter().map(|it| it.key.as_str()).collect();
            assert_eq!(rejected, ["bolts", "s3"]);
        } else {
            assert_eq!(design.config, config());
        }
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 2);
        assert!(question(&asked[1]).contains("It fails where agents wait"));
        assert!(asked.iter().all(|body| !body.to_string().contains("secret")));
    }
}

#[test]
fn without_summaries_a_model_is_asked_once_and_a_server_that_is_gone_ends_the_loop() {
    let (url, asked) = serve(|_, _| said("{\"config\": {}}"));
    let endpoint = format!("endpoint={{url=\"{url}\", model=\"m\", retries=0}}");
    let recipe = recipe(&format!("engineer=\"endpoint\", without=[\"summary\"], {endpoint}"));
    let mut engineer = engineer(&recipe, &recipe.redesign.clone().unwrap(), &knobs()).unwrap();
    assert!(designed(&mut *engineer, &context(|_, _| true), 1, &mut |_| Ok(())).is_taken);
    assert_eq!(asked.lock().unwrap().len(), 1);

    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("endpoint={{url=\"http://{gone}/v1\", model=\"m\", retries=0}}");
    let recipe = self::recipe(&format!("engineer=\"endpoint\", {endpoint}"));
    let mut engineer = super::engineer(&recipe, &recipe.redesign.clone().unwrap(), &knobs()).unwrap();
    let failed =
        design(&mut *engineer, &context(|_, _| true), &config(), (Path::new("nowhere"), 1), &mut |_| Ok(()));
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("redesign.endpoint"), "{error}");
}

#[test]
fn a_record_survives_its_file() {
    let (tasks, episodes) = played(|_, _| true);
    let design = designed(&mut *of("random"), &context(|_, _| true), 3, &mut |_| Ok(()));
    let record = Record {
        rounds_planned: 2,
        engineer: EngineerKind::Random,
        validation: "aa".into(),
        rounds: vec![Round {
            round: 1,
            dir: "runs/cache/round1".into(),
            hash: "bb".into(),
            config: config(),
            values: BTreeMap::from([("holes".to_owned(), 0.1)]),
            tasks: 40,
            played: 64,
            evaluation: Breakdown::of(&tasks, &episodes, &BTreeMap::new(), &knobs()),
            training: Training::default(),
        }],
        designs: vec![design],
    };
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Record::read(dir.path()).unwrap(), None);
    write(&record, &dir.path().join("redesign.json")).unwrap();
    assert_eq!(Record::read(dir.path()).unwrap(), Some(record));
    std::fs::write(dir.path().join("redesign.json"), "{").unwrap();
    assert!(Record::read(dir.path()).unwrap_err().to_string().contains("is broken"));
}
