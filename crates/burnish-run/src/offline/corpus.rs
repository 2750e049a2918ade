//! The data to imitate: rows of files, which are read when needed, and episodes of the environments' own solvers.

use std::collections::BTreeSet;
use std::rc::Rc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Role, Task, TaskId, ToolSpec};
use burnish_data::overlap::{Counter, Overlap, OverlapReport};
use burnish_data::{DataError, Dataset, Row};
use burnish_env::Generator;
use burnish_env::rollout::{self, SeedPlace};
use burnish_model::ChatTemplate;

use super::rows::comparable;
use crate::RunError;
use crate::policy::SPECIAL_TOKENS;
use crate::split::{self, told};
use crate::tasks::tasks_of;
use burnish_recipe::split::Split;
use burnish_recipe::{Method, OverlapAction, Recipe};

/// What a row gives to imitate.
#[derive(Debug, PartialEq)]
pub(crate) enum Given {
    /// A conversation with answers.
    Conversation {
        /// All messages.
        messages: Vec<Message>,
        /// The answers from this index on are imitated; those before it belong to the prompt.
        first: usize,
        /// Tools that may be called in it.
        tools: Vec<ToolSpec>,
    },
    /// Plain text, all of which is imitated.
    Text(String),
}

/// What a recipe imitates.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    rows: Option<Rc<Dataset>>,
    /// Rows that are used, where not all are.
    kept: Option<Vec<usize>>,
    /// Episodes of solvers, each with the tools that the environment offers in it.
    solved: Vec<Solved>,
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
        let files = recipe.data.files();
        if !files.is_empty() {
            let rows = Dataset::open(&files, &recipe.data.columns)?;
            let mut kept = Vec::new();
            for index in 0..rows.len() {
                let row = rows.row(index)?;
                usable(recipe, &row).map_err(|problem| rows.error(index, problem))?;
                let overlaps = counter.as_mut().is_some_and(|counter| {
                    let file = rows.path(index).map(|path| path.display().to_string()).unwrap_or_default();
                    counter.count(&file, &row, || place(&rows, index))
                });
                if !(drops && overlaps) {
                    kept.push(index);
                }
            }
            corpus.kept = (kept.len() < rows.len()).then_some(kept);
            corpus.rows = Some(Rc::new(rows));
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

    /// The rows of `data.held_out`; `None` where the recipe names none.
    ///
    /// # Errors
    /// If a file can't be used (names the line).
    pub(crate) fn held_out(recipe: &Recipe) -> Result<Option<Self>, RunError> {
        if recipe.data.held_out.is_empty() {
            return Ok(None);
        }
        let rows = Dataset::open(&recipe.data.held_out.0, &recipe.data.columns)?;
        for index in 0..rows.len() {
            usable(recipe, &rows.row(index)?).map_err(|problem| rows.error(index, problem))?;
        }
        Ok(Some(Corpus { rows: Some(Rc::new(rows)), ..Corpus::default() }))
    }

    /// Takes `share` of the rows out, which the rest is evaluated on: at least one, and never all. Which ones `seed`
    /// decides.
    ///
    /// # Errors
    /// If there are fewer than two rows.
    pub(crate) fn split_off(&mut self, share: f64, seed: u64) -> Result<Self, RunError> {
        let count = self.rows_len();
        if count < 2 {
            let problem =
                format!("data.held_out_share: there are {count} rows, of which none can be held out");
            return Err(RunError::Refused(problem));
        }
        let taken = ((count as f64 * share).round() as usize).clamp(1, count - 1);
        let mut order = burnish_data::order(count, seed, 0);
        let mut rest = order.split_off(taken);
        order.sort_unstable();
        rest.sort_unstable();
        let kept = |chosen: Vec<usize>| Some(chosen.into_iter().map(|at| self.place(at)).collect());
        let (own, rest) = (kept(order), kept(rest));
        self.kept = rest;
        Ok(Corpus { rows: self.rows.clone(), kept: own, ..Corpus::default() })
    }

    /// Leaves out the rows that are among those of `others`; returns how many were.
    ///
    /// # Errors
    /// If a file is no longer what it was, or no row is left.
    pub(crate) fn leave_out(&mut self, others: &Corpus) -> Result<usize, RunError> {
        let name = |row: &Row| {
            format!("{:?}{:?}{:?}{:?}{:?}", row.prompt, row.completion, row.chosen, row.rejected, row.text)
        };
        let known = (0..others.rows_len()).map(|at| Ok(name(&others.row(at)?)));
        let known = known.collect::<Result<BTreeSet<String>, RunError>>()?;
        let mut kept = Vec::new();
        for at in 0..self.rows_len() {
            if !known.contains(&name(&self.row(at)?)) {
                kept.push(self.place(at));
            }
        }
        let left_out = self.rows_len() - kept.len();
        if left_out > 0 {
            self.kept = Some(kept);
        }
        if self.len() == 0 {
            return Err(RunError::Refused(
                "data: every row is held out for evaluation, and none is left".into(),
            ));
        }
        Ok(left_out)
    }

    /// The rows of the files that are used.
    ///
    /// # Errors
    /// If a file is no longer what it was.
    pub(crate) fn each_row(&self) -> impl Iterator<Item = Result<Row, RunError>> {
        (0..self.rows_len()).map(|at| self.row(at))
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
        for task in tasks {
            let Some(solved) = solved(recipe, &*generator, &task)? else { continue };
            is_demonstrated = true;
            let row = generator.rows().and_then(|rows| rows.row(&task));
            let overlaps = match (counter.as_deref_mut(), row) {
                (Some(counter), Some((file, row))) => counter.count(&file, &row, || task.id.to_string()),
                _ => false,
            };
            if !(drops && overlaps) {
                self.solved.push(solved);
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
        let all = self.rows.as_ref().map_or(0, |rows| rows.len());
        self.kept.as_ref().map_or(all, Vec::len)
    }

    /// Number of rows and episodes.
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

    /// What number `index` gives to imitate: rows of files first, then the solvers' episodes.
    ///
    /// # Errors
    /// If a file is no longer what it was.
    pub(crate) fn get(&self, index: usize) -> Result<Given, RunError> {
        match &self.rows {
            Some(rows) if index < self.rows_len() => {
                let index = self.place(index);
                let row = rows.row(index)?;
                Ok(imitable(row).map_err(|problem| rows.error(index, problem))?)
            }
            _ => {
                let (messages, tools) = self.solved[index - self.rows_len()].clone();
                Ok(Given::Conversation { messages, first: 0, tools })
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
            let (messages, tools) = match self.get(index)? {
                Given::Conversation { messages, tools, .. } => (messages, tools),
                Given::Text(text) => {
                    texts.push(text);
                    continue;
                }
            };
            match template.filter(|_| !tools.is_empty()) {
                Some(template) => texts.extend(between_special(&template.render(&messages, &tools, false)?)),
                None => texts.extend(messages.into_iter().map(|message| message.content)),
            }
        }
        Ok(texts)
    }
}

/// An episode of a solver, with the tools that the environment offers in it.
pub(crate) type Solved = (Vec<Message>, Vec<ToolSpec>);

/// The episode of the solver on a task; `None` if it has no answer.
///
/// # Errors
/// If the environment can't be opened.
pub(crate) fn solved(
    recipe: &Recipe,
    generator: &dyn Generator,
    task: &Task,
) -> Result<Option<Solved>, RunError> {
    let episode = generator.demonstrations().and_then(|solver| solver.demonstrate_episode(task));
    let Some(episode) = episode else { return Ok(None) };
    let seeds = SeedPlace { run: recipe.run.seed, stage: 0, step: 0, task_offset: 0 };
    Ok(Some((episode, rollout::opened(generator, task, seeds.address(0))?.tools)))
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

/// Checks that the recipe can learn from a row.
fn usable(recipe: &Recipe, row: &Row) -> Result<(), String> {
    match recipe.train.method {
        Method::Preference | Method::Reward => comparable(row),
        _ => imitable(row.clone()).map(drop),
    }
}

/// What is imitated of a row.
fn imitable(mut row: Row) -> Result<Given, String> {
    if let Some(text) = row.text.take() {
        let is_there = !text.trim().is_empty();
        return if is_there { Ok(Given::Text(text)) } else { Err("is an empty text".to_owned()) };
    }
    let whole = || row.is_conversation.then(|| (row.prompt.clone(), 0));
    let (messages, first) = row.demonstration().or_else(whole).ok_or(
        "has no answer to imitate: `columns` must name `messages`, `text`, or `completion` beside `prompt`",
    )?;
    if messages[first..].iter().any(|message| message.role == Role::Assistant) {
        Ok(Given::Conversation { messages, first, tools: row.tools })
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
        refused(br#"{"text": " "}"#, "auto", &["line 1", "empty text"]);
    }

    #[test]
    fn a_completion_is_imitated_and_of_messages_every_answer() {
        let rows = br#"{"q": "1+1?", "a": "2"}"#;
        let given = open(rows, "prompt=q,completion=a").unwrap().get(0).unwrap();
        let messages = vec![Message::user("1+1?"), Message::assistant("2")];
        assert_eq!(given, Given::Conversation { messages, first: 1, tools: Vec::new() });
        let open_ended = br#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
            {"role":"user","content":"c"}]}"#;
        let line = String::from_utf8_lossy(open_ended).replace('\n', "");
        let given = open(line.as_bytes(), "auto").unwrap().get(0).unwrap();
        assert!(matches!(given, Given::Conversation { messages, first: 0, .. } if messages.len() == 3));
        let text = open(br#"{"text": "a b"}"#, "auto").unwrap().get(0).unwrap();
        assert_eq!(text, Given::Text("a b".to_owned()));
    }

    #[test]
    fn rows_are_held_out_once_and_for_good() {
        let rows: String = (0..10).map(|at| format!("{{\"text\": \"row {at}\"}}\n")).collect();
        let split = |share: f64| {
            let mut corpus = open(rows.as_bytes(), "auto").unwrap();
            let held_out = corpus.split_off(share, 7).unwrap();
            let texts = |corpus: &Corpus| corpus.texts(None).unwrap().into_iter().collect::<BTreeSet<_>>();
            (texts(&corpus), texts(&held_out))
        };
        let (trained, held_out) = split(0.25);
        assert_eq!((trained.len(), held_out.len()), (7, 3));
        assert!(trained.is_disjoint(&held_out));
        assert_eq!(split(0.25), (trained, held_out));
        assert_eq!((split(0.001).1.len(), split(0.999).0.len()), (1, 1), "neither side is empty");
        let mut one = open(b"{\"text\": \"a\"}", "auto").unwrap();
        assert!(one.split_off(0.5, 7).unwrap_err().to_string().contains("data.held_out_share"));
    }

    #[test]
    fn a_row_that_is_held_out_is_not_trained_on() {
        let mut rows = open(b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"a\"}\n", "auto").unwrap();
        let held_out = open(b"{\"text\": \"a\"}", "auto").unwrap();
        assert_eq!(rows.leave_out(&held_out).unwrap(), 2);
        assert_eq!(rows.texts(None).unwrap(), ["b"]);
        assert!(rows.leave_out(&open(b"{\"text\": \"b\"}", "auto").unwrap()).is_err());
    }
}
