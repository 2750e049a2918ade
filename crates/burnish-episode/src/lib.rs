//! Episodes as durable functions.
//!
//! An episode is an `async` function that contacts the world only through its [`Handle`]: it samples a turn, asks
//! another policy, calls a tool, runs a verifier, waits. Each contact has a place ([`burnish_core::Place`]) and is on
//! the episode's [`Record`](burnish_core::Record) before the function sees the answer. Run again on its record, the
//! function therefore arrives at the same point: resuming, replaying and testing all rest on this one property.
//!
//! ```text
//! function --ask--> desk --questions--> run() --> policies, Outside (threads, time)
//!          <--answer at its place--     run() <--
//! ```
//!
//! A function has no runtime, clock or thread, and no randomness but that of its places ([`Handle::seed`]). Branches
//! ([`Handle::branch`], [`Handle::all`], [`Handle::first`]) are ordinary code, so a search tree or a team of agents is
//! a function too.
//!
//! A function may play episodes within it, each with a record of its own ([`Handle::episode`]): so the group of a task
//! that is learned from, and the search for a strategy, are functions as well.
//!
//! A function that plays in an environment may try several ways on ([`Program`]): from each [`Position`] the environment can be
//! taken on more than once.
//!
//! [`run`] plays many episodes side by side on one thread. Slow work goes to an [`Outside`], which also tells the time,
//! so that both can be simulated. [`Driven`] is one episode in the hands of a caller who has the policies.

mod desk;
mod drive;
mod handle;
mod outside;
mod position;
mod run;

pub use drive::{AskedTurn, Driven, Progress};
pub use handle::{Agent, Ask, ContactError, Handle, Work};
pub use outside::{Done, Job, JobId, Outside, Simulated, Threads};
pub use position::{Position, Program, Waited};
pub use run::{Cast, Finished, Known, RunError, Started, run, run_at_most, run_programs};
