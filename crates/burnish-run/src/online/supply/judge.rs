//! Compares pairs of answers by asking a judge.

use burnish_core::rng::{self, Address, Purpose};
use burnish_core::{Episode, Message, Role};
use burnish_rl::fact::{Need, WINS};
use burnish_tensor::Device;

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::asked::{Asked, How};
use burnish_recipe::supply::OF_JUDGE;
use burnish_recipe::{JudgeSection, PLACES, Recipe};
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_JUDGE, make: PairJudge::make };

/// A judge of pairs.
struct PairJudge {
    config: JudgeSection,
    policy: Asked,
}

/// The judge's answer about a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    First,
    Second,
    Tie,
    /// Unreadable; counts as a tie.
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
    fn make(making: &Making<'_>) -> Result<Made, RunError> {
        let Some(config) = making.recipe.judge.clone() else { return Ok(None) };
        let device = Device::open(&making.recipe.device)?;
        let (path, endpoint) = (config.path.as_deref(), config.endpoint.as_ref());
        let policy = Asked::named("judge", path, endpoint, &device)?;
        let policy = policy.by(config.strategy.as_ref(), "judge", &device)?;
        Ok(Some(Box::new(PairJudge { config, policy })))
    }

    fn question(&self, groups: &Groups, pair: &Pair) -> Vec<Message> {
        let group = &groups.all[pair.group];
        let task: Vec<&str> = group.task.prompt.iter().map(|message| message.content.as_str()).collect();
        let answer = |member: usize| said(&group.members[member].episode);
        let texts = [task.join("\n"), answer(pair.first), answer(pair.second)];
        vec![Message::new(Role::User, filled(&self.config.prompt, &texts))]
    }
}

impl Provider for PairJudge {
    /// Compares every two scored members of each trained group once, greedily. Chance decides which of them is shown
    /// first.
    fn supply(&mut self, _: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let pairs = pairs(step.recipe, groups, step.number);
        let questions: Vec<Vec<Message>> = pairs.iter().map(|pair| self.question(groups, pair)).collect();
        let how = How { temperature: 0.0, tokens_max: self.config.tokens_max, seed: step.recipe.run.seed };
        let said: Vec<Said> = self.policy.ask(questions, how)?.iter().map(|answer| read(answer)).collect();
        for group in groups.kept_mut() {
            // NaN for the member itself, and for members that it was not compared with.
            let nobody = vec![f64::NAN; group.members.len()];
            group.members.iter_mut().for_each(|member| member.facts.set(&WINS, nobody.clone()));
        }
        for (Pair { group, first, second }, said) in pairs.iter().zip(&said) {
            let share = match said {
                Said::First => 1.0,
                Said::Second => 0.0,
                Said::Tie | Said::Unreadable => 0.5,
            };
            for (own, other, share) in [(*first, *second, share), (*second, *first, 1.0 - share)] {
                let facts = &mut groups.all[*group].members[own].facts;
                let mut wins = facts.of(&WINS).to_vec();
                wins[other] = share;
                facts.set(&WINS, wins);
            }
        }
        Ok(metrics(&said))
    }
}

/// Metrics about the judge's answers.
fn metrics(said: &[Said]) -> Values {
    let count = |wanted: Said| said.iter().filter(|said| **said == wanted).count() as f64;
    let all = said.len() as f64;
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

fn pairs(recipe: &Recipe, groups: &Groups, step: u64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (group, own) in groups.all.iter().enumerate().filter(|(_, own)| own.is_kept) {
        let size = own.members.len();
        let is_scored = |member: &usize| own.members[*member].episode.verdict.is_scored();
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

/// `template` with `texts` in the places of [`PLACES`]. Placeholders inside the texts are left alone.
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

/// The verdict that an answer names: A, B or tie.
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
