//! Who asks, answers and polishes.

mod prompts;
mod templates;

pub use prompts::PromptSpeaker;
pub use templates::Templates;

use crate::data::{Chunk, Turn};

/// A question about one chunk, as it stands without a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Which chunk of the scene answers it.
    pub chunk: usize,
    /// The question.
    pub question: String,
    /// What the question is about, in its words, where the speaker knows: later questions may leave it out.
    pub topic: Option<String>,
    /// What it asks of that, in its words, where the speaker knows.
    pub detail: Option<String>,
}

/// What was said in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The question as it was before polishing.
    pub asked: Asked,
    /// What became of it.
    pub turn: Turn,
}

/// A dialogue so far.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The chunks that it is about, in the order of their cluster.
    pub chunks: &'a [&'a Chunk],
    /// What was said.
    pub said: &'a [Said],
    /// The seed of this turn. The next attempt after an answer that was refused has another one.
    pub seed: u64,
}

impl Scene<'_> {
    /// Was a question about chunk `place` asked?
    pub fn is_asked(&self, place: usize) -> bool {
        self.said.iter().any(|said| said.asked.chunk == place)
    }
}

/// Plays both sides of a dialogue. Errors say what went wrong; a dialogue's maker asks again, or stops.
pub trait Speaker {
    /// A question that one chunk answers and no other, not asked before; `None` if there is nothing left to ask.
    fn ask(&self, scene: &Scene<'_>) -> Result<Option<Asked>, String>;

    /// The answer to it, from that chunk alone.
    fn answer(&self, scene: &Scene<'_>, asked: &Asked) -> Result<String, String>;

    /// The same question as people ask it at this point of a dialogue: with pronouns, and without what was said.
    fn polish(&self, scene: &Scene<'_>, asked: &Asked) -> Result<String, String>;
}
