//! Whether what a policy did for a request of several turns is right: the leaderboard's check of states and results.

use burnish_core::Message;

use super::apis::Apis;
use super::calls::Call;
use super::data::{Gold, Row};

/// Most answers with calls to one request. A policy that makes one more has failed the row.
pub(super) const STEPS_MAX: usize = 20;

/// What the user says when functions that were held back are offered, in the leaderboard's words, so that results can be
/// compared.
const FURTHER_FUNCTIONS: &str = "I have updated some more functions you can choose from. What about now?";

/// A row that is being played: the APIs that the policy acts on, and those that the gold calls act on.
#[derive(Debug, Clone)]
pub(super) struct Played {
    apis: Apis,
    gold: Apis,
    /// What the policy has read, over all requests.
    results: Vec<String>,
    /// Answers with calls to the present request.
    steps: usize,
    /// The present request.
    turn: usize,
}

/// What comes after an answer without calls.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    /// The next request.
    Said(Vec<Message>),
    /// All requests were done as they should be.
    Right,
    /// The present one was not: why.
    Wrong(String),
}

impl Played {
    pub(super) fn new(apis: &Apis) -> Self {
        Played { apis: apis.clone(), gold: apis.clone(), results: Vec::new(), steps: 0, turn: 0 }
    }

    /// Place of the present request.
    pub(super) fn turn(&self) -> usize {
        self.turn
    }

    /// Runs the calls of an answer, and returns what the policy reads.
    ///
    /// # Errors
    /// If there were too many answers with calls.
    pub(super) fn run(&mut self, row: &Row, calls: &[Call]) -> Result<Vec<String>, String> {
        self.steps += 1;
        let results = calls.iter().map(|call| self.apis.call(&row.functions, call));
        let results: Vec<String> = results.collect();
        self.results.extend(results.iter().cloned());
        match self.steps > STEPS_MAX {
            true => Err(format!("Request {} took more than {STEPS_MAX} answers with calls.", self.turn + 1)),
            false => Ok(results),
        }
    }

    /// Judges the present request, which the policy says is done, and goes on to the next one.
    pub(super) fn done(&mut self, row: &Row) -> Next {
        if let Gold::Turns { calls, .. } = &row.gold
            && let Some(calls) = calls.get(self.turn)
            && let Err(problem) = self.check(row, calls)
        {
            return Next::Wrong(format!("Request {}: {problem}", self.turn + 1));
        }
        self.turn += 1;
        self.steps = 0;
        match row.turns.get(self.turn) {
            None => Next::Right,
            Some(said) if said.is_empty() => Next::Said(vec![Message::user(FURTHER_FUNCTIONS)]),
            Some(said) => Next::Said(said.clone()),
        }
    }

    /// Runs the gold calls and compares. A request that the gold leaves alone is not judged: what a policy does then shows
    /// in the states after the next one.
    fn check(&mut self, row: &Row, calls: &[Call]) -> Result<(), String> {
        if calls.is_empty() {
            return Ok(());
        }
        let gold = calls.iter().map(|call| self.gold.call(&row.functions, call));
        let gold: Vec<String> = gold.collect();
        if self.steps == 0 {
            return Err("no call was made.".to_owned());
        }
        if let Some(class) = self.apis.differs(&self.gold) {
            return Err(format!("the state of {class} is not what it should be."));
        }
        let mut seen: Vec<&String> = self.results.iter().collect();
        for (call, result) in calls.iter().zip(&gold) {
            match seen.iter().position(|known| *known == result) {
                Some(at) => drop(seen.swap_remove(at)),
                None => return Err(format!("what `{}` returns was not looked up: {result}", call.name)),
            }
        }
        Ok(())
    }
}
