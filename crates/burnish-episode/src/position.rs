//! An environment in the middle of an episode, as a program sees it that tries several ways.

use std::pin::Pin;
use std::sync::Arc;

use burnish_core::{Ending, Message, Sampling, TaskId, ToolCalls, ToolSpec, TurnOutput, Verdict};

use crate::handle::{ContactError, Handle};

/// A future of a program.
pub type Waited<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// An environment in the middle of an episode.
///
/// Behind it is a live environment, which goes along with the first way on from here. For every further way another one is
/// brought to this point, by giving it the same answers. An environment that fails ends the way on which it did.
pub trait Position<'s> {
    /// The conversation that the policy reads next.
    fn messages(&self) -> &Arc<Vec<Message>>;

    /// The tools that may be called.
    fn tools(&self) -> &Arc<Vec<ToolSpec>>;

    /// Sampling of the next turn.
    fn sampling(&self) -> &Arc<Sampling>;

    /// The task that is played, if it is one.
    fn task(&self) -> Option<&TaskId> {
        None
    }

    /// The policy's answers so far.
    fn answers(&self) -> &[Message];

    /// Counts of the calls in them.
    fn calls(&self) -> ToolCalls;

    /// The reason why the episode is over; `None` if it is the policy's turn.
    fn ending(&self) -> Option<Ending>;

    /// The same position once more, for a way on.
    fn fork(&mut self, handle: &Handle) -> Box<dyn Position<'s> + 's>;

    /// Shortens a conversation that does not fit the policy's context. If it can't be shortened, the episode is over.
    ///
    /// # Errors
    /// If that may not be.
    fn make_room(&mut self, tokens: usize, tokens_max: usize) -> Result<(), ContactError>;

    /// Gives the environment the policy's answer, and gets it to the policy's next turn or the end.
    fn act<'a>(&'a mut self, handle: &'a Handle, answer: TurnOutput) -> Waited<'a, Result<(), ContactError>>;

    /// The verdict on the episode up to here.
    fn judge<'a>(&'a mut self, handle: &'a Handle) -> Waited<'a, Result<Verdict, ContactError>>;
}

/// Plays an episode, and may try several ways on.
pub trait Program {
    /// Plays from `opening`, with turns of the policy that is called `policy`; returns the position whose verdict is that of the
    /// episode. One at which the episode is not over counts as one that reached its limit of turns.
    fn play<'a, 's: 'a>(
        &'a self,
        handle: &'a Handle,
        policy: &'a Arc<str>,
        opening: Box<dyn Position<'s> + 's>,
    ) -> Waited<'a, Result<Box<dyn Position<'s> + 's>, ContactError>>;
}
