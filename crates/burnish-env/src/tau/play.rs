//! One episode: calls of tools and messages to the user, until the user has nothing more to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{FunctionCall, Message, Repeating, Task, ToolSpec, Verdict};

use super::ID;
use super::case::Case;
use super::config::{TauConfig, User};
use super::data::Data;
use super::judge::{Ended, Played, gold_world, verdict};
use super::user::{HELLO, RuleUser, before_stop, user_reads};
use super::world::{World, repeating, specs};
use crate::{EnvError, Environment, Question, Step};

/// The user's name in the run's cast.
const USER: &str = "user";

/// The tool after which the user is somebody else's.
const TRANSFER: &str = "transfer_to_human_agents";

/// What a refusal begins with.
const REFUSAL: &str = "Error";

/// Plays tasks of some domains.
#[derive(Debug)]
pub(super) struct TauEnvironment {
    all: Vec<Arc<Data>>,
    user: User,
    turns: usize,
    episode: Option<Episode>,
}

/// The state of an episode.
#[derive(Debug)]
struct Episode {
    data: Arc<Data>,
    case: Case,
    world: World,
    rule: RuleUser,
    /// What the policy said to the user, and the answers, of a user whom somebody else plays.
    heard: Vec<(String, String)>,
    /// What the user has not answered yet.
    said: Option<String>,
    played: Played,
}

impl TauEnvironment {
    pub(super) fn new(all: Vec<Arc<Data>>, config: &TauConfig) -> Self {
        TauEnvironment { all, user: config.user, turns: config.turns, episode: None }
    }

    /// The state of the database.
    #[cfg(test)]
    pub(super) fn world(&self) -> &World {
        &self.episode.as_ref().unwrap().world
    }

    fn episode(&mut self) -> Result<&mut Episode, EnvError> {
        let not_started = || EnvError::Failed(format!("{ID}: no episode has been started: reset first"));
        self.episode.as_mut().ok_or_else(not_started)
    }
}

/// The first words of the user.
pub(super) fn opening(case: &Case, user: User) -> String {
    match user {
        User::Rule => RuleUser::new(&case.brief).opening(),
        User::Policy => HELLO.to_owned(),
    }
}

/// What an answer says: the text after the last `</think>`.
fn said(message: &Message) -> &str {
    let text = &message.content;
    text.rsplit_once("</think>").map_or(text.as_str(), |(_, rest)| rest).trim()
}

impl Environment for TauEnvironment {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let case = Case::of(task)?;
        let mut served = self.all.iter();
        let Some(data) = served.find(|data| case.domain == data.domain && case.set == data.set).cloned()
        else {
            let (domain, set) = (case.domain.name(), case.set.name());
            let served: Vec<String> = self
                .all
                .iter()
                .map(|data| format!("{} of {}", data.domain.name(), data.set.name()))
                .collect();
            let problem = format!(
                "task {} is of the domain {domain} of {set}, but `domain` and the folder are {}",
                task.id,
                served.join(", ")
            );
            return Err(EnvError::Foreign(problem));
        };
        let mut rule = RuleUser::new(&case.brief);
        if self.user == User::Rule {
            rule.opening();
        }
        self.episode = Some(Episode {
            case,
            world: data.world.clone(),
            data,
            rule,
            heard: Vec::new(),
            said: None,
            played: Played::default(),
        });
        Ok(task.prompt.clone())
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let playing = self.episode.as_ref().map(|episode| &episode.data).or(self.all.first());
        playing.map_or_else(Vec::new, |data| specs(data.domain, data.set))
    }

    fn repeating(&self, tool: &str) -> Option<Repeating> {
        let playing = self.episode.as_ref().map(|episode| &episode.data).or(self.all.first())?;
        repeating(playing.domain, playing.set, tool)
    }

    fn call(&mut self, call: &FunctionCall, _key: &str) -> Result<String, EnvError> {
        let said = self.episode()?.world.call(call);
        Ok(said.unwrap_or_else(|refusal| format!("{REFUSAL}: {refusal}")))
    }

    fn called(&mut self, answer: &Message, results: &[Message]) {
        let Some(episode) = &mut self.episode else { return };
        let played = &mut episode.played;
        played.calls.extend(answer.tool_calls.iter().map(|call| call.function.clone()));
        played.said.push(said(answer).to_owned());
        played.refused |= results.iter().any(|result| result.content.starts_with(REFUSAL));
        played.transferred |= answer.tool_calls.iter().any(|call| call.function.name == TRANSFER);
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let user = self.user;
        let episode = self.episode()?;
        if episode.played.ended.is_some() || episode.said.is_some() {
            return Err(EnvError::Failed(format!("{ID}: the episode is over, or waits for the user")));
        }
        let said = said(action).to_owned();
        let played = &mut episode.played;
        played.said.push(said.clone());
        played.messages += 1;
        played.asked += usize::from(said.contains('?'));
        if played.transferred {
            played.ended = Some(Ended::ByUser);
            return Ok(Step::Done);
        }
        match user {
            User::Policy => {
                let messages = user_reads(&episode.case.brief, &episode.heard, &said);
                episode.said = Some(said);
                Ok(Step::Ask(Question { who: USER.to_owned(), messages }))
            }
            User::Rule => {
                let answer = episode.rule.reply(&said);
                episode.said = Some(said);
                self.hear(&Message::assistant(answer))
            }
        }
    }

    fn hear(&mut self, answer: &Message) -> Result<Step, EnvError> {
        let turns = self.turns;
        let episode = self.episode()?;
        let nobody = || EnvError::Failed(format!("{ID}: nobody was asked"));
        let asked = episode.said.take().ok_or_else(nobody)?;
        let answer = said(answer).to_owned();
        if before_stop(&answer).is_some() {
            episode.played.ended = Some(Ended::ByUser);
            return Ok(Step::Done);
        }
        if episode.played.messages >= turns {
            episode.played.ended = Some(Ended::Left);
            return Ok(Step::Done);
        }
        episode.heard.push((asked, answer.clone()));
        Ok(Step::Continue(vec![Message::user(answer)]))
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Episode { data, case, world, played, .. } = self.episode()?;
        let start = &data.world;
        let gold = gold_world(case, start);
        let mut verdict = verdict(case, played, &gold.differences(world));
        let is_untouched = start.differences(world).is_empty();
        verdict.flags.extend(BTreeMap::from([("untouched".to_owned(), is_untouched)]));
        Ok(verdict)
    }
}
