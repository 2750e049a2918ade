//! Who uses which random numbers in a run. All stages of addresses are assigned here, so that no two users share any.

use burnish_core::rng::Address;
use burnish_env::rollout::SeedPlace;
use burnish_rl::plan::Role;

/// Who draws random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// Rollouts that are trained on.
    Training,
    /// Evaluations within runs and of recipes. They never share numbers with training.
    Evaluation,
    /// Benchmarks.
    Benchmark,
    /// Drafts before the answers that read them.
    Draft,
    /// The environments of greedy episodes.
    Greedy,
    /// Rollouts of reversed tasks.
    Turned,
    /// Continuations from inside answers, after cut number `.0`, counted from 1.
    Continuation(u64),
    /// The environments of cycle checks.
    Check,
    /// Answers that continue where an episode ended.
    Extension,
    /// Answers to a person's prompts.
    Generation,
    /// Answers that tell what beginnings are worth.
    Worth,
    /// The masks of answers that a model of masked diffusion learns.
    Noise,
    /// The masks of answers that it is evaluated on.
    HeldOutNoise,
    /// Answers whose attention is looked at.
    Probe,
    /// The tasks on which the inputs of linear maps are recorded.
    Calibration,
    /// Which demonstrations are taken from an earlier stage of the latent curriculum.
    LatentStage,
    /// Answers that the answers of their group read.
    Thought,
    /// Functions that make something of episodes.
    Making,
}

/// Above the number of tasks of any step: copies of its tasks have places from here on.
pub const COPIES: u64 = 1 << 32;

/// Between the seeds of two rounds of a recipe: above those of studies and their stages.
const ROUND_STRIDE: u64 = 1 << 40;

/// The seed of a round, counted from 1, of a recipe with the seed `run`. The first round has that of the recipe.
pub fn of_round(run: u64, round: usize) -> u64 {
    run.wrapping_add((round as u64 - 1).wrapping_mul(ROUND_STRIDE))
}

impl Draws {
    /// The stage in its addresses. Runs are resumed, so these numbers never change.
    pub fn stage(self) -> u64 {
        match self {
            Draws::Training => 0,
            Draws::Evaluation => 1 << 32,
            Draws::Benchmark => (1 << 32) + 1,
            Draws::Draft => 1 << 33,
            Draws::Greedy => 1 << 34,
            Draws::Turned => 1 << 35,
            Draws::Continuation(cut) => (1 << 35) + cut,
            Draws::Check => 1 << 36,
            Draws::Extension => 1 << 37,
            Draws::Generation => 1 << 38,
            Draws::Worth => 1 << 39,
            Draws::Noise => 1 << 40,
            Draws::HeldOutNoise => (1 << 40) + 1,
            Draws::Probe => (1 << 40) + 2,
            Draws::Calibration => (1 << 40) + 3,
            Draws::LatentStage => (1 << 40) + 4,
            Draws::Thought => (1 << 40) + 5,
            // 6 more than 1 << 40 were those of configurations.
            Draws::Making => (1 << 40) + 7,
        }
    }

    /// The place of its draws in step number `step` of the run with seed `run`, from task number `task_offset` on.
    pub fn place(self, run: u64, step: u64, task_offset: u64) -> SeedPlace {
        SeedPlace { run, stage: self.stage(), step, task_offset }
    }

    /// `address` for episodes of a role. Plain rollouts keep their stage.
    pub fn of_role(role: Role, address: Address) -> Address {
        let own = match role {
            // What is given draws nothing.
            Role::Rollout | Role::Expert => return address,
            Role::Turned => Draws::Turned,
            Role::Draft => Draws::Draft,
            Role::Check => Draws::Check,
            Role::Extension => Draws::Extension,
            Role::Thought => Draws::Thought,
        };
        Address { stage: own.stage(), ..address }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draw_the_same_numbers() {
        let single = [
            Draws::Training,
            Draws::Evaluation,
            Draws::Benchmark,
            Draws::Draft,
            Draws::Greedy,
            Draws::Turned,
            Draws::Check,
            Draws::Extension,
            Draws::Generation,
            Draws::Worth,
            Draws::Noise,
            Draws::HeldOutNoise,
            Draws::Probe,
            Draws::Calibration,
            Draws::LatentStage,
            Draws::Thought,
            Draws::Making,
        ];
        let cuts = (1..100_000).map(Draws::Continuation);
        let stages: std::collections::BTreeSet<u64> =
            single.into_iter().chain(cuts).map(Draws::stage).collect();
        assert_eq!(stages.len(), single.len() + 99_999);
    }
}
