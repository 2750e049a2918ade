//! What LANG (arXiv:2605.22567) requires of an environment, shared by all environments: an all-or-nothing reward, and
//! levels of languages.

use burnish_core::Message;
use burnish_verify::language::Language;
use serde::{Deserialize, Serialize};

/// The label with the language of a task.
pub(crate) const LANGUAGE: &str = "language";

/// The label with the level of that language, which decides how LANG withdraws hints.
pub(crate) const RESOURCE: &str = "resource";

/// How much text there is in a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The most. For synthetic languages: at least half as much as in the most common one.
    High,
    /// Less. For synthetic languages: at least a tenth as much.
    Mid,
    /// The least.
    Low,
}

impl Resource {
    /// Its name in labels.
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

/// The conditions of LANG on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Whether the final answer is right.
    pub is_right: bool,
    /// Whether the text has the required form.
    pub is_well_formed: bool,
    /// Whether the text is in the language of the prompt.
    pub is_in_language: bool,
}

impl Asked {
    /// The conjunctive reward: 1 if all three hold, otherwise 0.
    pub fn is_all(self) -> bool {
        self.is_right && self.is_well_formed && self.is_in_language
    }

    /// The flags of a verdict that say which conditions hold; whether the answer is right is its success.
    pub(crate) fn flags(self) -> [(&'static str, bool); 3] {
        [("format", self.is_well_formed), (LANGUAGE, self.is_in_language), ("all", self.is_all())]
    }
}

/// Everything that a policy said in a message, including its thoughts: the text whose language counts.
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
