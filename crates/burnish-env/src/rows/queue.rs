//! The requests that wait for a process, and whether the command still answers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::Sender;

use super::pool::Order;

/// Most requests in succession that may go unanswered. After that the command is considered broken, and waiting
/// requests are not sent, because each would take its full time limit.
pub(super) const HANGS_MAX: usize = 8;

/// A request that waits for a process.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    /// The request as JSON, with its id.
    pub(super) line: String,
    /// A digest of the row that it is about.
    pub(super) row: String,
    /// Is it sent alone, because a batch with it failed?
    pub(super) is_alone: bool,
    /// The channel to the thread that asks.
    pub(super) asker: Sender<Order>,
}

/// Requests in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Waiting>);

impl Queue {
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.0.push_back(waiting);
    }

    /// Queues a failed batch again: one request may be at fault, and the others should not suffer for it, so each is
    /// asked again, alone and next.
    pub(super) fn push_again(&mut self, batch: Vec<Waiting>) {
        for waiting in batch.into_iter().rev() {
            self.0.push_front(Waiting { is_alone: true, ..waiting });
        }
    }

    /// The next requests for a free process: up to `size` that arrived one after the other. While the command hangs, it
    /// is a single one, about a row on which the command has hung least, so that a bad row is not mistaken for a broken
    /// command.
    pub(super) fn take(&mut self, size: usize, pulse: &Pulse) -> Option<Vec<Waiting>> {
        let at = match pulse.hangs.is_empty() {
            true => 0,
            false => (0..self.0.len()).min_by_key(|&at| pulse.hangs_on(&self.0[at].row))?,
        };
        let first = self.0.remove(at)?;
        let is_alone = first.is_alone;
        let mut batch = vec![first];
        let mut at = if is_alone { self.0.len() } else { 0 };
        while batch.len() < size && at < self.0.len() {
            match self.0[at].is_alone {
                true => at += 1,
                false => batch.extend(self.0.remove(at)),
            }
        }
        Some(batch)
    }

    /// Takes all of them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Waiting> + '_ {
        self.0.drain(..)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows that requests are about.
    pub(super) fn rows(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|waiting| waiting.row.as_str())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Tracks whether the command still answers.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// The rows on which it hung since it last did anything else.
    hangs: Vec<String>,
    is_broken: bool,
}

impl Pulse {
    /// Is the command considered broken?
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The command answered or crashed, so it does not hang; or nobody is asking any more, so that the next requests
    /// try again.
    pub(super) fn reset(&mut self) {
        *self = Pulse::default();
    }

    /// The command hung on a request about `row`, while requests about the rows `others` wait or are under way. It is
    /// broken after [`HANGS_MAX`] hangs on as many rows, or after that many on fewer rows if there is no other row left
    /// to try.
    pub(super) fn hung<'a>(&mut self, row: String, mut others: impl Iterator<Item = &'a str>) {
        self.hangs.push(row);
        if self.hangs.len() >= HANGS_MAX {
            let rows: BTreeSet<&str> = self.hangs.iter().map(String::as_str).collect();
            self.is_broken |= rows.len() >= HANGS_MAX || others.all(|row| rows.contains(row));
        }
    }

    fn hangs_on(&self, row: &str) -> usize {
        self.hangs.iter().filter(|hung| *hung == row).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn queue(rows: &[&str]) -> Queue {
        let mut queue = Queue::default();
        for (id, row) in (0..).zip(rows) {
            let (asker, _) = channel();
            let row = (*row).to_owned();
            queue.push(Waiting { id, line: String::new(), row, is_alone: false, asker });
        }
        queue
    }

    fn ids(batch: Option<Vec<Waiting>>) -> Vec<u64> {
        batch.unwrap_or_default().iter().map(|waiting| waiting.id).collect()
    }

    #[test]
    fn requests_are_taken_in_the_order_in_which_they_came() {
        let mut queue = queue(&["a", "a", "b", "c", "a"]);
        let pulse = Pulse::default();
        assert_eq!(ids(queue.take(1, &pulse)), [0]);
        assert_eq!(ids(queue.take(3, &pulse)), [1, 2, 3]);
        assert_eq!(ids(queue.take(3, &pulse)), [4]);
        assert_eq!(ids(queue.take(3, &pulse)), [0; 0]);
    }

    #[test]
    fn those_of_a_batch_that_failed_are_taken_next_and_each_alone() {
        let mut queue = queue(&["a", "b", "c", "d", "e"]);
        let pulse = Pulse::default();
        let failed = queue.take(3, &pulse).unwrap();
        queue.push_again(failed);
        for id in 0..3 {
            assert_eq!(ids(queue.take(3, &pulse)), [id]);
        }
        assert_eq!(ids(queue.take(3, &pulse)), [3, 4]);
    }

    #[test]
    fn a_batch_leaves_out_who_is_asked_alone() {
        let mut queue = queue(&["a", "a", "b", "c"]);
        let mut pulse = Pulse::default();
        let failed = queue.take(2, &pulse).unwrap();
        queue.push_again(failed);
        pulse.hung("a".into(), queue.rows());
        assert_eq!(ids(queue.take(9, &pulse)), [2, 3]);
        assert_eq!(ids(queue.take(9, &pulse)), [0]);
    }

    #[test]
    fn while_the_command_hangs_it_is_tried_on_other_rows() {
        let mut queue = queue(&["a", "a", "b", "c", "b", "a"]);
        let mut pulse = Pulse::default();
        let mut order = ids(queue.take(1, &pulse));
        pulse.hung("a".into(), queue.rows());
        order.extend(ids(queue.take(1, &pulse)));
        pulse.hung("b".into(), queue.rows());
        order.extend(ids(queue.take(1, &pulse)));
        // It answered about c.
        pulse.reset();
        order.extend(ids(queue.take(1, &pulse)));
        assert_eq!(order, [0, 2, 3, 1]);
    }

    /// The number of hangs on rows in turn after which it is broken, while requests about `others` are left.
    fn broken_after(rows: &[&str], others: &[&str]) -> Option<usize> {
        let mut pulse = Pulse::default();
        (1..=40).find(|at| {
            pulse.hung(rows[at % rows.len()].to_owned(), others.iter().copied());
            pulse.is_broken()
        })
    }

    #[test]
    fn a_command_is_broken_where_it_hangs_on_everything_and_not_where_it_hangs_on_a_row() {
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        assert_eq!(broken_after(&many, &["z"]), Some(HANGS_MAX));
        assert_eq!(broken_after(&["a"], &["a", "a"]), Some(HANGS_MAX));
        assert_eq!(broken_after(&["a", "b"], &[]), Some(HANGS_MAX));
        assert_eq!(broken_after(&["a", "b"], &["a", "c"]), None);
        let mut pulse = Pulse::default();
        for at in 0..40 {
            pulse.hung("a".into(), [].into_iter());
            if at % (HANGS_MAX - 1) == 0 {
                pulse.reset();
            }
        }
        assert!(!pulse.is_broken(), "not in a row");
    }
}
