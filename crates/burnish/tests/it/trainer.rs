//! Runs whose policy a server samples and trains: one that speaks Tinker's API.

use crate::common;
use crate::common::{Finished, Scratch};
use crate::training_server::TrainingServer;
use crate::updates;
use crate::updates::with_kl;
use burnish_rl::LossConfig;
use serde_json::{Value, json};

/// A scratch directory with a policy in f32.
fn scratch() -> Scratch {
    Scratch::with_taught(&["policy.new.dtype=f32"])
}

fn trainer(url: &str) -> String {
    format!("trainer={{kind=\"tinker\",url=\"{url}\",rank=4}}")
}

/// Runs `grpo.toml` on a server that limits no norm.
fn train(scratch: &Scratch, url: &str, more: &[&str]) -> Finished {
    let own = ["train", "grpo.toml", &trainer(url), "optimizer.max_grad_norm=0"];
    scratch.burnish(&[&own[..], more].concat())
}

/// The rows of a run's metrics, without what depends on the clock.
fn rows(scratch: &Scratch, run: &str) -> Vec<Value> {
    let lines = common::timeless_metrics(&scratch.path(&format!("{run}/metrics.jsonl")));
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_server_trains_and_a_run_goes_on_as_if_it_had_never_stopped() {
    let scratch = scratch();
    // The server has the weights; the run needs a tokenizer and what the model can read.
    std::fs::create_dir(scratch.path("bare")).unwrap();
    for file in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "chat_template.jinja",
    ] {
        scratch.write(&format!("bare/{file}"), scratch.read(&format!("tiny/checkpoints/step_120/{file}")));
    }
    let constant = ["policy.path=bare", "optimizer.schedule=constant"];
    let whole = TrainingServer::start(&scratch.path("tiny/checkpoints/step_120"));
    let more = [&constant[..], &["train.max_steps=4", "run.dir=whole"]].concat();
    let done = train(&scratch, &whole.url, &more).succeeds();
    for said in ["divides losses by tokens and sequences", "tinker://", "computes the log-probs"] {
        assert!(done.stdout().contains(said), "{said}: {}", done.stdout());
    }
    let parted = TrainingServer::start(&scratch.path("tiny/checkpoints/step_120"));
    train(&scratch, &parted.url, &[&constant[..], &["train.max_steps=2"]].concat()).succeeds();
    scratch.burnish(&["train", "--resume", "grpo", "train.max_steps=4"]).succeeds();
    let steps = |run: &str| -> Vec<Value> {
        rows(&scratch, run).into_iter().filter(|row| row["event"] == "train").collect()
    };
    let of_steps = steps("whole");
    assert_eq!(of_steps, steps("grpo"));
    assert_eq!(whole.adapter(), parted.adapter());
    for row in &of_steps {
        assert!(row["sampling/sampling_logp_difference/max"].as_f64().unwrap() < 1e-4, "{row}");
        // Nobody knows them here.
        assert!(row["grad_norm"].is_null() && row["entropy"].is_null(), "{row}");
    }
    assert_eq!(of_steps.len(), 4);

    // What such a run leaves says where its policy is.
    for command in [&["eval", "grpo"][..], &["generate", "grpo", "hello"]] {
        scratch.burnish(command).fails_with(&["on a server", "tinker://"]);
    }
    scratch.burnish(&["rollout", "--from", "grpo", "--replay"]).succeeds();
}

#[test]
fn a_server_that_ends_and_comes_back_costs_no_episode_and_no_update() {
    let scratch = scratch();
    let base = scratch.path("tiny/checkpoints/step_120");
    let more = ["train.max_steps=3", "checkpoint.every=2"];
    let server = TrainingServer::start(&base);
    train(&scratch, &server.url, &[&more[..], &["run.dir=undisturbed"]].concat()).succeeds();
    let undisturbed = rows(&scratch, "undisturbed");
    let mut told = String::new();
    for requests in [60, 130, 200] {
        let other = TrainingServer::start(&base);
        other.forget_in(requests);
        let run = format!("run.dir=forgot-{requests}");
        let done = train(&scratch, &other.url, &[&more[..], &[&run]].concat()).succeeds();
        assert_eq!(rows(&scratch, &format!("forgot-{requests}")), undisturbed, "{requests}");
        assert_eq!(other.adapter(), server.adapter(), "{requests}");
        assert!(other.models() > server.models(), "{requests}");
        told += &done.stdout();
    }
    // The first of them came while it was found out how the server divides.
    assert!(told.contains("the trainer lost the model and has it back"), "{told}");
}

#[test]
fn rows_are_learned_from_on_a_server_too() {
    let scratch = scratch();
    let server = TrainingServer::start(&scratch.path("tiny/checkpoints/step_120"));
    let lines = (0..12).map(|at| {
        let answer = |text: String| json!([{ "role": "assistant", "content": text }]);
        let prompt = json!([{ "role": "user", "content": format!("{at} and {at}?") }]);
        let (chosen, rejected) = (answer(format!("{at}")), answer("no".into()));
        json!({ "prompt": prompt, "chosen": chosen, "rejected": rejected, "completion": chosen })
    });
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    scratch.write("pairs.jsonl", &lines);
    for method in ["sft", "preference"] {
        let recipe = format!(
            "[run]\ndir = \"{method}\"\n[policy]\npath = \"tiny/checkpoints/step_120\"\n[train]\nmethod = \"{method}\"\n\
             max_steps = 6\nsequences_per_step = 8\n[data]\npath = \"pairs.jsonl\"\n[optimizer]\nlearning_rate = 3e-3\n\
             max_grad_norm = 0.0\n{}",
            if method == "preference" { "[loss]\nobjective = \"dpo\"\n" } else { "" }
        );
        scratch.write("rows.toml", &recipe);
        scratch.burnish(&["train", "rows.toml", &trainer(&server.url)]).succeeds();
        let rows = rows(&scratch, method);
        let losses: Vec<f64> = rows
            .iter()
            .filter(|row| row["event"] == "train")
            .map(|row| row["loss"].as_f64().unwrap())
            .collect();
        assert!(losses.len() == 6 && losses[5] < losses[0], "{method}: {losses:?}");
    }
}

/// How far apart an update there and here are ([`updates::apart`]).
fn apart(loss: &LossConfig, change: impl Fn(usize, &mut f64)) -> f64 {
    let scratch = Scratch::with_policy();
    let server = TrainingServer::start(&scratch.path("tiny/checkpoints/step_120"));
    updates::apart(&server.url, &|path| server.saved(path), loss, &change)
}

#[test]
fn an_update_there_is_the_one_here_and_a_wrong_one_is_told_apart() {
    for objective in ["ppo_clip", "gspo", "cispo", "dppo_kl", "kl_cov", "opmd", "opd", "dgpo"] {
        let apart = apart(&with_kl(objective), |_, _| {});
        assert!(apart < 1e-3, "{objective}: {apart}");
    }
    // Without the KL, the first is also the server's own loss.
    for loss in [with_kl("ppo_clip"), LossConfig::default()] {
        let own = apart(&loss, |_, _| {});
        assert!(own < 1e-3, "{own}");
        let doubled = apart(&loss, |_, derivative| *derivative *= 2.0);
        assert!((0.9..1.1).contains(&doubled), "{doubled}");
        let by_sequence = apart(&loss, |at, derivative| *derivative *= [1.2, 0.9, 1.1, 0.8][at]);
        assert!(by_sequence > 0.02, "{by_sequence}");
    }
}

#[test]
fn the_servers_own_loss_gives_the_same_run_with_fewer_passes() {
    let scratch = scratch();
    let run = |name: &str, more: &[&str]| {
        let server = TrainingServer::start(&scratch.path("tiny/checkpoints/step_120"));
        let dir = format!("run.dir={name}");
        // Whole batches are compared, so that most groups that tie have advantages too.
        let estimator = "advantage.estimator=reinforce_plus_plus";
        let own = ["loss.beta=0", estimator, "train.max_steps=3", "optimizer.schedule=constant", &dir];
        let told = train(&scratch, &server.url, &[&own[..], more].concat()).succeeds().stdout();
        let rows = rows(&scratch, name).into_iter().filter(|row| row["event"] == "train").collect::<Vec<_>>();
        (server, told, rows)
    };
    let (clipped, told, own) = run("clipped", &[]);
    assert!(told.contains("has the recipe's clipped loss"), "{told}");
    // A bound that is never reached is not that of the server.
    let (sloped, told, here) = run("sloped", &["loss.config.dual_clip=1e6"]);
    assert!(!told.contains("has the recipe's clipped loss"), "{told}");
    assert!(own.len() == 3 && here.len() == 3);
    for (own, here) in own.iter().zip(&here) {
        for (name, value) in here.as_object().unwrap() {
            let (Some(here), Some(own)) = (value.as_f64(), own[name].as_f64()) else { continue };
            assert!((here - own).abs() < 1e-4 * here.abs().max(1.0), "{name}: {own} for {here}");
        }
    }
    let apart = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
    };
    let (own, here) = (clipped.adapter(), sloped.adapter());
    let length = apart(&here, &vec![0.0; here.len()]);
    assert!(apart(&own, &here) < 1e-3 * length, "{} of {length}", apart(&own, &here));
    // Four updates a step: the first knows the log-probs from the correction, the others need not where
    // there is an advantage.
    let (own, here) = (clipped.scored(), sloped.scored());
    assert!(own < here, "{own} of {here}");
}

#[test]
fn what_a_server_can_not_do_is_refused_with_what_could_be_used_instead() {
    let scratch = scratch();
    let nobody = "http://127.0.0.1:9";
    for (more, said) in [
        (
            &["engine={kind=\"vllm\",urls=[\"http://localhost:1\"]}"][..],
            &["engine", "leave `[engine]` out"][..],
        ),
        (&["policy.lora={rank=4,alpha=8}"], &["policy.lora", "trainer.rank"]),
        (&["rollout.temperature=0.7"], &["rollout", "temperature 1"]),
        (&["rollout.policy_lag=1"], &["rollout.policy_lag", "newest weights"]),
        (&["rollout.stop=[\"x\"]"], &["rollout", "stop_token_ids"]),
        (&["advantage.estimator=gae", "critic.learning_rate=1e-4"], &["critic", "rloo"]),
        (&["gate.gate=dgg"], &["gate", "optimizer.max_grad_norm"]),
        (&["loss={objective=\"gkd\"}", "teacher.path=tiny"], &["loss.objective", "opd"]),
        (&["loss.entropy_coef=0.01"], &["loss.entropy_coef", "epsilon_high"]),
        (&["loss.top_entropy_quantile=0.5"], &["loss.top_entropy_quantile", "entropies"]),
        (&["metrics.weight_divergence=true"], &["metrics.weight_divergence", "loss.beta"]),
        (&["trainer.rank=0"], &["trainer.rank", "between 1 and"]),
        (&["trainer.kind=tinkr"], &["trainer.kind", "tinker"]),
        (&[], &["127.0.0.1:9", "get_server_capabilities"]),
    ] {
        train(&scratch, nobody, more).fails_with(said);
        assert!(!scratch.path("grpo").exists(), "{more:?}");
    }
    let server = TrainingServer::start(&scratch.path("tiny/checkpoints/step_120"));
    let own = ["train", "grpo.toml", &trainer(&server.url)];
    scratch.burnish(&own).fails_with(&["optimizer.max_grad_norm", "does not limit the norm", "set it to 0"]);
    let (models, asked) = (server.models(), [&own[..], &["--dry-run"]].concat());
    let told = scratch.burnish(&asked).succeeds();
    let told = [told.stdout(), told.stderr()].concat();
    assert!(told.contains("samples and trains: an adapter of rank 4 over base"), "{told}");
    // Nothing is made there for that.
    assert_eq!(server.models(), models);
}
