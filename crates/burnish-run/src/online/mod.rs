//! Learning from the policy's own samples: one step of it, and the state between steps.
//!
//! A step selects tasks, samples what the plan requests for each, turns verdicts into rewards, collects the facts
//! that parts need, gives every member of every group its credit, and updates the policy. It knows no method: methods
//! differ in their parts (`burnish-rl`) and in the providers of their facts (`supply`).

mod coefficients;
mod credit;
mod divergence;
mod groups;
mod lag;
mod latent;
mod overlong;
mod pieces;
mod replay;
mod samples;
pub(crate) mod scene;
mod selection;
mod spans;
pub(crate) mod supply;
mod update;

use std::path::Path;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Task};
use burnish_engine::Stats;
use burnish_rl::Objective;
use burnish_rl::advantage::{self, Advantage, Estimator, Phase};
use burnish_rl::fact::Need;
use burnish_rl::gate::{Gate, GateConfig};
use burnish_rl::plan::{Plain, Role, RolloutPlan};
use burnish_train::TrainerConfig;
use burnish_train::checkpoint::{BoxError, Checkpoint};
use burnish_train::schedule::Schedule;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::RunError;
use crate::learner::Learner;
use crate::summary::{Metrics, Updates, episode_metrics};
use crate::tasks::Tasks;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;
use coefficients::Coefficients;
use credit::EstimatorInput;
use divergence::Divergence;
use groups::{Groups, Member};
use lag::{Behavior, Lag};
use replay::Store;
use selection::Selection;
use supply::{Making, Providers, add};

/// The results of a step.
pub(crate) struct Stepped {
    /// The tasks, one per group, followed by the reversed tasks that were played.
    pub(crate) tasks: Vec<Task>,
    /// Group by group, first the members that earn a reward, then those that get their credit from later ones.
    pub(crate) played: Vec<PlayedMember>,
    /// What to tell a person.
    pub(crate) note: Option<String>,
    /// Metrics under TRL's names.
    pub(crate) metrics: Metrics,
}

/// A member of a group, in the form for the journal.
pub(crate) struct PlayedMember {
    pub(crate) episode: Arc<Episode>,
    /// Index of its task among the step's tasks.
    pub(crate) task: usize,
    pub(crate) phase: Phase,
    /// Its advantage, or their mean if it has several; `None` if it was unscored, or its group was left out.
    pub(crate) advantage: Option<f64>,
}

/// The state between steps of a run that learns from its own samples.
pub(crate) struct OnlineLoop {
    selection: Selection,
    plan: Box<dyn RolloutPlan>,
    supply: Providers,
    estimator: Box<dyn Estimator>,
    coefficients: Coefficients,
    store: Store,
    gate: Option<Box<dyn Gate>>,
    lag: Lag,
    divergence: Option<Divergence>,
}

impl OnlineLoop {
    /// Loads what the recipe needs besides the policy. Models of parts learn as `schedule` and `trainer` say. `state` is
    /// the value of [`OnlineLoop::state`] when the run was saved as `checkpoint`; null for a new run.
    ///
    /// # Errors
    /// If a model can't be loaded, or the state does not fit the recipe's parts.
    pub(crate) fn new(
        recipe: &Recipe,
        learner: &Learner,
        schedule: Schedule,
        trainer: &TrainerConfig,
        checkpoint: Option<&Checkpoint>,
        state: &Value,
    ) -> Result<Self, RunError> {
        let mut plan = plan_of(recipe)?;
        if !state["plan"].is_null() {
            plan.restore(&state["plan"])?;
        }
        let mut estimator = recipe.advantage.build()?;
        if !state["estimator"].is_null() {
            estimator.restore(&state["estimator"])?;
        }
        let mut gate = recipe.gate.as_ref().map(GateConfig::build).transpose()?;
        if let (Some(gate), Some(_)) = (&mut gate, checkpoint) {
            gate.restore(&state["gate"])?;
        }
        Ok(OnlineLoop {
            selection: Selection::new(recipe, state.get("selection"))?,
            plan,
            supply: Providers::new(&Making { recipe, learner, schedule, trainer, checkpoint, state })?,
            estimator,
            coefficients: Coefficients::new(&recipe.loss, state),
            store: Store::new(recipe, &state["replay"])?,
            gate,
            lag: Lag::new(recipe.rollout.policy_lag, learner, checkpoint, &state["earlier"])?,
            divergence: Divergence::new(recipe, learner)?,
        })
    }

    /// Writes what the loop itself has learnt into the directory of a checkpoint.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(crate) fn save(&self, checkpoint: &Path, step: u64) -> Result<(), BoxError> {
        self.lag.save(checkpoint)?;
        self.supply.save(checkpoint, step)
    }

    /// Everything that a step depends on, except the recipe, the weights and the number of the step.
    pub(crate) fn state(&self) -> Value {
        let mut state = json!({
            "plan": self.plan.state(),
            "estimator": self.estimator.state(),
            "selection": self.selection.state(),
            "gate": self.gate.as_ref().map(|gate| gate.state()),
            "earlier": self.lag.state(),
        });
        let replay = self.store.state();
        if !replay.is_null() {
            state["replay"] = replay;
        }
        for (key, value) in self.coefficients.state().into_iter().chain(self.supply.state()) {
            state[key] = value;
        }
        state
    }

    /// Readies environments for the first episodes that are played.
    pub(crate) fn prepare(&mut self, tasks: &Tasks) {
        self.supply.prepare(tasks);
    }

    /// Plays the tasks of step number `step`, counted from 0, and learns nothing from them.
    pub(crate) fn play(
        &mut self,
        recipe: &Recipe,
        tasks: &Tasks,
        learner: &Learner,
        step: u64,
    ) -> Result<Stepped, RunError> {
        let behavior = self.lag.behavior(recipe, learner)?;
        let (groups, metrics) = self.sample(recipe, tasks, &behavior, step)?;
        let note = groups.shortfall(recipe);
        let (tasks, played) = of_journal(groups);
        Ok(Stepped { tasks, played, note, metrics: Updates::default().finish(metrics) })
    }

    /// Selects tasks, samples what the plan requests for each, and turns verdicts into rewards.
    fn sample(
        &mut self,
        recipe: &Recipe,
        tasks: &Tasks,
        behavior: &Behavior,
        step: u64,
    ) -> Result<(Groups, Values), RunError> {
        let mut sampler = behavior.sampler()?;
        let (plan, selection) = (&*self.plan, &mut self.selection);
        let mut groups =
            Groups::sample(recipe, tasks, selection, plan, sampler.policy(), &behavior.chat, step)?;
        let mut metrics = sampling_metrics(&sampler.finish()?);
        groups.reward(recipe);
        shuffle(recipe, &mut groups, step);
        add(&mut metrics, self.reward_metrics(recipe, &groups));
        Ok((groups, metrics))
    }

    /// Performs step number `step`, counted from 0.
    pub(crate) fn step(
        &mut self,
        recipe: &Recipe,
        tasks: &Tasks,
        learner: &mut Learner,
        lr: &dyn Fn(u64) -> f64,
        step: u64,
    ) -> Result<Stepped, RunError> {
        // 1. Select tasks, and sample what the plan requests for each. 2. Turn verdicts into rewards.
        let behavior = self.lag.behavior(recipe, learner)?;
        let (mut groups, mut metrics) = self.sample(recipe, tasks, &behavior, step)?;
        self.supply.see(recipe, &groups)?;
        // 3. Collect facts: of every token, then of every member.
        groups.make_samples(recipe);
        groups.score_given(recipe, learner)?;
        metrics.extend(groups.find_proximal(recipe, learner)?);
        let objective = self.coefficients.objective(&recipe.loss)?;
        let of_step = supply::Step { recipe, tasks, number: step, learner, behavior: &behavior };
        let needs = coefficients::needs(&recipe.loss, &*objective);
        add(&mut metrics, self.supply.supply(&needs, of_step, &mut groups)?);
        metrics.extend(self.coefficients.weigh_kl(&recipe.loss, &needs, &mut groups));
        add(&mut metrics, self.supply.supply(&self.needs_of_members(&*objective), of_step, &mut groups)?);
        groups.give_facts(recipe, &*objective, &learner.chat().tokenizer)?;
        drop(behavior);
        // 4. Give credit; providers and the plan learn from it too.
        let compared = EstimatorInput::of(&groups);
        credit::credit(recipe, &*self.estimator, &mut groups, &compared)?;
        groups.give_advantages();
        metrics.extend(self.estimator.metrics(&compared.rollouts()));
        self.estimator.learn(&compared.rollouts());
        self.selection.learn(&compared.rollouts());
        if let Some(gate) = &mut self.gate {
            gate.learn(&compared.rollouts());
        }
        self.plan.observe(&groups.outcomes());
        metrics.extend(self.plan.metrics());
        let rollouts: Vec<_> = compared.each().collect();
        metrics.extend(self.supply.learn(recipe, &groups, &rollouts, &*self.estimator, step)?);
        self.supply.prepare(tasks);
        // 5. Update.
        if recipe.loss.mask_truncated_completions {
            groups.mask_truncated();
        }
        metrics.extend(groups.mask_spans(recipe, &learner.chat().tokenizer)?);
        let (replayed, counted) = self.store.mix(recipe, &mut groups, step);
        metrics.extend(counted);
        let mut batch = if objective.needs().pairs { groups.take_pairs() } else { groups.take_batch() };
        replayed.join(&mut batch);
        let tokens: usize = batch.samples.iter().map(|sample| sample.ids.len()).sum();
        metrics.insert("tokens/total".into(), tokens as f64);
        let mut updates = Updates::default();
        if !self.supply.is_warming_up(step) {
            let gate = self.gate.as_deref_mut();
            update::update(recipe, step, &batch, &*objective, learner, lr, gate, &mut updates)?;
        }
        if let Some(divergence) = &self.divergence {
            metrics.extend(divergence.metrics(learner)?);
        }
        let entropy = updates.mean("entropy_top").or_else(|| updates.mean("entropy"));
        metrics.extend(self.coefficients.see_entropy(&recipe.loss, entropy));
        // Without a lag, the weights before the first update are those that sampled, so any difference comes from the
        // arithmetic.
        if let Some(drift) = updates.first_drift {
            metrics.insert("sampling/sampling_logp_difference/mean".into(), drift.mean);
            metrics.insert("sampling/sampling_logp_difference/max".into(), drift.max);
        }
        let note = groups.shortfall(recipe);
        let (tasks, played) = of_journal(groups);
        Ok(Stepped { tasks, played, note, metrics: updates.finish(metrics) })
    }

    /// The facts of members that parts which learn from rollouts ask for, and `objective` about their tokens, each once.
    fn needs_of_members(&self, objective: &dyn Objective) -> Vec<Need> {
        let gate = self.gate.as_ref().map(|gate| gate.needs()).unwrap_or_default();
        let mut needs = self.estimator.needs();
        for need in self.selection.needs().into_iter().chain(gate).chain(Need::all(&objective.facts())) {
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        needs
    }

    /// What the rewards of a step say, and what was played for them.
    fn reward_metrics(&self, recipe: &Recipe, groups: &Groups) -> Values {
        let sampled = groups.downstream().filter(|member| member.role != Role::Expert);
        let episodes: Vec<&Episode> = sampled.map(|member| &*member.episode).collect();
        let mut metrics = episode_metrics(groups.all.len(), &episodes, &recipe.reward.weights);
        *metrics.entry("tokens/sampled".into()).or_default() += groups.tokens_beside() as f64;
        let (rewards, scale) = (groups.rewards(), self.estimator.scale());
        metrics.extend(advantage::reward_metrics(&rewards, groups.size(), scale));
        metrics.extend(groups.metrics(recipe));
        metrics.extend(latent::metrics(recipe, &episodes));
        metrics
    }
}

/// The plan of a recipe, before it has learnt anything.
///
/// # Errors
/// If a setting is wrong.
pub(crate) fn plan_of(recipe: &Recipe) -> Result<Box<dyn RolloutPlan>, RunError> {
    let plan = recipe.plan.as_ref().map(|config| config.build()).transpose()?;
    Ok(plan.unwrap_or_else(|| Box::new(Plain)))
}

/// The control experiment: shuffles the rewards within each group, if the recipe asks for it.
fn shuffle(recipe: &Recipe, groups: &mut Groups, step: u64) {
    if recipe.reward.shuffle_within_groups {
        let address = Address { step, ..Address::new(recipe.run.seed, Purpose::Perturb) };
        let shuffled = advantage::shuffle_within_groups(&groups.rewards(), groups.size(), address.seed());
        groups.set_rewards(&shuffled);
    }
}

fn sampling_metrics(stats: &Stats) -> Values {
    let mut metrics = Values::from([
        ("sampling/prompt_tokens".to_owned(), stats.prompt_tokens as f64),
        ("sampling/prompt_tokens_read".to_owned(), stats.prompt_tokens_read as f64),
    ]);
    if stats.waits > 0 {
        metrics.insert("sampling/cache_waits".into(), stats.waits as f64);
        metrics.insert("sampling/cache_preemptions".into(), stats.preemptions as f64);
    }
    metrics
}

/// The tasks and members of a step in the form for the journal.
fn of_journal(groups: Groups) -> (Vec<Task>, Vec<PlayedMember>) {
    let (mut tasks, mut turned, mut played) = (Vec::new(), Vec::new(), Vec::new());
    let count = groups.all.len();
    for (at, group) in groups.all.into_iter().enumerate() {
        let place = |member: &Member| at + usize::from(member.direction()) * count;
        played.extend(group.members.into_iter().map(|member| PlayedMember {
            task: place(&member),
            phase: member.phase(),
            advantage: member.advantage.as_ref().map(Advantage::mean),
            episode: member.episode,
        }));
        tasks.push(group.task);
        turned.extend(group.turned.map(Arc::unwrap_or_clone));
    }
    played.sort_by_key(|member| member.phase == Phase::Upstream);
    tasks.extend(turned);
    (tasks, played)
}

/// A part of a saved state, or its default if it is absent.
///
/// # Errors
/// If it has another form.
fn part<T: DeserializeOwned + Default>(state: &Value) -> Result<T, RunError> {
    if state.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(state.clone()).map_err(|error| {
        RunError::Refused(format!("the checkpoint's state of the stage is damaged: {error}"))
    })
}
