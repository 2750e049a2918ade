//! A step of GRPO, put together from the same parts in the same order as `burnish-run/src/online/`: episodes played by
//! the sampling policy, rewards, group advantages, samples, one update. What a run does beside that (journal,
//! checkpoints, evaluation) is left out, as it is in the peer's.

use std::sync::Arc;
use std::time::Instant;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Sampling, Trace};
use burnish_engine::LocalPolicy;
use burnish_env::Generator;
use burnish_env::rollout::{self, Overlong, RolloutSpec, SeedPlace, Spawn};
use burnish_model::{Chat, Model, Trains};
use burnish_rl::advantage::{Advantage, AdvantageConfig, Rollout, Rollouts, Scale, reward_metrics};
use burnish_rl::{LossConfig, PolicyLoss};
use burnish_train::adamw::AdamwConfig;
use burnish_train::{PassConfig, Sample, Trainer, TrainerConfig, Update, minibatches, totals};
use serde_json::{Value, json};

use crate::flops::{Costs, Extent};
use crate::sevens::Sevens;
use crate::step::MICRO_BATCH_TOKENS;
use crate::worker::{Arguments, Work};
use crate::{Done, policy};

/// Learning rate of the steps, as in the peer's.
const LEARNING_RATE: f64 = 1e-4;

/// Steps, one after the other.
pub(crate) struct Steps {
    model: Arc<Model>,
    chat: Arc<Chat>,
    trainer: Trainer,
    prompts: usize,
    group: usize,
    prompt: usize,
    sampling: Sampling,
    /// Steps done.
    step: u64,
}

impl Steps {
    pub(crate) fn load(arguments: &Arguments) -> Done<Self> {
        let model = policy::load(&arguments.model, arguments.bf16, Trains::All)?;
        let config = TrainerConfig {
            adamw: AdamwConfig::default(),
            grad_norm_max: Some(1.0),
            pass: PassConfig::new(MICRO_BATCH_TOKENS),
        };
        Ok(Steps {
            chat: Arc::new(policy::plain_chat(&arguments.model)?),
            trainer: Trainer::new(&model, config),
            model: Arc::new(model),
            prompts: arguments.prompts,
            group: arguments.group,
            prompt: arguments.prompt,
            sampling: Sampling { ignore_eos: !arguments.ragged, ..Sampling::at(1.0, arguments.new) },
            step: 0,
        })
    }

    fn step(&mut self) -> Done<(Vec<Episode>, f64, Update)> {
        let generator = Sevens { prompt: self.prompt };
        let tasks = generator.tasks(
            Address { step: self.step, ..Address::new(0, Purpose::Environment) }.seed(),
            self.prompts,
        )?;
        let mut local = LocalPolicy::new(&self.model, &self.chat, self.trainer.updates());
        let seeds = SeedPlace { run: 0, stage: 0, step: self.step, task_offset: 0 };
        let spawns = Spawn::of_tasks(&tasks.tasks, self.group, &self.sampling, seeds);
        let overlong = Overlong::Refuse;
        let spec = RolloutSpec::new(&generator, &spawns, 1, overlong);
        let episodes = rollout::play(&mut local, &spec)?;
        drop(local);
        let rewards: Vec<Option<f64>> =
            episodes.iter().map(|episode| episode.verdict.total(&Default::default())).collect();
        let rollouts: Vec<Rollout> = rewards.iter().copied().map(Rollout::of_reward).collect();
        let groups: Vec<_> = (0..self.prompts).map(|at| at * self.group..(at + 1) * self.group).collect();
        let estimator = AdvantageConfig::default().build()?;
        let credit = estimator.advantages(&Rollouts { all: &rollouts, groups: &groups });
        let samples: Vec<Sample> = episodes
            .iter()
            .zip(&credit)
            .flat_map(|(episode, advantage)| {
                let branches = episode.traces.iter().flat_map(Trace::branches);
                branches.map(move |branch| {
                    Sample::from_rollout(&branch, advantage.as_ref().map_or(0.0, Advantage::mean))
                })
            })
            .collect();
        let order = Address { step: self.step, ..Address::new(0, Purpose::Shuffle) }.seed();
        let sizes = vec![self.group; self.prompts];
        let indices: Vec<usize> = minibatches(&sizes, 1, order, 0).concat();
        let minibatch: Vec<&Sample> = indices.iter().map(|at| &samples[*at]).collect();
        let totals = totals(&minibatch, &samples, 1, self.sampling.tokens_max, 0);
        let objective = PolicyLoss::new(&LossConfig::default())?;
        let update = self.trainer.update(
            Arc::make_mut(&mut self.model),
            &minibatch,
            &objective,
            &totals,
            LEARNING_RATE,
        )?;
        self.step += 1;
        let metrics = reward_metrics(&rewards, self.group, Scale::Group);
        let reward = metrics.get("reward").copied().unwrap_or_default();
        Ok((episodes, reward, update))
    }
}

impl Work for Steps {
    fn unit(&mut self) -> Done<Value> {
        let start = Instant::now();
        let (episodes, reward, update) = self.step()?;
        let seconds = start.elapsed().as_secs_f64();
        let answers: Vec<usize> =
            episodes.iter().map(|episode| episode.traces.iter().map(Trace::sampled_tokens).sum()).collect();
        let groups =
            answers.chunks(self.group).map(|group| Extent::of_group(self.prompt, group.iter().copied()));
        let extent = groups.fold(Extent::default(), Extent::and);
        let costs = Costs::of(&self.model.config);
        Ok(json!({
            "seconds": seconds,
            "tokens": answers.iter().sum::<usize>(),
            "flops": costs.forward(extent) + costs.training(extent),
            "reward": reward,
            "entropy": update.metrics.get("entropy"),
            "sampler_trainer_difference": update.drift.max,
        }))
    }
}
