//! A simulated learner on prompts whose success rates drift as it learns, and the selectors that choose the prompts.

use std::fmt::Write;

use burnish_core::rng::{Address, Purpose, Stream, uniform};
use burnish_rl::belief::Beliefs;
use burnish_rl::selector::{SelectionConfig, Selector};
use serde_json::{Value, json};

/// Prompts.
const PROMPTS: usize = 2000;
/// Groups per step.
const GROUPS: usize = 16;
/// Rollouts per group.
const ROLLOUTS: usize = 8;
/// Rollouts that a run may spend.
pub(crate) const BUDGET: usize = 400 * GROUPS * ROLLOUTS;
/// Each prompt needs one of these skills, and a skill that all prompts share.
const SKILLS: usize = 20;
/// Mean and standard deviation of a prompt's difficulty, in logits.
const DIFFICULTY: (f64, f64) = (2.0, 3.0);
/// Step size of the learner.
const LEARNING_RATE: f64 = 0.04;
/// The most rounds of dynamic sampling per step.
const ROUNDS_MAX: usize = 10;
/// Seeds of the page, and the 97.5th percentile of Student's distribution with that many minus one degrees of freedom.
const SEEDS: u64 = 10;
const STUDENT: f64 = 2.262;

/// A way to choose prompts.
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    selector: &'static str,
    config: Value,
    is_dynamic: bool,
}

/// All arms; the first is what the others are compared with.
pub(crate) fn arms() -> Vec<Arm> {
    let arm = |name, selector, config| Arm { name, selector, config, is_dynamic: false };
    let fading = json!({ "decay": 0.7, "fades_to": "prior" });
    vec![
        arm("uniform", "uniform", Value::Null),
        Arm { is_dynamic: true, ..arm("dynamic sampling", "uniform", Value::Null) },
        arm("mopps", "mopps", Value::Null),
        arm("mopps, λ = 0.7", "mopps", json!({ "beliefs": fading })),
        arm("difficulty", "difficulty", Value::Null),
        arm("evidence", "evidence", Value::Null),
        arm("insight, w = additive", "insight", json!({ "weight": "additive" })),
        arm("insight, w = product", "insight", json!({ "weight": "product" })),
        arm("insight, w = none", "insight", json!({ "weight": "none" })),
        arm("insight, w = product, λ = 0.7", "insight", json!({ "weight": "product", "beliefs": fading })),
    ]
}

/// The results of a run.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Mean success rate over all prompts at a quarter, a half, three quarters and all of the rollouts.
    pub(crate) scores: Vec<f64>,
    /// Updates.
    pub(crate) steps: usize,
    /// Share of all sampled groups whose rollouts all had the same outcome.
    pub(crate) zero_variance: f64,
    /// Root mean square of the believed minus the true success rate, over all prompts, at the end.
    pub(crate) rmse: f64,
}

/// The prompts and the learner: success of prompt `i` has the logit `shared + skill[kind[i]] - difficulty[i]`.
struct World {
    names: Vec<String>,
    kind: Vec<usize>,
    difficulty: Vec<f64>,
    shared: f64,
    skill: Vec<f64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut stream = Stream::new(Address::new(seed, Purpose::Init).seed());
        let (mean, std) = DIFFICULTY;
        World {
            names: (0..PROMPTS).map(|at| format!("prompt-{at}")).collect(),
            kind: (0..PROMPTS).map(|_| stream.index(SKILLS)).collect(),
            difficulty: (0..PROMPTS).map(|_| mean + std * stream.normal()).collect(),
            shared: 0.0,
            skill: vec![0.0; SKILLS],
        }
    }

    fn success(&self, prompt: usize) -> f64 {
        let logit = self.shared + self.skill[self.kind[prompt]] - self.difficulty[prompt];
        (1.0 + (-logit).exp()).recip()
    }

    fn score(&self) -> f64 {
        (0..PROMPTS).map(|prompt| self.success(prompt)).sum::<f64>() / PROMPTS as f64
    }

    /// One step up the policy gradient of GRPO: the mean over groups of the mean over rollouts of `A·∇ log π`, where
    /// `∇ log π` of a success is `(1 - p)` and of a failure `-p` times the prompt's features.
    fn learn(&mut self, groups: &[(usize, usize)]) {
        let (mut shared, mut skill) = (0.0, vec![0.0; SKILLS]);
        for &(prompt, successes) in groups {
            let (hits, all) = (successes as f64, ROLLOUTS as f64);
            let mean = hits / all;
            let std = (hits * (1.0 - mean) / (all - 1.0)).sqrt();
            // Σ A·(r - p) / K with A = (r - mean) / std: the advantages sum to 0, so `p` drops out.
            let step = if std > 0.0 { mean * (1.0 - mean) / std } else { 0.0 };
            shared += step;
            skill[self.kind[prompt]] += step;
        }
        let rate = LEARNING_RATE / groups.len().max(1) as f64;
        // A skill occurs in one prompt of twenty; its steps are longer, as those of an adaptive optimiser would be.
        self.shared += rate * shared;
        self.skill.iter_mut().zip(skill).for_each(|(skill, step)| *skill += rate * SKILLS as f64 * step);
    }
}

/// Prompts as `uniform` plays them: pass after pass, each in its own order.
struct Passes {
    seed: u64,
    number: u64,
    left: Vec<usize>,
}

impl Passes {
    fn next(&mut self) -> usize {
        if self.left.is_empty() {
            self.left = (0..PROMPTS).collect();
            let address = Address { step: self.number, ..Address::new(self.seed, Purpose::Shuffle) };
            Stream::new(address.seed()).shuffle(&mut self.left);
            self.number += 1;
        }
        self.left.pop().unwrap_or(0)
    }
}

/// Lets a learner learn until `budget` rollouts are spent.
pub(crate) fn run(arm: &Arm, seed: u64, budget: usize) -> Outcome {
    let config = SelectionConfig { selector: arm.selector.into(), config: arm.config.clone() };
    let mut selector = match config.build() {
        Ok(selector) => selector,
        Err(error) => unreachable!("the arms are ours: {error}"),
    };
    let mut world = World::new(seed);
    // What a selector without beliefs is taken to believe.
    let mut beliefs = Beliefs::default();
    let mut passes = Passes { seed, number: 0, left: Vec::new() };
    let (mut spent, mut steps, mut sampled, mut tied) = (0, 0, 0, 0usize);
    let mut scores = Vec::new();
    while spent < budget {
        let mut kept: Vec<(usize, usize)> = Vec::new();
        for round in 0..if arm.is_dynamic { ROUNDS_MAX } else { 1 } {
            let address =
                Address { step: steps as u64, turn: round as u64, ..Address::new(seed, Purpose::Sample) };
            let prompts = choose(&*selector, &world, &mut passes, GROUPS - kept.len(), address);
            for (slot, prompt) in prompts.into_iter().enumerate() {
                let (place, chance) =
                    (Address { task: slot as u64, ..address }.seed(), world.success(prompt));
                let successes = (0..ROLLOUTS as u64).filter(|at| uniform(place, *at) < chance).count();
                selector.observe(&world.names[prompt], ROLLOUTS, successes);
                beliefs.observe(&world.names[prompt], ROLLOUTS, successes);
                let is_tied = successes == 0 || successes == ROLLOUTS;
                (spent, sampled, tied) = (spent + ROLLOUTS, sampled + 1, tied + usize::from(is_tied));
                if !(arm.is_dynamic && is_tied) {
                    kept.push((prompt, successes));
                }
            }
            if kept.len() == GROUPS {
                break;
            }
        }
        world.learn(&kept);
        steps += 1;
        while scores.len() < 4 && 4 * spent >= (scores.len() + 1) * budget {
            scores.push(world.score());
        }
    }
    let error = |prompt: usize| {
        let name = &world.names[prompt];
        let expected = selector.expected_success(name).unwrap_or_else(|| beliefs.of(name).mean());
        (expected - world.success(prompt)).powi(2)
    };
    let rmse = ((0..PROMPTS).map(error).sum::<f64>() / PROMPTS as f64).sqrt();
    Outcome { scores, steps, zero_variance: tied as f64 / sampled as f64, rmse }
}

fn choose(
    selector: &dyn Selector,
    world: &World,
    passes: &mut Passes,
    count: usize,
    address: Address,
) -> Vec<usize> {
    let wanted = selector.pool(count);
    if wanted <= count {
        return (0..count).map(|_| passes.next()).collect();
    }
    let mut pool: Vec<usize> = (0..PROMPTS).collect();
    Stream::new(Address { purpose: Purpose::Task, ..address }.seed()).shuffle(&mut pool);
    pool.truncate(wanted);
    let names: Vec<&str> = pool.iter().map(|prompt| world.names[*prompt].as_str()).collect();
    let seed = Address { purpose: Purpose::Objective, ..address }.seed();
    selector.choose(&names, count, ROLLOUTS, seed).into_iter().map(|at| pool[at]).collect()
}

/// The runs of an arm, one per seed.
pub(crate) fn runs(arm: &Arm, seeds: u64, budget: usize) -> Vec<Outcome> {
    (1..=seeds).map(|seed| run(arm, seed, budget)).collect()
}

/// The runs that the page is made of.
pub(crate) fn runs_of_page(arm: &Arm) -> Vec<Outcome> {
    runs(arm, SEEDS, BUDGET)
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Half the width of the 95 % interval of the mean over the page's seeds.
fn half_width(values: &[f64]) -> f64 {
    let (mean, n) = (mean(values), values.len() as f64);
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    STUDENT * (variance / n).sqrt()
}

/// One row of the table.
pub(crate) fn row(arm: &Arm, found: &[Outcome], uniform: &[Outcome]) -> String {
    let of = |value: &dyn Fn(&Outcome) -> f64| found.iter().map(value).collect::<Vec<f64>>();
    let percent = |values: &[f64]| format!("{:.1} ± {:.1}", 100.0 * mean(values), 100.0 * half_width(values));
    let score = |at: usize| percent(&of(&|outcome| outcome.scores[at]));
    let gains: Vec<f64> =
        found.iter().zip(uniform).map(|(own, other)| own.scores[3] - other.scores[3]).collect();
    let half = half_width(&gains);
    let (gain, verdict) = match mean(&gains) {
        _ if arm.name == "uniform" => ("baseline".to_owned(), ""),
        gain => {
            let verdict = match gain {
                gain if gain > half => ", helps",
                gain if gain < -half => ", hurts",
                _ => ", no difference seen",
            };
            (format!("{:+.1} ± {:.1}", 100.0 * gain, 100.0 * half), verdict)
        }
    };
    format!(
        "| {} | {:.0} | {} | {} | {} | {} | {gain}{verdict} | {:.3} ± {:.3} |",
        arm.name,
        mean(&of(&|outcome| outcome.steps as f64)),
        percent(&of(&|outcome| outcome.zero_variance)),
        score(0),
        score(1),
        score(3),
        mean(&of(&|outcome| outcome.rmse)),
        half_width(&of(&|outcome| outcome.rmse)),
    )
}

/// systems/insight/results-simulation.md.
pub(crate) fn page() -> String {
    let mut page = format!(
        "\
<!-- Made by `cargo run --release -p burnish-rl --example insight_bandit`; a test compares rows with the code. -->
# Which prompts to play: a simulation

A learner with {PROMPTS} prompts. Success on a prompt has the logit `shared + skill[k] - difficulty`, with {SKILLS} skills `k` and
difficulties of mean {} and standard deviation {}; GRPO on its rollouts raises the skills, so that success rates drift. A step plays
{GROUPS} prompts {ROLLOUTS} times each; all arms have {BUDGET} rollouts ({:.1} a prompt). Those that choose do so from 16 candidates
for each prompt that is played.

Score: mean success rate over all prompts, in percent, at a quarter, half and all of the rollouts. Zero variance: percent of the
sampled groups that teach nothing. Gain: final score minus that of `uniform`, paired by seed. RMSE: what is believed of a prompt
(prior and counts, whatever the arm) minus its success rate, at the end. Means over {SEEDS} seeds with 95 % intervals (Student).

| arm | steps | zero variance | score, 1/4 | score, 1/2 | score, all | gain | RMSE |
| --- | --- | --- | --- | --- | --- | --- | --- |
",
        DIFFICULTY.0,
        DIFFICULTY.1,
        BUDGET as f64 / PROMPTS as f64,
    );
    let arms = arms();
    let uniform = runs_of_page(&arms[0]);
    for arm in &arms {
        let _ = writeln!(page, "{}", row(arm, &runs_of_page(arm), &uniform));
    }
    let quarter = BUDGET / 4 / ROLLOUTS;
    let _ = write!(
        page,
        "
What the rows are about. A prompt that was never played is believed to be at ½ with next to no evidence, so `insight` plays those
first: a quarter of the rollouts is {quarter} groups, fewer than there are prompts, and until then it does what `evidence` does. `mopps`
returns at once to what it found to be near ½, and so is ahead from the first quarter on. `dynamic sampling` makes fewer updates,
each of groups that all teach something, for the same rollouts. RMSE is over all prompts, those that a selector avoids among them.

The learner's rate was lowered once, after a first look at all arms: at nearly four times the rate every one of them saturated.
Prompts resemble each other in their skill only, and nothing is forgotten. What the selectors do for a policy is the study
`systems/insight/study.toml`.
"
    );
    page
}
