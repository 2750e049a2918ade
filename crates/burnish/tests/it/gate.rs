//! Gated reuse of a step's episodes in whole runs: the two limiting cases, and what a run logs about it.

use crate::common::Scratch;
use burnish_train::schedule::{Decay, Schedule, Warmup};
use serde_json::Value;

/// A learning rate that does not fall: the schedule is as long as if every update were made.
const CONSTANT: &str = "optimizer.schedule=constant";

fn run(scratch: &Scratch, dir: &str, overrides: &[&str]) {
    let dir = format!("run.dir={dir}");
    let arguments =
        [&["train", "grpo.toml", &dir, "eval.tasks=0", "train.minibatches=1", CONSTANT], overrides].concat();
    scratch.burnish(&arguments).succeeds();
}

/// The metrics of the steps, except those that only one of two runs has.
fn metrics(scratch: &Scratch, dir: &str, without: &[&str]) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(&format!("{dir}/metrics.jsonl"))).unwrap();
    let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for row in &mut rows {
        let row = row.as_object_mut().unwrap();
        row.retain(|name, _| !without.iter().any(|prefix| name.starts_with(prefix)));
        row.remove("step_time");
    }
    rows
}

fn of(rows: &[Value], name: &str) -> Vec<f64> {
    rows.iter().filter_map(|row| row[name].as_f64()).collect()
}

/// How many steps are compared.
const STEPS: usize = 6;

#[track_caller]
fn assert_same_learning(scratch: &Scratch, one: &str, other: &str, without: &[&str]) {
    for file in ["model.safetensors", "trainer/trainer.safetensors"] {
        let of = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_6/{file}"));
        assert!(of(one) == of(other), "{file} of {one} differs from that of {other}");
    }
    assert_eq!(metrics(scratch, one, without)[..STEPS], metrics(scratch, other, without)[..STEPS]);
    let updates = |dir: &str| {
        let record = scratch.read(&format!("{dir}/checkpoints/step_6/trainer/trainer.json"));
        serde_json::from_slice::<Value>(&record).unwrap()["updates"].clone()
    };
    assert_eq!(updates(one), updates(other));
}

#[test]
fn a_gate_that_never_opens_again_is_single_use_and_one_that_never_closes_is_plain_reuse_to_the_bit() {
    let scratch = Scratch::with_policy();
    run(&scratch, "single", &["train.epochs=1"]);
    run(&scratch, "reused", &["train.epochs=3"]);
    let gate = |config: &str| format!("gate={{gate=\"dgg\", config={{{config}}}}}");
    // What a gate measures and drops is logged, and so is its cost: a backward pass without effect.
    let own = ["gate/", "head_grad_norm"];
    run(&scratch, "closed", &["train.epochs=3", &gate("tau=\"-inf\", warmup=0")]);
    assert_same_learning(&scratch, "closed", "single", &[&own[..], &["tokens/forward"]].concat());
    run(&scratch, "open", &["train.epochs=3", &gate("tau=\"inf\", warmup=0")]);
    assert_same_learning(&scratch, "open", "reused", &own);
    run(&scratch, "watched", &["train.epochs=1", &gate("tau=\"-inf\", warmup=0")]);
    assert_same_learning(&scratch, "watched", "single", &own);

    let closed = metrics(&scratch, "closed", &[]);
    assert_eq!(of(&closed, "gate/closed"), [1.0; 6]);
    assert_eq!(of(&closed, "gate/updates"), [1.0; 6], "the first use alone");
    // The second pass has its own order, in which prompts are shared a little more or less.
    let paid = of(&metrics(&scratch, "single", &[]), "tokens/forward");
    let twice = |(own, single): (&f64, &f64)| (own / single - 2.0).abs() < 0.2;
    assert!(of(&closed, "tokens/forward").iter().zip(&paid).all(twice), "{paid:?}");
    let open = metrics(&scratch, "open", &[]);
    assert_eq!((of(&open, "gate/closed"), of(&open, "gate/updates")), (vec![0.0; 6], vec![3.0; 6]));
    let norms = of(&open, "head_grad_norm");
    assert!(
        norms.len() == 6 && norms.iter().all(|norm| *norm >= 0.0) && norms.iter().any(|norm| *norm > 0.0)
    );
}

/// A schedule is as long as if every update were made. So single use has the same one if it is to run for as many steps
/// as there are updates: six steps of three uses are compared with the first six of eighteen steps of one.
#[test]
fn what_a_gate_drops_does_not_bring_a_falling_learning_rate_forward() {
    let scratch = Scratch::with_policy();
    for (name, decay) in [("linear", Decay::Linear), ("cosine", Decay::Cosine)] {
        let schedule = format!("optimizer.schedule={name}");
        let [single, closed] = ["single", "closed"].map(|uses| format!("{uses}-{name}"));
        run(&scratch, &single, &["train.epochs=1", "train.max_steps=18", &schedule]);
        let gate = "gate={gate=\"dgg\", config={tau=\"-inf\", warmup=0}}";
        run(&scratch, &closed, &["train.epochs=3", gate, &schedule]);
        assert_same_learning(&scratch, &closed, &single, &["gate/", "head_grad_norm", "tokens/forward"]);

        let rows = metrics(&scratch, &closed, &[]);
        assert_eq!(of(&rows, "gate/closed"), [1.0; STEPS], "two uses of every batch are dropped");
        let schedule = Schedule { peak: 1e-3, warmup: Warmup::Steps(2), decay, steps: 18, final_share: 0.0 };
        let rates: Vec<f64> = (0..STEPS as u64).map(|made| schedule.lr(made)).collect();
        assert!(rates[2..].is_sorted_by(|before, after| before > after), "it falls: {rates:?}");
        assert_eq!(of(&rows, "learning_rate"), rates);
    }
}

#[test]
fn a_gate_makes_at_most_as_many_updates_as_plain_reuse_and_the_divergence_of_weights_is_logged() {
    let scratch = Scratch::with_policy();
    let overrides =
        ["train.epochs=4", "gate={gate=\"dgg\", config={warmup=4}}", "metrics.weight_divergence=true"];
    run(&scratch, "gated", &overrides);
    let rows = metrics(&scratch, "gated", &[]);
    let updates = of(&rows, "gate/updates");
    assert!(updates.len() == 6 && updates.iter().all(|made| (1.0..=4.0).contains(made)), "{updates:?}");
    assert_eq!(updates[0], 4.0, "in the warm-up all are made");
    for (made, closed) in updates.iter().zip(of(&rows, "gate/closed")) {
        assert_eq!(*made < 4.0, closed == 1.0);
    }
    let (head, mean) = (of(&rows, "divergence/lm_head"), of(&rows, "divergence/layers_mean"));
    assert!(head.len() == 6 && head[0] > 0.0 && head[5] > head[0], "{head:?}");
    let layers: Vec<Vec<f64>> = (0..)
        .map(|layer| of(&rows, &format!("divergence/layers/{layer}")))
        .take_while(|layer| !layer.is_empty())
        .collect();
    let expected = layers.iter().map(|layer| layer[5]).sum::<f64>() / layers.len() as f64;
    assert!((mean[5] / expected - 1.0).abs() < 1e-12, "{mean:?}");
}
