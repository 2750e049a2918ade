//! The state that a function, its handles and the runner share: questions on their way out, answers on their way in.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use burnish_core::rng::Address;
use burnish_core::{Contact, Fork, Place, PolicyError, Record, Speaker, Told, Trace, Turn, TurnOutput};

use crate::handle::ContactError;
use crate::outside::Job;

/// A question of a function that can't be answered at once.
pub(crate) enum Question {
    Turn {
        policy: Arc<str>,
        turn: Box<Turn>,
    },
    Work(Job),
    Wait(Duration),
    /// May an episode within this function begin?
    Begin,
    /// Is nothing else running?
    Quiet,
}

/// The answer to a question.
pub(crate) enum Arrived {
    Turn(Box<(Trace, Result<TurnOutput, PolicyError>)>),
    /// The result of the work, or why it failed.
    Work(Result<Box<dyn Any + Send>, String>),
    /// Time has passed, or what was waited for is so.
    Now,
    /// There is room for the episode, which it takes.
    Begun,
}

/// The desks of the episodes within a function, and within those.
#[derive(Default)]
pub(crate) struct Within {
    /// By their numbers, from 1 on: the function's own desk is 0.
    pub(crate) open: BTreeMap<u32, Shared>,
    /// Those whose episodes are over since the runner last looked, and whether they took room.
    pub(crate) over: Vec<(u32, Shared, bool)>,
    count: u32,
}

/// An episode within a function, until it is over.
pub(crate) struct Inner {
    pub(crate) desk: Shared,
    within: Rc<RefCell<Within>>,
    number: u32,
    takes_room: bool,
}

impl Inner {
    /// An episode that began at `place` of the desk `outer`.
    pub(crate) fn new(
        (outer, place): (&Shared, &Place),
        address: Address,
        (record, traces): (Record, Vec<Trace>),
        takes_room: bool,
    ) -> Self {
        let (within, key) = {
            let outer = outer.borrow();
            (Rc::clone(&outer.within), format!("{}{place}/", outer.key))
        };
        let desk = Desk { within: Rc::clone(&within), key, ..Desk::new(address, record, traces) };
        let desk = Rc::new(RefCell::new(desk));
        let number = {
            let mut within = within.borrow_mut();
            within.count += 1;
            let number = within.count;
            within.open.insert(number, Rc::clone(&desk));
            number
        };
        Inner { desk, within, number, takes_room }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut within = self.within.borrow_mut();
        if let Some(desk) = within.open.remove(&self.number) {
            within.over.push((self.number, desk, self.takes_room));
        }
    }
}

/// The desk of one episode.
pub(crate) struct Desk {
    pub(crate) address: Address,
    /// Shared with the desks of all episodes within this function.
    pub(crate) within: Rc<RefCell<Within>>,
    /// Where it began within others, so that the keys of its work are its own: empty for a function by itself.
    pub(crate) key: String,
    /// The contacts of an earlier run of the function that this run has not reached yet.
    known: BTreeMap<Place, Contact>,
    known_traces: BTreeMap<Place, Trace>,
    known_policies: BTreeMap<Place, Arc<str>>,
    /// The contacts of this run.
    record: BTreeMap<Place, Contact>,
    pub(crate) traces: BTreeMap<Place, Trace>,
    pub(crate) policies: BTreeMap<Place, Arc<str>>,
    counts: BTreeMap<Vec<Fork>, u32>,
    pub(crate) outbox: Vec<(Place, Question)>,
    pub(crate) given_up: Vec<Place>,
    pub(crate) arrived: BTreeMap<Place, Arrived>,
    /// Whether the function can't reach the point that an earlier run of it reached.
    pub(crate) is_lost: bool,
}

pub(crate) type Shared = Rc<RefCell<Desk>>;

impl Desk {
    pub(crate) fn new(address: Address, record: Record, traces: Vec<Trace>) -> Self {
        Desk {
            address,
            within: Rc::default(),
            key: String::new(),
            known: record.contacts.into_iter().map(|contact| (contact.at.clone(), contact)).collect(),
            known_traces: record.agents.iter().map(|agent| agent.at.clone()).zip(traces).collect(),
            known_policies: record.agents.into_iter().map(|agent| (agent.at, agent.policy.into())).collect(),
            record: BTreeMap::new(),
            traces: BTreeMap::new(),
            policies: BTreeMap::new(),
            counts: BTreeMap::new(),
            outbox: Vec::new(),
            given_up: Vec::new(),
            arrived: BTreeMap::new(),
            is_lost: false,
        }
    }

    /// The next place in a branch.
    pub(crate) fn place(&mut self, branch: &[Fork]) -> Place {
        let number = match self.counts.get_mut(branch) {
            Some(count) => {
                *count += 1;
                *count
            }
            None => {
                self.counts.insert(branch.to_vec(), 0);
                0
            }
        };
        Place { branch: branch.to_vec(), number }
    }

    /// What is known of the contact at `place`. From now on the contact is on the record, as begun if it has no answer
    /// yet.
    ///
    /// # Errors
    /// If something else was asked at this place.
    pub(crate) fn begin(&mut self, place: &Place, question: String) -> Result<Before, ContactError> {
        let (before, contact) = match self.known.remove(place) {
            None => (Before::New, Contact { at: place.clone(), question, answer: None }),
            Some(known) if known.question != question => {
                return Err(ContactError::unlike(place, "something else was asked there"));
            }
            Some(known) => match known.answer.clone() {
                None => (Before::Begun, known),
                Some(answer) => (Before::Answered(Box::new(answer)), known),
            },
        };
        self.record.insert(place.clone(), contact);
        Ok(before)
    }

    /// Puts an answer on the record.
    pub(crate) fn note(&mut self, place: &Place, answer: Told) {
        if let Some(contact) = self.record.get_mut(place) {
            contact.answer = Some(answer);
        }
    }

    /// The trace of `agent` as it was after a turn of an earlier run.
    pub(crate) fn known_trace(&self, agent: &Place, nodes: usize, head: Option<usize>) -> Option<Trace> {
        let head = head.map(burnish_core::NodeId);
        match self.known_traces.get(agent) {
            Some(trace) => trace.before(nodes, head),
            None => (nodes == 0 && head.is_none()).then(Trace::new),
        }
    }

    /// Keeps what is known below `branch`, which lost a race: the function does not enter it again.
    pub(crate) fn keep_below(&mut self, branch: &[Fork]) {
        let below = |place: &Place| place.branch.starts_with(branch);
        let lost: Vec<Place> = self.known.keys().filter(|place| below(place)).cloned().collect();
        for place in lost {
            self.record.extend(self.known.remove(&place).map(|contact| (place, contact)));
        }
        let traces = self.known_traces.iter().filter(|(place, _)| below(place));
        for (place, trace) in traces {
            self.traces.entry(place.clone()).or_insert_with(|| trace.clone());
        }
    }

    /// What the function leaves when it is over. If it got lost, that includes the rest of the earlier run.
    ///
    /// # Errors
    /// If the earlier run went further.
    pub(crate) fn close(&mut self) -> Result<(Record, Vec<Trace>), ContactError> {
        if self.is_lost {
            self.record.append(&mut self.known);
            self.traces.append(&mut self.known_traces);
        }
        if let Some((place, _)) = self.known.first_key_value() {
            return Err(ContactError::unlike(place, "the record goes on, but the episode is over"));
        }
        let (mut policies, mut known) =
            (std::mem::take(&mut self.policies), std::mem::take(&mut self.known_policies));
        let mut speaker = |at: Place| {
            let policy = policies.remove(&at).or_else(|| known.remove(&at)).unwrap_or_default();
            Speaker { at, policy: policy.to_string() }
        };
        let traces = std::mem::take(&mut self.traces);
        let (agents, traces) = traces.into_iter().map(|(at, trace)| (speaker(at), trace)).unzip();
        let contacts = std::mem::take(&mut self.record).into_values().collect();
        Ok((Record { agents, contacts, ..Record::default() }, traces))
    }
}

/// What an earlier run left of a contact.
pub(crate) enum Before {
    New,
    Begun,
    Answered(Box<Told>),
}

/// Waits for the answer at a place. If it is dropped before the answer arrives, it cancels the question.
pub(crate) struct Waiting {
    desk: Shared,
    place: Option<Place>,
}

impl Waiting {
    /// Asks.
    pub(crate) fn ask(desk: &Shared, place: &Place, question: Question) -> Self {
        desk.borrow_mut().outbox.push((place.clone(), question));
        Waiting { desk: Rc::clone(desk), place: Some(place.clone()) }
    }
}

impl Future for Waiting {
    type Output = Arrived;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Arrived> {
        let arrived = self.place.as_ref().and_then(|place| self.desk.borrow_mut().arrived.remove(place));
        match arrived {
            Some(arrived) => {
                self.place = None;
                Poll::Ready(arrived)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.desk.borrow_mut().given_up.push(place);
        }
    }
}
