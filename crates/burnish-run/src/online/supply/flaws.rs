//! Whether an answer has a wrong step, found by a script that reads equations. The documentation of the part that
//! needs this says how often it errs.

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_rl::advantage::{Detector, Phase};
use burnish_rl::fact::{FLAW, Need};
use serde::Deserialize;

use super::{Groups, Kind, Provider, Step};
use crate::RunError;
use burnish_recipe::supply::OF_FLAWS;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_FLAWS, make: |_| Ok(Some(Box::new(Flaws))) };

struct Flaws;

impl Provider for Flaws {
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let detector =
            needs.iter().find_map(|need| Detector::deserialize(&need.settings).ok()).unwrap_or_default();
        let (mut read, mut flawed, mut right, mut flawed_right) = (0_usize, 0_usize, 0_usize, 0_usize);
        for (group, own) in groups.all.iter_mut().enumerate().filter(|(_, own)| own.is_kept) {
            let members = own.members.iter_mut().filter(|member| member.phase() == Phase::Downstream);
            for (at, member) in members.enumerate() {
                let answer = member.episode.answers.last().map_or("", |answer| answer.content.as_str());
                let Some(is_flawed) = has_wrong_step(answer) else { continue };
                let place = Address {
                    step: step.number,
                    task: group as u64,
                    rollout: at as u64,
                    turn: 2,
                    ..Address::new(step.recipe.run.seed, Purpose::Perturb)
                };
                let errs = if is_flawed { detector.miss } else { detector.false_alarm };
                let found = is_flawed != (Stream::new(place.seed()).uniform() < errs);
                member.facts.set(&FLAW, [f64::from(u8::from(found))]);
                read += 1;
                flawed += usize::from(found);
                if member.episode.verdict.success {
                    right += 1;
                    flawed_right += usize::from(found);
                }
            }
        }
        let shares = [("flaws/rate", flawed, read), ("flaws/flawed_positives", flawed_right, right)];
        let seen = shares.into_iter().filter(|(_, _, all)| *all > 0);
        Ok(seen.map(|(name, some, all)| (name.to_owned(), some as f64 / all as f64)).collect())
    }
}

/// Whether some equation that stands on its own line (`12 + 5 = 17`) is wrong, or does not continue from the result
/// of the one before. `None` if there is no such line.
fn has_wrong_step(answer: &str) -> Option<bool> {
    let steps: Vec<Equation> = answer.lines().filter_map(Equation::read).collect();
    let goes_on = |pair: &[Equation]| pair[1].operands.contains(&pair[0].result);
    let is_wrong = steps.iter().any(|step| !step.holds()) || !steps.windows(2).all(goes_on);
    (!steps.is_empty()).then_some(is_wrong)
}

/// `a + b = c` in whole numbers.
struct Equation {
    operands: [i64; 2],
    operation: char,
    result: i64,
}

impl Equation {
    fn read(line: &str) -> Option<Self> {
        let (left, right) = line.split_once('=')?;
        let left = left.trim();
        // A sign before the first number is not an operation.
        let (at, operation) = left.char_indices().skip(1).find(|(_, sign)| "+-*/".contains(*sign))?;
        let number = |text: &str| text.trim().parse().ok();
        let operands = [number(&left[..at])?, number(&left[at + 1..])?];
        Some(Equation { operands, operation, result: number(right)? })
    }

    fn holds(&self) -> bool {
        let [a, b] = self.operands;
        let result = match self.operation {
            '+' => a.checked_add(b),
            '-' => a.checked_sub(b),
            '*' => a.checked_mul(b),
            _ => (b != 0 && a % b == 0).then(|| a / b),
        };
        result == Some(self.result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_steps_are_found_though_they_cancel_and_what_is_no_equation_is_not_read() {
        for (answer, expected) in [
            ("2-2=0\n0+9=9\n>9", Some(false)),
            ("3 + 4 = 8\n8 + 2 = 9\n>9", Some(true)),
            ("3+4=7\n6+2=8\n>8", Some(true)),
            ("54/6=9\n9-9=0\n>0", Some(false)),
            ("7/2=3", Some(true)),
            ("-3+4=1", Some(false)),
            ("9223372036854775807+1=0", Some(true)),
            ("२ख२ङ०", None),
            ("the answer is 9", None),
            (">9", None),
            ("", None),
        ] {
            assert_eq!(has_wrong_step(answer), expected, "{answer}");
        }
    }

    /// Compares with what `chains` says about its own demonstrations, half of which are wrong.
    #[test]
    fn demonstrations_of_chains_are_flawed_where_their_environment_says_that_a_step_is_wrong() {
        let config = json!({ "steps": { "min": 2, "max": 4 }, "demonstration_errors": 0.5 });
        let generator = burnish_env::build("chains", &config).unwrap();
        let right = generator.demonstrations().unwrap();
        let mut found = [0_usize; 2];
        for task in generator.tasks(7, 200).unwrap().tasks {
            let answer = right.demonstrate(&task).unwrap();
            let mut environment = generator.environment();
            environment.reset(&task, 1).unwrap();
            environment.step(&answer).unwrap();
            let are_right = environment.verify().unwrap().flags["steps"];
            assert_eq!(has_wrong_step(&answer.content), Some(!are_right), "{}", answer.content);
            found[usize::from(are_right)] += 1;
        }
        assert!(found.iter().all(|count| *count > 50), "{found:?}");
    }
}
