//! Prompts of a person, answered outside of any environment: one or many ([`answer_all`]), or turn by turn
//! ([`Conversation`]).

mod answerer;
mod conversation;
mod many;
mod prompts;
mod record;
mod sampling;

pub use answerer::{Answerer, Asked, address};
pub use conversation::{Conversation, Refusal};
pub use many::{Answer, Many, answer_all, follow};
pub use prompts::{Prompt, read_prompts, read_tools};
pub use sampling::{in_words, of_model};
