//! What LANG (arXiv:2605.22567) asks of an environment, once for all of them: a reward that is all or nothing, and levels
//! of languages.

use burnish_core::Message;
use burnish_verify::language::Language;
use serde::{Deserialize, Serialize};

/// The label with the language of a task.
pub(crate) const LANGUAGE: &str = "language";

/// The label with the level of that language, by which LANG withdraws hints.
pub(crate) const RESOURCE: &str = "resource";

/// How much text there is of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The most. Of synthetic languages: half as much as of the most common one, or more.
    High,
    /// Less. Of synthetic languages: a tenth as much, or more.
    Mid,
    /// The least.
    Low,
}

impl Resource {
    /// As in labels.
    pub fn name(self) -> &'static str {
        match self {
            Resource::High => "high",
            Resource::Mid => "mid",
            Resource::Low => "low",
        }
    }

    /// The level of a natural language, as the paper groups them.
    pub fn of(language: Language) -> Self {
        match language {
            Language::German | Language::English | Language::Spanish | Language::French => Resource::High,
            Language::Japanese | Language::Russian | Language::Chinese => Resource::Mid,
            Language::Bengali | Language::Swahili | Language::Telugu | Language::Thai => Resource::Low,
        }
    }
}

/// What LANG asks of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Is the final answer right?
    pub is_right: bool,
    /// Has the text the form that was asked for?
    pub is_well_formed: bool,
    /// Is the text in the language of the prompt?
    pub is_in_language: bool,
}

impl Asked {
    /// The conjunctive reward: 1 for all three, and nothing for two.
    pub fn is_all(self) -> bool {
        self.is_right && self.is_well_formed && self.is_in_language
    }

    /// The flags of a verdict that say what of it holds; whether the answer is right is its success.
    pub(crate) fn flags(self) -> [(&'static str, bool); 3] {
        [("format", self.is_well_formed), (LANGUAGE, self.is_in_language), ("all", self.is_all())]
    }
}

/// All that a policy said in a message, its thoughts too: the text whose language counts.
pub fn spoken(message: &Message) -> String {
    let thoughts = message.reasoning_content.as_deref().unwrap_or_default();
    if thoughts.is_empty() { message.content.clone() } else { format!("{thoughts}\n{}", message.content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_three_are_worth_nothing() {
        for row in 0..8_u8 {
            let [is_right, is_well_formed, is_in_language] = [row & 1 == 1, row & 2 == 2, row & 4 == 4];
            assert_eq!(Asked { is_right, is_well_formed, is_in_language }.is_all(), row == 7, "{row}");
        }
    }

    #[test]
    fn thoughts_are_spoken_too() {
        let message = Message { reasoning_content: Some("So.".to_owned()), ..Message::assistant("8") };
        assert_eq!(spoken(&message), "So.\n8");
        assert_eq!(spoken(&Message::assistant("8")), "8");
    }
}
