//! Makes tasks, and conversations to imitate.

use burnish_core::rng::{self, Address, Purpose, Stream};
use burnish_core::{Message, Task};

use super::Truth;
use super::config::{OrderRole, OrdersConfig};
use super::menu::{Wish, other};
use super::play::ORDER;
use super::talk::{Field, odd, reply};
use crate::CellReport;
use crate::shares::{largest_remainder, spread};
use crate::tasks::seed_of;

/// Most questions to a user in one task: one for each thing to ask for, and one repeated.
const QUESTIONS: usize = 4;

/// Makes `count` tasks, and reports on every cell: openings, or numbers of questions.
pub(super) fn truths(config: &OrdersConfig, seed: u64, count: usize) -> (Vec<Truth>, Vec<CellReport>) {
    let (shares, names): (Vec<f64>, Vec<String>) = match config.role {
        OrderRole::Clerk => {
            (vec![config.told, 1.0 - config.told], ["told", "open"].map(|it| format!("opening={it}")).into())
        }
        OrderRole::User => {
            (vec![1.0; QUESTIONS], (1..=QUESTIONS).map(|it| format!("questions={it}")).collect())
        }
    };
    let made = largest_remainder(&shares, count);
    let report = |(cell, made): (String, usize)| CellReport::all(cell, made);
    let reports = names.into_iter().zip(made).map(report).collect();
    let truth = |(index, cell): (usize, usize)| {
        let mut stream = Stream::new(seed_of(seed, index));
        let wish = Wish::draw(config, &mut stream).text();
        match config.role {
            OrderRole::Clerk => Truth::Clerk { wish, is_told: cell == 0 },
            OrderRole::User => {
                let questions = (0..=cell).map(|_| question(config, &mut stream).to_owned()).collect();
                Truth::User { wish, questions }
            }
        }
    };
    (spread(&shares, count).into_iter().enumerate().map(truth).collect(), reports)
}

/// Any question to a user.
fn question(config: &OrdersConfig, stream: &mut Stream) -> &'static str {
    if stream.uniform() < config.odd {
        return odd(stream);
    }
    let field = Field::ALL[stream.index(Field::ALL.len())];
    field.question(config, stream)
}

/// How an order is taken by a rule: every necessary question, then the order. If the task's id says so, one question is
/// left out and its answer guessed wrong.
pub(super) fn taking(config: &OrdersConfig, task: &Task, wish: &Wish, is_told: bool) -> Vec<Message> {
    let id = rng::fold_bytes(task.id.0.len() as u64, task.id.0.as_bytes());
    let mut stream = Stream::new(Address { task: id, ..Address::new(0, Purpose::Perturb) }.seed());
    let is_wrong = stream.uniform() < config.demonstration_errors;
    let mut needed: Vec<Field> = Field::ALL.into();
    needed.retain(|field| match field {
        Field::Item => !is_told,
        Field::Size => true,
        Field::Extras => config.extras_max > 0,
    });
    let mut order = wish.clone();
    if is_wrong {
        let (item, size) = (wish.item, wish.size);
        match needed.remove(stream.index(needed.len())) {
            Field::Item => order.item = other(item, config.items, &mut stream),
            Field::Size => order.size = other(size, config.sizes, &mut stream),
            Field::Extras => order = wish.with_other_extras(config, &mut stream),
        }
    }
    let mut messages = Vec::with_capacity(2 * needed.len() + 1);
    for field in needed {
        let question = field.question(config, &mut stream);
        messages.extend([Message::assistant(question), Message::user(reply(wish, question))]);
    }
    messages.push(Message::assistant(format!("{ORDER} {}", order.text())));
    messages
}

/// Name and value of a task's label.
pub(super) fn label(truth: &Truth) -> (&'static str, String) {
    match truth {
        Truth::Clerk { is_told, .. } => ("opening", if *is_told { "told" } else { "open" }.to_owned()),
        Truth::User { questions, .. } => ("questions", questions.len().to_string()),
    }
}
