//! Pairs of answers, compared by a judge.

use burnish_core::rng::{self, Address, Purpose};
use burnish_core::{Episode, Message, Role};
use burnish_tensor::Device;

use super::groups::Groups;
use crate::RunError;
use crate::asked::{Asked, How};
use crate::metrics::Values;
use crate::recipe::{JudgeSection, PLACES, Recipe};

/// A judge of pairs.
pub(super) struct PairJudge {
    config: JudgeSection,
    policy: Asked,
}

/// What came of comparing the answers of a step.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Compared {
    /// Of each episode: 1 for a sibling that is worse, 0 for one that is better, ½ for a tie; NaN for itself and those that it
    /// was not compared with. One entry a member of its group.
    pub(super) wins: Vec<Vec<f64>>,
    /// Of all comparisons, as [`Said`] names them.
    said: Vec<Said>,
}

/// What a judge said of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    First,
    Second,
    Tie,
    /// Nothing that can be read: counts as a tie.
    Unreadable,
}

/// Two members of a group, in the order in which they are shown.
struct Pair {
    group: usize,
    first: usize,
    second: usize,
}

impl PairJudge {
    /// The judge of a recipe that has one.
    ///
    /// # Errors
    /// If it can't be loaded.
    pub(super) fn new(recipe: &Recipe) -> Result<Option<Self>, RunError> {
        let Some(config) = recipe.judge.clone() else { return Ok(None) };
        let device = Device::open(&recipe.device)?;
        let policy = Asked::new(config.path.as_deref(), config.endpoint.as_ref(), &device)?;
        Ok(Some(PairJudge { config, policy }))
    }

    /// Compares every two scored episodes of each group that is trained on, once, greedily; chance decides which of them is
    /// shown first.
    ///
    /// # Errors
    /// If the judge can't be asked.
    pub(super) fn compare(
        &mut self,
        recipe: &Recipe,
        groups: &Groups,
        step: u64,
    ) -> Result<Compared, RunError> {
        let pairs = pairs(recipe, groups, step);
        let questions: Vec<Vec<Message>> = pairs.iter().map(|pair| self.question(groups, pair)).collect();
        let how = How { temperature: 0.0, tokens_max: self.config.tokens_max, seed: recipe.run.seed };
        let said: Vec<Said> = self.policy.ask(questions, how)?.iter().map(|answer| read(answer)).collect();
        let mut wins = vec![vec![f64::NAN; groups.size]; groups.episodes.len()];
        for (Pair { group, first, second }, said) in pairs.iter().zip(&said) {
            let share = match said {
                Said::First => 1.0,
                Said::Second => 0.0,
                Said::Tie | Said::Unreadable => 0.5,
            };
            wins[group * groups.size + first][*second] = share;
            wins[group * groups.size + second][*first] = 1.0 - share;
        }
        Ok(Compared { wins, said })
    }

    fn question(&self, groups: &Groups, pair: &Pair) -> Vec<Message> {
        let prompt = &groups.tasks[pair.group].prompt;
        let task: Vec<&str> = prompt.iter().map(|message| message.content.as_str()).collect();
        let answer = |member: usize| said(&groups.episodes[pair.group * groups.size + member]);
        let texts = [task.join("\n"), answer(pair.first), answer(pair.second)];
        vec![Message::new(Role::User, filled(&self.config.prompt, &texts))]
    }
}

impl Compared {
    /// Named numbers for the run's metrics.
    pub(super) fn metrics(&self) -> Values {
        let count = |wanted: Said| self.said.iter().filter(|said| **said == wanted).count() as f64;
        let all = self.said.len() as f64;
        let mut values = Values::from([("judge/comparisons".to_owned(), all)]);
        if all > 0.0 {
            values.insert("judge/ties".into(), count(Said::Tie) / all);
            values.insert("judge/unreadable".into(), count(Said::Unreadable) / all);
        }
        let decided = count(Said::First) + count(Said::Second);
        if decided > 0.0 {
            values.insert("judge/first".into(), count(Said::First) / decided);
        }
        values
    }
}

fn pairs(recipe: &Recipe, groups: &Groups, step: u64) -> Vec<Pair> {
    let size = groups.size;
    let mut pairs = Vec::new();
    for group in (0..groups.tasks.len()).filter(|group| groups.is_kept[*group]) {
        let is_scored = |member: &usize| groups.episodes[group * size + member].verdict.is_scored();
        let members: Vec<usize> = (0..size).filter(is_scored).collect();
        let place = Address { step, task: group as u64, ..Address::new(recipe.run.seed, Purpose::Perturb) };
        for (at, one) in members.iter().enumerate() {
            for other in &members[at + 1..] {
                let is_swapped = rng::uniform(place.seed(), (one * size + other) as u64) < 0.5;
                let (first, second) = if is_swapped { (*other, *one) } else { (*one, *other) };
                pairs.push(Pair { group, first, second });
            }
        }
    }
    pairs
}

/// What the policy said in an episode.
fn said(episode: &Episode) -> String {
    let answers: Vec<&str> = episode.answers.iter().map(|answer| answer.content.as_str()).collect();
    answers.join("\n")
}

/// `template` with `texts` in the places of [`PLACES`]. What an answer says is never taken for a place.
fn filled(template: &str, texts: &[String; 3]) -> String {
    let mut rest = template;
    let mut filled = String::new();
    loop {
        let found =
            PLACES.iter().zip(texts).filter_map(|(place, text)| Some((rest.find(place)?, place, text)));
        let Some((at, place, text)) = found.min_by_key(|(at, ..)| *at) else { break };
        filled.push_str(&rest[..at]);
        filled.push_str(text);
        rest = &rest[at + place.len()..];
    }
    filled + rest
}

/// The one of A, B and tie that an answer names.
fn read(answer: &str) -> Said {
    let words = answer.split(|c: char| !c.is_alphanumeric());
    let mut named: Vec<Said> = words
        .filter_map(|word| match word {
            "A" => Some(Said::First),
            "B" => Some(Said::Second),
            word if word.eq_ignore_ascii_case("tie") => Some(Said::Tie),
            _ => None,
        })
        .collect();
    named.dedup();
    match named[..] {
        [said] => said,
        _ => Said::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_where_the_answer_names_one_and_no_other() {
        for (answer, expected) in [
            ("A", Said::First),
            (" **B**.", Said::Second),
            ("Tie", Said::Tie),
            ("Answer A is a bit better: A", Said::First),
            ("A better answer is B", Said::Unreadable),
            ("neither", Said::Unreadable),
            ("", Said::Unreadable),
        ] {
            assert_eq!(read(answer), expected, "{answer}");
        }
    }

    #[test]
    fn an_answer_that_looks_like_a_place_is_left_as_it_is() {
        let texts = ["2+2?".to_owned(), "{b}".to_owned(), "4 {task}".to_owned()];
        assert_eq!(filled("{task}|{a}|{b}|{a}.", &texts), "2+2?|{b}|4 {task}|{b}.");
    }
}
