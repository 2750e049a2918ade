//! How close a short answer is to the gold answer: exact match, token F1 and ROUGE-L, over one normaliser.
//!
//! The normaliser is SQuAD's (Rajpurkar et al. 2016): lower case, no ASCII punctuation, no articles (a, an, the),
//! single spaces. ROUGE-L (Lin 2004) is the F1 of the longest common subsequence of the same tokens, without stemming.
//! Because all three see the same tokens, an exact match has F1 = ROUGE-L = 1.

use std::collections::BTreeMap;

/// The tokens of a text: what is compared.
pub fn tokens(text: &str) -> Vec<String> {
    let kept: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut tokens = Vec::new();
    for word in kept.split_whitespace() {
        // When articles are looked for, anything that is neither letter nor digit separates words (`the–end`), as `\b`
        // does.
        let mut rest = String::new();
        let mut part = String::new();
        for c in word.chars().map(Some).chain([None]) {
            match c {
                Some(c) if c.is_alphanumeric() => part.push(c),
                other => {
                    if matches!(part.as_str(), "a" | "an" | "the") {
                        part.clear();
                        rest.push(' ');
                    }
                    rest.push_str(&part);
                    part.clear();
                    rest.extend(other);
                }
            }
        }
        tokens.extend(rest.split_whitespace().map(str::to_owned));
    }
    tokens
}

/// The normalised text: its tokens with single spaces.
pub fn normalised(text: &str) -> String {
    tokens(text).join(" ")
}

/// Several gold answers as one, as TimeQA's evaluation joins them: `A, B`.
pub fn joined<S: AsRef<str>>(golds: &[S]) -> String {
    golds.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

/// How close a prediction is to the gold answer. Each number is 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// 1 if the tokens are the same, otherwise 0.
    pub exact: f64,
    /// Harmonic mean of precision and recall over the bags of tokens.
    pub f1: f64,
    /// Harmonic mean of precision and recall over the longest common subsequence of tokens.
    pub rouge_l: f64,
}

impl Scores {
    /// Compares a prediction with the gold answer. If one of them has no tokens, all scores are 1 if the other has none
    /// either, and otherwise 0. Takes time and memory proportional to the product of the two lengths.
    pub fn of(prediction: &str, gold: &str) -> Self {
        let (prediction, gold) = (tokens(prediction), tokens(gold));
        let exact = f64::from(u8::from(prediction == gold));
        if prediction.is_empty() || gold.is_empty() {
            return Scores { exact, f1: exact, rouge_l: exact };
        }
        let mean = |shared: usize| 2.0 * shared as f64 / (prediction.len() + gold.len()) as f64;
        Scores {
            exact,
            f1: mean(shared(&prediction, &gold)),
            rouge_l: mean(longest_common_subsequence(&prediction, &gold)),
        }
    }
}

/// The number of tokens that both have, counted as often as both have them.
fn shared(prediction: &[String], gold: &[String]) -> usize {
    let mut left: BTreeMap<&String, usize> = BTreeMap::new();
    gold.iter().for_each(|token| *left.entry(token).or_default() += 1);
    let mut take = |token| left.get_mut(token).filter(|left| **left > 0).map(|left| *left -= 1).is_some();
    prediction.iter().filter(|token| take(*token)).count()
}

fn longest_common_subsequence(one: &[String], other: &[String]) -> usize {
    let mut row = vec![0; other.len() + 1];
    for a in one {
        let mut diagonal = 0;
        for (at, b) in other.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if a == b { diagonal + 1 } else { above.max(row[at]) };
            diagonal = above;
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_punctuation_articles_and_spacing_do_not_count() {
        assert_eq!(normalised(" The University of  Arizona , Tucson."), "university of arizona tucson");
        assert_eq!(normalised("a, an AND the"), "and");
        assert_eq!(normalised("the–end theatre"), "–end theatre");
        assert!(tokens("The.").is_empty());
    }

    #[test]
    fn texts_without_tokens_are_equal_to_each_other_only() {
        let all = |score| Scores { exact: score, f1: score, rouge_l: score };
        assert_eq!(Scores::of("the", "!"), all(1.0));
        assert_eq!(Scores::of("", "x"), all(0.0));
        assert_eq!(Scores::of("x", "a"), all(0.0));
    }

    #[test]
    fn order_counts_for_rouge_and_not_for_f1() {
        let scores = Scores::of("b a c", "c b b");
        assert_eq!((scores.exact, scores.f1), (0.0, 0.8));
        assert_eq!(scores.rouge_l, 0.4);
        assert_eq!(joined(&["Thomas Cook AG", "Group"]), "Thomas Cook AG, Group");
    }

    proptest! {
        #[test]
        fn an_exact_match_has_rouge_and_f1_one_and_the_order_is_exact_rouge_f1(
            one in "[aAbt,. the]{0,12}", other in "[aAbt,. the]{0,12}",
        ) {
            let scores = Scores::of(&one, &other);
            if scores.exact == 1.0 {
                prop_assert_eq!((scores.f1, scores.rouge_l), (1.0, 1.0));
            }
            prop_assert!(scores.exact <= scores.rouge_l && scores.rouge_l <= scores.f1 && scores.f1 <= 1.0);
            prop_assert_eq!(scores, Scores::of(&other, &one));
            prop_assert_eq!(Scores::of(&one, &one).exact, 1.0);
        }
    }
}
