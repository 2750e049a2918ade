//! Real Python for code that a policy wrote, where it can reach nothing.
//!
//! ```text
//! Sandbox ─ starts ─▶ guard (this program again) ─ gives up everything, becomes ─▶ interpreter ─ forks ─▶ one job
//! ```
//!
//! A [`Sandbox`] keeps a few *guards*. A guard is this program, started anew ([`enter`]): it moves into namespaces of its
//! own, with a file system that holds the interpreter and nothing else, gives up files (Landlock), system calls
//! (seccomp) and rights, and then executes the interpreter, which forks a process per [`Job`]. What a job leaves behind
//! is killed and deleted before the next one. Everything ends with the program that started it, however that ends.
//!
//! A [`Border`] runs a program in one of them and its tests in another, so that it can't reach what judges it.
//!
//! Where the system lacks one of these, the sandbox refuses with the reason ([`Isolation`]). `docs/sandbox.md`.
//!
//! [`Process`] is what any helper in another program needs: lines in, lines out, a deadline, and an end with ours.
//! [`Conversation`] is the same for one that speaks unasked.

mod border;
mod conversation;
#[cfg(target_os = "linux")]
mod guard;
mod job;
mod pool;
mod process;
mod python;
mod running;
mod setup;
mod shell;

pub use border::{Border, Trial};
pub use conversation::{Conversation, Speaker};
pub use job::{Check, Execution, Job, Limits, Outcome, Part};
pub use pool::{Sandbox, SandboxError, Settings};
pub use process::{LINE_BYTES_MAX, Process, Silence, find_program};
pub use setup::{Isolation, Report, enter};
