//! One episode, driven by whoever has its policies at hand: a policy that answers a turn by an episode of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use burnish_core::{Place, PolicyError, Trace, Turn, TurnOutput};

use crate::desk::{Arrived, Question};
use crate::handle::ContactError;
use crate::run::{Finished, RunError, Started};

/// An episode that takes turns and does nothing else.
pub struct Driven<'f, T, E> {
    episode: Started<'f, T, E>,
    /// The questions under way.
    waiting: BTreeSet<Place>,
}

/// A turn that an episode asks for.
#[derive(Debug)]
pub struct AskedTurn {
    /// Where its answer goes.
    pub place: Place,
    /// The policy that is asked.
    pub policy: Arc<str>,
    /// What is asked.
    pub turn: Turn,
}

/// How far an episode came.
#[derive(Debug)]
pub enum Progress<T> {
    /// It waits for turns.
    Waits {
        /// Those that it asks for now.
        asked: Vec<AskedTurn>,
        /// The places of earlier ones that it no longer waits for.
        given_up: Vec<Place>,
    },
    /// It is over.
    Over(Box<Finished<T>>),
}

impl<'f, T, E> Driven<'f, T, E> {
    /// Drives `episode`.
    pub fn new(episode: Started<'f, T, E>) -> Self {
        Driven { episode, waiting: BTreeSet::new() }
    }

    /// Gives the episode the answer to a question. It goes on with [`Driven::advance`].
    pub fn answered(&mut self, place: Place, trace: Trace, result: Result<TurnOutput, PolicyError>) {
        if self.waiting.remove(&place) {
            self.episode.desk.borrow_mut().arrived.insert(place, Arrived::Turn(Box::new((trace, result))));
        }
    }

    /// Runs the episode until it waits for turns or is over.
    ///
    /// # Errors
    /// If the episode returns an error, does not fit its record, waits for nothing, or asks for anything but turns.
    pub fn advance(&mut self) -> Result<Progress<T>, RunError<E>> {
        let polled = self.episode.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let value = match polled {
            Poll::Ready(result) => result.map_err(RunError::Episode)?,
            Poll::Pending => return self.wait(),
        };
        let closed = self.episode.desk.borrow_mut().close();
        let (record, traces) = closed.map_err(|source| RunError::Contact { at: 0, source })?;
        Ok(Progress::Over(Box::new(Finished { value, record, traces })))
    }

    fn wait(&mut self) -> Result<Progress<T>, RunError<E>> {
        let mut desk = self.episode.desk.borrow_mut();
        let given_up = std::mem::take(&mut desk.given_up);
        desk.outbox.retain(|(place, _)| !given_up.contains(place));
        let questions = std::mem::take(&mut desk.outbox);
        drop(desk);
        given_up.iter().for_each(|place| {
            self.waiting.remove(place);
        });
        let mut asked = Vec::new();
        for (place, question) in questions {
            let Question::Turn { policy, turn } = question else {
                let problem = "it may take turns and nothing else here".to_owned();
                let source = ContactError::Failed { what: format!("the contact at {place}"), problem };
                return Err(RunError::Contact { at: 0, source });
            };
            self.waiting.insert(place.clone());
            asked.push(AskedTurn { place, policy, turn: *turn });
        }
        if self.waiting.is_empty() {
            return Err(RunError::Stuck { at: 0 });
        }
        Ok(Progress::Waits { asked, given_up })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use burnish_core::rng::{Address, Purpose};
    use burnish_core::{Message, Sampling, StopReason};

    use super::*;
    use crate::{Ask, Handle, Known};

    fn ask(seed: u64) -> Ask {
        Ask {
            messages: Arc::new(vec![Message::user("?")]),
            tools: Arc::default(),
            prefix: Vec::new(),
            sampling: Arc::new(Sampling::greedy(1)),
            seed,
        }
    }

    async fn two_at_once(handle: Handle) -> Result<Vec<String>, ContactError> {
        let name: Arc<str> = "policy".into();
        let said = handle.all(2, |at, handle| {
            let agent = handle.agent(&name, Trace::new());
            async move { handle.sample(&agent, ask(u64::from(at))).await.map(|output| output.message.content) }
        });
        said.await.into_iter().collect()
    }

    fn said(text: &str) -> Result<TurnOutput, PolicyError> {
        let (message, stop) = (Message::assistant(text), StopReason::EndToken);
        Ok(TurnOutput::new(message, stop))
    }

    fn address() -> Address {
        Address::new(1, Purpose::Sample)
    }

    #[test]
    fn answers_may_come_in_any_order_and_a_record_gives_them_again() {
        let mut driven = Driven::new(Started::new(address(), Known::default(), two_at_once));
        let Progress::Waits { asked, given_up } = driven.advance().unwrap() else { panic!("it is over") };
        assert_eq!((asked.len(), given_up.len()), (2, 0));
        driven.answered(asked[1].place.clone(), Trace::new(), said("b"));
        let Progress::Waits { asked: more, .. } = driven.advance().unwrap() else { panic!("it is over") };
        assert!(more.is_empty());
        driven.answered(asked[0].place.clone(), Trace::new(), said("a"));
        let Progress::Over(over) = driven.advance().unwrap() else { panic!("it waits") };
        assert_eq!(over.value, ["a", "b"]);
        let known = Known { record: over.record, traces: over.traces };
        let mut again = Driven::new(Started::new(address(), known, two_at_once));
        let Progress::Over(over) = again.advance().unwrap() else { panic!("it asks again") };
        assert_eq!(over.value, ["a", "b"]);
    }

    #[test]
    fn what_is_not_a_turn_is_refused() {
        let waits = async |handle: Handle| handle.wait(Duration::from_secs(1)).await;
        let error = Driven::new(Started::new(address(), Known::default(), waits)).advance().unwrap_err();
        assert!(error.to_string().contains("turns and nothing else"), "{error}");
    }
}
