//! Batches of streams, by hand or at random.

use burnish_rl::advantage::{Advantage, Estimator, Grpo, Phase, Rollout, Rollouts, reward_metrics};
use burnish_rl::fact::{
    BOOTSTRAP, COMPONENTS, CONTINUED, Fact, GREEDY_REWARD, LOGPROBS, SEGMENT_REWARDS, SEGMENTS, SQUARES,
    TASK_DRIFT, TOKEN_REWARDS, TURN_REWARDS, TURN_STATES, VALUES, WINS,
};
use burnish_rl::{
    BatchConstant, Evaluation, LossConfig, Losses, Objective, PolicyLoss, Streams, TokenLoss, Tokens, Totals,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;

/// Batches of a golden file, and the results of each framework on them.
#[derive(Deserialize)]
pub(crate) struct Golden<C> {
    pub(crate) batches: BTreeMap<String, Rows>,
    pub(crate) cases: BTreeMap<String, Vec<C>>,
}

/// The streams of some sequences as golden files hold them: `[rows][columns]`, padded. Files leave out what their cases
/// do not read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rows {
    pub(crate) policy: Vec<Vec<f64>>,
    #[serde(default)]
    pub(crate) proximal: Vec<Vec<f64>>,
    #[serde(default)]
    pub(crate) behavior: Vec<Vec<f64>>,
    #[serde(default)]
    pub(crate) reference: Vec<Vec<f64>>,
    #[serde(default)]
    pub(crate) entropy: Vec<Vec<f64>>,
    /// Numbers or truths.
    pub(crate) mask: Vec<Vec<Value>>,
    #[serde(default)]
    pub(crate) advantages: Vec<f64>,
    #[serde(default)]
    pub(crate) label: Vec<f64>,
}

impl Rows {
    /// With 0 for what the file leaves out.
    pub(crate) fn batch(&self) -> Batch {
        let (rows, columns) = (self.policy.len(), self.policy[0].len());
        let or_zeros = |stream: &[Vec<f64>]| match stream {
            [] => vec![0.0; rows * columns],
            stream => stream.concat(),
        };
        let advantage = |row: usize| self.advantages.get(row).copied().unwrap_or(0.0);
        Batch {
            policy: self.policy.concat(),
            proximal: or_zeros(&self.proximal),
            reference: or_zeros(&self.reference),
            entropy: or_zeros(&self.entropy),
            advantage: (0..rows).flat_map(|row| vec![advantage(row); columns]).collect(),
            loss_mask: self.mask.concat().iter().map(|flag| *flag == 1 || *flag == true).collect(),
            sequences: (0..rows).map(|row| row * columns..(row + 1) * columns).collect(),
            ..Batch::default()
        }
    }
}

/// The streams of some sequences, owned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) policy: Vec<f64>,
    pub(crate) proximal: Vec<f64>,
    /// Under the reference, and under the teacher.
    pub(crate) reference: Vec<f64>,
    pub(crate) entropy: Vec<f64>,
    pub(crate) advantage: Vec<f64>,
    pub(crate) loss_mask: Vec<bool>,
    pub(crate) sequences: Vec<Range<usize>>,
    /// One entry per sequence, or none.
    pub(crate) directions: Vec<u8>,
    /// The marks of the whole batch, if an objective asked for them.
    pub(crate) batch_constants: Vec<BatchConstant>,
}

impl Batch {
    pub(crate) fn streams(&self) -> Streams<'_> {
        Streams {
            policy: &self.policy,
            proximal: &self.proximal,
            behavior: &self.proximal,
            reference: Some(&self.reference),
            teacher: Some(&self.reference),
            entropy: &self.entropy,
            advantage: &self.advantage,
            loss_mask: &self.loss_mask,
            sequences: &self.sequences,
            groups: &[],
            directions: &self.directions,
            parts: &[],
            facts: &[],
            batch_constants: &self.batch_constants,
        }
    }

    /// Totals of an optimiser batch that is this batch, a third of its generation.
    pub(crate) fn totals(&self) -> Totals {
        let tokens = self.loss_mask.iter().filter(|in_loss| **in_loss).count();
        let is_positive = |at: &usize| self.loss_mask[*at] && self.advantage[*at] > 0.0;
        Totals {
            sequences: self.sequences.len(),
            groups: 0,
            tokens,
            tokens_positive: (0..self.policy.len()).filter(is_positive).count(),
            tokens_generation: 3 * tokens + 5,
            minibatches: 3,
            completion_tokens_max: 9,
            seed: 7,
            ..Totals::default()
        }
    }

    pub(crate) fn evaluate(&self, objective: &dyn Objective) -> Evaluation {
        self.marked(objective).evaluate_marked(objective)
    }

    /// The same batch with the marks of `objective`, which a trainer asks for before the first derivative.
    pub(crate) fn marked(&self, objective: &dyn Objective) -> Batch {
        let mut marked = self.clone();
        if objective.needs().batch_constants {
            marked.batch_constants = objective.batch_constants(&self.streams(), &self.totals());
        }
        marked
    }

    /// With the marks as they are: constants of the derivative.
    pub(crate) fn evaluate_marked(&self, objective: &dyn Objective) -> Evaluation {
        objective.evaluate(&self.streams(), &self.totals())
    }

    /// The given sequences alone.
    pub(crate) fn part(&self, sequences: Range<usize>) -> Batch {
        let directions = self.directions.get(sequences.clone()).unwrap_or_default().to_vec();
        let mut part = Batch { directions, ..Batch::default() };
        for range in &self.sequences[sequences] {
            let start = part.policy.len();
            part.policy.extend(&self.policy[range.clone()]);
            part.proximal.extend(&self.proximal[range.clone()]);
            part.reference.extend(&self.reference[range.clone()]);
            part.entropy.extend(&self.entropy[range.clone()]);
            part.advantage.extend(&self.advantage[range.clone()]);
            part.loss_mask.extend(&self.loss_mask[range.clone()]);
            part.batch_constants.extend(self.batch_constants.get(range.clone()).unwrap_or_default());
            part.sequences.push(start..part.policy.len());
        }
        part
    }

    /// The same batch, before the policy has moved.
    pub(crate) fn on_policy(mut self) -> Batch {
        self.proximal = self.policy.clone();
        self
    }

    /// The same batch, with everything in the loss.
    pub(crate) fn unmasked(mut self) -> Batch {
        self.loss_mask.fill(true);
        self
    }
}

/// The loss tokens of a batch, for a token loss by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    pub(crate) policy: Vec<f64>,
    pub(crate) detached: Vec<f64>,
    pub(crate) proximal: Vec<f64>,
    pub(crate) behavior: Vec<f64>,
    pub(crate) teacher: Vec<f64>,
    pub(crate) entropy: Vec<f64>,
    pub(crate) advantage: Vec<f64>,
    pub(crate) batch_constants: Vec<f64>,
    pub(crate) sequences: Vec<Range<usize>>,
}

impl Columns {
    /// The loss tokens of `batch`, with the marks of `part`. Sequences without loss tokens are left out.
    pub(crate) fn of(batch: &Batch, part: &dyn TokenLoss) -> Columns {
        let mut columns = Columns::default();
        for sequence in &batch.sequences {
            let start = columns.policy.len();
            for at in sequence.clone().filter(|&at| batch.loss_mask[at]) {
                columns.policy.push(batch.policy[at]);
                columns.proximal.push(batch.proximal[at]);
                columns.teacher.push(batch.reference[at]);
                columns.entropy.push(batch.entropy[at]);
                columns.advantage.push(batch.advantage[at]);
            }
            if start < columns.policy.len() {
                columns.sequences.push(start..columns.policy.len());
            }
        }
        columns.detached = columns.policy.clone();
        columns.behavior = columns.proximal.clone();
        if part.needs().batch_constants {
            let whole = Tokens { sequences: &columns.sequences, ..columns.tokens(0..columns.policy.len()) };
            columns.batch_constants = part.batch_constants(&whole, 7);
        }
        columns
    }

    fn tokens(&self, range: Range<usize>) -> Tokens<'_> {
        Tokens {
            policy: &self.policy[range.clone()],
            detached: &self.detached[range.clone()],
            proximal: &self.proximal[range.clone()],
            behavior: &self.behavior[range.clone()],
            teacher: &self.teacher[range.clone()],
            entropy: &self.entropy[range.clone()],
            advantage: &self.advantage[range.clone()],
            facts: &[],
            batch_constants: self.batch_constants.get(range).unwrap_or_default(),
            sequences: &[],
        }
    }

    /// Losses of each token, sequence after sequence.
    pub(crate) fn losses(&self, part: &dyn TokenLoss) -> Losses {
        let mut all = Losses::default();
        for range in &self.sequences {
            let mut losses = Losses::zero(range.len());
            part.losses(&self.tokens(range.clone()), &mut losses);
            all.value.extend(losses.value);
            all.d_policy.extend(losses.d_policy);
            all.clipped.extend(losses.clipped);
            all.metrics.extend(losses.metrics);
        }
        all
    }

    /// Compares every derivative of `part` with finite differences, away from kinks; says where they differ.
    pub(crate) fn check_derivatives(&self, part: &dyn TokenLoss) -> Result<(), String> {
        const STEP: f64 = 1e-6;
        let sum = |at: usize, change: f64| -> f64 {
            let mut moved = self.clone();
            // What is detached stays where it was.
            moved.policy[at] += change;
            moved.losses(part).value.iter().sum()
        };
        let found = self.losses(part).d_policy;
        for (at, found) in found.into_iter().enumerate() {
            let here = sum(at, 0.0);
            let (after, before) = ((sum(at, STEP) - here) / STEP, (here - sum(at, -STEP)) / STEP);
            // At a kink the two sides differ; its convention is a test of the objective.
            if is_near(after, before, 1e-4) && !is_near(found, 0.5 * (after + before), 1e-6) {
                return Err(format!("{found} for {} at {at}", 0.5 * (after + before)));
            }
        }
        Ok(())
    }
}

/// Ragged sequences with holes in the mask; the policy has moved by up to `log_ratio_max` either way.
pub(crate) fn batches(log_ratio_max: f64) -> impl Strategy<Value = Batch> {
    let moved = prop_oneof![1 => Just(0.0), 3 => -log_ratio_max..log_ratio_max];
    let token = (-6.0..0.0f64, moved, -1.0..1.0f64, 0.0..3.0f64, prop::bool::weighted(0.7));
    let advantage = prop_oneof![1 => Just(0.0), 4 => -3.0..3.0f64];
    let sequence = (advantage, prop::collection::vec(token, 1..9));
    prop::collection::vec(sequence, 1..7).prop_map(|sequences| {
        let mut batch = Batch::default();
        for (advantage, tokens) in sequences {
            let start = batch.policy.len();
            for (policy, moved, to_reference, entropy, in_loss) in tokens {
                batch.policy.push(policy);
                batch.proximal.push(policy - moved);
                batch.reference.push(policy + to_reference);
                batch.entropy.push(entropy);
                batch.advantage.push(advantage);
                batch.loss_mask.push(in_loss);
            }
            batch.sequences.push(start..batch.policy.len());
        }
        batch
    })
}

/// Whole groups of `size` rollouts with all that an estimator may ask for; some unscored, some rewards alike.
pub(crate) fn rollouts(size: usize) -> impl Strategy<Value = Vec<Rollout>> {
    let reward = || prop_oneof![3 => (0..3).prop_map(|tenths| f64::from(tenths) * 0.5), 3 => -5.0..5.0f64];
    let step = (reward(), 0..3u32, 1..4usize);
    let rollout = (
        prop::option::weighted(0.85, reward()),
        prop::collection::vec(reward(), 2),
        prop::collection::vec(step, 1..4),
        reward(),
        prop::collection::vec((0..3).prop_map(|halves| f64::from(halves) * 0.5), size),
        prop::collection::vec((-3.0..0.0f64, 0.05..1.0f64, -1.0..1.0f64), 12),
        prop::option::weighted(0.3, -1.0..1.0f64),
        (prop::sample::select(vec!["a", "b"]), 0.0..0.5f64),
    );
    let rollout =
        rollout.prop_map(|(reward, components, steps, greedy, wins, statistics, bootstrap, (task, kl))| {
            let turns: Vec<usize> = steps.iter().map(|(_, _, tokens)| *tokens).collect();
            let rollout = Rollout {
                reward,
                phase: Phase::Downstream,
                task: task.to_owned(),
                ..Rollout::default().with_turns(&turns)
            };
            let known = &statistics[..rollout.tokens];
            let mut tokens = vec![0.0; rollout.tokens];
            for (turn, (reward, _, _)) in rollout.turns.iter().zip(&steps) {
                tokens[turn.end - 1] += *reward;
            }
            let rollout = rollout
                .with(&TOKEN_REWARDS, tokens)
                .with(&COMPONENTS, components)
                .with(&TURN_REWARDS, steps.iter().map(|(reward, _, _)| *reward).collect::<Vec<f64>>())
                .with(&TURN_STATES, steps.iter().map(|(_, state, _)| f64::from(*state)).collect::<Vec<f64>>())
                .with(
                    &SEGMENTS,
                    steps.iter().map(|(_, state, _)| f64::from(*state % 4)).collect::<Vec<f64>>(),
                )
                .with(&SEGMENT_REWARDS, steps.iter().map(|(reward, _, _)| *reward).collect::<Vec<f64>>())
                .with(&GREEDY_REWARD, [greedy])
                .with(&WINS, wins)
                .with(&LOGPROBS, known.iter().map(|(logprob, _, _)| *logprob).collect::<Vec<f64>>())
                .with(&SQUARES, known.iter().map(|(_, squares, _)| *squares).collect::<Vec<f64>>())
                .with(&VALUES, known.iter().map(|(_, _, value)| *value).collect::<Vec<f64>>())
                .with(&CONTINUED, statistics.iter().map(|(_, _, value)| *value).collect::<Vec<f64>>())
                .with(&TASK_DRIFT, [kl]);
            match bootstrap {
                Some(bootstrap) => rollout.with(&BOOTSTRAP, [bootstrap]),
                None => rollout,
            }
        });
    (1..4usize).prop_flat_map(move |groups| prop::collection::vec(rollout.clone(), groups * size))
}

/// Changes the numbers of a fact.
pub(crate) fn change(own: &mut Rollout, fact: &'static Fact, change: impl FnOnce(&mut Vec<f64>)) {
    let mut numbers = own.facts.of(fact).to_vec();
    change(&mut numbers);
    own.facts.set(fact, numbers);
}

/// The objective of a configuration.
#[expect(clippy::unwrap_used, reason = "a test says what is right")]
pub(crate) fn loss(config: LossConfig) -> PolicyLoss {
    PolicyLoss::new(&config).unwrap()
}

/// Settings of the clipped surrogate.
pub(crate) fn clip(epsilon_low: f64, epsilon_high: f64) -> Value {
    json!({ "epsilon_low": epsilon_low, "epsilon_high": epsilon_high })
}

/// Advantages, one entry per rollout, and what is reported of the rewards.
pub(crate) struct Credit {
    pub(crate) advantages: Vec<Option<f64>>,
    pub(crate) metrics: BTreeMap<String, f64>,
}

/// Of rollouts that lie group after group, `group_size` to each; the last group may be smaller.
pub(crate) fn group_relative(rewards: &[Option<f64>], group_size: usize, config: &Grpo) -> Credit {
    Credit {
        advantages: whole(config, rewards, group_size),
        metrics: reward_metrics(rewards, group_size, config.scale),
    }
}

/// The advantages of an estimator that needs nothing but rewards.
pub(crate) fn whole(
    estimator: &dyn Estimator,
    rewards: &[Option<f64>],
    group_size: usize,
) -> Vec<Option<f64>> {
    let all: Vec<Rollout> = rewards.iter().copied().map(Rollout::of_reward).collect();
    let groups: Vec<Range<usize>> =
        (0..all.len()).step_by(group_size).map(|start| start..(start + group_size).min(all.len())).collect();
    let credit = estimator.advantages(&Rollouts { all: &all, groups: &groups });
    credit.into_iter().map(|advantage| advantage.map(of_whole)).collect()
}

/// The number of an advantage that is the same for all tokens, and NaN for another.
pub(crate) fn of_whole(advantage: Advantage) -> f64 {
    match advantage {
        Advantage::Whole(advantage) => advantage,
        Advantage::Steps(_) | Advantage::Tokens(_) => f64::NAN,
    }
}

/// Is `found` within `tolerance` of `expected`, relative to it where it is above 1?
pub(crate) fn is_near(found: f64, expected: f64, tolerance: f64) -> bool {
    found == expected || (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}

/// A batch whose sequences belong together.
#[derive(Debug, Clone)]
pub(crate) struct Grouped {
    pub(crate) batch: Batch,
    pub(crate) groups: Vec<Range<usize>>,
}

impl Grouped {
    /// Groups of `size` sequences; those that are left over go.
    pub(crate) fn new(batch: Batch, size: usize) -> Self {
        let whole = batch.sequences.len() / size;
        let groups = (0..whole).map(|group| group * size..(group + 1) * size).collect();
        Grouped { batch: batch.part(0..whole * size), groups }
    }

    pub(crate) fn streams(&self) -> Streams<'_> {
        Streams { groups: &self.groups, ..self.batch.streams() }
    }

    /// With what `objective` says of each token of it.
    pub(crate) fn marked(mut self, objective: &dyn Objective) -> Self {
        if objective.needs().batch_constants {
            self.batch.batch_constants = objective.batch_constants(&self.streams(), &self.batch.totals());
        }
        self
    }

    /// With the marks as they are.
    pub(crate) fn evaluate_marked(&self, objective: &dyn Objective) -> Evaluation {
        objective.evaluate(&self.streams(), &self.batch.totals())
    }

    pub(crate) fn evaluate(&self, objective: &dyn Objective) -> Evaluation {
        self.clone().marked(objective).evaluate_marked(objective)
    }

    /// The given groups alone, all of one size.
    pub(crate) fn part(&self, groups: Range<usize>) -> Self {
        let size = self.groups.first().map_or(1, Range::len);
        Grouped::new(self.batch.part(groups.start * size..groups.end * size), size)
    }
}

/// The value of a metric, NaN if there is none of that name.
pub(crate) fn metric(evaluation: &Evaluation, name: &str) -> f64 {
    let found = evaluation.metrics.iter().find(|metric| metric.name == name);
    found.map_or(f64::NAN, |metric| metric.sum / metric.weight)
}
