//! Every estimator compared with numbers from elsewhere: verl's and TRL's own functions, and NumPy, made by
//! `tests/golden/make_advantage.py` and `make_advantage_trl.py`.

use crate::common::is_near;
use burnish_rl::advantage::{Advantage, Estimator, Gae, Rollout, Rollouts};
use burnish_rl::catalogue::{self, ADVANTAGES};
use burnish_rl::fact::{
    BOOTSTRAP, COMPONENTS, GREEDY_REWARD, LOGPROBS, SQUARES, TURN_REWARDS, TURN_STATES, VALUES, WINS,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// Both sides compute in f64, and the files have 14 digits.
const TOLERANCE: f64 = 1e-11;

#[derive(Deserialize)]
struct Golden {
    batches: BTreeMap<String, Vec<Vec<Member>>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Member {
    reward: Option<f64>,
    tokens: usize,
    steps: Vec<Turn>,
    greedy_reward: f64,
    components: Vec<f64>,
    logprob: Vec<f64>,
    squares: Vec<f64>,
    value: Vec<f64>,
    bootstrap: Option<f64>,
    wins: Vec<f64>,
}

#[derive(Deserialize)]
struct Turn {
    reward: f64,
    state: u32,
    tokens: usize,
}

#[derive(Deserialize)]
struct Case {
    by: String,
    estimator: String,
    settings: Value,
    batch: String,
    advantages: Vec<Option<Values>>,
    #[serde(default)]
    returns: Vec<Vec<f64>>,
}

/// One number for all tokens or turns of a rollout, or one for each of them.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Values {
    One(f64),
    Each(Vec<f64>),
}

impl Member {
    fn rollout(&self) -> Rollout {
        let turns: Vec<usize> = self.steps.iter().map(|turn| turn.tokens).collect();
        let rollout = Rollout::of_reward(self.reward).with_turns(&turns);
        assert_eq!(rollout.tokens, self.tokens);
        rollout
            .with(&COMPONENTS, &*self.components)
            .with(&TURN_REWARDS, self.steps.iter().map(|turn| turn.reward).collect::<Vec<f64>>())
            .with(&TURN_STATES, self.steps.iter().map(|turn| f64::from(turn.state)).collect::<Vec<f64>>())
            .with(&GREEDY_REWARD, [self.greedy_reward])
            .with(&WINS, &*self.wins)
            .with(&LOGPROBS, &*self.logprob)
            .with(&SQUARES, &*self.squares)
            .with(&VALUES, &*self.value)
            .with(&BOOTSTRAP, self.bootstrap.into_iter().collect::<Vec<f64>>())
    }
}

/// All rollouts of a batch, and its groups.
fn rollouts(groups: &[Vec<Member>]) -> (Vec<Rollout>, Vec<Range<usize>>) {
    let mut all: Vec<Rollout> = Vec::new();
    let mut ranges = Vec::new();
    for members in groups {
        let start = all.len();
        all.extend(members.iter().map(Member::rollout));
        ranges.push(start..all.len());
    }
    (all, ranges)
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/advantage.json")).unwrap()
}

#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn estimator(id: &str, settings: &Value) -> Box<dyn Estimator> {
    (catalogue::find(ADVANTAGES, "estimator", id).unwrap().build)(settings).unwrap()
}

/// An advantage, as one number per token or turn if `expected` has one for each.
fn values(found: &Advantage, expected: &Values) -> (Vec<f64>, Vec<f64>) {
    let found_values = match found {
        Advantage::Whole(value) => vec![*value],
        Advantage::Steps(values) | Advantage::Tokens(values) => values.clone(),
    };
    match expected {
        Values::One(value) => (found_values.clone(), vec![*value; found_values.len()]),
        Values::Each(values) if found_values.len() == 1 => {
            (vec![found_values[0]; values.len()], values.clone())
        }
        Values::Each(values) => (found_values, values.clone()),
    }
}

impl Case {
    /// verl's mean over tokens divides by their number plus 1e-8; its `gdpo` keeps components, its `gpg` the factor,
    /// and its `grpo` the standard deviation of a group of one in f32.
    fn tolerance(&self, group: &[Rollout]) -> f64 {
        match (self.by.as_str(), self.estimator.as_str()) {
            ("verl", "gdpo") => 1e-5,
            ("verl", "gpg") => 1e-7,
            ("verl", "grpo") if group.len() == 1 => 1e-7,
            ("verl", "gae" | "reinforce_plus_plus" | "reinforce_plus_plus_baseline") => 1e-8,
            _ => TOLERANCE,
        }
    }

    /// Cases in which verl gives a group of one its raw reward, and we 0.
    fn is_of_one(&self, group: &[Rollout]) -> bool {
        let differs = ["rloo", "opo", "gpg", "optimal_token_baseline"];
        group.len() == 1 && differs.contains(&self.estimator.as_str())
    }

    /// Cases in which the raw reward of a group of one is part of the mean of all.
    fn is_mixed(&self, groups: &[Range<usize>]) -> bool {
        let differs = ["gdpo", "reinforce_plus_plus_baseline"];
        differs.contains(&self.estimator.as_str()) && groups.iter().any(|group| group.len() == 1)
    }

    /// Cases in which verl's epsilon, and its zero tail, leave something of a group whose rewards are all equal.
    fn is_level(&self, group: &[Rollout]) -> bool {
        self.estimator == "optimal_token_baseline" && group.iter().all(|own| own.reward == group[0].reward)
    }
}

#[test]
fn advantages_are_those_of_verl_and_numpy() {
    let golden = golden();
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &golden.cases {
        let (all, groups) = rollouts(&golden.batches[&case.batch]);
        let credit =
            estimator(&case.estimator, &case.settings).advantages(&Rollouts { all: &all, groups: &groups });
        assert_eq!((credit.len(), case.advantages.len()), (all.len(), all.len()));
        if case.is_mixed(&groups) {
            continue;
        }
        for group in &groups {
            for at in group.clone() {
                let what = format!("{} {} {}, rollout {at}", case.estimator, case.settings, case.batch);
                let (Some(found), Some(expected)) = (&credit[at], &case.advantages[at]) else {
                    assert!(credit[at].is_none() && case.advantages[at].is_none(), "{what}");
                    continue;
                };
                let (found, expected) = values(found, expected);
                assert_eq!(found.len(), expected.len(), "{what}");
                let members = &all[group.clone()];
                if case.is_of_one(members) || case.is_level(members) {
                    assert!(found.iter().all(|value| *value == 0.0), "{what}: {found:?}");
                    continue;
                }
                for (found, expected) in found.iter().zip(expected) {
                    // If all members that got this far earned the same, we are exact, and verl up to its epsilon.
                    let exact = *found == 0.0 && case.estimator == "optimal_token_baseline";
                    let tolerance = if exact { 1e-6 } else { case.tolerance(members) };
                    assert!(is_near(*found, expected, tolerance), "{what}: {found} for {expected}");
                    *compared.entry(&case.estimator).or_default() += 1;
                }
            }
        }
    }
    // Those of `credit.rs` are compared there.
    let is_elsewhere = |id: &str| ["rdpo", "skpo", "fapo", "vineppo", "skill1"].contains(&id);
    for entry in ADVANTAGES.iter().filter(|entry| !is_elsewhere(entry.card.id)) {
        let found = compared.get(entry.card.id).copied().unwrap_or(0);
        assert!(found >= 30, "{}: only {found} numbers compared", entry.card.id);
    }
}

#[test]
fn what_a_critic_learns_is_what_verl_returns() {
    let golden = golden();
    let mut compared = 0;
    for case in golden.cases.iter().filter(|case| case.estimator == "gae") {
        let gae: Gae = serde_json::from_value(case.settings.clone()).unwrap();
        let all = rollouts(&golden.batches[&case.batch]).0;
        for (rollout, expected) in all.iter().zip(&case.returns) {
            let found = gae.returns(rollout).unwrap();
            assert_eq!(found.len(), expected.len());
            assert!(
                found.iter().zip(expected).all(|(found, expected)| is_near(*found, *expected, TOLERANCE))
            );
            compared += 1;
        }
    }
    assert!(compared >= 100, "{compared}");
    assert_eq!(Gae::default().returns(&Rollout::default()), None);
}

#[derive(Deserialize)]
struct Trl {
    cases: Vec<TrlCase>,
}

#[derive(Deserialize)]
struct TrlCase {
    name: String,
    estimator: String,
    settings: Value,
    group_size: usize,
    rewards: Vec<Option<f64>>,
    #[serde(default)]
    components: Vec<Vec<Option<f64>>>,
    advantages: Vec<f64>,
}

#[test]
fn leave_one_out_and_decoupled_advantages_are_those_of_trl() {
    let golden: Trl = serde_json::from_str(include_str!("../golden/advantage_trl.json")).unwrap();
    assert_eq!(golden.cases.len(), 10);
    for case in golden.cases {
        let rollout = |at: usize| {
            let row = case.components.get(at).into_iter().flatten();
            let components: Vec<f64> = row.map(|own| own.unwrap_or(f64::NAN)).collect();
            Rollout::of_reward(case.rewards[at]).with(&COMPONENTS, components)
        };
        let all: Vec<Rollout> = (0..case.rewards.len()).map(rollout).collect();
        let size = case.group_size;
        let groups: Vec<Range<usize>> = (0..all.len() / size).map(|at| at * size..(at + 1) * size).collect();
        let credit =
            estimator(&case.estimator, &case.settings).advantages(&Rollouts { all: &all, groups: &groups });
        for ((found, expected), reward) in credit.iter().zip(&case.advantages).zip(&case.rewards) {
            let what = format!("{} {} {}", case.name, case.estimator, case.settings);
            // TRL trains on an unscored rollout with an advantage of 0; here it has none.
            assert_eq!(found.is_some(), reward.is_some(), "{what}");
            let found = found.clone().map_or(0.0, crate::common::of_whole);
            assert!(is_near(found, *expected, TOLERANCE), "{what}: {found} for {expected}");
        }
    }
}
