use burnish_train::schedule::{Decay, Schedule, Warmup};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    peak: f64,
    steps: u64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    decay: Decay,
    warmup: u64,
    final_share: f64,
    lr: Vec<f64>,
}

#[test]
fn every_schedule_equals_that_of_transformers() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/schedules.json")).unwrap();
    for case in golden.cases {
        let Case { decay, final_share, .. } = case;
        let warmup = Warmup::Steps(case.warmup);
        let schedule = Schedule { peak: golden.peak, warmup, decay, steps: golden.steps, final_share };
        for (step, &expected) in case.lr.iter().enumerate() {
            let lr = schedule.lr(step as u64);
            assert!((lr - expected).abs() < 1e-15, "{decay:?}, step {step}: {lr}, not {expected}");
        }
    }
}
