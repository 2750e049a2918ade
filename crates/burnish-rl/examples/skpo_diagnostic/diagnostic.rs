//! The task, its exact values, and the errors of their estimates, by dynamic programming and sums over binomials;
//! nothing is sampled.

use std::cmp::Ordering;

/// Numbers of continuations that an estimate averages over.
pub(crate) const CONTINUATIONS: [usize; 6] = [1, 2, 4, 8, 16, 64];

/// An answer has some steps, each good or bad, and is right if more than half of them are good.
pub(crate) struct Task {
    pub(crate) steps: usize,
    /// Chance that a step is good.
    pub(crate) good: f64,
}

/// What the page shows.
pub(crate) const TASK: Task = Task { steps: 16, good: 0.6 };

/// Probabilities that the sign of an estimated change differs from that of the change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Errors {
    /// The estimate has the opposite sign.
    pub(crate) wrong: f64,
    /// The estimate is 0.
    pub(crate) tied: f64,
}

impl Errors {
    pub(crate) fn rate(self) -> f64 {
        self.wrong + self.tied
    }
}

impl Task {
    /// `V` after `position` steps, the probability that the answer becomes right: one entry for each number of good
    /// steps.
    pub(crate) fn values(&self, position: usize) -> Vec<f64> {
        let end = |good: usize| f64::from(u8::from(2 * good > self.steps));
        let last: Vec<f64> = (0..=self.steps).map(end).collect();
        (position..self.steps).rev().fold(last, |next, at| {
            (0..=at).map(|good| self.good * next[good + 1] + (1.0 - self.good) * next[good]).collect()
        })
    }

    /// The probability of each number of good steps after `position` steps.
    fn chances(&self, position: usize) -> Vec<f64> {
        binomial(position, self.good)
    }

    /// `f` of the probability of a step at `position`, the value before it and the value after it, for each possible
    /// step.
    fn each_step(&self, position: usize, mut f: impl FnMut(f64, f64, f64)) {
        let (values, next) = (self.values(position), self.values(position + 1));
        for (good, chance) in self.chances(position).into_iter().enumerate() {
            f(chance * (1.0 - self.good), values[good], next[good]);
            f(chance * self.good, values[good], next[good + 1]);
        }
    }

    /// The share of steps at `position` that change the value at all.
    pub(crate) fn changing(&self, position: usize) -> f64 {
        let mut share = 0.0;
        self.each_step(position, |chance, before, after| share += if before == after { 0.0 } else { chance });
        share
    }

    /// Errors of the difference of two estimates, before a step at `position` and after it: dense Monte Carlo.
    pub(crate) fn dense(&self, position: usize, continuations: usize) -> Errors {
        let mut total = Mixture::default();
        self.each_step(position, |chance, before, after| {
            let (old, new) = (binomial(continuations, before), binomial(continuations, after));
            let sign = |of: Ordering| -> f64 {
                let pairs = new.iter().enumerate().flat_map(|(one, p)| {
                    old.iter()
                        .enumerate()
                        .filter(move |(other, _)| one.cmp(other) == of)
                        .map(move |(_, q)| p * q)
                });
                pairs.sum()
            };
            total.add(chance, before, after, sign);
        });
        total.errors()
    }

    /// Errors of the answer's own reward minus the value of the task, taken as the sign of a step at `position`:
    /// outcome only.
    pub(crate) fn outcome(&self, position: usize) -> Errors {
        let start = self.values(0)[0];
        let mut total = Mixture::default();
        self.each_step(position, |chance, before, after| {
            let (right, wrong) = (1f64.total_cmp(&start), 0f64.total_cmp(&start));
            let sign = |of: Ordering| match of {
                _ if of == right => after,
                _ if of == wrong => 1.0 - after,
                _ => 0.0,
            };
            total.add(chance, before, after, sign);
        });
        total.errors()
    }

    /// Errors of the estimate after the first `steps` steps minus the value of the task, as a measure of whether these
    /// steps made a right answer likelier: one beginning of that length.
    pub(crate) fn beginning(&self, steps: usize, continuations: usize) -> Errors {
        let start = self.values(0)[0];
        let mut total = Mixture::default();
        for (value, chance) in self.values(steps).into_iter().zip(self.chances(steps)) {
            let seen = binomial(continuations, value);
            let share = |right: usize| right as f64 / continuations as f64;
            let sign = |of: Ordering| -> f64 {
                let of_sign =
                    seen.iter().enumerate().filter(|(right, _)| share(*right).total_cmp(&start) == of);
                of_sign.map(|(_, chance)| chance).sum()
            };
            total.add(chance, start, value, sign);
        }
        total.errors()
    }
}

/// A mean of errors over changes of the value.
#[derive(Default)]
struct Mixture {
    sum: Errors,
    weight: f64,
}

impl Mixture {
    /// `sign`: the probability that an estimate is below, at or above 0. A step that changes nothing has no sign, and
    /// is left out.
    fn add(&mut self, chance: f64, before: f64, after: f64, sign: impl Fn(Ordering) -> f64) {
        let truth = after.total_cmp(&before);
        if truth != Ordering::Equal && chance > 0.0 {
            self.sum.wrong += chance * sign(truth.reverse());
            self.sum.tied += chance * sign(Ordering::Equal);
            self.weight += chance;
        }
    }

    fn errors(self) -> Errors {
        Errors { wrong: self.sum.wrong / self.weight, tied: self.sum.tied / self.weight }
    }
}

/// The probability of each number of successes among `count`.
fn binomial(count: usize, success: f64) -> Vec<f64> {
    (0..count).fold(vec![1.0], |chances, _| {
        let at = |index: Option<usize>| index.and_then(|index| chances.get(index)).copied().unwrap_or(0.0);
        (0..=chances.len())
            .map(|index| success * at(index.checked_sub(1)) + (1.0 - success) * at(Some(index)))
            .collect()
    })
}

/// `systems/skpo/results-diagnostic.md`.
pub(crate) fn page() -> String {
    let Task { steps, good } = TASK;
    let (first, late_step) = (TASK.dense(0, 8), 3 * steps / 4);
    let heads: Vec<String> = CONTINUATIONS.iter().map(|count| format!("K = {count}")).collect();
    let heads = heads.join(" | ");
    let rule = "| --- ".repeat(CONTINUATIONS.len());
    let cell = |errors: Errors| format!("{:.1} ({:.1})", 100.0 * errors.rate(), 100.0 * errors.wrong);
    let cells = |of: &dyn Fn(usize) -> String| CONTINUATIONS.map(of).join(" | ");
    let dense: String = (0..steps)
        .map(|at| {
            let (changing, outcome) = (100.0 * TASK.changing(at), 100.0 * TASK.outcome(at).rate());
            format!(
                "| {} | {changing:.0} | {} | {outcome:.1} |\n",
                at + 1,
                cells(&|count| cell(TASK.dense(at, count)))
            )
        })
        .collect();
    let beginnings: String = (1..=steps)
        .map(|at| {
            format!(
                "| {at} | {} |\n",
                cells(&|count| format!("{:.1}", 100.0 * TASK.beginning(at, count).rate()))
            )
        })
        .collect();
    format!(
        "# How often a Monte-Carlo advantage has the wrong sign

What motivates SKPO (`advantage.estimator = \"skpo\"`): with the few continuations that one can afford, the advantage of a
single step has the wrong sign, or none, about as often as not.

Made by `cargo run --release -p burnish-rl --example skpo_diagnostic > systems/skpo/results-diagnostic.md`. Nothing is sampled:
values are those of dynamic programming, and the chances of errors are sums over binomials. A test compares the page with
the code.

**The task.** An answer has {steps} steps. Each is good with a chance of {good}, whatever was before; the answer is right if more
than half of them are good. The value V of a state is the chance that the answer becomes right; it is {start:.3} at the start.
An estimate is the share of right ones among K continuations, new ones for each state.

## One step: dense Monte Carlo

P(sign(V̂_after - V̂_before) ≠ sign(V_after - V_before)) in percent, over the steps that change the value; in brackets the part
with the opposite sign, without those where the estimates are equal and there is none. *Changes*: share of steps at this
position that change the value at all. *Outcome*: the same for the sign of the reward of the whole answer less the value of
the start, which is what a group-relative advantage gives every step.

| step | changes | {heads} | outcome |
| --- | --- {rule}| --- |
{dense}
## One beginning: a single split

P(sign(V̂_after - V_start) ≠ sign(V_after - V_start)) in percent, for a beginning of so many steps, whose estimate is compared
with the value of the task. No estimate is equal to that.

| steps | {heads} |
| --- {rule}|
{beginnings}
## How to read this

With K = 8 the advantage of the first step has the opposite sign in {wrong:.1} % of cases, and no sign in {tied:.1} %. The outcome
alone, without any continuation, has it wrong in {outcome:.1} %: not much worse than the {half_tied:.1} % that are left of dense Monte
Carlo if a coin decides where there is no sign. Opposite signs become rarer towards the end ({late:.1} % at step {late_step}): there a step
changes the value more, or hardly at all, and then the estimates are equal. At the same K a beginning of {half} steps is
judged wrongly in {split:.1} % of cases: it changed more than one step does, and its baseline is not estimated from K
continuations. That table grants it the exact value of the task; a run has a tracker's estimate of it.
",
        start = TASK.values(0)[0],
        wrong = 100.0 * first.wrong,
        tied = 100.0 * first.tied,
        half_tied = 100.0 * (first.wrong + 0.5 * first.tied),
        late = 100.0 * TASK.dense(late_step - 1, 8).wrong,
        outcome = 100.0 * TASK.outcome(0).rate(),
        half = steps / 2,
        split = 100.0 * TASK.beginning(steps / 2, 8).rate(),
    )
}
