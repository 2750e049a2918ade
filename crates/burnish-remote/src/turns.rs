//! Turns that are answered elsewhere.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use burnish_core::{PolicyError, TurnId};
use burnish_http::{Task, spawn};

/// Turns under way, and what is heard of them. Each is a future of its own; `S` is what is known of a turn, `T` what it
/// reports.
pub(crate) struct Turns<S, T> {
    news: Receiver<(TurnId, T)>,
    tell: Sender<(TurnId, T)>,
    under_way: BTreeMap<TurnId, UnderWay<S>>,
    submitted: u64,
}

struct UnderWay<S> {
    state: S,
    /// `None`: nothing was sent for it.
    task: Option<Task>,
}

/// A turn that is over: what was known of it, and how it ended.
pub(crate) type Over<S, R> = (TurnId, S, R);

/// Reports on one turn.
pub(crate) struct Teller<T> {
    id: TurnId,
    tell: Sender<(TurnId, T)>,
}

impl<T> Teller<T> {
    pub(crate) fn tell(&self, news: T) {
        // If nobody listens any more, this future ends as well.
        let _ = self.tell.send((self.id, news));
    }
}

impl<S, T: Send + 'static> Turns<S, T> {
    pub(crate) fn new() -> Self {
        let (tell, news) = mpsc::channel();
        Turns { news, tell, under_way: BTreeMap::new(), submitted: 0 }
    }

    /// Begins a turn, whose work is `work`; if it can't begin, `failed` is heard of it.
    pub(crate) fn begin<F>(
        &mut self,
        state: S,
        work: impl FnOnce(Teller<T>) -> F,
        failed: impl FnOnce(PolicyError) -> T,
    ) -> TurnId
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = TurnId(self.submitted);
        match spawn(work(Teller { id, tell: self.tell.clone() })) {
            Ok(task) => self.add(state, Some(task)),
            Err(error) => {
                let problem = format!("nothing can be sent: {error}");
                self.answered(state, failed(PolicyError::Failed(problem)))
            }
        }
    }

    /// A turn for which nothing is sent; `news` is what is heard of it.
    pub(crate) fn answered(&mut self, state: S, news: T) -> TurnId {
        let id = self.add(state, None);
        self.tell_of(id, news);
        id
    }

    fn add(&mut self, state: S, task: Option<Task>) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        self.under_way.insert(id, UnderWay { state, task });
        id
    }

    /// Ends the work for a turn; `news` is what is heard of it instead.
    pub(crate) fn tell_of(&mut self, id: TurnId, news: T) {
        if let Some(turn) = self.under_way.get_mut(&id) {
            turn.task = None;
        }
        // The receiver is this one's own.
        let _ = self.tell.send((id, news));
    }

    /// What is known of a turn under way.
    pub(crate) fn get(&self, id: TurnId) -> Option<&S> {
        self.under_way.get(&id).map(|turn| &turn.state)
    }

    /// Gives a turn up. Returns whether it was under way.
    pub(crate) fn cancel(&mut self, id: TurnId) -> bool {
        self.under_way.remove(&id).is_some()
    }

    /// The turns that are over. `take` adds news to what is known of a turn, and returns how it ended if it has.
    pub(crate) fn poll<R>(&mut self, take: impl Fn(&mut S, T) -> Option<R>) -> Vec<Over<S, R>> {
        let mut over = Vec::new();
        while let Ok(news) = self.news.try_recv() {
            over.extend(self.hear(news, &take));
        }
        over
    }

    /// As [`Turns::poll`], but waits until one is over; none only if there is no turn.
    pub(crate) fn wait<R>(&mut self, take: impl Fn(&mut S, T) -> Option<R>) -> Vec<Over<S, R>> {
        while !self.under_way.is_empty() {
            let Ok(news) = self.news.recv() else { break };
            if let Some(first) = self.hear(news, &take) {
                let mut over = vec![first];
                over.extend(self.poll(take));
                return over;
            }
        }
        Vec::new()
    }

    /// As [`Turns::poll`], but for the next news alone, which is waited for no longer than `longest`.
    pub(crate) fn progress<R>(
        &mut self,
        longest: Duration,
        take: impl Fn(&mut S, T) -> Option<R>,
    ) -> Option<Over<S, R>> {
        if self.under_way.is_empty() {
            return None;
        }
        let news = self.news.recv_timeout(longest).ok()?;
        self.hear(news, &take)
    }

    fn hear<R>(
        &mut self,
        (id, news): (TurnId, T),
        take: &impl Fn(&mut S, T) -> Option<R>,
    ) -> Option<Over<S, R>> {
        let end = take(&mut self.under_way.get_mut(&id)?.state, news)?;
        self.under_way.remove(&id).map(|turn| (id, turn.state, end))
    }
}
