//! Turns that are answered elsewhere.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use burnish_core::{PolicyError, TurnId};
use burnish_http::{Task, spawn};

/// Turns under way, and what is heard of them. Each is a future of its own; `T` is what it reports.
pub(crate) struct Turns<T> {
    news: Receiver<(TurnId, T)>,
    tell: Sender<(TurnId, T)>,
    /// `None`: nothing was sent for it.
    under_way: BTreeMap<TurnId, Option<Task>>,
    submitted: u64,
}

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

impl<T: Send + 'static> Turns<T> {
    pub(crate) fn new() -> Self {
        let (tell, news) = mpsc::channel();
        Turns { news, tell, under_way: BTreeMap::new(), submitted: 0 }
    }

    /// Begins a turn, whose work is `work`; if it can't begin, `failed` is heard of it.
    pub(crate) fn begin<F>(
        &mut self,
        work: impl FnOnce(Teller<T>) -> F,
        failed: impl FnOnce(PolicyError) -> T,
    ) -> TurnId
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = self.next_id();
        match spawn(work(Teller { id, tell: self.tell.clone() })) {
            Ok(task) => {
                self.under_way.insert(id, Some(task));
            }
            Err(error) => {
                self.tell_of(id, failed(PolicyError::Failed(format!("nothing can be sent: {error}"))));
            }
        }
        id
    }

    /// A turn for which nothing is sent; `news` is what is heard of it.
    pub(crate) fn answered(&mut self, news: T) -> TurnId {
        let id = self.next_id();
        self.tell_of(id, news);
        id
    }

    /// Ends the work for a turn; `news` is what is heard of it instead.
    pub(crate) fn tell_of(&mut self, id: TurnId, news: T) {
        self.under_way.insert(id, None);
        // The receiver is this one's own.
        let _ = self.tell.send((id, news));
    }

    fn next_id(&mut self) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        id
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Ends a turn. Returns whether it was under way.
    pub(crate) fn end(&mut self, id: TurnId) -> bool {
        self.under_way.remove(&id).is_some()
    }

    /// The next news of a turn under way, if there is any now.
    pub(crate) fn heard(&self) -> Option<(TurnId, T)> {
        self.news.try_iter().find(|(id, _)| self.under_way.contains_key(id))
    }

    /// The next news of a turn under way; `None` only if there is no turn.
    pub(crate) fn hear(&self) -> Option<(TurnId, T)> {
        if self.is_empty() {
            return None;
        }
        self.news.iter().find(|(id, _)| self.under_way.contains_key(id))
    }

    /// As [`Turns::hear`], but waits no longer than `longest`.
    pub(crate) fn hear_within(&self, longest: Duration) -> Option<(TurnId, T)> {
        let news = self.news.recv_timeout(longest).ok();
        news.filter(|(id, _)| self.under_way.contains_key(id))
    }
}
