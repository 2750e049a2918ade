//! One episode: exploring in an inner episode of its own, then the game in a fresh one.

use std::sync::Arc;

use burnish_core::rng::{Stream, fold_bytes};
use burnish_core::{Message, Repeating, Role, Task, Verdict};

use super::ID;
use super::config::MappedConfig;
use super::notes::Notes;
use crate::around::{inner, plays_around};
use crate::many_turns::{said, started};
use crate::mapping::{DONE, Explorer, Section};
use crate::{EnvError, Environment, Generator, Step};

/// What a policy is told that explores by itself.
pub(super) const EXPLORE: &str = "First explore: nothing counts yet. Answer `done` to begin; then everything starts \
afresh, with a map of what you found.";

/// What is said before a map.
pub(super) const MAP: &str = "Found by exploring, before everything started afresh:";

/// What is said after exploring before the game begins.
const BEGINS: &str = "Now it counts.";

/// Explores and plays tasks of another environment.
pub(super) struct Mapped {
    config: MappedConfig,
    generator: Arc<dyn Generator>,
    /// The episode that counts.
    inner: Box<dyn Environment>,
    episode: Option<Episode>,
}

struct Episode {
    /// The task of the other environment, and the seed of both of its episodes.
    task: Task,
    seed: u64,
    /// The exploring of the policy, while it goes on.
    exploring: Option<Exploring>,
    found: Found,
    /// Steps of the game.
    acted: usize,
}

/// An inner episode that does not count.
struct Exploring {
    environment: Box<dyn Environment>,
    notes: Notes,
    stream: Stream,
    /// Whether the inner episode is over.
    over: bool,
}

/// What exploring came to.
#[derive(Default)]
struct Found {
    map: Vec<(Section, String)>,
    steps: usize,
    curiosity: f64,
    /// Whether the task was solved on the way, which does not count.
    reached: bool,
}

/// The texts of what a user says, one after the other.
fn text_of(messages: &[Message]) -> String {
    let said = messages.iter().filter(|message| message.role != Role::System);
    said.map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// Puts a text before or after what the user says last.
fn joined(mut messages: Vec<Message>, text: &str, is_before: bool) -> Vec<Message> {
    match messages.last_mut().filter(|last| last.role == Role::User) {
        Some(last) if is_before => last.content = format!("{text}\n\n{}", last.content),
        Some(last) => last.content = format!("{}\n\n{text}", last.content),
        None => messages.push(Message::user(text)),
    }
    messages
}

/// How an episode opens in which the policy explores.
pub(super) fn explored_first(opening: Vec<Message>) -> Vec<Message> {
    joined(opening, EXPLORE, false)
}

/// Whether an environment can be explored: what it does there must have no effect outside of its episode.
///
/// # Errors
/// If not: why.
pub(super) fn check(environment: &dyn Environment, id: &str) -> Result<(), EnvError> {
    if environment.stepping() == Some(Repeating::Outside) {
        let problem = format!(
            "`{id}` changes the world, so it does not start afresh after exploring; set explore_max to 0"
        );
        return Err(EnvError::Failed(problem));
    }
    if let Some(tool) = environment.tools().iter().find(|tool| environment.repeating(&tool.name).is_some()) {
        let problem = format!(
            "`{id}` is played by calls (`{}`), and exploring is by texts; set explore_max to 0",
            tool.name
        );
        return Err(EnvError::Failed(problem));
    }
    Ok(())
}

impl Exploring {
    /// Takes a command. Returns what is said; nothing at the end of the inner episode, or where it would ask somebody.
    fn take(&mut self, action: &Message, config: &MappedConfig) -> Result<Option<Vec<Message>>, EnvError> {
        let messages = match self.environment.step(action)? {
            Step::Continue(messages) => Some(messages),
            Step::Done | Step::Ask(_) | Step::Turn(_) => None,
        };
        let command = said(&action.content).lines().next().unwrap_or_default().trim();
        self.notes.note(command, messages.as_deref().map(text_of).as_deref(), config);
        self.over = messages.is_none();
        Ok(messages)
    }

    fn is_enough(&self, config: &MappedConfig) -> bool {
        self.over || self.notes.steps() >= config.explore_max || self.notes.is_dull(config)
    }

    /// Ends the inner episode. Its verdict only says whether exploring has solved the task.
    fn end(mut self, config: &MappedConfig) -> Result<Found, EnvError> {
        let steps = self.notes.steps();
        Ok(Found {
            map: self.notes.map(config),
            steps,
            curiosity: self.notes.curiosity(),
            reached: steps > 0 && self.environment.verify()?.success,
        })
    }
}

impl Found {
    /// Puts the map before what is seen first.
    fn before(&self, sight: Vec<Message>) -> Vec<Message> {
        if self.map.is_empty() {
            return sight;
        }
        let lines = self.map.iter().map(|(section, line)| format!("{} {line}", section.name()));
        let text = [MAP.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n");
        joined(sight, &text, true)
    }
}

impl Mapped {
    pub(super) fn new(config: MappedConfig, generator: Arc<dyn Generator>) -> Self {
        Mapped { inner: generator.environment(), config, generator, episode: None }
    }

    fn episode(&mut self) -> Result<&mut Episode, EnvError> {
        started(ID, self.episode.as_mut())
    }

    /// Lets a program explore.
    fn explore(&self, exploring: &mut Exploring) -> Result<(), EnvError> {
        let config = &self.config;
        if !exploring.notes.are_commands_listed() {
            let problem = format!(
                "commands: `{}` is not in what `{}` says first, so a program does not know what it can do; let it list its \
                 commands, or take explorer = \"policy\"",
                config.commands, config.of.id
            );
            return Err(EnvError::Failed(problem));
        }
        while !exploring.is_enough(config) {
            let Some(command) = exploring.notes.choose(config.explorer, &mut exploring.stream) else { break };
            exploring.take(&Message::assistant(command), config)?;
        }
        Ok(())
    }

    /// Begins the game that counts, after what was explored. Returns its first sight.
    fn start(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError> {
        self.inner = self.generator.environment();
        self.inner.reset(task, seed)
    }

    /// Ends the policy's exploring and begins the game; returns what is said then.
    fn begin_game(&mut self, exploring: Exploring) -> Result<String, EnvError> {
        let found = exploring.end(&self.config)?;
        let Episode { task, seed, .. } = self.episode()?;
        let (task, seed) = (task.clone(), *seed);
        let sight = self.start(&task, seed)?;
        let text = text_of(&found.before(sight));
        self.episode()?.found = found;
        Ok(format!("{BEGINS}\n\n{text}"))
    }

    /// What a program would do in the policy's place while it explores; nothing in the game.
    pub(super) fn proposed(&mut self) -> Option<String> {
        let exploring = self.episode.as_mut()?.exploring.as_mut()?;
        let chosen = exploring.notes.choose(Explorer::Curious, &mut exploring.stream);
        Some(chosen.unwrap_or_else(|| DONE.to_owned()))
    }

    /// The environment in which things happen now.
    fn now(&mut self) -> &mut Box<dyn Environment> {
        let exploring = self.episode.as_mut().and_then(|episode| episode.exploring.as_mut());
        exploring.map_or(&mut self.inner, |exploring| &mut exploring.environment)
    }
}

impl Environment for Mapped {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError> {
        let task = inner(ID, task)?;
        self.episode = None;
        let mut episode =
            Episode { task: task.clone(), seed, exploring: None, found: Found::default(), acted: 0 };
        if self.config.explore_max == 0 {
            let sight = self.start(&task, seed)?;
            self.episode = Some(episode);
            return Ok(sight);
        }
        let mut environment = self.generator.environment();
        check(&*environment, &self.config.of.id)?;
        let sight = environment.reset(&task, seed)?;
        let notes = Notes::new(&text_of(&sight), &self.config);
        let stream = Stream::new(fold_bytes(seed, b"exploring"));
        let mut exploring = Exploring { environment, notes, stream, over: false };
        if self.config.policy_explores() {
            episode.exploring = Some(exploring);
            self.episode = Some(episode);
            return Ok(explored_first(sight));
        }
        self.explore(&mut exploring)?;
        // It is over before the game begins, so that both can be played by one process.
        episode.found = exploring.end(&self.config)?;
        let sight = self.start(&task, seed)?;
        let opening = episode.found.before(sight);
        self.episode = Some(episode);
        Ok(opening)
    }

    plays_around!();

    fn stepping(&self) -> Option<Repeating> {
        self.inner.stepping()
    }

    fn called(&mut self, answer: &Message, said: &[Message]) {
        if let Some(episode) = &mut self.episode {
            episode.acted += 1;
        }
        self.inner.called(answer, said);
    }

    fn stepped(&mut self, action: &Message, step: &Step) {
        self.now().stepped(action, step);
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let Some(mut exploring) = self.episode()?.exploring.take() else {
            self.episode()?.acted += 1;
            return self.inner.step(action);
        };
        if said(&action.content) == DONE {
            let text = self.begin_game(exploring)?;
            return Ok(Step::Continue(vec![Message::user(text)]));
        }
        let messages = exploring.take(action, &self.config)?.unwrap_or_default();
        if !exploring.is_enough(&self.config) {
            self.episode()?.exploring = Some(exploring);
            return Ok(Step::Continue(messages));
        }
        let text = self.begin_game(exploring)?;
        Ok(Step::Continue(joined(messages, &text, false)))
    }

    fn hear(&mut self, said: &Message) -> Result<Step, EnvError> {
        self.inner.hear(said)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let unplayed = self.episode()?.exploring.take();
        let is_unplayed = unplayed.is_some();
        if let Some(exploring) = unplayed {
            // What was explored does not count: judged is a game in which nothing was done.
            self.begin_game(exploring)?;
        }
        let mut verdict = self.inner.verify()?;
        let Episode { found, acted, .. } = self.episode()?;
        let count = |section: Section| found.map.iter().filter(|(of, _)| *of == section).count() as f64;
        let counts = Section::ALL.map(|section| (format!("map_{}", section.name()), count(section)));
        let (explored, acted) = (found.steps as f64, *acted as f64);
        let metrics = [
            ("explored", explored),
            ("acted", acted),
            ("steps", explored + acted),
            ("curiosity", found.curiosity),
        ];
        verdict.metrics.extend(metrics.map(|(name, value)| (name.to_owned(), value)));
        verdict.metrics.extend(counts);
        let flags = [("reached_exploring", found.reached), ("unplayed", is_unplayed)];
        verdict.flags.extend(flags.map(|(name, is_set)| (name.to_owned(), is_set)));
        Ok(verdict)
    }
}
