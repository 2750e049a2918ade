//! GRPO on one page: group relative policy optimization (Shao et al. 2024, arXiv:2402.03300, section 4.1).
//!
//! `cargo run --release -p burnish --example grpo -- models/starter 20`
//!
//! A policy plans paths for two agents on FrozenLake. It plays every task several times, and each episode is compared
//! with the others of its task, so no critic is needed. `burnish train` does the same, with everything that a recipe
//! can ask for (`crates/burnish-run/src/online/`); `crates/burnish/tests/it/example.rs` compares both, number by number.

#![allow(missing_docs, reason = "a program, whose test reads its constants")]
use std::error::Error;
use std::sync::Arc;

use burnish_core::{Sampling, Task, Trace, rng::Address, rng::Purpose};
use burnish_engine::LocalPolicy;
use burnish_env::rollout::{self, Overlong, RolloutSpec, SeedPlace, Spawn};
use burnish_model::{Chat, Model, load_policy};
use burnish_rl::advantage::{Estimator, Grpo, Rollout, Rollouts};
use burnish_rl::{LossConfig, Objective, aggregation::Aggregation};
use burnish_train::adamw::AdamwConfig;
use burnish_train::{PassConfig, Sample, Trainer, TrainerConfig, Update, score, totals};
use serde_json::json;

pub const SEED: u64 = 1;
pub const TASKS: usize = 16; // per step
const GROUP: usize = 8; // G: episodes per task
const UPDATES: usize = 2; // μ: updates per step. In the first one r = 1; the clip matters from the second on.
const TOKENS_MAX: usize = 160; // per answer
const EPSILON: f64 = 0.2; // ε: how far r counts
const BETA: f64 = 0.04; // β: weight of the distance from the reference
const LEARNING_RATE: f64 = 1e-4;
const ROWS_MAX: usize = 8192; // per forward pass: bounds memory, and changes nothing else

/// A policy that learns, and everything it needs for that.
pub struct Learner {
    model: Arc<Model>, // π_θ
    reference: Model,  // π_ref: π_θ before training
    chat: Arc<Chat>,   // how messages become tokens
    objective: Box<dyn Objective>,
    trainer: Trainer,
    pub env: Box<dyn burnish_env::Generator>,
}

impl Learner {
    /// Starts from the policy in a model directory.
    pub fn load(dir: &str) -> Result<Self, Box<dyn Error>> {
        let (model, chat) = load_policy(dir.as_ref())?;
        // Equations 3 and 4: the mean over sequences of the mean over their tokens of
        //   -min(r·Â, clip(r, 1 - ε, 1 + ε)·Â) + β·(exp(-x) + x - 1),   r = π_θ / π_old,   x = log π_θ - log π_ref.
        let objective = LossConfig {
            objective: "ppo_clip".into(),
            config: json!({ "epsilon_low": EPSILON, "epsilon_high": EPSILON }),
            beta: BETA,
            use_bias_correction_kl: false,
            aggregation: Aggregation::Grpo,
            ..LossConfig::default()
        }
        .build()?;
        let (adamw, pass) = (AdamwConfig::default(), PassConfig::new(ROWS_MAX));
        let trainer = Trainer::new(&model, TrainerConfig { adamw, grad_norm_max: Some(1.0), pass });
        let env = burnish_env::build("mapf-frozenlake", &json!({}))?;
        let (reference, model, chat) = (model.clone(), Arc::new(model), Arc::new(chat));
        Ok(Learner { model, reference, chat, objective, trainer, env })
    }

    /// Performs one step, and returns the mean reward and the updates.
    pub fn step(&mut self, step: u64, tasks: &[Task]) -> Result<(f64, Vec<Update>), Box<dyn Error>> {
        // 1. Play each task G times with π_old, which is π_θ as it is now. Each random number depends only on
        //    (seed, step, task, episode, turn), so a run can be repeated to the bit.
        let seeds = SeedPlace { run: SEED, stage: 0, step, task_offset: 0 };
        let spawns = Spawn::of_tasks(tasks, GROUP, &Sampling::at(1.0, TOKENS_MAX), seeds);
        let (generator, overlong) = (&*self.env, Overlong::Refuse);
        let spec = RolloutSpec::new(generator, &spawns, 8, overlong);
        let mut policy = LocalPolicy::new(&self.model, &self.chat, self.trainer.updates());
        let episodes = rollout::play(&mut policy, &spec)?;
        drop(policy); // It shares the weights, which are about to change.

        // 2. One number per episode: R, the sum of its verdict's rewards. None if it could not be judged.
        let rewards = episodes.iter().map(|episode| episode.verdict.total(&Default::default()));
        let rollouts: Vec<Rollout> = rewards.map(Rollout::of_reward).collect();

        // 3. Compare it with its group: Â = (R - mean) / (std + 1e-4), and 0 if all of the group are equal.
        let groups: Vec<_> = (0..tasks.len()).map(|at| at * GROUP..(at + 1) * GROUP).collect();
        let rollouts = Rollouts { all: &rollouts, groups: &groups };
        let advantages = Grpo::default().advantages(&rollouts);

        // 4. Each branch of a trace is a sequence to learn from: the sampled ids, log π_old of each, and a mask,
        //    so that what the policy only read is not in the loss. All tokens of an episode have its Â.
        let mut samples = Vec::new();
        for (episode, advantage) in episodes.iter().zip(advantages) {
            let Some(advantage) = advantage else { continue };
            let branches = episode.traces.iter().flat_map(Trace::branches);
            samples.extend(branches.map(|branch| Sample::from_rollout(&branch, advantage.mean())));
        }
        let reference = score(&self.reference, &samples, ROWS_MAX)?; // log π_ref
        samples.iter_mut().zip(reference).for_each(|(sample, logprobs)| sample.reference = Some(logprobs));

        // 5. Update π_θ μ times on these samples; π_old stays as it was.
        let totals = totals(&samples, &samples, 1, TOKENS_MAX, SEED);
        let model = Arc::make_mut(&mut self.model);
        let update = |_| self.trainer.update(model, &samples, &*self.objective, &totals, LEARNING_RATE);
        let updates = (0..UPDATES).map(update).collect::<Result<_, _>>()?;
        let scored = rollouts.scored();
        Ok((scored.iter().sum::<f64>() / scored.len() as f64, updates))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut arguments, usage) = (std::env::args().skip(1), "usage: grpo MODEL_DIR [STEPS]");
    let dir = arguments.next().ok_or(usage)?;
    let steps: u64 = arguments.next().map_or(Ok(20), |steps| steps.parse()).map_err(|_| usage)?;
    let mut learner = Learner::load(&dir)?;
    for step in 0..steps {
        let seed = Address { step, ..Address::new(SEED, Purpose::Task) }.seed();
        let tasks = learner.env.tasks(seed, TASKS)?.tasks;
        let (reward, updates) = learner.step(step, &tasks)?;
        let kl = updates.last().and_then(|last| last.metrics.get("kl")).copied().unwrap_or_default();
        println!("step {}: mean reward {reward:.3}, kl {kl:.4}", step + 1);
    }
    Ok(())
}
