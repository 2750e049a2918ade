//! Evaluates a recipe item by item, and stores a record of each item as it is played.
//!
//! Tasks are played in chunks whose borders depend only on the recipe, and a random number depends only on the task
//! and the rollout. So an evaluation that was stopped and continued ends with the same bits.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use burnish_core::{
    Ending, Episode, Message, Node, Record, Sampled, Source, StopReason, Task, TaskId, Trace, Verdict,
};
use burnish_eval::{Measure, Summary, is_cut_short, is_success};
use burnish_remote::endpoint::EndpointPolicy;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::RunError;
use crate::asked::Asked;
use crate::controllers;
use crate::eval_set::EvalSet;
use crate::evaluate::{built, play, strategy_config, summarise};
use crate::inspect::{Player, Target};
use crate::records::{Finished, Item, PolicySettings, Records, unwritable};
use crate::tasks::Tasks;
use crate::watch::{Event, Stop, Watch};
use burnish_recipe::Recipe;
use burnish_rundir::files::file_digest;

pub use burnish_remote::endpoint::EndpointConfig;

/// Size of a chunk in batches: the end of a chunk waits for its last answers.
pub(crate) const BATCHES: usize = 4;

/// A task with its episodes: a line of `items.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemRecord {
    /// The task.
    pub id: String,
    /// Labels by which results are broken down.
    pub labels: BTreeMap<String, String>,
    /// The messages that the policy got, before its chat template.
    pub prompt: Vec<Message>,
    /// The episodes.
    pub samples: Vec<PlayedSample>,
}

/// One episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayedSample {
    /// What the policy said, turn by turn.
    pub answers: Vec<Message>,
    /// With several turns or agents: everything that was said, as text in the policy's chat format.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transcript: String,
    /// Its outcome.
    pub outcome: PlayedOutcome,
    /// The weighted reward; null if it could not be judged.
    pub reward: Option<f64>,
    /// What the verifier found.
    pub verdict: Verdict,
    /// Why it ended.
    pub ending: Ending,
    /// Whether a limit cut an answer short.
    pub is_cut_short: bool,
    /// Tokens sampled; null if a server does not report it.
    pub tokens: Option<usize>,
    /// Mean -log p of the sampled tokens; null if there are none.
    pub surprisal: Option<f64>,
}

/// The outcome of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlayedOutcome {
    /// It solved its task.
    Success,
    /// It did not solve its task.
    Failure,
    /// It has a reward, from an environment that reports no success.
    Judged,
    /// It could not be judged, and counts in no mean.
    Unscored,
    /// The prompt did not fit the policy's context window: a failure.
    PromptTooLong,
}

impl Item for ItemRecord {
    fn id(&self) -> &str {
        &self.id
    }
}

impl PlayedSample {
    pub(crate) fn of(episode: &Episode, weights: &BTreeMap<String, f64>, has_tokens: bool) -> Self {
        let verdict = episode.verdict.clone();
        let outcome = if episode.is_prompt_too_long() {
            PlayedOutcome::PromptTooLong
        } else if !verdict.is_scored() {
            PlayedOutcome::Unscored
        } else if is_success(episode) {
            PlayedOutcome::Success
        } else if verdict.has_success {
            PlayedOutcome::Failure
        } else {
            PlayedOutcome::Judged
        };
        let nodes = || episode.traces.iter().flat_map(Trace::nodes);
        let logprobs: Vec<f64> = nodes()
            .filter_map(|node| node.sampled.as_ref())
            .flat_map(|sampled| &sampled.model_logprobs)
            .map(|logprob| f64::from(*logprob))
            .collect();
        let is_long = episode.answers.len() > 1 || episode.traces.len() > 1;
        PlayedSample {
            answers: episode.answers.clone(),
            transcript: if is_long { nodes().map(|node| &*node.text).collect() } else { String::new() },
            outcome,
            reward: verdict.total(weights),
            verdict,
            ending: episode.ending,
            is_cut_short: is_cut_short(episode),
            tokens: has_tokens.then_some(logprobs.len()),
            surprisal: (!logprobs.is_empty()).then(|| -logprobs.iter().sum::<f64>() / logprobs.len() as f64),
        }
    }

    /// The episode as a summary needs it: only the number of its tokens and their mean log-prob.
    pub(crate) fn episode(&self, task: &TaskId, rollout: usize) -> Episode {
        let mut trace = Trace::new();
        if let (Some(tokens), Some(surprisal)) = (self.tokens.filter(|tokens| *tokens > 0), self.surprisal) {
            let stop = if self.is_cut_short { StopReason::TokensMax } else { StopReason::EndToken };
            let sampled = Sampled {
                model_logprobs: vec![-surprisal as f32; tokens],
                sampled_logprobs: None,
                policy_version: 0,
                temperature: 1.0,
                stop,
                latents: Vec::new(),
            };
            let (ids, sources) = (vec![0; tokens], vec![Source::Policy; tokens]);
            // A root of equal lengths is always accepted.
            let _ =
                trace.push(Node { parent: None, text: String::new(), ids, sources, sampled: Some(sampled) });
        }
        Episode {
            task: task.clone(),
            rollout,
            traces: vec![trace],
            verdict: self.verdict.clone(),
            ending: self.ending,
            answers: self.answers.clone(),
            partners: Vec::new(),
            record: Record::default(),
        }
    }
}

/// Everything that decides the records: `eval.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    burnish: String,
    /// What is played and how, from the recipe.
    evaluation: Value,
    /// Digests of its files, or its address.
    policy: Value,
    device: String,
    /// Digests of the data files by name, and of controllers of thoughts by key.
    data: BTreeMap<String, String>,
    /// Tasks per chunk.
    chunk: usize,
    /// The strategy on top of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<Value>,
}

/// How an evaluation ended.
pub type Evaluated = Finished<Summary>;

impl Target {
    /// Evaluates on the recipe's held-out tasks: those of the main evaluation, or of the one in `[[eval.extra]]`
    /// called `name`. With `out`, a record of every task is stored there, and what an earlier process stored is not
    /// played again.
    ///
    /// # Errors
    /// If the policy or the tasks can't be used, no evaluation has this name, or `out` holds something else.
    pub fn evaluate_items(
        &self,
        name: Option<&str>,
        out: Option<&Path>,
        watch: &mut dyn Watch,
        stop: &Stop,
    ) -> Result<Evaluated, RunError> {
        let recipe = self.recipe();
        self.refuse_nothing_held_out()?;
        watch.event(Event::Doing("making tasks"));
        let tasks = Tasks::make(recipe, false)?.with_others(recipe)?;
        tasks.check_ready()?;
        let set = tasks.evaluation(name)?;
        let size = (BATCHES * recipe.rollout.batch_max / set.rollouts).max(1);
        let ids: Vec<&str> = set.tasks.iter().map(|task| task.id.0.as_str()).collect();
        let chunks: Vec<Range<usize>> =
            (0..ids.len()).step_by(size).map(|from| from..ids.len().min(from + size)).collect();
        let ends: Vec<usize> = chunks.iter().map(|chunk| chunk.end).collect();
        // Load the policy first: if it can't be used, nothing is written.
        let Asked { mut policy, .. } = self.opened(&tasks, set, watch)?;
        let strategy = strategy_config(recipe)?;
        let named = strategy.as_ref().map(serde_json::to_value).transpose().map_err(unwritable)?;
        let strategy = strategy.map(|strategy| built(&strategy)).transpose()?;
        let settings = || settings(self, set, size, named.clone());
        let (mut file, kept) = Records::open(out, settings, &ids, &ends)?;
        let begin = kept.len();
        if begin > 0 {
            watch.event(Event::Note(format!("{begin} of {} tasks are there already", ids.len())));
        }
        let mut played = Played { set, weights: &recipe.reward.weights, episodes: Vec::new(), tokens: 0 };
        played.add(&kept);
        let has_tokens = matches!(self.player(), Player::Model { .. });
        let start = Instant::now();
        for chunk in chunks.into_iter().filter(|chunk| chunk.end > begin) {
            if stop.is_asked() {
                return Ok(Evaluated::Interrupted { done: chunk.start, items: ids.len() });
            }
            let end = chunk.end;
            let episodes = play(recipe, &mut *policy, set, chunk.clone(), strategy.as_ref())?;
            played.tokens += episodes.iter().map(Episode::sampled_tokens).sum::<usize>();
            match &mut file {
                // Summarise the stored records, so that the result does not depend on which process played them.
                Some(file) => {
                    let records = records(&set.tasks[chunk], &episodes, played.weights, has_tokens);
                    file.append(&records)?;
                    played.add(&records);
                }
                None => played.episodes.extend(episodes),
            }
            watch.event(played.event(end, start));
        }
        let mut summary = summarise(recipe, &set.tasks, &played.episodes);
        if !has_tokens {
            summary.completion_tokens_mean = None;
        }
        if let Some(file) = &file {
            file.finish(&summary)?;
        }
        Ok(Evaluated::Done(Box::new(summary)))
    }

    /// The policy, ready to play a set, and the chat format of a model.
    ///
    /// # Errors
    /// If it can't be loaded or asked.
    pub(crate) fn opened(
        &self,
        tasks: &Tasks,
        set: &EvalSet,
        watch: &mut dyn Watch,
    ) -> Result<Asked, RunError> {
        watch.event(Event::Doing("loading the policy"));
        Ok(match self.player() {
            Player::Endpoint(config) => {
                Asked { policy: Box::new(served(config, self.recipe(), set)?), chat: None }
            }
            Player::Model { version, .. } => {
                self.share_library(tasks)?;
                let loaded = self.load()?;
                tasks.others.check(&loaded.chat.tokenizer)?;
                let policy = Box::new(loaded.sampler(*version, self.recipe().rollout.limits()));
                Asked { policy, chat: Some(loaded.chat) }
            }
        })
    }
}

/// A policy on a server, for evaluation.
///
/// # Errors
/// If the endpoint is malformed, its key is missing, or a server can't be told something that the evaluation asks
/// for: nothing is played differently from what the recipe says.
fn served(config: &EndpointConfig, recipe: &Recipe, set: &EvalSet) -> Result<EndpointPolicy, RunError> {
    let refuse = |problem: String| Err(RunError::Refused(problem));
    if let Err((key, rule)) = config.check() {
        return refuse(format!("--policy {}: `{key}` {rule}", config.url));
    }
    if let Err(error) = EndpointPolicy::ABILITIES.check_sampling(&set.sampling) {
        return refuse(format!(
            "--policy: an endpoint gets only `temperature`, `tokens_max` and a seed: {error}; leave the other \
             keys of sampling out of [eval] and [rollout]"
        ));
    }
    if recipe.eval.draft {
        return refuse("eval.draft: an endpoint can't continue a draft; set eval.draft=false".into());
    }
    Ok(EndpointPolicy::new(config.clone())?)
}

/// What has been played so far.
struct Played<'a> {
    set: &'a EvalSet,
    weights: &'a BTreeMap<String, f64>,
    episodes: Vec<Episode>,
    /// Tokens that this process sampled.
    tokens: usize,
}

impl Played<'_> {
    fn add(&mut self, records: &[ItemRecord]) {
        for record in records {
            let task = TaskId(record.id.clone());
            let episodes =
                record.samples.iter().enumerate().map(|(rollout, sample)| sample.episode(&task, rollout));
            self.episodes.extend(episodes);
        }
    }

    fn event(&self, done: usize, start: Instant) -> Event<'static> {
        let episodes = self.episodes.len();
        let successes = self.episodes.iter().filter(|episode| is_success(episode)).count();
        let is_rate = episodes > 0 && Measure::of(&self.episodes) == Measure::Success;
        Event::Items {
            done,
            items: self.set.tasks.len(),
            success: is_rate.then(|| successes as f64 / episodes as f64),
            tokens_per_second: self.tokens as f64 / start.elapsed().as_secs_f64().max(1e-9),
        }
    }
}

fn records(
    tasks: &[Task],
    episodes: &[Episode],
    weights: &BTreeMap<String, f64>,
    has_tokens: bool,
) -> Vec<ItemRecord> {
    let rollouts = (episodes.len() / tasks.len().max(1)).max(1);
    let record = |(task, episodes): (&Task, &[Episode])| ItemRecord {
        id: task.id.0.clone(),
        labels: task.labels.clone(),
        prompt: task.prompt.clone(),
        samples: episodes.iter().map(|episode| PlayedSample::of(episode, weights, has_tokens)).collect(),
    };
    tasks.iter().zip(episodes.chunks(rollouts)).map(record).collect()
}

pub(crate) fn settings(
    target: &Target,
    set: &EvalSet,
    chunk: usize,
    strategy: Option<Value>,
) -> Result<Settings, RunError> {
    let recipe: &Recipe = target.recipe();
    let policy = match target.player() {
        Player::Endpoint(endpoint) => json!({ "url": endpoint.url, "model": endpoint.model }),
        Player::Model { dir, .. } => {
            let precision = format!("{:?}", recipe.policy.sampling().precision).to_lowercase();
            let mut own = PolicySettings::of(dir, &precision)?;
            if let Some(template) = target.template() {
                own.files.insert("policy.chat_template".to_owned(), file_digest(template)?);
            }
            serde_json::to_value(own).map_err(unwritable)?
        }
    };
    let mut data = BTreeMap::new();
    for file in set.generator.files() {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        data.insert(name, file_digest(&file)?);
    }
    if let Some(thoughts) = &set.sampling.thoughts {
        let digests = controllers::digests(&thoughts.controls);
        data.extend(
            digests.map_err(|(key, problem)| RunError::Refused(format!("thoughts.{key}: {problem}")))?,
        );
    }
    if let Some(digest) = set.others.notes_digest() {
        data.insert("memory".to_owned(), digest);
    }
    let evaluation = json!({
        "name": set.name,
        "env": set.generator.id(),
        "config": set.generator.config(),
        "tasks": set.tasks.len(),
        "seed": recipe.eval.seed,
        "rollouts": set.rollouts,
        "sampling": set.sampling,
        "turns_max": recipe.rollout.turns_max,
        "weights": recipe.reward.weights,
        "plan": recipe.plan.as_ref().filter(|_| recipe.eval.draft),
        "cycle": recipe.eval.cycle,
    });
    Ok(Settings {
        burnish: env!("CARGO_PKG_VERSION").to_owned(),
        evaluation,
        policy,
        device: recipe.device.clone(),
        data,
        chunk,
        strategy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(verdict: Verdict, ending: Ending, logprobs: &[f32]) -> Episode {
        let mut trace = Trace::new();
        let count = logprobs.len();
        let stop = if ending == Ending::Truncated { StopReason::TokensMax } else { StopReason::EndToken };
        let sampled = Sampled {
            model_logprobs: logprobs.to_vec(),
            sampled_logprobs: None,
            policy_version: 3,
            temperature: 1.0,
            stop,
            latents: Vec::new(),
        };
        let (ids, sources) = (vec![7; count], vec![Source::Policy; count]);
        trace.push(Node { parent: None, text: "said".into(), ids, sources, sampled: Some(sampled) }).unwrap();
        let answers =
            if ending == Ending::ContextOverflow { vec![] } else { vec![Message::assistant("said")] };
        Episode {
            task: TaskId("a".into()),
            rollout: 0,
            traces: vec![trace],
            verdict,
            ending,
            answers,
            partners: Vec::new(),
            record: Record::default(),
        }
    }

    #[test]
    fn a_record_says_what_came_of_an_episode_and_its_summary_is_that_of_the_episode() {
        let bare = Verdict { has_success: false, ..Verdict::scored("reward", 0.5, true) };
        let cases = [
            (Verdict::scored("valid", 1.0, true), Ending::Completed, PlayedOutcome::Success),
            (Verdict::scored("valid", 0.25, false), Ending::Truncated, PlayedOutcome::Failure),
            (bare, Ending::Completed, PlayedOutcome::Judged),
            (Verdict::unscored("hung"), Ending::Completed, PlayedOutcome::Unscored),
            (Verdict::unscored("too long"), Ending::ContextOverflow, PlayedOutcome::PromptTooLong),
        ];
        let weights = BTreeMap::from([("valid".to_owned(), 2.0)]);
        for (verdict, ending, outcome) in cases {
            let whole = episode(verdict, ending, &[-0.5, -1.0, -0.25]);
            let sample = PlayedSample::of(&whole, &weights, true);
            assert_eq!((sample.outcome, sample.reward), (outcome, whole.verdict.total(&weights)));
            let line = serde_json::to_string(&sample).unwrap();
            let read: PlayedSample = serde_json::from_str(&line).unwrap();
            assert_eq!(read, sample, "{line}");
            let of = |episode: Episode| {
                let mut summary = Summary::of(&[], &[episode], &weights, 1);
                // A mean in place of the tokens' own numbers.
                let surprisal = summary.surprisal_mean.take();
                (summary, surprisal.unwrap_or(0.0))
            };
            let (expected, found) = (of(whole), of(read.episode(&TaskId("a".into()), 0)));
            assert_eq!(expected.0, found.0, "{line}");
            assert!((expected.1 - found.1).abs() < 1e-6, "{line}");
        }
    }
}
