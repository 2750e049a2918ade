//! Plays some tasks in every arm.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Policy, Sampling, Task, ThoughtControl};
use burnish_env::Generator;
use burnish_env::rollout::{Given, Partners, Playing, recite};
use burnish_reason::{Considered, Player, Strategy, StrategyConfig};
use burnish_recipe::StrategySection;
use serde_json::{Value, json};

use super::on_top::{OnTop, of_setting, refused};
use super::records::{Arm, StrategyRecord, records};
use crate::RunError;
use crate::controllers;
use crate::model_files::policy_digests;
use crate::model_path::locate;

/// The strategy, and what it is compared with.
pub struct Arms {
    own: OnTop,
    /// The same as a program, from the first episode on.
    own_program: Option<(Player, Partners)>,
    plain: Arc<dyn Strategy>,
    majority: Arc<dyn Strategy>,
    /// What decides the strategy's answers, as records name it.
    named: Value,
}

/// What is played, and how it is kept.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// Judges the candidates.
    pub generator: &'a dyn Generator,
    /// The tasks.
    pub tasks: &'a [Task],
    /// The address of a task's first episode, by the task's number.
    pub place: &'a dyn Fn(usize) -> Address,
    /// The weights of rewards.
    pub weights: &'a BTreeMap<String, f64>,
    /// Does the policy report its tokens?
    pub has_tokens: bool,
}

/// Plays some tasks with a policy, by a program: every task equally often, task by task.
pub type Plays<'a> = dyn FnMut(&mut dyn Policy, Playing<'_>) -> Result<Vec<Episode>, RunError> + 'a;

/// An episode of an arm.
#[derive(Debug, Clone)]
pub(super) struct Played {
    /// The episode.
    pub(super) episode: Episode,
    /// How each of its turns was answered.
    pub(super) turns: Vec<Considered>,
    /// Whether each candidate of its only turn would have succeeded; empty if it has several turns.
    pub(super) is_right: Vec<Option<bool>>,
}

impl Arms {
    /// Those of a strategy, where turns are sampled as `sampling` says. Nothing is loaded.
    ///
    /// # Errors
    /// If the strategy makes no sense with such turns.
    pub fn new(section: &StrategySection, sampling: &Sampling) -> Result<Self, RunError> {
        let wrong = |(key, problem): (String, String)| refused(&key, &problem);
        let own = OnTop::new(section, sampling)?;
        let config = section.with_skill().map_err(wrong)?.complete().map_err(of_setting)?;
        let mut named = json!({
            "strategy": config.strategy, "config": config.config, "deliberator": section.deliberator, "judge": section.judge
        });
        if let Some(path) = own.reward_model() {
            let wrong = |error: RunError| refused("config.score.path", &error.to_string());
            let files = locate(path).and_then(|found| policy_digests(&found.dir)).map_err(wrong)?;
            named["reward_model"] = json!(files);
        }
        let controls: Vec<ThoughtControl> = match config.config.get("controls") {
            Some(controls) => serde_json::from_value(controls.clone())
                .map_err(|error| refused("config.controls", &error.to_string()))?,
            None => Vec::new(),
        };
        let digests = controllers::digests(&controls)
            .map_err(|(key, problem)| refused(&format!("config.{key}"), &problem))?;
        if !digests.is_empty() {
            named["controllers"] = json!(digests);
        }
        let config = config.config;
        let equality = config.get("equality").cloned().unwrap_or(json!("math"));
        let given = config.get("temperature").and_then(Value::as_f64);
        let temperature = given.unwrap_or(f64::from(sampling.temperature));
        // Greedy answers would all be the same.
        let temperature = if temperature > 0.0 { temperature } else { 1.0 };
        let votes =
            |config| StrategyConfig { strategy: "majority".into(), config }.build().map_err(of_setting);
        Ok(Arms {
            own,
            own_program: None,
            plain: votes(json!({"samples": 1, "equality": equality}))?,
            majority: votes(json!({"equality": equality, "temperature": temperature}))?,
            named,
        })
    }

    /// What decides the strategy's answers: a part of the settings of records.
    pub fn named(&self) -> &Value {
        &self.named
    }

    /// The strategy, to be loaded and checked.
    pub fn own(&mut self) -> &mut OnTop {
        &mut self.own
    }

    /// Plays every arm, judges the strategy's candidates afterwards, and makes a record of each task.
    ///
    /// # Errors
    /// If episodes can't be played.
    pub fn records(
        &mut self,
        policy: &mut dyn Policy,
        playing: &mut Plays<'_>,
        field: &Field<'_>,
    ) -> Result<Vec<StrategyRecord>, RunError> {
        let mut played = self.play(policy, playing, field.place)?;
        judge(field, &mut played[Arm::Strategy as usize])?;
        Ok(records(field, played))
    }

    /// Plays every arm, in the order of [`Arm::ALL`].
    fn play(
        &mut self,
        policy: &mut dyn Policy,
        playing: &mut Plays<'_>,
        place: &dyn Fn(usize) -> Address,
    ) -> Result<[Vec<Played>; 3], RunError> {
        let (player, others) = self.own_program.get_or_insert_with(|| self.own.program());
        let mut with = |player: &Player, others: &Partners| {
            let episodes = playing(&mut *policy, Playing { program: player, others })?;
            Ok::<_, RunError>(Turns { place, considered: player.take() }.of(episodes))
        };
        let nobody = Partners::default();
        let (plain, _) = with(&Player::new(Arc::clone(&self.plain), Vec::new()), &nobody)?;
        let (strategy, budgets) = with(player, others)?;
        let majority = Player::new(Arc::clone(&self.majority), Vec::new()).with_budgets(budgets);
        let (majority, _) = with(&majority, &nobody)?;
        Ok([plain, strategy, majority])
    }
}

/// Considered candidates of turns, by the seeds of the turns.
struct Turns<'a> {
    place: &'a dyn Fn(usize) -> Address,
    considered: BTreeMap<u64, Considered>,
}

impl Turns<'_> {
    /// Gives each episode what was considered in it, and each of its turns what was spent on it. What was considered for several
    /// turns at once was spent on them in equal parts.
    fn of(mut self, episodes: Vec<Episode>) -> (Vec<Played>, BTreeMap<u64, usize>) {
        let mut task = 0;
        let mut before: Option<usize> = None;
        let (mut played, mut spent) = (Vec::with_capacity(episodes.len()), BTreeMap::new());
        for episode in episodes {
            // Tasks come one after the other, each with rollouts from 0 on.
            if before.is_some_and(|before| episode.rollout <= before) {
                task += 1;
            }
            before = Some(episode.rollout);
            let first = (self.place)(task);
            let address = Address { rollout: first.rollout + episode.rollout as u64, ..first };
            let seed =
                |turn: usize| Address { turn: turn as u64, purpose: Purpose::Sample, ..address }.seed();
            let (mut turns, mut end) = (Vec::new(), episode.turns());
            for turn in (0..episode.turns()).rev() {
                let Some(considered) = self.considered.remove(&seed(turn)) else { continue };
                let each = considered.tokens.total().div_ceil(end - turn);
                spent.extend((turn..end).map(|turn| (seed(turn), each)));
                turns.push(considered);
                end = turn;
            }
            turns.reverse();
            played.push(Played { episode, turns, is_right: Vec::new() });
        }
        (played, spent)
    }
}

/// Judges every candidate of episodes of one turn, by playing the task with it again. Everything has been chosen by then.
///
/// # Errors
/// If an episode can't be played.
fn judge(field: &Field<'_>, played: &mut [Played]) -> Result<(), RunError> {
    let Field { generator, tasks, place, .. } = *field;
    let rollouts = (played.len() / tasks.len().max(1)).max(1);
    // Each text of an episode once.
    let mut given: Vec<Given<'_>> = Vec::new();
    let mut asked: Vec<Vec<usize>> = vec![Vec::new(); played.len()];
    for (at, own) in played.iter().enumerate() {
        let ([considered], 1) = (&own.turns[..], own.episode.turns()) else { continue };
        let (task, first) = (&tasks[at / rollouts], place(at / rollouts));
        let place = Address { rollout: first.rollout + own.episode.rollout as u64, ..first };
        let from = given.len();
        for candidate in &considered.candidates {
            let message = &candidate.message;
            let known = given[from..].iter().position(|given| given.answers == [message.clone()]);
            asked[at].push(known.map_or(given.len(), |known| from + known));
            if known.is_none() {
                given.push(Given { task, place, answers: std::slice::from_ref(message) });
            }
        }
    }
    let episodes = recite(generator, &given)?;
    let verdicts: Vec<Option<bool>> = episodes
        .iter()
        .map(|episode| {
            let verdict = &episode.verdict;
            (verdict.is_scored() && verdict.has_success).then_some(verdict.success)
        })
        .collect();
    for (own, asked) in played.iter_mut().zip(asked) {
        own.is_right = asked.into_iter().map(|at| verdicts[at]).collect();
    }
    Ok(())
}
