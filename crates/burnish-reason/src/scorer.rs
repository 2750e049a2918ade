//! Numbers by which answers are ranked. None of them comes from a reference answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::settings::SettingError;
use burnish_core::{Message, Sampling};
use burnish_episode::ContactError;
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use crate::card::require;
use crate::record::{Role, text_of};
use crate::session::{JUDGE, Question, REWARD_MODEL, Request, Session};
use crate::template::{fill, transcript};

/// The stage of a judge's turns, apart from those of answers.
const GRADES: u32 = 1 << 31;

/// Places of a judge's question.
const PLACES: [&str; 2] = ["{task}", "{answer}"];

/// What gives the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The mean log-prob of the answer's tokens under the model that sampled them.
    #[default]
    Logprob,
    /// A judge reads the question and the answer, and says a number. Where nobody is named as `judge`, the policy
    /// judges its own answers.
    Judge,
    /// A reward model reads the tokens of the conversation with the answer, as they were sampled, and gives it a number.
    RewardModel,
}

/// How answers are scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scoring {
    /// What gives the numbers. Default: `logprob`.
    pub by: By,
    /// The judge's question: `{task}` stands for the conversation, `{answer}` for the answer. The last number that it says
    /// is the score.
    pub prompt: String,
    /// Most tokens of what the judge says. It is asked greedily. Default: 16.
    pub tokens_max: usize,
    /// The reward model: a directory, or a run that trained one. It has the policy's tokenizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl Default for Scoring {
    fn default() -> Self {
        Scoring {
            by: By::Logprob,
            prompt: "Grade an answer to a task. Say a whole number from 0 (useless) to 10 (right and clear), and nothing \
                     else.\n\nTask:\n{task}\n\nAnswer:\n{answer}"
                .to_owned(),
            tokens_max: 16,
            path: None,
        }
    }
}

impl Scoring {
    /// Checks the settings below `key`.
    pub(crate) fn check(&self, key: &str) -> Result<(), SettingError> {
        if let Some(place) = PLACES.iter().find(|place| !self.prompt.contains(**place)) {
            return Err(SettingError::new(format!("{key}.prompt"), format!("must have {place}")));
        }
        let problem = match (self.by == By::RewardModel, &self.path) {
            (true, None) => {
                Some("must name the reward model: a directory, or a run with `train.method = \"reward\"`")
            }
            (false, Some(_)) => Some("is for `by = \"reward_model\"`: no reward model is asked here"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(SettingError::new(format!("{key}.path"), problem));
        }
        require(&format!("{key}.tokens_max"), self.tokens_max, 1, 4096)
    }

    /// The reward model, if one gives the numbers.
    pub(crate) fn reward_model(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.by == By::RewardModel)
    }

    /// The number of each candidate; `None` where there is none.
    pub(crate) async fn score(
        &self,
        session: &Session<'_>,
        among: &[usize],
    ) -> Result<Vec<Option<f64>>, ContactError> {
        if self.by == By::Logprob {
            let of = |at: &usize| session.read(|candidates| candidates[*at].mean_logprob);
            return Ok(among.iter().map(of).collect());
        }
        let is_judge = self.by == By::Judge;
        let question = |at: &usize| {
            let asked = session.read(|candidates| candidates[*at].position);
            let asked = session.question(asked).messages;
            if !is_judge {
                let answer = session.read(|candidates| candidates[*at].message.clone());
                return Arc::new(asked.iter().cloned().chain([answer]).collect());
            }
            let answer = session.read(|candidates| text_of(&candidates[*at].message));
            let task = transcript(&asked);
            let places = [("{task}", task.as_str()), ("{answer}", answer.as_str())];
            Arc::new(vec![Message::user(fill(&self.prompt, &places))])
        };
        let request = Request {
            role: Role::Grade,
            who: if is_judge { JUDGE } else { REWARD_MODEL },
            stage: GRADES,
            first: among.first().map_or(0, |at| *at as u32),
            questions: among.iter().map(|at| Question { at: 0, messages: question(at) }).collect(),
            sampling: Arc::new(Sampling::greedy(self.tokens_max)),
        };
        let grades = session.sample(request).await?;
        let read = if is_judge { grade } else { value };
        Ok(session
            .read(|candidates| grades.iter().map(|at| read(&candidates[*at].message.content)).collect()))
    }
}

/// The number that a judge said; of `8/10` the 8.
fn grade(said: &str) -> Option<f64> {
    let answer = Verifier::Number.answer(said)?;
    let number = answer.split('/').next()?.trim();
    number.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The number that a reward model gave; it gives none of what it can't read.
fn value(said: &str) -> Option<f64> {
    said.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The index of the highest score; of equal ones the first. Without any score, the first.
pub(crate) fn best(scores: &[Option<f64>]) -> usize {
    let scored = scores.iter().enumerate().filter_map(|(at, score)| Some((at, (*score)?)));
    scored.reduce(|best, other| if other.1 > best.1 { other } else { best }).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grade_is_the_number_that_was_said() {
        for (said, expected) in
            [("8", Some(8.0)), ("Grade: 8/10", Some(8.0)), ("7.5", Some(7.5)), ("good", None), ("", None)]
        {
            assert_eq!(grade(said), expected, "{said}");
        }
    }

    #[test]
    fn a_value_is_read_as_it_is_written() {
        for number in [0.1_f64, -3.25e-9, 1e30, f64::from(0.3_f32)] {
            assert_eq!(value(&number.to_string()), Some(number));
        }
        for said in ["NaN", "inf", "", "the conversation has 9 tokens"] {
            assert_eq!(value(said), None, "{said}");
        }
    }

    #[test]
    fn the_first_of_the_best_is_chosen() {
        assert_eq!(best(&[None, Some(1.0), Some(2.0), Some(2.0)]), 2);
        assert_eq!(best(&[None, None]), 0);
        assert_eq!(best(&[Some(-1.0), None]), 0);
    }
}
