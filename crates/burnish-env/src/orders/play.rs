//! One episode: of the clerk, or of the user.

use std::collections::BTreeMap;

use burnish_core::{Message, Task, Verdict};

use super::config::{OrdersConfig, User};
use super::menu::{Wish, words};
use super::talk::{Field, opening, reply, rules, user_reads};
use super::{ID, Truth};
use crate::many_turns::{over, said, started};
use crate::{EnvError, Environment, Question, Step};

/// The user's name in the run's cast.
const USER: &str = "user";

/// The prefix of an order.
pub(super) const ORDER: &str = "order:";

/// The messages that open the clerk's conversation.
pub(super) fn clerk_reads(config: &OrdersConfig, wish: &Wish, is_told: bool) -> Vec<Message> {
    rules(config).into_iter().chain([Message::user(opening(wish, is_told))]).collect()
}

/// Plays tasks for the clerk.
#[derive(Debug)]
pub(super) struct Clerk {
    config: OrdersConfig,
    episode: Option<Taking>,
}

/// The state while an order is taken.
#[derive(Debug)]
struct Taking {
    wish: Wish,
    /// Questions and the user's replies.
    heard: Vec<(String, String)>,
    /// The question that the user has not answered yet.
    asked: Option<String>,
    turns: usize,
    end: Option<End>,
}

/// How an episode ended.
#[derive(Debug)]
enum End {
    /// With an order; `None` if it can't be read.
    Ordered(Option<Wish>),
    /// The user left after too many questions.
    Left,
}

impl Clerk {
    pub(super) fn new(config: OrdersConfig) -> Self {
        Clerk { config, episode: None }
    }
}

impl Environment for Clerk {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let (wish, is_told) = Truth::of(task)?.clerk(task)?;
        let messages = clerk_reads(&self.config, &wish, is_told);
        self.episode = Some(Taking { wish, heard: Vec::new(), asked: None, turns: 0, end: None });
        Ok(messages)
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let episode = started(ID, self.episode.as_mut())?;
        if episode.end.is_some() || episode.asked.is_some() {
            return Err(over(ID));
        }
        episode.turns += 1;
        let said = said(&action.content);
        if let Some((_, order)) = said.to_lowercase().rsplit_once(ORDER) {
            episode.end = Some(End::Ordered(Wish::parse(order)));
            return Ok(Step::Done);
        }
        if episode.heard.len() >= self.config.questions_max {
            episode.end = Some(End::Left);
            return Ok(Step::Done);
        }
        let messages = user_reads(&self.config, &episode.wish, &episode.heard, said);
        episode.asked = Some(said.to_owned());
        match self.config.user {
            User::Policy => Ok(Step::Ask(Question { who: USER.to_owned(), messages, is_for_verdict: false })),
            User::Script => {
                let answer = reply(&episode.wish, said);
                self.hear(&Message::assistant(answer))
            }
        }
    }

    fn hear(&mut self, answer: &Message) -> Result<Step, EnvError> {
        let episode = started(ID, self.episode.as_mut())?;
        let nobody = || EnvError::Failed(format!("{ID}: nobody was asked"));
        let question = episode.asked.take().ok_or_else(nobody)?;
        let answer = said(&answer.content).to_owned();
        episode.heard.push((question, answer.clone()));
        Ok(Step::Continue(vec![Message::user(answer)]))
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Taking { wish, turns, end, .. } = started(ID, self.episode.as_ref())?;
        let order = match end {
            Some(End::Ordered(order)) => order.as_ref(),
            Some(End::Left) | None => None,
        };
        let success = order == Some(wish);
        let mut verdict = Verdict::scored("success", f64::from(u8::from(success)), success);
        let differs = |field: Field| {
            order.is_some_and(|order| match field {
                Field::Item => order.item != wish.item,
                Field::Size => order.size != wish.size,
                Field::Extras => order.extras != wish.extras,
            })
        };
        let ordered = matches!(end, Some(End::Ordered(_)));
        verdict.flags = BTreeMap::from([
            ("left".to_owned(), matches!(end, Some(End::Left))),
            ("no_order".to_owned(), !ordered),
            ("unreadable".to_owned(), ordered && order.is_none()),
        ]);
        verdict.flags.extend(Field::ALL.map(|field| (format!("wrong_{}", field.name()), differs(field))));
        if !success {
            verdict.feedback = Some(match (end, order) {
                (None, _) => "There was no order.".to_owned(),
                (Some(End::Left), _) => "The user was asked too much, and left.".to_owned(),
                (_, None) => "The order can't be read: one size, one dish, and extras.".to_owned(),
                (_, Some(order)) => format!("The user wanted {}, not {}.", wish.text(), order.text()),
            });
            verdict.error_turn = ordered.then(|| turns.saturating_sub(1));
        }
        Ok(verdict)
    }
}

/// Plays tasks for the user, who is asked the task's questions.
#[derive(Debug)]
pub(super) struct Guest {
    config: OrdersConfig,
    episode: Option<Answering>,
}

/// The state while a user answers.
#[derive(Debug)]
struct Answering {
    wish: Wish,
    questions: Vec<String>,
    answers: Vec<String>,
}

impl Guest {
    pub(super) fn new(config: OrdersConfig) -> Self {
        Guest { config, episode: None }
    }
}

impl Environment for Guest {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let (wish, questions) = Truth::of(task)?.guest(task)?;
        let messages = user_reads(&self.config, &wish, &[], &questions[0]);
        self.episode = Some(Answering { wish, questions, answers: Vec::new() });
        Ok(messages)
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let episode = started(ID, self.episode.as_mut())?;
        if episode.answers.len() >= episode.questions.len() {
            return Err(over(ID));
        }
        episode.answers.push(said(&action.content).to_owned());
        Ok(match episode.questions.get(episode.answers.len()) {
            Some(question) => Step::Continue(vec![Message::user(question)]),
            None => Step::Done,
        })
    }

    /// Right if every question got its answer: the same words, in any order.
    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Answering { wish, questions, answers } = started(ID, self.episode.as_ref())?;
        let sorted = |text: &str| {
            let mut words = words(text);
            words.sort();
            words
        };
        let is_right = |at: usize| {
            let answer = answers.get(at).map(|answer| sorted(answer));
            answer == Some(sorted(&reply(wish, &questions[at])))
        };
        let wrong = (0..questions.len()).find(|&at| !is_right(at));
        let mut verdict = Verdict::scored("success", f64::from(u8::from(wrong.is_none())), wrong.is_none());
        verdict.flags = BTreeMap::from([("unfinished".to_owned(), answers.len() < questions.len())]);
        if let Some(at) = wrong {
            let right = reply(wish, &questions[at]);
            verdict.feedback = Some(format!("The answer to `{}` is `{right}`.", questions[at]));
            verdict.error_turn = (at < answers.len()).then_some(at);
        }
        Ok(verdict)
    }
}
