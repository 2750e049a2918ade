//! Reads a recipe file: TOML text, overrides from the command line, and the line of every key.

use std::collections::BTreeMap;
use std::path::Path;

use burnish_core::names::nearest;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml_edit::{Document, Item, TableLike};

use super::{RecipeError, foreign, renamed, words};
use crate::plain_words::plain;

/// A recipe as it was written: its values, and the line of every key, so that an error found late still points to the
/// person's text.
#[derive(Debug, Clone)]
pub struct Source {
    written: Written,
    file: String,
    text: String,
    values: Value,
    lines: BTreeMap<String, usize>,
    /// The overrides as they were given.
    given: Vec<String>,
    overrides: BTreeMap<String, String>,
    /// Whether the error for an unknown key looks it up among the recipe keys of other frameworks.
    knows_habits: bool,
}

impl Source {
    /// Reads `path` and applies `overrides` of the form `key.sub=value`; later ones win.
    ///
    /// # Errors
    /// If the file can't be read, is not TOML, or an override is not of that form.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, RecipeError> {
        Source::parse(&path.display().to_string(), &text_of(path)?, overrides)
    }

    /// As [`Source::read`], for the recipe in a run directory: keys may have the names of an earlier version.
    ///
    /// # Errors
    /// As [`Source::read`].
    pub fn read_of_run(path: &Path, overrides: &[String]) -> Result<Self, RecipeError> {
        Source::parse_as(Written::ByRun, &path.display().to_string(), &text_of(path)?, overrides)
    }

    /// As [`Source::read_of_run`], from text that was already read.
    ///
    /// # Errors
    /// As [`Source::parse`].
    pub fn parse_of_run(file: &str, text: &str) -> Result<Self, RecipeError> {
        Source::parse_as(Written::ByRun, file, text, &[])
    }

    /// As [`Source::read`], from text that was already read; `file` is its name in errors.
    ///
    /// # Errors
    /// If the text is not TOML, a number is not finite, or an override has no `=`.
    pub fn parse(file: &str, text: &str, overrides: &[String]) -> Result<Self, RecipeError> {
        Source::parse_as(Written::ByHand, file, text, overrides)
    }

    fn parse_as(written: Written, file: &str, text: &str, overrides: &[String]) -> Result<Self, RecipeError> {
        let not_toml = |error: toml_edit::TomlError| {
            let line = error.span().map(|span| line_of(text, span.start));
            RecipeError::file(file, line, format!("is not valid TOML: {}", error.message()))
        };
        let document = Document::parse(text).map_err(not_toml)?;
        let mut lines = BTreeMap::new();
        note_lines(document.as_table(), "", text, &mut lines);
        let mut values = toml_edit::de::from_str(text)
            .map_err(|error| RecipeError::file(file, None, error.message().to_owned()))?;
        if written == Written::ByRun {
            renamed::to_present(&mut values);
            let renamed = |(key, line): (String, usize)| (renamed::path(&key).into_owned(), line);
            lines = lines.into_iter().map(renamed).collect();
        }
        let mut source = Source {
            written,
            file: file.to_owned(),
            text: text.to_owned(),
            values,
            lines,
            given: overrides.to_vec(),
            overrides: BTreeMap::new(),
            knows_habits: true,
        };
        let mut infinite = words::not_finite(document.as_table());
        for text in overrides {
            let key = source.apply(text)?;
            infinite.retain(|path, _| *path != key && !is_below(path, &key));
            let (_, value) = text.split_once('=').unwrap_or_default();
            if let Ok(document) = Document::parse(format!("value = {value}")) {
                let found = words::not_finite(document.as_table());
                infinite.extend(
                    found.into_iter().map(|(path, number)| (path.replacen("value", &key, 1), number)),
                );
            }
        }
        renamed::to_terms(&mut source.values);
        match infinite.first_key_value() {
            None => Ok(source),
            Some((key, number)) => Err(RecipeError {
                help: Some("give a finite number; if you mean a text, put it in quotes".into()),
                ..source.error(key, format!("is `{number}`, which is not a finite number"))
            }),
        }
    }

    /// The same source without override number `at`.
    pub(super) fn without(&self, at: usize) -> Option<Source> {
        let mut given = self.given.clone();
        (at < given.len()).then(|| given.remove(at))?;
        let source = Source::parse_as(self.written, &self.file, &self.text, &given).ok()?;
        Some(Source { knows_habits: self.knows_habits, ..source })
    }

    /// Did a run write it?
    pub(super) fn is_of_run(&self) -> bool {
        self.written == Written::ByRun
    }

    /// The file's name, as errors give it.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The overrides as they were given.
    pub(super) fn given(&self) -> &[String] {
        &self.given
    }

    /// Marks the text as something other than a recipe.
    #[must_use]
    pub fn of_no_recipe(mut self) -> Self {
        self.knows_habits = false;
        self
    }

    /// Applies an override and returns the path of its key.
    fn apply(&mut self, text: &str) -> Result<String, RecipeError> {
        let malformed = |problem: &str| RecipeError {
            place: format!("override `{text}`"),
            problem: problem.to_owned(),
            help: Some("write `key.sub=value`, for example `train.max_steps=10`".into()),
        };
        let (path, value) = text.split_once('=').ok_or_else(|| malformed("has no `=`"))?;
        let path = path.trim();
        if path.is_empty() || path.split('.').any(str::is_empty) {
            return Err(malformed("names no key"));
        }
        // A value that is not valid TOML is taken as a plain string, so that paths need no quotes.
        let value: Value = toml_edit::de::from_str::<BTreeMap<String, Value>>(&format!("value = {value}"))
            .ok()
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| Value::String(value.to_owned()));
        let mut place = &mut self.values;
        // As errors write paths: the number of a list item is in brackets.
        let mut key = String::new();
        for part in path.split('.') {
            if let Value::Array(items) = place {
                let beyond = format!("goes into a list that has no item {part}; the first is 0");
                let item = part.parse().ok().and_then(|at: usize| items.get_mut(at));
                place = item.ok_or_else(|| malformed(&beyond))?;
                key.push_str(&format!("[{part}]"));
                continue;
            }
            if place.is_null() {
                *place = Value::Object(serde_json::Map::new());
            }
            let Value::Object(table) = place else {
                return Err(malformed(
                    "goes into something that is not a table; give the whole value instead",
                ));
            };
            place = table.entry(part).or_insert(Value::Null);
            key.push_str(if key.is_empty() { "" } else { "." });
            key.push_str(part);
        }
        *place = value;
        // The lines that the file has for this key and below it are no longer valid.
        self.lines.retain(|path, _| *path != key && !is_below(path, &key));
        self.overrides.retain(|path, _| *path != key && !is_below(path, &key));
        self.overrides.insert(key.clone(), text.to_owned());
        Ok(key)
    }

    /// Fills in absent keys from `below`, table by table.
    pub(super) fn underlay(&mut self, below: Value) {
        fn fill(values: &mut Value, below: Value) {
            match (values, below) {
                (values @ Value::Null, below) => *values = below,
                (Value::Object(table), Value::Object(below)) => {
                    for (key, value) in below {
                        fill(table.entry(key).or_insert(Value::Null), value);
                    }
                }
                _ => {}
            }
        }
        fill(&mut self.values, below);
    }

    /// All values.
    pub fn values(&self) -> &Value {
        &self.values
    }

    /// Replaces all values.
    pub fn replace(&mut self, values: Value) {
        self.values = values;
    }

    /// Whether an override gave the value of `key`, or of something inside or around it.
    pub fn is_overridden(&self, key: &str) -> bool {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.overrides.keys().any(|given| within(key, given) || within(given, key))
    }

    /// The value at a path, if there is one.
    pub fn get(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(&self.values, |place, part| place.get(part))
    }

    /// Decodes the recipe as a `T`.
    ///
    /// # Errors
    /// Names the key and its line. For an unknown key, it also names the nearest known one.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, RecipeError> {
        serde_path_to_error::deserialize(&self.values).map_err(|error| {
            let path = match error.path().to_string() {
                root if root == "." => String::new(),
                path => path,
            };
            self.refused(&path, error.inner().to_string())
        })
    }

    /// An error from a deserialiser's message about the value of `key`. If it is about an unknown key, it names the
    /// nearest known one.
    pub(super) fn refused(&self, key: &str, message: String) -> RecipeError {
        match unknown_field(&message) {
            Some((field, known)) => self.unknown_key(key, &field, &known),
            None => {
                let help = words::nearest_choice(&message).map(|name| format!("did you mean `{name}`?"));
                RecipeError { help, ..self.error(key, plain(&message)) }
            }
        }
    }

    fn unknown_key(&self, table: &str, field: &str, known: &[String]) -> RecipeError {
        // Some deserialisers end the path of an unknown field with the field, others with its table.
        let table = table.strip_suffix(field).map_or(table, |parent| parent.trim_end_matches('.'));
        let key = if table.is_empty() { field.to_owned() } else { format!("{table}.{field}") };
        let mut error = self.error(&key, "is not a known key".into());
        let nearest = nearest(field, known.iter().map(String::as_str));
        let habit = renamed::help(&key).or_else(|| foreign::help(&key, self.get(&key)));
        let habit = habit.filter(|_| self.knows_habits);
        error.help = Some(match (habit, nearest) {
            (Some(habit), _) => format!("{habit}. Keys of this table: {}", known.join(", ")),
            (None, Some(name)) => format!("did you mean `{name}`? Keys here: {}", known.join(", ")),
            (None, None) => format!("keys here: {}", known.join(", ")),
        });
        error
    }

    /// An error about the value of `key` (a path with dots).
    pub fn error(&self, key: &str, problem: String) -> RecipeError {
        let place = self.place(key);
        let problem = if key.is_empty() { problem } else { format!("`{key}` {problem}") };
        RecipeError { place, problem, help: None }
    }

    /// Where `key`, or else the nearest table around it, was written: an override, or a line of the file. A table
    /// that only overrides created has their place.
    fn place(&self, key: &str) -> String {
        let mut key = key;
        loop {
            let is_written = |text: &String| format!("override `{text}`");
            if let Some(text) = self.overrides.get(key) {
                return is_written(text);
            }
            if let Some(line) = self.lines.get(key) {
                return format!("{}:{line}", self.file);
            }
            let below = self.overrides.iter().find(|(path, _)| !key.is_empty() && is_below(path, key));
            if let Some((_, text)) = below {
                return is_written(text);
            }
            match key.rfind(['.', '[']) {
                Some(end) => key = &key[..end],
                None => return self.file.clone(),
            }
        }
    }
}

/// Who wrote a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// A person, just now.
    ByHand,
    /// A run, perhaps by an earlier version.
    ByRun,
}

fn text_of(path: &Path) -> Result<String, RecipeError> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| RecipeError::file(&file, None, format!("can't be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        RecipeError::file(&file, Some(line), "is not UTF-8 text".into())
    })
}

/// Whether `path` lies inside the table or the list at `key`.
fn is_below(path: &str, key: &str) -> bool {
    path.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

fn note_lines(table: &dyn TableLike, prefix: &str, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (name, item) in table.iter() {
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
        if let Some(span) = span {
            lines.insert(path.clone(), line_of(text, span.start));
        }
        if let Some(inner) = item.as_table_like() {
            note_lines(inner, &path, text, lines);
        }
        if let Item::ArrayOfTables(tables) = item {
            for (index, inner) in tables.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if let Some(span) = inner.span() {
                    lines.insert(path.clone(), line_of(text, span.start));
                }
                note_lines(inner, &path, text, lines);
            }
        }
    }
}

/// The field and the known names from serde's message about an unknown field. The form of this message is fixed by
/// `serde::de::Error::unknown_field`.
fn unknown_field(message: &str) -> Option<(String, Vec<String>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (field, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((field.to_owned(), known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Toy {
        train: Train,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Train {
        max_steps: usize,
        #[serde(default)]
        name: String,
    }

    fn decode(text: &str, overrides: &[&str]) -> Result<Toy, String> {
        let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
        Source::parse("toy.toml", text, &overrides)
            .and_then(|source| source.decode())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_override_wins_and_plain_text_is_a_string() {
        let toy = decode("[train]\nmax_steps = 1\n", &["train.max_steps=5", "train.name=a/b c"]).unwrap();
        assert_eq!(toy.train, Train { max_steps: 5, name: "a/b c".into() });
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_known_key() {
        let error = decode("# comment\n[train]\nmax_steps = 1\nmax_step = 2\n", &[]).unwrap_err();
        assert!(error.contains("toy.toml:4") && error.contains("`train.max_step`"), "{error}");
        assert!(error.contains("did you mean `max_steps`"), "{error}");
    }

    #[test]
    fn an_unknown_table_is_named_without_a_wild_guess() {
        let error = decode("[train]\nmax_steps = 1\n[zebra]\nx = 1\n", &[]).unwrap_err();
        assert!(error.contains("toy.toml:3") && error.contains("`zebra`"), "{error}");
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn a_wrong_type_names_its_line() {
        let error = decode("[train]\nmax_steps = \"many\"\n", &[]).unwrap_err();
        assert!(error.contains("toy.toml:2") && error.contains("`train.max_steps`"), "{error}");
    }

    #[test]
    fn a_wrong_override_is_quoted() {
        let error = decode("[train]\nmax_steps = 1\n", &["train.max_steps=-1"]).unwrap_err();
        assert!(error.contains("override `train.max_steps=-1`"), "{error}");
        assert!(decode("[train]\nmax_steps = 1\n", &["train"]).unwrap_err().contains("no `=`"));
    }

    #[test]
    fn an_override_goes_into_an_item_of_a_list_by_its_number() {
        #[derive(Debug, Deserialize)]
        struct List {
            sets: Vec<Train>,
        }
        let read = |change: &str| {
            let text = "[[sets]]\nmax_steps = 1\n[[sets]]\nmax_steps = 2\n";
            let source = Source::parse("list.toml", text, &[change.to_owned()]);
            source.and_then(|source| source.decode::<List>()).map_err(|error| error.to_string())
        };
        let steps = |list: List| list.sets.iter().map(|set| set.max_steps).collect::<Vec<_>>();
        assert_eq!(steps(read("sets.1.max_steps=7").unwrap()), [1, 7]);
        assert!(read("sets.1.max_steps=x").unwrap_err().contains("override `sets.1.max_steps=x`"));
        for beyond in ["sets.2.max_steps=7", "sets.first.max_steps=7"] {
            assert!(read(beyond).unwrap_err().contains("no item"), "{beyond}");
        }
    }

    #[test]
    fn an_override_of_a_table_is_blamed_for_what_is_in_it() {
        let error = decode("[train]\nmax_steps = 1\n", &["train={max_step=2}"]).unwrap_err();
        assert!(error.contains("override `train={max_step=2}`"), "{error}");
        let error = decode("[train]\nmax_steps = 1\n", &["train.max_steps.x=2"]).unwrap_err();
        assert!(error.contains("not a table"), "{error}");
    }

    #[test]
    fn what_stands_in_a_list_or_a_table_that_an_override_gives_is_that_overrides() {
        let text = "[[eval.extra]]\nname = \"a\"\n[env]\nid = \"countdown\"\n";
        let place = |change: &str, key: &str| {
            Source::parse("r.toml", text, &[change.to_owned()]).unwrap().error(key, "is wrong".into()).place
        };
        let whole = "eval.extra=[{name=\"b\"}]";
        assert_eq!(place(whole, "eval.extra[0].name"), format!("override `{whole}`"));
        assert_eq!(place(whole, "eval.extra[0].env"), format!("override `{whole}`"));
        assert_eq!(place("eval.extra.0.env=x", "eval.extra[0].env"), "override `eval.extra.0.env=x`");
        assert_eq!(place("eval.extra.0.env=x", "eval.extra[0].name"), "r.toml:2");
        assert_eq!(place("critic.optim.lr=1", "critic.optim"), "override `critic.optim.lr=1`");
        // The error for a key that is missing from a table of the file points to the file.
        assert_eq!(place("env.tasks=1", "env"), "r.toml:3");
    }

    #[test]
    fn a_number_that_is_not_finite_is_named_with_its_key_wherever_it_stands() {
        for number in ["nan", "inf", "-inf", "+nan"] {
            let error = decode(&format!("[train]\nmax_steps = 1\nname = {number}\n"), &[]).unwrap_err();
            let said = "`train.name` is `";
            assert!(error.starts_with("toy.toml:3: ") && error.contains(said), "{error}");
            assert!(error.contains("not a finite number"), "{error}");
            for change in [
                format!("train.max_steps={number}"),
                format!("train={{max_steps=1, name={number}}}"),
                format!("train.name=[[1, {number}]]"),
            ] {
                let error = decode("[train]\nmax_steps = 1\n", &[&change]).unwrap_err();
                let place = format!("override `{change}`");
                assert!(error.starts_with(&place) && error.contains("not a finite number"), "{error}");
            }
        }
        assert!(decode("[train]\nmax_steps = nan\n", &["train.max_steps=1"]).is_ok());
        assert!(decode("[train]\nmax_steps = 1\nname = \"nan\"\n", &[]).is_ok());
        assert!(decode("[train]\nmax_steps = 1\n", &["train.name=\"inf\""]).is_ok());
    }

    #[test]
    fn a_wrong_type_is_said_in_words() {
        for (value, said) in [
            ("\"many\"", "must be a whole number, 0 or more, not the text \"many\""),
            ("1.5", "must be a whole number, 0 or more, not 1.5"),
            ("-1", "must be a whole number, 0 or more, not -1"),
            ("[1]", "must be a whole number, 0 or more, not a list"),
            ("true", "must be a whole number, 0 or more, not true"),
        ] {
            let error = decode(&format!("[train]\nmax_steps = {value}\n"), &[]).unwrap_err();
            assert!(error.contains(said), "{value}: {error}");
        }
    }

    #[test]
    fn text_that_is_not_toml_names_the_line() {
        let error = decode("[train]\nmax_steps = = 1\n", &[]).unwrap_err();
        assert!(error.contains("toy.toml:2"), "{error}");
    }
}
