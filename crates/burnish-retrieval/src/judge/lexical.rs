//! A judge that needs no model: it counts common words.
//!
//! It notices evidence, answers and questions that belong elsewhere, because other words are in them, questions about
//! nothing, numbers that are nowhere in the evidence, and some negated answers. It does not understand: two numbers
//! swapped, or a paraphrase in other words are beyond it. Its lists of words are English.

use std::collections::BTreeSet;

use super::{Dimension, Item, Judge};
use crate::data::Chunk;
use crate::index::Index;
use crate::text::{REFERENCE_NOUNS, is_function_word, length, numbers, sentences, terms};

/// Share of the question's topic that an answer of full marks mentions: an answer need not repeat the question.
const FULL_MARKS: f64 = 0.5;

/// Share of a sentence's topic from which on a sentence of the evidence counts as saying the same, or its opposite. On
/// MTRAG-UN, 0.6 flags 5 % of the answers that people wrote, and 0.7 2 % (`docs/retrieval.md`).
const SAME: f64 = 0.7;

/// Rates by common words, each weighted by how rare it is among the chunks.
#[derive(Debug, Clone)]
pub struct Lexical {
    index: Index,
}

impl Lexical {
    /// With the weights of words in `chunks`.
    pub fn new(chunks: &[Chunk]) -> Self {
        Lexical { index: Index::new(chunks.iter().map(|chunk| chunk.text.as_str())) }
    }
}

impl Lexical {
    /// Does `sentence` of an answer have a number that nobody gave, or is it negated where the evidence says the same
    /// without a negation?
    fn is_contradicted(&self, sentence: &str, item: &Item<'_>) -> bool {
        let asked = item.history.iter().chain([item.turn]).map(|turn| turn.user.as_str());
        let given = || item.evidence.iter().copied().chain(asked.clone());
        let is_given = |number: f64| given().any(|text| has_number(text, number));
        if numbers(sentence).into_iter().any(|(_, number)| !is_given(number)) {
            return true;
        }
        if !is_negated(sentence) {
            return false;
        }
        let said = item.evidence.iter().flat_map(|text| sentences(text).into_iter().map(|at| &text[at]));
        let same =
            |other: &&str| self.index.coverage(sentence, &term_set(other)).is_some_and(|share| share >= SAME);
        let mut same = said.filter(same).peekable();
        same.peek().is_some() && !same.any(is_negated)
    }
}

/// Is `number` in `text`, in digits, as a part of a date or a version, or as a word?
fn has_number(text: &str, number: f64) -> bool {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    let is_it = |part: &str| {
        let word = || WORDS.iter().position(|word| word.eq_ignore_ascii_case(part)).map(|at| at as f64);
        part.parse().ok().or_else(word) == Some(number)
    };
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_it)
        || text.split(|c: char| !c.is_ascii_digit()).any(is_it)
        || numbers(text).into_iter().any(|(_, other)| other == number)
}

/// Does `text` deny something?
fn is_negated(text: &str) -> bool {
    const NEGATIONS: [&str; 10] =
        ["not", "no", "never", "neither", "nor", "cannot", "without", "none", "nothing", "unable"];
    let text = text.to_lowercase().replace('’', "'");
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.any(|word| NEGATIONS.contains(&word) || word.ends_with("n't"))
}

/// The turn's question, without need of a history where its rewriting is known; of "And why?", the last question before
/// that has a topic. `None` if the question is about nothing.
fn question<'a>(item: &Item<'a>) -> Option<&'a str> {
    let has_topic = |text: &&str| terms(text).iter().any(|term| !is_function_word(term));
    if let Some(rewrite) = item.turn.rewrite.as_deref() {
        return Some(rewrite).filter(has_topic);
    }
    let before = item.history.iter().rev().map(|turn| turn.user.as_str());
    [item.turn.user.as_str()].into_iter().chain(before).find(has_topic)
}

fn term_set(text: &str) -> BTreeSet<String> {
    terms(text).into_iter().collect()
}

/// A share from 0 to 1 as a score from 1 to 5.
fn scaled(share: f64) -> f64 {
    1.0 + 4.0 * share.clamp(0.0, 1.0)
}

impl Judge for Lexical {
    fn name(&self) -> &str {
        "lexical"
    }

    fn rate(&self, dimension: Dimension, item: &Item<'_>) -> Result<f64, String> {
        let evidence = || term_set(&item.evidence.join("\n"));
        let covered = |other: &BTreeSet<String>| self.index.coverage(question(item)?, other);
        Ok(match dimension {
            Dimension::Alignment => scaled(covered(&evidence()).unwrap_or(0.0)),
            Dimension::Completeness => {
                return Err("completeness is a matter of picking, not of rating".to_owned());
            }
            Dimension::Faithfulness => {
                let evidence = evidence();
                let answer = item.turn.answer.as_str();
                let shares: Vec<f64> = sentences(answer)
                    .into_iter()
                    .filter_map(|sentence| {
                        let share = self.index.coverage(&answer[sentence.clone()], &evidence)?;
                        Some(if self.is_contradicted(&answer[sentence], item) { 0.0 } else { share })
                    })
                    .collect();
                // An answer that says nothing says nothing wrong.
                if shares.is_empty() { 5.0 } else { scaled(shares.iter().sum::<f64>() / shares.len() as f64) }
            }
            Dimension::Quality => {
                if length(&item.turn.answer) == 0 {
                    1.0
                } else {
                    let mentioned = covered(&term_set(&item.turn.answer));
                    scaled(mentioned.unwrap_or(0.0) / FULL_MARKS * (1.0 - repetition(&item.turn.answer)))
                }
            }
            Dimension::Atomic => f64::from(u8::from(is_atomic(&item.turn.user))),
            Dimension::NoReference => f64::from(u8::from(!has_reference(&item.turn.user))),
        })
    }

    fn pick(&self, item: &Item<'_>, options: &[&str]) -> Result<usize, String> {
        let share = |option: &&str| {
            question(item).and_then(|text| self.index.coverage(text, &term_set(option))).unwrap_or(0.0)
        };
        let mut best: Option<(usize, f64)> = None;
        for (place, share) in options.iter().map(share).enumerate() {
            if best.is_none_or(|(_, most)| share > most) {
                best = Some((place, share));
            }
        }
        best.map(|(place, _)| place).ok_or_else(|| "there is nothing to pick from".to_owned())
    }
}

/// The share of `text`'s runs of four terms that occurred before in it.
fn repetition(text: &str) -> f64 {
    let terms = terms(text);
    let runs = terms.windows(4);
    let (count, distinct) = (runs.len(), runs.collect::<BTreeSet<_>>().len());
    if count == 0 { 0.0 } else { 1.0 - distinct as f64 / count as f64 }
}

/// One question mark at most, and no second question behind an "and" or "or" within a sentence.
fn is_atomic(user: &str) -> bool {
    const WORDS: [&str; 14] = [
        "what", "who", "whom", "whose", "when", "where", "which", "why", "how", "is", "are", "did", "does",
        "can",
    ];
    let marks = user.chars().filter(|c| matches!(c, '?' | '？')).count();
    let second = |sentence: &str| {
        let terms = terms(sentence);
        let joined = |pair: &[String]| {
            matches!(pair[0].as_str(), "and" | "or" | "also") && WORDS.contains(&pair[1].as_str())
        };
        // At the start of a sentence "and" joins it to what was said before.
        terms.get(1..).is_some_and(|terms| terms.windows(2).any(joined))
    };
    marks <= 1 && !sentences(user).into_iter().any(|sentence| second(&user[sentence]))
}

/// Does `user` point at a text? At a noun for texts with "the", "this" or the like before it and a word of reference
/// around it, or at a number in square brackets.
fn has_reference(user: &str) -> bool {
    const POINTING: [&str; 8] = ["the", "this", "that", "these", "given", "provided", "above", "following"];
    const LEADING: [&str; 8] = ["to", "in", "from", "by", "on", "per", "of", "does"];
    let terms = terms(user);
    let points = (0..terms.len()).any(|at| {
        let noun = REFERENCE_NOUNS.contains(&terms[at].as_str());
        let before = |back: usize| at.checked_sub(back).map(|place| terms[place].as_str());
        let determined = before(1).is_some_and(|word| POINTING.contains(&word));
        let mut far = 2;
        while before(far).is_some_and(|word| POINTING.contains(&word)) {
            far += 1;
        }
        let led = before(far).is_none_or(|word| LEADING.contains(&word));
        let numbered = before(1).is_some_and(|word| LEADING.contains(&word));
        let number = terms.get(at + 1).is_some_and(|next| next.chars().all(|c| c.is_ascii_digit()));
        noun && ((determined && led) || (numbered && number))
    });
    let bracketed = user.split('[').skip(1).any(|rest| {
        let inside = rest.split(']').next().unwrap_or_default();
        rest.contains(']') && !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit())
    });
    points || bracketed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Turn;

    #[test]
    fn questions_about_one_thing() {
        assert!(is_atomic("And what about Graz?") && is_atomic("What do bread and butter cost?"));
        assert!(!is_atomic("Who built it and when did it fall?"));
        assert!(!is_atomic("Who built it? When did it fall?"));
        assert!(!is_atomic("Where is it, and who owns it"));
    }

    #[test]
    fn questions_that_point_at_a_text() {
        for pointing in [
            "According to the passage above, who built it?",
            "What is said in this document about Graz?",
            "Who is mentioned in the given context?",
            "What does the text say?",
            "Who built it [3]?",
            "According to passage 3, who built it?",
            "Based on chunk 3, who built it?",
        ] {
            assert!(has_reference(pointing), "{pointing}");
        }
        for innocent in [
            "Who wrote the article on steam?",
            "What is a text editor?",
            "How do I upload a document?",
            "Which documents do I need for a visa?",
            "Is [x] a set?",
        ] {
            assert!(!has_reference(innocent), "{innocent}");
        }
    }

    #[test]
    fn scores_by_hand() {
        let chunk = |text: &str| Chunk {
            id: text.to_owned(),
            document: "d".to_owned(),
            span: None,
            text: text.to_owned(),
        };
        // "tesla" and "graz" are in one chunk each, so they weigh the same.
        let judge = Lexical::new(&[chunk("tesla motor"), chunk("graz river")]);
        let turn = Turn {
            user: "And there?".to_owned(),
            rewrite: Some("What did Tesla do in Graz?".to_owned()),
            answer: "Tesla built a motor.".to_owned(),
            evidence: Vec::new(),
            switched: false,
        };
        let item = Item { history: &[], turn: &turn, evidence: vec!["tesla motor"] };
        let rate = |dimension| judge.rate(dimension, &item).unwrap();
        assert_eq!(rate(Dimension::Alignment), 3.0, "one of two words");
        assert_eq!(rate(Dimension::Quality), 5.0, "half of the question is enough");
        // tesla and motor of tesla, built, motor; "built" is in no chunk: ln 6 against ln 2 twice.
        let expected = 1.0 + 4.0 * 2.0 * 2f64.ln() / (2.0 * 2f64.ln() + 6f64.ln());
        assert!((rate(Dimension::Faithfulness) - expected).abs() < 1e-12);
        assert_eq!((rate(Dimension::Atomic), rate(Dimension::NoReference)), (1.0, 1.0));
        assert!(judge.rate(Dimension::Completeness, &item).is_err());
        assert_eq!(judge.pick(&item, &["river", "tesla graz", "graz"]), Ok(1));
        assert!(judge.pick(&item, &[]).is_err());
        assert_eq!(repetition("a b c d a b c d"), 1.0 - 4.0 / 5.0);
    }
}
