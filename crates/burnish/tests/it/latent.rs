//! Latent steps in whole runs: a policy learns to think between tags without saying it, and then from its own answers.

use crate::common::{LATENT_GRPO, LATENT_SFT, Scratch, new_policy, timeless_metrics};
use serde_json::Value;

fn text(scratch: &Scratch, file: &str) -> String {
    String::from_utf8(scratch.read(file)).unwrap()
}

/// A run's metrics of its training steps.
fn steps(scratch: &Scratch, run: &str) -> Vec<Value> {
    let text = text(scratch, &format!("{run}/metrics.jsonl"));
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["event"] == "train").collect()
}

#[test]
fn a_policy_learns_to_think_in_latent_steps_and_then_from_its_own_answers() {
    let scratch = Scratch::new();
    scratch.write("sft.toml", LATENT_SFT);
    scratch.write("grpo.toml", LATENT_GRPO);
    scratch.burnish(&["sft", "sft.toml"]).succeeds();

    // Its answers can be read, and say nothing of its thoughts.
    let evaluated = |more: &[&str]| -> Value {
        let out = scratch.burnish(&[&["eval", "starter", "--json"], more].concat()).succeeds().stdout();
        serde_json::from_str(&out).unwrap()
    };
    let plain = evaluated(&[]);
    assert!(plain["flags"]["parse_error"].as_f64().unwrap() < 0.2, "{plain}");
    let identity = evaluated(&["latent.intervention=identity"]);
    assert_eq!(identity["surprisal_mean"], plain["surprisal_mean"]);
    assert_ne!(evaluated(&["latent.intervention=zero"])["surprisal_mean"], plain["surprisal_mean"]);
    let rollout = scratch.burnish(&["rollout", "--from", "starter", "--eval"]).succeeds().stdout();
    assert!(rollout.contains('>') && !rollout.contains("<latent>"), "{rollout}");

    let probed = scratch.burnish(&["probe", "starter", "--latent", "--json"]).succeeds().stdout();
    let profile: Value = serde_json::from_str(&probed).unwrap();
    let all = profile["interventions"].as_array().unwrap();
    let named: Vec<&str> = all.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["none", "identity", "zero", "random_norm", "skip"]);
    assert_eq!(all[0]["success"], plain["success"]["mean"]);
    assert_eq!(all[1]["success"], all[0]["success"]);
    for (at, intervention) in [(2, "zero"), (4, "skip")] {
        let own = evaluated(&[&format!("latent.intervention={intervention}")]);
        assert_eq!(all[at]["success"], own["success"]["mean"], "{intervention}");
    }
    assert!(profile["steps"].as_f64().unwrap() >= profile["used"].as_f64().unwrap());
    for leaving in profile["leaving"].as_array().unwrap() {
        assert!((0.0..=1.0).contains(&leaving["probability"].as_f64().unwrap()), "{leaving}");
    }
    let table = scratch.burnish(&["probe", "starter", "--latent", "--tasks", "9"]).succeeds().stdout();
    assert!(table.contains("random_norm") && table.contains("p(</swi>)"), "{table}");
    let visible = ["probe", "starter", "--latent", "latent.place=visible"];
    scratch.burnish(&visible).fails_with(&["no latent steps"]);

    // What does not fit before anything is latent is left out, although it would fit later.
    let short = ["sft", "sft.toml", "run.dir=none", "data.max_length=36"];
    scratch.burnish(&short).fails_with(&["nothing can be learned", "longer than 36"]);

    // The paper's replay and the gradient through the recurrence see the same answers in the first step, and learn
    // differently from them.
    for (run, gradient) in [("grpo", "frozen"), ("bptt", "bptt")] {
        let set = [format!("run.dir={run}"), format!("latent.gradient={gradient}")];
        scratch.burnish(&["train", "grpo.toml", &set[0], &set[1]]).succeeds();
    }
    let (frozen, bptt) = (steps(&scratch, "grpo"), steps(&scratch, "bptt"));
    for row in [&frozen[0], &bptt[0]] {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        // The trainer has the sampler's log-probs: the ratio of the first update is 1.
        assert!(number("sampling/sampling_logp_difference/max") < 1e-4, "{row}");
        assert!(number("latent/used") > 0.5 && number("latent/steps") >= number("latent/used"), "{row}");
        assert!(number("rewards/latent_format/mean") > 0.5, "{row}");
        assert!(number("rewards/latent_use/mean") <= number("success"), "{row}");
    }
    assert_eq!(frozen[0]["reward"], bptt[0]["reward"]);
    assert_ne!(frozen[0]["grad_norm"], bptt[0]["grad_norm"]);

    // A gate looks at the gradients of such updates as at others.
    let gate = "gate={gate=\"dgg\", config={warmup=0}}";
    scratch.burnish(&["train", "grpo.toml", "run.dir=gated", "train.max_steps=2", gate]).succeeds();

    // A run that stops and goes on is the same run.
    scratch.burnish(&["train", "grpo.toml", "run.dir=short", "train.max_steps=2"]).succeeds();
    scratch.burnish(&["train", "--resume", "short", "train.max_steps=4"]).succeeds();
    let trained = |run: &str| -> Vec<String> {
        let rows = timeless_metrics(&scratch.path(run).join("metrics.jsonl")).into_iter();
        rows.filter(|row| row.contains(r#""event":"train""#)).collect()
    };
    assert_eq!(trained("short"), trained("grpo"));
}

#[test]
fn tokens_of_latent_steps_are_given_to_a_policy_that_learns_them_and_missed_by_name() {
    let scratch = Scratch::new();
    // The recipe in two parts around its policy.
    let (before, after) = LATENT_SFT.split_once("[policy.new]").unwrap();
    let after = &after[after.find("\n[").unwrap()..];
    let sft_of = |policy: &str| format!("{before}{policy}{after}");
    let plain = after.replace("[latent]\nunit = '\\d+[-+*/]\\d+=\\d+\\n'\nunits_max = 2\n", "");
    assert!(!plain.contains("latent"));
    // A head with rows beyond the tokenizer's ids, and one without.
    for (dir, rows) in [("wide", 600), ("full", 264)] {
        scratch.write("plain.toml", format!("{before}{}{plain}", new_policy(rows, 1)));
        let dir = format!("run.dir={dir}");
        scratch.burnish(&["sft", "plain.toml", &dir, "train.max_steps=2", "eval.tasks=0"]).succeeds();
    }
    let sft = |from: &str| sft_of(&format!("[policy]\npath = \"{from}\"\n"));
    scratch.write("wide.toml", sft("wide"));
    let tokenizer = text(&scratch, "wide/checkpoints/step_2/tokenizer.json");
    assert!(!tokenizer.contains("<swi>"));
    scratch.burnish(&["sft", "wide.toml", "run.dir=taught", "train.max_steps=2"]).succeeds();
    let tokenizer = text(&scratch, "taught/checkpoints/step_2/tokenizer.json");
    assert!(["<swi>", "</swi>", "<latent>"].iter().all(|token| tokenizer.contains(token)));
    scratch.burnish(&["eval", "taught"]).succeeds();

    scratch.write("full.toml", sft("full"));
    let missing = "no <swi>, </swi>, <latent>";
    scratch.burnish(&["sft", "full.toml", "run.dir=none"]).fails_with(&[missing, "264 rows", "taken"]);
    scratch.write("grpo.toml", LATENT_GRPO.replace("\"starter\"", "\"wide\""));
    scratch.burnish(&["train", "grpo.toml"]).fails_with(&[missing, "train.method"]);
    let lora = "policy.lora={rank=2,alpha=4}";
    scratch.burnish(&["sft", "wide.toml", "run.dir=none", lora]).fails_with(&[missing, "policy.lora"]);
}
