//! One episode: a question, a response, a verdict.

use burnish_core::{Message, Verdict};
use burnish_verify::abstention::{self, Finding, NO_ANSWER};
use serde::{Deserialize, Serialize};

use super::config::{PromptStyle, Reward};
use super::facts::{Fact, Question};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The facts, in the order of the text.
    pub facts: Vec<Fact>,
    /// The question.
    pub question: Question,
}

impl Truth {
    /// The gold answers: one, or none if the question can't be answered.
    pub fn golds(&self) -> Vec<&str> {
        self.question.answer(&self.facts).map(|fact| fact.person.as_str()).into_iter().collect()
    }

    pub(super) fn prompt(&self, style: PromptStyle) -> String {
        let facts: Vec<String> = self.facts.iter().map(Fact::to_string).collect();
        let short = format!("{}\n{}", facts.join("\n"), self.question);
        match style {
            PromptStyle::Short => short,
            PromptStyle::Full => format!(
                "Each line says who held a role, from one year to another, both included. The question asks who held one in \
                 a year, all through some years, or next after somebody.\n\n{}\nQuestion: {}\n\nThink first. If the lines do not say, \
                 the answer is {NO_ANSWER}. Write exactly:\n<think>\nyour thoughts\n</think>\n\n<answer>\nthe name alone, \
                 or {NO_ANSWER}\n</answer>",
                facts.join("\n"),
                self.question
            ),
        }
    }

    /// What a right response says before its answer.
    pub(super) fn reasoning(&self) -> String {
        format!("<think>\n{}\n</think>\n\n", self.question.steps(&self.facts).join("\n"))
    }

    pub(super) fn demonstration(&self) -> String {
        let answer = self.golds().first().copied().unwrap_or(NO_ANSWER);
        format!("{}<answer>\n{answer}\n</answer>", self.reasoning())
    }
}

/// The findings about a message. The answer is looked for in its text, not in thoughts that a chat format keeps apart;
/// the form includes those thoughts.
pub(crate) fn judge(golds: &[&str], message: Option<&Message>) -> Finding {
    let text = message.map_or("", |message| &message.content);
    let is_formatted = message.is_some_and(|message| abstention::is_formatted(&said(message)));
    Finding { is_formatted, ..abstention::judge(golds, text) }
}

/// Everything that a message says, as one text; thoughts that a chat format keeps apart come first, in `<think>`.
fn said(message: &Message) -> String {
    match &message.reasoning_content {
        None => message.content.clone(),
        Some(thoughts) => {
            format!("<think>\n{}\n</think>\n\n{}", thoughts.trim_matches('\n'), message.content.trim_start())
        }
    }
}

/// The verdict for the findings: components `format` and `answer`.
pub(crate) fn verdict(finding: &Finding, reward: &Reward, golds: &[&str]) -> Verdict {
    let is_right = finding.is_right();
    let mut verdict = Verdict::scored("answer", finding.worth(reward.measure, reward.abstention), is_right);
    verdict.rewards.insert("format".to_owned(), if finding.is_formatted { reward.format } else { 0.0 });
    verdict.flags = [
        ("abstained", finding.is_abstention),
        ("answerable", finding.is_answerable),
        ("formatted", finding.is_formatted),
        ("parse_error", finding.answer.is_none()),
    ]
    .map(|(name, is_set)| (name.to_owned(), is_set))
    .into();
    verdict.error_turn = (!is_right).then_some(0);
    verdict.feedback = match (&finding.answer, is_right) {
        (None, _) => Some("There is no answer between <answer> and </answer>.".to_owned()),
        (Some(answer), false) => Some(match golds.first() {
            None => format!("`{answer}` is not known: the right answer is {NO_ANSWER}."),
            Some(_) if finding.is_abstention => "There is an answer.".to_owned(),
            Some(_) => format!("`{answer}` is not right."),
        }),
        (Some(_), true) => {
            (!finding.is_formatted).then(|| "The answer is right, the form is not.".to_owned())
        }
    };
    verdict
}
