//! Built-in verifiers: check whether the answer equals the row's, whether it is marked, and whether it is in the row's
//! language.

use burnish_core::{Role, Verdict};
use burnish_verify::abstention::golds;
use burnish_verify::language::{self, Language};
use burnish_verify::{Gold, GoldError, Reading, Reason, Verifier, extracted, extraction, is_marked};
use serde_json::{Map, Value};

use super::config::{Component, Config, label};
use super::verifier::{Judge, Request};
use crate::lang::{Asked, spoken};
use crate::timed_facts::{Reward, judge, verdict};

/// Compares the answer with the ground truth.
#[derive(Debug)]
pub(super) struct BuiltIn {
    verifier: Verifier,
    reading: Reading,
    rewards: Vec<Component>,
    language: Option<LanguageOf>,
}

/// Where the language of a row is given.
#[derive(Debug, Clone)]
pub(super) enum LanguageOf {
    /// All rows have this language.
    All(Language),
    /// This column names it.
    Column(String),
}

impl LanguageOf {
    /// The language of a row.
    ///
    /// # Errors
    /// If the column is missing, or names no language that can be checked.
    pub(super) fn row(&self, row: &Map<String, Value>) -> Result<Language, String> {
        let key = match self {
            LanguageOf::All(language) => return Ok(*language),
            LanguageOf::Column(key) => key,
        };
        let code = label(super::data::column(row, key, "language_key")?);
        Language::of(&code).ok_or_else(|| {
            let codes = Language::ALL.map(Language::code).join(", ");
            format!("column `{key}`: `{code}` is no language that can be checked; those are {codes}")
        })
    }
}

impl BuiltIn {
    pub(super) fn new(verifier: Verifier, config: &Config) -> Self {
        let (reading, rewards) = (config.reading, config.components());
        BuiltIn { verifier, reading, rewards, language: config.language_of() }
    }

    fn verdict(&self, request: &Request<'_>, gold: &Gold) -> Result<Verdict, String> {
        let judgement = match request.extracted {
            Some(said) => gold.judge_extracted(extracted(request.completion, said)?.as_deref()),
            None => gold.judge(request.completion),
        };
        let is_unread = matches!(judgement.reason, Reason::NoAnswer | Reason::Unreadable);
        let mut feedback: Vec<String> =
            judgement.answer.map(|answer| format!("read as {answer}")).into_iter().collect();
        let mut asked = Asked {
            is_right: judgement.is_correct,
            is_well_formed: is_marked(request.completion),
            is_in_language: false,
        };
        let mut flags = vec![("parse_error", is_unread)];
        if let Some(of) = &self.language {
            let language = of.row(request.task.as_object().ok_or("the task is no row")?)?;
            let found = language::identify(&request.messages.last().map(spoken).unwrap_or_default());
            asked.is_in_language = found.is_in(language);
            flags.push(("language_drift", found.is_decided() && !asked.is_in_language));
            flags.extend(asked.flags());
            if !asked.is_in_language {
                let share = 100.0 * found.share(language);
                let (code, name) = (language.code(), found.name());
                feedback.push(format!("{share:.0} % is in {code}; the language is {name}"));
            }
        }
        let one = |it: bool| if it { 1.0 } else { 0.0 };
        let reward = |component: &Component| {
            let holds = match component {
                Component::Correct => asked.is_right,
                Component::Format => asked.is_well_formed,
                Component::Language => asked.is_in_language,
                Component::All => asked.is_all(),
            };
            (component.name().to_owned(), one(holds))
        };
        Ok(Verdict {
            rewards: self.rewards.iter().map(reward).collect(),
            flags: flags.into_iter().map(|(name, holds)| (name.to_owned(), holds)).collect(),
            feedback: (!feedback.is_empty()).then(|| feedback.join("; ")),
            ..Verdict::scored("", 0.0, asked.is_right)
        })
    }
}

impl Judge for BuiltIn {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        let Some(answer) = request.answer else {
            return Verdict::unscored("the row has no answer to compare with");
        };
        if self.verifier == Verifier::Abstention {
            let golds = golds(answer);
            let golds: Vec<&str> = golds.iter().map(String::as_str).collect();
            return verdict(&judge(&golds, request.messages.last()), &Reward::default(), &golds);
        }
        gold(self.verifier, answer)
            .map_err(|error| error.to_string())
            .and_then(|gold| self.verdict(request, &gold.with_reading(self.reading)))
            .unwrap_or_else(Verdict::unscored)
    }

    fn extraction(&self, request: &Request<'_>) -> Option<String> {
        let is_asked = self.reading == Reading::Judge && self.verifier != Verifier::Abstention;
        let completion = request.completion;
        if !is_asked || is_marked(completion) || completion.trim().is_empty() || request.answer.is_none() {
            return None;
        }
        let asked = request.prompt.iter().rev().find(|message| message.role == Role::User);
        Some(extraction(asked.map_or("", |message| &message.content), completion))
    }
}

/// The part of a row's ground truth that a built-in verifier compares with. In GSM8K the ground truth is a solution
/// that ends with `#### ` and the answer.
pub fn reference(verifier: Verifier, answer: &str) -> &str {
    let answer = match verifier {
        Verifier::Number | Verifier::Math => answer.rsplit("####").next().unwrap_or(answer),
        _ => answer,
    };
    answer.trim()
}

/// The value that answers are compared with.
pub(super) fn gold(verifier: Verifier, answer: &str) -> Result<Gold, GoldError> {
    verifier.gold(reference(verifier, answer))
}
