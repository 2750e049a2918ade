//! The data to imitate: rows of files, which are read when needed, and episodes of the environments' own solvers.

use std::collections::BTreeSet;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Role, Task, TaskId, ToolSpec};
use burnish_data::overlap::{Counter, Overlap, OverlapReport};
use burnish_data::{DataError, Dataset, Row};
use burnish_env::Generator;
use burnish_env::rollout::{self, SeedPlace};
use burnish_model::ChatTemplate;

use crate::RunError;
use crate::policy::SPECIAL_TOKENS;
use crate::preference::comparable;
use crate::split::{self, told};
use crate::tasks::tasks_of;
use burnish_recipe::split::Split;
use burnish_recipe::{Method, OverlapAction, Recipe};

/// A conversation with answers to imitate.
pub(crate) struct Conversation {
    /// All messages.
    pub(crate) messages: Vec<Message>,
    /// Index of the first message whose answers are imitated; earlier ones belong to the prompt.
    pub(crate) first: usize,
    /// Tools that may be called in it.
    pub(crate) tools: Vec<ToolSpec>,
}

/// What a recipe imitates.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    rows: Option<Dataset>,
    /// Indices of the rows that are used; `None` if all are.
    kept: Option<Vec<usize>>,
    /// Episodes of solvers, each with the tools that the environment offers in it.
    solved: Vec<(Vec<Message>, Vec<ToolSpec>)>,
    /// What to tell a person about the splits.
    pub(crate) parts: Vec<String>,
}

impl Corpus {
    /// Opens the data files of a recipe, then runs its environments' solvers on tasks that are not `held_out`. Every
    /// row is read once, and compared with the evaluation rows, if there are any.
    ///
    /// # Errors
    /// If a file can't be used (names the line), an environment can't make tasks or has no solver, or nothing is
    /// left.
    pub(crate) fn open(
        recipe: &Recipe,
        held_out: &BTreeSet<&TaskId>,
        overlap: Option<&Overlap>,
    ) -> Result<(Self, Option<OverlapReport>), RunError> {
        let mut corpus = Corpus::default();
        let mut counter = overlap.map(Counter::new);
        let drops = recipe.data.decontaminate.action == OverlapAction::Drop;
        if !recipe.data.path.is_empty() {
            let rows = Dataset::open(&recipe.data.path.0, &recipe.data.columns)?;
            let mut kept = Vec::new();
            for index in 0..rows.len() {
                let row = rows.row(index)?;
                let usable = match recipe.train.method {
                    Method::Preference => comparable(&row),
                    _ => imitable(&row).map(drop),
                };
                usable.map_err(|problem| rows.error(index, problem))?;
                let overlaps = counter.as_mut().is_some_and(|counter| {
                    let file = rows.path(index).map(|path| path.display().to_string()).unwrap_or_default();
                    counter.count(&file, &row, || place(&rows, index))
                });
                if !(drops && overlaps) {
                    kept.push(index);
                }
            }
            corpus.kept = (kept.len() < rows.len()).then_some(kept);
            corpus.rows = Some(rows);
        }
        for index in 0..recipe.data.demonstrations.len() {
            corpus.solve(recipe, index, held_out, counter.as_mut())?;
        }
        if corpus.len() == 0 {
            return Err(RunError::Refused(
                "data: every row overlaps with an evaluation row and is dropped; set \
                 data.decontaminate.action = \"report\", or give other rows"
                    .into(),
            ));
        }
        Ok((corpus, counter.map(Counter::report)))
    }

    /// Adds the episodes of the solver of `data.demonstrations[index]`.
    fn solve(
        &mut self,
        recipe: &Recipe,
        index: usize,
        held_out: &BTreeSet<&TaskId>,
        mut counter: Option<&mut Counter<'_>>,
    ) -> Result<(), RunError> {
        let set = &recipe.data.demonstrations[index];
        let drops = recipe.data.decontaminate.action == OverlapAction::Drop;
        let (generator, tasks) = demonstrated(recipe, index, held_out)?;
        if set.split.is_some() {
            self.parts.push(format!("data.demonstrations[{index}].split: {}", told(&tasks)));
        }
        let mut is_demonstrated = false;
        let episode_of = |task: &Task| generator.demonstrations()?.demonstrate_episode(task);
        for task in tasks {
            let Some(episode) = episode_of(&task) else { continue };
            is_demonstrated = true;
            let row = generator.rows().and_then(|rows| rows.row(&task));
            let overlaps = match (counter.as_deref_mut(), row) {
                (Some(counter), Some((file, row))) => counter.count(&file, &row, || task.id.to_string()),
                _ => false,
            };
            if !(drops && overlaps) {
                let seeds = SeedPlace { run: recipe.run.seed, stage: 0, step: 0, task_offset: 0 };
                self.solved.push((episode, rollout::opened(&*generator, &task, seeds.address(0))?.tools));
            }
        }
        if is_demonstrated {
            return Ok(());
        }
        Err(RunError::Refused(format!(
            "data.demonstrations[{index}]: the environment `{}` demonstrates none of its tasks",
            set.env
        )))
    }

    /// Number of rows that are used.
    fn rows_len(&self) -> usize {
        let all = self.rows.as_ref().map_or(0, Dataset::len);
        self.kept.as_ref().map_or(all, Vec::len)
    }

    /// Number of conversations.
    pub(crate) fn len(&self) -> usize {
        self.rows_len() + self.solved.len()
    }

    /// Row number `index` of those that are used.
    ///
    /// # Errors
    /// If a file has changed since it was opened.
    pub(crate) fn row(&self, index: usize) -> Result<Row, RunError> {
        match &self.rows {
            Some(rows) => Ok(rows.row(self.place(index))?),
            None => Err(RunError::Refused("data.path: there are no rows".into())),
        }
    }

    /// An error about row number `index`: names its file and line.
    pub(crate) fn error(&self, index: usize, problem: String) -> RunError {
        match &self.rows {
            Some(rows) => rows.error(self.place(index), problem).into(),
            None => RunError::Refused(problem),
        }
    }

    /// The place among all rows of row number `index` of those that are used.
    fn place(&self, index: usize) -> usize {
        self.kept.as_ref().map_or(index, |kept| kept[index])
    }

    /// Conversation number `index`: the rows of files come first, then the solvers' episodes.
    ///
    /// # Errors
    /// If a file has changed since it was opened.
    pub(crate) fn get(&self, index: usize) -> Result<Conversation, RunError> {
        match &self.rows {
            Some(rows) if index < self.rows_len() => {
                let index = self.place(index);
                let row = rows.row(index)?;
                let (messages, first) = imitable(&row).map_err(|problem| rows.error(index, problem))?;
                Ok(Conversation { messages, first, tools: row.tools })
            }
            _ => {
                let (messages, tools) = self.solved[index - self.rows_len()].clone();
                Ok(Conversation { messages, first: 0, tools })
            }
        }
    }

    /// The texts of all conversations, to train a tokenizer on. All are held in memory. Tool calls are in no
    /// message's content, so a conversation with tools is rendered with `template`, if the recipe names one.
    /// message's content, so a conversation with tools is taken as `template` writes it, where the recipe names one.
    ///
    /// # Errors
    /// As [`Corpus::get`], and if the template can't write a conversation.
    pub(crate) fn texts(&self, template: Option<&ChatTemplate>) -> Result<Vec<String>, RunError> {
        let mut texts = Vec::new();
        for index in 0..self.len() {
            let Conversation { messages, tools, .. } = self.get(index)?;
            match template.filter(|_| !tools.is_empty()) {
                Some(template) => texts.extend(between_special(&template.render(&messages, &tools, false)?)),
                None => texts.extend(messages.into_iter().map(|message| message.content)),
            }
        }
        Ok(texts)
    }
}

/// The parts of a text between special tokens.
fn between_special(text: &str) -> Vec<String> {
    SPECIAL_TOKENS.iter().fold(vec![text.to_owned()], |pieces, token| {
        pieces.iter().flat_map(|piece| piece.split(token)).map(str::to_owned).collect()
    })
}

/// The tasks of `data.demonstrations[index]` that are not `held_out`, with their generator.
///
/// # Errors
/// If the environment can't make them.
pub(crate) fn demonstrated(
    recipe: &Recipe,
    index: usize,
    held_out: &BTreeSet<&TaskId>,
) -> Result<(Box<dyn Generator>, Vec<Task>), RunError> {
    let set = &recipe.data.demonstrations[index];
    let generator = burnish_env::build(&set.env, &set.config)?;
    if let Some(reason) = generator.evaluation_only() {
        return Err(RunError::Refused(format!("data.demonstrations[{index}].env: {reason}")));
    }
    let own = || Address { stage: 1 + index as u64, ..Address::new(recipe.run.seed, Purpose::Task) }.seed();
    let seed = set.split.as_ref().map_or_else(own, Split::seed_of_tasks);
    let table = format!("data.demonstrations[{index}]");
    let mut tasks = tasks_of(&*generator, seed, set.tasks, &format!("{table}.config"))?;
    tasks.retain(|task| !held_out.contains(&task.id));
    if let Some(split) = &set.split {
        tasks = split::part(split, &*generator, tasks, &recipe.run.cache, &table)?;
    }
    Ok((generator, tasks))
}

/// The conversation of a row, and the index of the first message whose answers are imitated.
fn imitable(row: &Row) -> Result<(Vec<Message>, usize), String> {
    if row.text.is_some() {
        return Err("is plain text: only conversations can be imitated (`messages`, or `prompt` with \
                    `completion`)"
            .to_owned());
    }
    let whole = || row.is_conversation.then(|| (row.prompt.clone(), 0));
    let (messages, first) = row
        .demonstration()
        .or_else(whole)
        .ok_or("has no answer to imitate: `columns` must name `messages`, or `completion` beside `prompt`")?;
    if messages[first..].iter().any(|message| message.role == Role::Assistant) {
        Ok((messages, first))
    } else {
        Err("has no assistant message, so there is nothing to imitate".to_owned())
    }
}

fn place(rows: &Dataset, index: usize) -> String {
    rows.place(index).map_or_else(|error: DataError| error.to_string(), |place| place.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_data::{Columns, Paths};
    use burnish_recipe::{DataSection, Source};

    fn recipe(data: DataSection) -> Recipe {
        let text = "[run]\ndir = \"x\"\n[policy]\npath = \"m\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n\
                    [env]\nid = \"countdown\"\n";
        let recipe = Recipe::resolve(&Source::parse("r.toml", text, &[]).unwrap()).unwrap();
        Recipe { data, ..recipe }
    }

    fn open(content: &[u8], columns: &str) -> Result<Corpus, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, content).unwrap();
        let columns = Columns::parse(columns).unwrap();
        let data = DataSection { path: Paths(vec![path]), columns, ..DataSection::default() };
        let corpus = Corpus::open(&recipe(data), &BTreeSet::new(), None);
        corpus.map(|(corpus, _)| corpus).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_that_cannot_be_used_are_named_by_line() {
        let refused = |content: &[u8], columns: &str, parts: &[&str]| {
            let error = open(content, columns).unwrap_err();
            assert!(parts.iter().chain(&["rows.jsonl"]).all(|part| error.contains(part)), "{error}");
        };
        let good = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
        refused(b"", "auto", &["has no rows"]);
        let mixed = format!("{good}\n{{\"prompt\": 1, \"answer\": 2}}\n");
        refused(mixed.as_bytes(), "auto", &["line 2", "`messages`", "prompt, answer"]);
        refused(b"\xff\xfe\n", "auto", &["line 1", "UTF-8"]);
        let unanswered = br#"{"messages":[{"role":"user","content":"a"}]}"#;
        refused(unanswered, "auto", &["nothing to imitate"]);
        refused(br#"{"prompt": "a", "answer": "b"}"#, "auto", &["no answer to imitate", "`completion`"]);
        refused(br#"{"text": "a"}"#, "auto", &["line 1", "plain text"]);
    }

    #[test]
    fn a_completion_is_imitated_and_of_messages_every_answer() {
        let rows = br#"{"q": "1+1?", "a": "2"}"#;
        let conversation = open(rows, "prompt=q,completion=a").unwrap().get(0).unwrap();
        assert_eq!(conversation.messages, [Message::user("1+1?"), Message::assistant("2")]);
        assert_eq!(conversation.first, 1);
        let open_ended = br#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
            {"role":"user","content":"c"}]}"#;
        let line = String::from_utf8_lossy(open_ended).replace('\n', "");
        let conversation = open(line.as_bytes(), "auto").unwrap().get(0).unwrap();
        assert_eq!((conversation.messages.len(), conversation.first), (3, 0));
    }
}
