//! The serialised cache: what a deliberation reads of earlier answers, within a budget of tokens.
//!
//! A draft is kept whole if it fits. The budget is shared evenly; what a short draft leaves over goes to the longer ones.
//! Of a draft that is longer than its share the end is kept, cut at a space, if its final answer is still the same; if not,
//! the final answer alone, if that fits; otherwise nothing. Tokens of a part are counted in proportion to its characters,
//! rounded up, because texts are cut and not tokens.

use burnish_core::Message;
use burnish_core::rng::Stream;
use burnish_verify::Verifier;

use super::skill::Skill;
use crate::template::{fill, posed};

/// What stands before the end of a draft whose beginning was left out.
const LEFT_OUT: &str = "[...] ";

/// An earlier answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// All of it.
    pub text: String,
    /// Its tokens.
    pub tokens: usize,
    /// Its final answer, if it has one.
    pub answer: Option<String>,
}

/// What is kept of an earlier answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Index of the draft.
    pub draft: usize,
    /// What is kept.
    pub text: String,
    /// Its tokens.
    pub tokens: usize,
    /// Is it all of the draft?
    pub is_whole: bool,
}

/// How earlier answers are shown.
#[derive(Debug, Clone, Copy)]
pub struct Showing<'a> {
    /// The prompt.
    pub skill: &'a Skill,
    /// Most tokens of drafts.
    pub budget: usize,
    /// What finds and compares final answers.
    pub equality: Verifier,
    /// Decides the order.
    pub seed: u64,
}

impl Showing<'_> {
    /// `messages` with the drafts shown in the last message of the user, and what was kept of them, in the order in which they
    /// stand there. Without drafts, `messages` as they are.
    pub fn show(&self, messages: &[Message], drafts: &[Draft]) -> (Vec<Message>, Vec<Kept>) {
        let mut kept = prune(drafts, self.budget, self.equality);
        if kept.is_empty() {
            return (messages.to_vec(), kept);
        }
        Stream::new(self.seed).shuffle(&mut kept);
        let shown = kept.iter().zip(1..).map(|(kept, number): (&Kept, usize)| {
            let text = match kept.is_whole {
                true => kept.text.clone(),
                false => format!("{LEFT_OUT}{}", kept.text),
            };
            fill(&self.skill.draft, &[("{number}", number.to_string().as_str()), ("{draft}", text.as_str())])
        });
        let shown: String = shown.collect();
        (posed(messages, &self.skill.template, &[("{drafts}", shown.as_str())]), kept)
    }
}

/// Keeps what fits into `budget` tokens, in the order of the drafts.
pub fn prune(drafts: &[Draft], budget: usize, equality: Verifier) -> Vec<Kept> {
    let share = share(drafts, budget);
    let keep = |(at, draft): (usize, &Draft)| {
        if draft.tokens <= share {
            let (text, tokens) = (draft.text.clone(), draft.tokens);
            return Some(Kept { draft: at, text, tokens, is_whole: true });
        }
        let kept = end(draft, share, equality).or_else(|| answer_alone(draft, share))?;
        let tokens = counted(draft, &kept);
        Some(Kept { draft: at, text: kept, tokens, is_whole: false })
    };
    drafts.iter().enumerate().filter_map(keep).collect()
}

/// The most tokens of one draft, so that all together fit: drafts that are shorter leave more to the others.
fn share(drafts: &[Draft], budget: usize) -> usize {
    let mut tokens: Vec<usize> = drafts.iter().map(|draft| draft.tokens).collect();
    tokens.sort_unstable();
    let mut left = budget;
    for (at, tokens_of_one) in tokens.iter().enumerate() {
        let even = left / (tokens.len() - at);
        if *tokens_of_one > even {
            return even;
        }
        left -= tokens_of_one;
    }
    usize::MAX
}

/// The tokens of a part of a draft, in proportion to its characters.
fn counted(draft: &Draft, part: &str) -> usize {
    let all = draft.text.chars().count().max(1);
    (draft.tokens * part.chars().count()).div_ceil(all)
}

/// The end of a draft in `share` tokens, if it has the draft's final answer.
fn end(draft: &Draft, share: usize, equality: Verifier) -> Option<String> {
    let all = draft.text.chars().count();
    let characters = all * share / draft.tokens.max(1);
    let start = draft.text.char_indices().nth(all - characters.min(all)).map(|(at, _)| at)?;
    let tail = &draft.text[start..];
    // No word is cut in two.
    let is_word_whole = draft.text[..start].ends_with(char::is_whitespace);
    let tail = match tail.find(char::is_whitespace) {
        Some(space) if !is_word_whole => &tail[space..],
        _ => tail,
    };
    let tail = tail.trim();
    let has_answer = match (&draft.answer, equality.answer(tail)) {
        (None, _) => true,
        (Some(answer), Some(found)) => equality.is_same(answer, &found),
        (Some(_), None) => false,
    };
    (has_answer && !tail.is_empty()).then(|| tail.to_owned())
}

fn answer_alone(draft: &Draft, share: usize) -> Option<String> {
    let answer = draft.answer.as_deref().map(str::trim).filter(|answer| !answer.is_empty())?;
    (counted(draft, answer) <= share).then(|| answer.to_owned())
}

#[cfg(test)]
mod tests {
    use burnish_core::Message;
    use proptest::prelude::*;

    use super::*;

    fn draft(text: &str, tokens: usize) -> Draft {
        let answer = Verifier::Number.answer(text);
        Draft { text: text.to_owned(), tokens, answer }
    }

    #[test]
    fn short_drafts_stay_whole_and_leave_their_room_to_long_ones() {
        let long = format!("{}The answer is 12.", "word ".repeat(40));
        let drafts = [draft("The answer is 7.", 10), draft(&long, 100), draft(&long, 100)];
        let kept = prune(&drafts, 90, Verifier::Number);
        assert_eq!(kept.iter().map(|kept| kept.is_whole).collect::<Vec<_>>(), [true, false, false]);
        assert!(kept[1].tokens > 30 && kept[1].tokens <= 40, "{kept:?}");
        assert!(kept[1].text.ends_with("The answer is 12.") && kept[1].text.starts_with("word"));
        assert!(prune(&drafts, 210, Verifier::Number).iter().all(|kept| kept.is_whole));
    }

    #[test]
    fn an_answer_that_its_end_does_not_have_is_kept_alone_or_the_draft_is_dropped() {
        let early = format!("The answer is 12.{}", " so it is, and that is that".repeat(10));
        let drafts = [draft(&early, 100)];
        let kept = prune(&drafts, 20, Verifier::Number);
        assert_eq!((kept[0].text.as_str(), kept[0].is_whole), ("12", false));
        assert!(prune(&drafts, 0, Verifier::Number).is_empty());
    }

    #[test]
    fn drafts_are_shown_in_the_order_of_the_seed_and_not_filled_again() {
        let skill =
            Skill { template: "{prompt}|{drafts}|{prompt}".into(), draft: "<{number}:{draft}>".into() };
        let show = |seed: u64, texts: &[&str]| {
            let drafts: Vec<Draft> = texts.iter().map(|text| draft(text, 2)).collect();
            let showing = Showing { skill: &skill, budget: 99, equality: Verifier::Number, seed };
            showing.show(&[Message::user("x {drafts}")], &drafts)
        };
        let (messages, kept) = show(1, &["{prompt}"]);
        assert_eq!(messages[0].content, "x {drafts}|<1:{prompt}>|x {drafts}");
        assert_eq!(kept[0].tokens, 2);
        let orders: std::collections::BTreeSet<String> =
            (0..64).map(|seed| show(seed, &["a", "b", "c"]).0[0].content.clone()).collect();
        assert_eq!(orders.len(), 6);
        assert_eq!(show(5, &["a", "b", "c"]), show(5, &["a", "b", "c"]));
        assert_eq!(show(1, &[]).0, [Message::user("x {drafts}")]);
    }

    proptest! {
        #[test]
        fn the_cache_keeps_to_its_budget_and_each_draft_is_whole_or_ends_with_its_answer(
            drafts in prop::collection::vec(("([a-z0-9 ]{0,40})(answer is [0-9]{1,3})?", 0usize..60), 0..8),
            budget in 0usize..200,
        ) {
            let drafts: Vec<Draft> = drafts.iter().map(|(text, tokens)| draft(text, *tokens)).collect();
            let kept = prune(&drafts, budget, Verifier::Number);
            prop_assert!(kept.iter().map(|kept| kept.tokens).sum::<usize>() <= budget);
            for kept in &kept {
                let whole = &drafts[kept.draft];
                if kept.is_whole {
                    prop_assert_eq!((&kept.text, kept.tokens), (&whole.text, whole.tokens));
                    continue;
                }
                let is_answer = whole.answer.as_deref().map(str::trim) == Some(kept.text.as_str());
                prop_assert!(whole.text.trim_end().ends_with(&kept.text) || is_answer);
                if let Some(answer) = &whole.answer {
                    let found = Verifier::Number.answer(&kept.text).unwrap_or_default();
                    prop_assert!(Verifier::Number.is_same(answer, &found), "{kept:?} {whole:?}");
                }
            }
            // Nothing is dropped where everything fits.
            if drafts.iter().map(|draft| draft.tokens).sum::<usize>() <= budget {
                prop_assert!(kept.len() == drafts.len() && kept.iter().all(|kept| kept.is_whole));
            }
        }
    }
}
