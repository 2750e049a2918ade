//! Supervised fine-tuning: imitation of given answers.

use std::collections::BTreeSet;
use std::path::Path;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Role, TaskId, Trace};
use burnish_model::Chat;
use burnish_rl::nll::Nll;
use burnish_train::{Sample, Trainer, totals};

use crate::RunError;
use crate::metrics::Values;
use crate::policy::LoadedPolicy;
use crate::recipe::Recipe;
use crate::summary::{Metrics, Updates};
use crate::tasks::{of_step, tasks_of};

/// Conversations whose assistant messages are imitated.
pub(crate) type Conversations = Vec<Vec<Message>>;

/// Gathers what a recipe imitates: the rows of its file, then the answers of its environments' solvers, without
/// the tasks that are `held_out`.
///
/// # Errors
/// If the file can't be used (names the line), or an environment makes no tasks or has no solver.
pub(crate) fn conversations(
    recipe: &Recipe,
    held_out: &BTreeSet<&TaskId>,
) -> Result<Conversations, RunError> {
    let mut conversations = Vec::new();
    if let Some(path) = &recipe.data.path {
        conversations.extend(read_conversations(path)?);
    }
    for (index, set) in recipe.data.demonstrations.iter().enumerate() {
        let generator = burnish_env::build(&set.env, &set.config)?;
        let address = Address { stage: 1 + index as u64, ..Address::new(recipe.run.seed, Purpose::Task) };
        let before = conversations.len();
        let table = format!("data.demonstrations[{index}].config");
        for task in tasks_of(&*generator, address.seed(), set.tasks, &table)? {
            if held_out.contains(&task.id) {
                continue;
            }
            if let Some(answer) = generator.demonstrate(&task) {
                let mut conversation = task.prompt;
                conversation.push(answer);
                conversations.push(conversation);
            }
        }
        if conversations.len() == before {
            return Err(RunError::Refused(format!(
                "data.demonstrations[{index}]: the environment `{}` demonstrates none of its tasks",
                set.env
            )));
        }
    }
    Ok(conversations)
}

fn read_conversations(path: &Path) -> Result<Conversations, RunError> {
    let wrong = |line: Option<usize>, problem: String| RunError::Data {
        path: path.display().to_string(),
        line,
        problem,
    };
    let bytes = std::fs::read(path).map_err(|error| wrong(None, format!("can't be read: {error}")))?;
    let mut conversations = Vec::new();
    for (index, row) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = Some(index + 1);
        let row = std::str::from_utf8(row).map_err(|_| wrong(line, "is not UTF-8 text".into()))?;
        if row.trim().is_empty() {
            continue;
        }
        let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(row)
            .map_err(|error| wrong(line, format!("is not a JSON object: {error}")))?;
        let columns = || row.keys().cloned().collect::<Vec<_>>().join(", ");
        let messages = row
            .get("messages")
            .ok_or_else(|| wrong(line, format!("has no column `messages`; it has: {}", columns())))?;
        let messages: Vec<Message> = serde_json::from_value(messages.clone())
            .map_err(|error| wrong(line, format!("`messages` is not a list of messages: {error}")))?;
        if !messages.iter().any(|message| message.role == Role::Assistant) {
            return Err(wrong(line, "has no assistant message, so there is nothing to imitate".into()));
        }
        conversations.push(messages);
    }
    if conversations.is_empty() {
        return Err(wrong(None, "has no rows".into()));
    }
    Ok(conversations)
}

/// The texts of conversations, on which a tokenizer is trained.
pub(crate) fn texts(conversations: &Conversations) -> Vec<String> {
    conversations.iter().flatten().map(|message| message.content.clone()).collect()
}

/// SFT on a recipe.
pub(crate) struct SftStage {
    samples: Vec<Sample>,
}

impl SftStage {
    /// Tokenises the conversations. One that does not fit the context window is left out; returns how many were.
    ///
    /// # Errors
    /// If a conversation can't be rendered, or none fits.
    pub(crate) fn new(
        conversations: &Conversations,
        chat: &Chat,
        context_tokens_max: usize,
    ) -> Result<(Self, usize), RunError> {
        let mut samples = Vec::new();
        let mut overlong = 0;
        for conversation in conversations {
            let mut trace = Trace::new();
            chat.demonstrate(&mut trace, conversation, &[])?;
            for branch in trace.branches() {
                if branch.ids.len() > context_tokens_max {
                    overlong += 1;
                    continue;
                }
                let sample = Sample::from_demonstration(&branch);
                if sample.scored_tokens() > 0 {
                    samples.push(sample);
                }
            }
        }
        if samples.is_empty() {
            return Err(RunError::Refused(format!(
                "no conversation can be imitated: {overlong} are longer than the context window of \
                 {context_tokens_max} tokens"
            )));
        }
        Ok((SftStage { samples }, overlong))
    }

    /// Step number `step`, counted from 0.
    pub(crate) fn step(
        &self,
        recipe: &Recipe,
        policy: &mut LoadedPolicy,
        trainer: &mut Trainer,
        lr: &dyn Fn(u64) -> f64,
        step: u64,
    ) -> Result<Metrics, RunError> {
        let chosen = of_step(self.samples.len(), recipe.run.seed, step, recipe.train.sequences_per_step);
        let batch: Vec<&Sample> = chosen.into_iter().map(|at| &self.samples[at]).collect();
        let totals = totals(&batch, &batch, 1, policy.model.context_tokens_max());
        let lr = lr(trainer.updates());
        let update = trainer.update(&mut policy.model, &batch, &Nll, &totals, lr)?;
        let mut updates = Updates::default();
        updates.add(&update, lr);
        let tokens: usize = batch.iter().map(|sample| sample.ids.len()).sum();
        Ok(updates.finish(Values::from([("tokens/total".into(), tokens as f64)])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(content: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, content).unwrap();
        let error = read_conversations(&path).unwrap_err().to_string();
        assert!(error.contains("rows.jsonl"), "{error}");
        error
    }

    #[test]
    fn rows_that_cannot_be_used_are_named_by_line() {
        let good = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
        assert!(error_of(b"").contains("no rows"));
        assert!(error_of(b"\n\n").contains("no rows"));
        let error = error_of(format!("{good}\n{{\"prompt\": 1, \"answer\": 2}}\n").as_bytes());
        assert!(error.contains("line 2") && error.contains("`messages`") && error.contains("prompt, answer"));
        assert!(error_of(b"\xff\xfe\n").contains("line 1"));
        assert!(error_of(b"[1]\n").contains("not a JSON object"));
        assert!(error_of(br#"{"messages":[{"role":"user","content":"a"}]}"#).contains("nothing to imitate"));
        assert!(error_of(br#"{"messages":[{"role":"robot","content":"a"}]}"#).contains("robot"));
    }
}
