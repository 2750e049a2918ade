//! Every part that `burnish methods` calls usable is used in a run.

use crate::common::{Scratch, timeless_metrics};
use burnish_rundir::journal::{EpisodeKind, Journal};
use serde_json::Value;

/// The overrides that choose a part in a recipe, with everything that it needs.
fn overrides(method: &Value) -> Vec<String> {
    let (id, family) = (method["id"].as_str().unwrap(), method["family"].as_str().unwrap());
    let key = method["recipe"].as_str().unwrap().split(" = ").next().unwrap();
    let mut overrides = vec![format!("{key}={id}")];
    match family {
        "advantage" if id == "gae" => overrides.push("critic={learning_rate=1e-3}".into()),
        // It continues plain answers, and their rewards alone differ enough.
        "advantage" if id == "vineppo" => overrides.extend([
            "advantage.config={every=8, rollouts=2}".into(),
            "reward.overlong_buffer.length=0".into(),
        ]),
        "advantage" => overrides.push("train.epochs=1".into()),
        // Losses of whole sequences need this mean, and it suits the others too.
        "objective" => overrides.push("loss.aggregation=grpo".into()),
        _ => {}
    }
    // What it learns from apart begins the answer here.
    if let Some(span) = method["defaults"]["span"].as_str() {
        overrides.push(format!("spans=[{{name=\"{span}\", end=\" \"}}]"));
    }
    let needs = method["needs"].as_array().unwrap();
    if family == "distillation" || needs.iter().any(|need| need == "a teacher") {
        overrides.push("teacher.context=demonstration".into());
    }
    overrides
}

#[test]
fn every_objective_and_advantage_that_runs_trains_a_step_and_reports_finite_numbers() {
    let scratch = Scratch::with_policy();
    let listed = scratch.burnish(&["methods", "--json"]).succeeds().stdout();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let methods: Vec<Value> = serde_json::from_value(listed["parts"].clone()).unwrap();
    // Plans need their environments; makers learn nothing (`artefacts.rs`); a reward model is trained on rows (`offline.rs`).
    let is_elsewhere =
        |method: &Value| ["plan", "maker", "reward_model"].contains(&method["family"].as_str().unwrap());
    let running: Vec<&Value> =
        methods.iter().filter(|method| method["status"] == "runs" && !is_elsewhere(method)).collect();
    assert!(running.len() > 35, "{}", running.len());
    for method in running {
        let id = method["id"].as_str().unwrap();
        // Needs a judge that decides: `a_judge_of_pairs_decides_which_answers_are_raised`.
        if id == "pairwise_difference" {
            continue;
        }
        // Needs an environment with a library: `skills.rs`.
        if id == "skill1" {
            continue;
        }
        let dir = format!("run.dir=runs/{id}");
        // These hold all their settings themselves.
        let is_alone = method["family"] == "preference" || method["family"] == "distillation";
        let beta = if is_alone { "loss.beta=0" } else { "loss.beta=0.01" };
        // Lengths differ, so there is something to learn even if no answer is right.
        let lengths = "reward.overlong_buffer.length=44";
        let mut arguments =
            vec!["train", "grpo.toml", "train.max_steps=1", "eval.tasks=0", lengths, beta, &dir];
        let own = overrides(method);
        arguments.extend(own.iter().map(String::as_str));
        scratch.burnish(&arguments).succeeds();
        let rows = timeless_metrics(&scratch.path(&format!("runs/{id}/metrics.jsonl")));
        let step: Value = serde_json::from_str(rows.last().unwrap()).unwrap();
        assert!(step["loss"].as_f64().is_some_and(f64::is_finite), "{id}: {step}");
        assert!(
            step["grad_norm"].as_f64().is_some_and(|norm| norm.is_finite() && norm > 0.0),
            "{id}: {step}"
        );
    }
}

#[test]
fn an_objective_that_is_not_there_or_does_not_fit_is_refused_before_anything_starts() {
    let scratch = Scratch::with_policy();
    for (wrong, parts) in [
        (&["loss.objective=gspp"][..], ["`loss.objective`", "gspo"]),
        (&["loss.objective=gspo"], ["`loss.aggregation`", "sequence-ratio-token-mean"]),
        (&["loss.objective=dpo", "loss.entropy_coef=0.1"], ["`loss.objective`", "preference-alone"]),
        (&["loss.config.epsilon=0.1"], ["`loss.config.epsilon`", "epsilon_low"]),
        (&["advantage.estimator=gae"], ["`advantage.estimator`", "[critic]"]),
        (&["critic={}"], ["`critic`", "needs no values"]),
        (&["advantage.estimator=pairwise_difference"], ["`advantage.estimator`", "[judge]"]),
        (&["loss.objective=opd", "loss.beta=0"], ["`loss.objective`", "[teacher]"]),
        (&["loss.objective=opd", "loss.beta=0", "teacher={}"], ["`teacher`", "teacher.context"]),
        (&["teacher.context=skill"], ["`teacher`", "needs no teacher"]),
        (&["plan.plan=lng"], ["`plan.plan`", "lang"]),
        (&["preset=trl/grpo"], ["`preset`", "trl-1.16/grpo"]),
        (&["loss.correction.proximal=recompute"], ["`loss.correction.proximal`", "proximal-on-policy"]),
        (
            &["rollout.dynamic_sampling.max_rounds=2", "advantage.estimator=reinforce_plus_plus"],
            ["`rollout.dynamic_sampling`", "dropped-ties-would-teach"],
        ),
    ] {
        let dir = "run.dir=runs/wrong";
        scratch.burnish(&[&["train", "grpo.toml", dir], wrong].concat()).fails_with(&parts);
        assert!(!scratch.path("runs/wrong").exists());
    }
}

#[test]
fn a_judge_of_pairs_decides_which_answers_are_raised() {
    let scratch = Scratch::with_policy();
    scratch.judge_that_says("A", "tiny/checkpoints/step_120", |at| format!("{at} or {}?", at + 1));
    let judge = "judge={path=\"judge/checkpoints/step_60\", prompt=\"{a} or {b}? {task}\", tokens_max=4}";
    let train = [
        "train",
        "grpo.toml",
        "advantage.estimator=pairwise_difference",
        "eval.tasks=0",
        "train.max_steps=1",
    ];
    scratch.burnish(&[&train[..], &[judge, "run.dir=runs/pairs"]].concat()).succeeds();
    let rows = timeless_metrics(&scratch.path("runs/pairs/metrics.jsonl"));
    let step: Value = serde_json::from_str(rows.last().unwrap()).unwrap();
    // Four groups of four answers: each pair in a group.
    assert_eq!(step["judge/comparisons"], 24.0, "{step}");
    assert_eq!((&step["judge/first"], &step["judge/unreadable"]), (&1.0.into(), &0.0.into()), "{step}");
    let stored = Journal::open(&scratch.path("runs/pairs/run.db")).unwrap();
    let stored = stored.episodes(1, EpisodeKind::Train).unwrap();
    for group in stored.chunks(4) {
        let credit: Vec<f64> = group.iter().map(|stored| stored.advantage.unwrap()).collect();
        assert!(credit.iter().sum::<f64>().abs() < 1e-9, "{credit:?}");
        // Shares of three siblings: thirds, whichever of them were shown first.
        assert!(
            credit.iter().all(|own| ((own + 0.5) * 3.0).fract().abs().min(1.0) < 1e-9
                || ((own + 0.5) * 3.0).fract() > 1.0 - 1e-9),
            "{credit:?}"
        );
    }
    assert!(stored.iter().any(|stored| stored.advantage != Some(0.0)));

    let refused =
        |more: &[&str], parts: &[&str]| scratch.burnish(&[&train[..], more].concat()).fails_with(parts);
    refused(&[judge, "plan.plan=skpo"], &["`plan`", "answers to one prompt"]);
    refused(&["judge={path=\"judge/checkpoints/step_60\", prompt=\"{a}?\"}"], &["judge.prompt", "`{task}`"]);
    refused(&["judge={}"], &["judge.endpoint", "must say which policy judges"]);
    refused(&[judge, "advantage.estimator=grpo"], &["`judge`", "compares no pairs"]);
}

#[test]
fn methods_shows_presets_and_knows_what_was_meant() {
    let scratch = Scratch::new();
    let list = scratch.burnish(&["methods"]).succeeds().stdout();
    let shown = scratch.burnish(&["methods", "show", "trl-1.16/gspo"]).succeeds().stdout();
    assert!(list.contains("trl-1.16/gspo") && list.contains("importance_sampling_level"), "{list}");
    for said in ["objective = \"gspo\"", "[loss.config]", "importance_sampling_level", "beta > 0", "differs"]
    {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    scratch.burnish(&["methods", "show", "gpso"]).fails_with(&["did you mean `gspo`?"]);
}
