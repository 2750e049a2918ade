//! What an episode did with a library: the segment of each turn, what each earned, and what the library learns from it.

use std::collections::BTreeMap;

use burnish_core::Episode;

use super::library::{Library, Rules, ndcg};
use crate::many_turns::said;

/// What a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// It asks the library.
    Asking,
    /// It puts in order what it was given.
    Ordering,
    /// It acts.
    Acting,
    /// It writes a skill down.
    Writing,
}

/// The flag of a verdict that says that the last turn wrote a skill down.
pub(super) const WROTE: &str = "wrote";

/// What an episode did with a library.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What each turn did.
    pub segments: Vec<Segment>,
    /// What each turn earned by the reward of its segment; `None` where there is none.
    pub rewards: Vec<Option<f64>>,
    /// Numbers of the skills that it was given.
    pub given: Vec<u64>,
    /// Whether it succeeded; `None` if it was not scored.
    pub succeeded: Option<bool>,
    /// Description and text of the skill that it wrote down.
    pub written: Option<(String, String)>,
}

impl Outcome {
    /// Reads it off an episode that was played with `library`.
    pub fn of(episode: &Episode, library: &Library, rules: &Rules, selects: bool) -> Outcome {
        let turns = episode.answers.len();
        let mut segments = vec![Segment::Acting; turns];
        let mut rewards = vec![None; turns];
        let succeeded = episode.verdict.is_scored().then_some(episode.verdict.success);
        let mut given = Vec::new();
        let asking = episode.answers.first().filter(|_| rules.candidates > 0);
        let mut best = 0.0_f64;
        if let Some(asking) = asking {
            segments[0] = Segment::Asking;
            let found = library.retrieve(said(&asking.content), rules.candidates, rules.bonus);
            let utilities: Vec<f64> = found.iter().map(|skill| skill.utility).collect();
            given = found.iter().map(|skill| skill.id).collect();
            best = utilities.iter().copied().fold(0.0, f64::max);
            if let Some(ordering) = episode.answers.get(1).filter(|_| orders(given.len(), selects)) {
                segments[1] = Segment::Ordering;
                // An answer that is no order earns nothing.
                let order = order_of(said(&ordering.content), given.len());
                rewards[1] = ndcg(order.as_deref().unwrap_or_default(), &utilities);
            }
        }
        let mut written = None;
        if episode.verdict.flags.get(WROTE) == Some(&true)
            && let Some((last, message)) = turns.checked_sub(1).zip(episode.answers.last())
        {
            segments[last] = Segment::Writing;
            rewards[last] = succeeded.map(|succeeded| f64::from(u8::from(succeeded)) - best);
            written = skill_of(said(&message.content));
        }
        Outcome { segments, rewards, given, succeeded, written }
    }
}

impl Library {
    /// How far utilities are from the outcomes that they foretell: the mean over the skills that episodes of a step were given
    /// of `|U - share of these episodes that succeeded|`. `None` if none was given.
    pub fn miscalibration(&self, outcomes: &[Outcome]) -> Option<f64> {
        let mut of_skill: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for outcome in outcomes {
            let Some(succeeded) = outcome.succeeded else { continue };
            for id in &outcome.given {
                let (successes, episodes) = of_skill.entry(*id).or_default();
                *successes += f64::from(u8::from(succeeded));
                *episodes += 1.0;
            }
        }
        let apart = of_skill.iter().filter_map(|(id, (successes, episodes))| {
            Some((self.skill(*id)?.utility - successes / episodes).abs())
        });
        let apart: Vec<f64> = apart.collect();
        (!apart.is_empty()).then(|| apart.iter().sum::<f64>() / apart.len() as f64)
    }

    /// Learns from the outcomes of a step, in their order: first from all what they say of the skills that were given, then the
    /// skills that successful ones wrote down. Returns how many were added.
    pub fn see(&mut self, outcomes: &[Outcome], rules: &Rules) -> usize {
        for outcome in outcomes {
            if let Some(succeeded) = outcome.succeeded {
                self.learn(&outcome.given, succeeded, rules.rate);
            }
        }
        let successful = outcomes.iter().filter(|outcome| outcome.succeeded == Some(true));
        let written = successful.filter_map(|outcome| outcome.written.as_ref());
        written
            .filter(|(description, text)| self.add(description, text, rules.utility, rules.capacity))
            .count()
    }
}

/// Whether so many skills are put in order.
pub(super) fn orders(given: usize, selects: bool) -> bool {
    selects && given > 1
}

/// The order of `count` skills that a text gives, as indices: each number from 1 on once. `None` if it is none.
pub(super) fn order_of(text: &str, count: usize) -> Option<Vec<usize>> {
    let mut order = Vec::with_capacity(count);
    for word in text.split([' ', ',', '\n']).filter(|word| !word.is_empty()) {
        let at =
            word.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < count && !order.contains(at))?;
        order.push(at);
    }
    (order.len() == count).then_some(order)
}

/// The skill that a text writes down, `DESCRIPTION: WHAT TO DO` in one line.
pub(super) fn skill_of(text: &str) -> Option<(String, String)> {
    let (description, text) = text.split_once(':')?;
    let (description, text) = (description.trim(), text.trim());
    let is_line =
        !description.is_empty() && !text.is_empty() && !text.contains('\n') && !description.contains('\n');
    is_line.then(|| (description.to_owned(), text.to_owned()))
}

#[cfg(test)]
mod tests {
    use burnish_core::{Ending, Message, Record, TaskId, Verdict};
    use proptest::prelude::*;

    use super::*;

    /// An episode that asked for `clean`, put in order what it was given, acted, and wrote a skill down.
    fn written(mut verdict: Verdict) -> Episode {
        verdict.flags.insert(WROTE.to_owned(), true);
        Episode {
            task: TaskId("a".to_owned()),
            rollout: 0,
            traces: Vec::new(),
            partners: Vec::new(),
            verdict,
            ending: Ending::Completed,
            answers: ["clean", "2 1", "look", "clean: wash it"].map(Message::assistant).to_vec(),
            record: Record::default(),
        }
    }

    /// A library of skills that answer every question equally well, so that the oldest are given.
    fn library(utilities: &[f64]) -> Library {
        let mut library = Library::default();
        for (at, utility) in utilities.iter().enumerate() {
            assert!(library.add("clean", &format!("way {at}"), *utility, 100));
        }
        library
    }

    fn rules(candidates: usize) -> Rules {
        Rules { candidates, rate: 0.05, utility: 0.5, bonus: 0.1, capacity: 100 }
    }

    #[test]
    fn an_episode_that_was_not_scored_earns_nothing_by_writing() {
        let outcome = Outcome::of(&written(Verdict::unscored("hung")), &library(&[0.5]), &rules(3), true);
        assert_eq!((outcome.segments[3], outcome.rewards[3]), (Segment::Writing, None));
    }

    #[test]
    fn utilities_are_compared_with_the_outcomes_of_a_step() {
        let library = library(&[0.5, 0.25, 1.0]);
        let of = |given: &[u64], succeeded: Option<bool>| Outcome {
            segments: Vec::new(),
            rewards: Vec::new(),
            given: given.to_vec(),
            succeeded,
            written: None,
        };
        let outcomes = [
            of(&[0, 1], Some(true)),
            of(&[0], Some(false)),
            of(&[0, 1], Some(true)),
            of(&[2], None),
            of(&[], Some(false)),
        ];
        // Skill 0 works in two of three episodes, skill 1 in two of two, and of skill 2 nothing is known.
        let expected = ((2.0_f64 / 3.0 - 0.5) + (1.0 - 0.25)) / 2.0;
        assert!((library.miscalibration(&outcomes).unwrap() - expected).abs() < 1e-12);
        assert_eq!(library.miscalibration(&outcomes[3..]), None);
    }

    proptest! {
        /// Writing a skill down earns what the outcome is above the best skill that was given: less than nothing after a
        /// failure, and the outcome itself where nothing was given.
        #[test]
        fn writing_earns_the_outcome_less_the_greatest_utility_that_was_given(
            utilities in prop::collection::vec(0.0..=1.0_f64, 0..8), candidates in 1_usize..6,
            succeeded in any::<bool>(), selects in any::<bool>(),
        ) {
            let outcome = f64::from(u8::from(succeeded));
            let episode = written(Verdict::scored("success", outcome, succeeded));
            let read = Outcome::of(&episode, &library(&utilities), &rules(candidates), selects);
            let given = &utilities[..candidates.min(utilities.len())];
            prop_assert_eq!(&read.given, &(0..given.len() as u64).collect::<Vec<u64>>());
            let best = given.iter().copied().max_by(f64::total_cmp);
            let earned = read.rewards[3].unwrap();
            match best {
                None => prop_assert_eq!(earned, outcome),
                Some(best) if succeeded => prop_assert_eq!(earned, 1.0 - best),
                Some(best) => prop_assert_eq!(earned, -best),
            }
            prop_assert!((-1.0..=1.0).contains(&earned));
        }
    }

    #[test]
    fn an_order_names_each_skill_once() {
        assert_eq!(order_of("2 1 3", 3), Some(vec![1, 0, 2]));
        assert_eq!(order_of("2,1", 2), Some(vec![1, 0]));
        for wrong in ["", "1 2", "1 1 2", "0 1 2", "1 2 4", "2 1 3 1", "one two three"] {
            assert_eq!(order_of(wrong, 3), None, "{wrong}");
        }
    }

    #[test]
    fn a_skill_is_a_line_with_a_description() {
        let skill = skill_of(" clean : find it: then wash it ").unwrap();
        assert_eq!(skill, ("clean".to_owned(), "find it: then wash it".to_owned()));
        for wrong in ["", "clean", ": wash", "clean:", "clean: wash\nit"] {
            assert_eq!(skill_of(wrong), None, "{wrong}");
        }
    }
}
