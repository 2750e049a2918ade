//! Programs, judged by running them: tests in a column, or inputs and the outputs that they must give.

use burnish_core::Verdict;
use burnish_sandbox::{Border, Job, Limits, Outcome, Part, Settings, Trial};
use burnish_verify::code::{called, definition, python};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::data::column;
use super::verifier::{Judge, Request};
use crate::EnvError;
use crate::code::Finding;
use crate::settings::config_error;

/// Programs are run, and judged by what they do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CodeConfig {
    /// The column with the tests: Python that raises if the program is wrong. A list is one test each. Default: `tests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<String>,
    /// The column with Python that the tests need; it is run before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The column with the name of a function. The tests then define `check`, which is called with the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_point: Option<String>,
    /// The column with the beginning of the program, which an answer goes on from or says again. Tests then need
    /// `entry_point`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// Instead of tests: the column with a list of texts that the program reads from stdin, one per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// The column with what it must write for each of `inputs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// Whether tests may run in the process of the program that they judge.
    pub trust: Trust,
    /// The interpreter, and what to do where the system can't isolate.
    pub sandbox: Settings,
    /// What one run of a program may use.
    pub limits: Limits,
}

/// How far a program is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Not at all: its tests run in a process of their own, which it can't reach.
    #[default]
    None,
    /// Its tests run in its process, where it can read and change them. For programs that don't try to.
    InProcess,
}

/// The column of tests, unless another is named.
const TESTS: &str = "tests";

/// What a row asks of a program.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'r> {
    /// The names that the tests use: what the answer defines.
    names: Vec<&'r str>,
    /// Python before the answer, and the function that the answer must have, if it is called.
    begin: Option<(&'r str, Option<&'r str>)>,
    setup: Option<&'r str>,
    /// The function that the tests name.
    entry_point: Option<&'r str>,
    how: How<'r>,
}

#[derive(Debug, PartialEq, Eq)]
enum How<'r> {
    Tests(Vec<String>),
    /// Input and output of each run.
    Runs(Vec<(&'r str, &'r str)>),
}

impl CodeConfig {
    /// Checks what the types do not express; `key` is the verifier's key.
    ///
    /// # Errors
    /// Names the first key that does not fit.
    pub(super) fn check(&self, key: &str) -> Result<(), EnvError> {
        let refuse = |name: &str, problem: &str| Err(config_error(&format!("{key}.code.{name}"), problem));
        if self.inputs.is_some() != self.outputs.is_some() {
            return refuse("inputs", "`inputs` and `outputs` go together: name the columns of both");
        }
        if self.inputs.is_some() && (self.tests.is_some() || self.entry_point.is_some()) {
            return refuse("inputs", "a program has tests, or inputs and outputs; leave out one of them");
        }
        if self.begin.is_some() && self.entry_point.is_none() && self.inputs.is_none() {
            return refuse("begin", "needs `entry_point`, by which an answer that says it again is told");
        }
        let Limits { wall_seconds, cpu_seconds, memory_bytes, processes, output_bytes, file_bytes } =
            self.limits;
        for (name, value, least, most) in [
            ("wall_seconds", wall_seconds, 0.01, 3600.0),
            ("cpu_seconds", cpu_seconds, 0.01, 3600.0),
            ("memory_bytes", memory_bytes as f64, f64::from(64 << 20), 1e12),
            ("processes", f64::from(processes), 1.0, 4096.0),
            ("output_bytes", output_bytes as f64, 0.0, f64::from(2 << 20)),
            ("file_bytes", file_bytes as f64, 0.0, f64::from(64 << 20)),
        ] {
            if !(least..=most).contains(&value) {
                return refuse(
                    &format!("limits.{name}"),
                    &format!("{value} is out of range: {least} to {most}"),
                );
            }
        }
        Ok(())
    }

    /// Checks that a row has what its judgement needs.
    ///
    /// # Errors
    /// Names the column.
    pub(super) fn check_row(&self, row: &Map<String, Value>) -> Result<(), String> {
        self.asked(row).map(drop)
    }

    fn asked<'r>(&self, row: &'r Map<String, Value>) -> Result<Asked<'r>, String> {
        let text = |key: &Option<String>, setting: &str| -> Result<Option<&'r str>, String> {
            let Some(key) = key else { return Ok(None) };
            match column(row, key, &format!("verifier.code.{setting}"))? {
                Value::String(text) => Ok(Some(text)),
                Value::Null => Ok(None),
                other => Err(format!("column `{key}`: must be a text, not {other}")),
            }
        };
        let entry_point = text(&self.entry_point, "entry_point")?;
        let begin = text(&self.begin, "begin")?;
        let setup = text(&self.setup, "setup")?;
        // `Solution().f` is defined where `Solution` is.
        let defined = entry_point.map(|name| name.split(['(', '.']).next().unwrap_or(name).trim());
        let mut names: Vec<&str> = defined.into_iter().collect();
        let how = match (&self.inputs, &self.outputs) {
            (Some(inputs), Some(outputs)) => {
                let (given, wanted) = (texts(row, inputs, "inputs")?, texts(row, outputs, "outputs")?);
                if given.len() != wanted.len() || given.is_empty() {
                    return Err(format!(
                        "columns `{inputs}` and `{outputs}`: have {} and {} texts; each input needs its output",
                        given.len(),
                        wanted.len()
                    ));
                }
                How::Runs(given.into_iter().zip(wanted).collect())
            }
            _ => {
                let tests = self.tests.as_deref().unwrap_or(TESTS);
                let tests = texts(row, tests, "tests")?;
                if names.is_empty() {
                    let is_theirs = |name: &&str| {
                        tests.iter().copied().chain(setup).any(|test| definition(test, name).is_some())
                    };
                    names.extend(tests.iter().flat_map(|test| called(test)).filter(|name| !is_theirs(name)));
                    names.sort_unstable();
                    names.dedup();
                }
                let call = entry_point.map(|name| format!("\ncheck({name})\n")).unwrap_or_default();
                How::Tests(tests.into_iter().map(|test| format!("{test}{call}")).collect())
            }
        };
        let begin = match how {
            How::Tests(_) => begin.zip(defined).map(|(begin, defined)| (begin, Some(defined))),
            How::Runs(_) => begin.map(|begin| (begin, None)),
        };
        Ok(Asked { names, begin, setup, entry_point, how })
    }
}

/// The texts of a column: a list of them, or one.
fn texts<'r>(row: &'r Map<String, Value>, key: &str, setting: &str) -> Result<Vec<&'r str>, String> {
    let value = column(row, key, &format!("verifier.code.{setting}"))?;
    let wrong =
        || format!("column `{key}`: must be a text or a list of texts that is not empty, not {value}");
    let texts = match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(texts) => {
            texts.iter().map(|text| text.as_str().ok_or_else(wrong)).collect::<Result<_, String>>()?
        }
        _ => return Err(wrong()),
    };
    if texts.is_empty() { Err(wrong()) } else { Ok(texts) }
}

/// The program that an answer and the beginning of a row make. An answer that says the function again follows what
/// stands before it (imports, other functions); any other answer goes on where the beginning ends.
fn program(asked: &Asked<'_>, answer: &str) -> String {
    match asked.begin {
        None => answer.to_owned(),
        Some((_, Some(entry_point))) if definition(answer, entry_point).is_some() => {
            format!("{}\n{answer}", before(asked))
        }
        Some((begin, None)) if answer.trim_start().starts_with(begin.trim()) => answer.to_owned(),
        Some((begin, _)) => format!("{begin}{answer}"),
    }
}

/// What the beginning defines before the function that is asked for.
fn before<'r>(asked: &Asked<'r>) -> &'r str {
    let Some((begin, Some(entry_point))) = asked.begin else { return "" };
    definition(begin, entry_point).and_then(|at| begin.get(..at)).unwrap_or_default()
}

/// Runs answers in sandboxes.
#[derive(Debug)]
pub(super) struct Code {
    config: CodeConfig,
    border: Border,
}

impl Code {
    /// Nothing is started yet.
    pub(super) fn new(config: &CodeConfig) -> Self {
        Code { config: config.clone(), border: Border::new(&config.sandbox) }
    }

    fn run(&self, row: &Map<String, Value>, response: &str) -> Result<Verdict, String> {
        let asked = self.config.asked(row)?;
        let Some(answer) = python(response, &asked.names) else {
            return Ok(Finding::not_run("there is no program in the answer").verdict(false));
        };
        let program = program(&asked, &answer);
        let limits = self.config.limits;
        match &asked.how {
            How::Tests(tests) => {
                let mut parts = vec![Part("<answer>", &program)];
                let setup = asked.setup.map(|setup| Part("<setup>", setup));
                let checks = tests.iter().map(String::as_str).collect();
                let execution = match self.config.trust {
                    Trust::None => self.border.run(&Trial {
                        program: parts,
                        own: vec![Part("<begin>", before(&asked))],
                        setup: setup.into_iter().collect(),
                        checks,
                        entry_point: asked.entry_point,
                        limits,
                    }),
                    Trust::InProcess => {
                        parts.extend(setup);
                        // A program's own `if __name__ == "__main__"` is not part of what is tested.
                        let job = Job { parts, checks, name: "answer", stdin: "", limits };
                        self.border.programs().run(&job)
                    }
                };
                let execution = execution.map_err(|error| error.to_string())?;
                Ok(Finding::of_tests(execution, &limits).verdict(true))
            }
            How::Runs(runs) => {
                self.all_runs(&program, asked.setup, runs).map(|finding| finding.verdict(true))
            }
        }
    }

    fn all_runs(&self, program: &str, setup: Option<&str>, runs: &[(&str, &str)]) -> Result<Finding, String> {
        let limits = self.config.limits;
        let mut finding = Finding { passed: 0, of: runs.len(), outcome: Outcome::Done, feedback: None };
        for (at, (input, output)) in runs.iter().enumerate() {
            let mut parts: Vec<Part<'_>> = setup.map(|setup| Part("<setup>", setup)).into_iter().collect();
            parts.push(Part("<answer>", program));
            let job = Job { parts, checks: Vec::new(), name: "__main__", stdin: input, limits };
            let execution = self.border.programs().run(&job).map_err(|error| error.to_string())?;
            let is_over = matches!(execution.outcome, Outcome::Done | Outcome::Exited(0));
            if is_over && is_same(&execution.stdout, output) {
                finding.passed += 1;
                continue;
            }
            let place = format!("run {} of {}", at + 1, runs.len());
            finding.feedback.get_or_insert(match is_over {
                true => format!("{place} wrote something else than it should"),
                false => format!("{place} {}", execution.outcome.in_words(&limits)),
            });
            let is_limit = execution.outcome.is_limit();
            if finding.outcome == Outcome::Done && !is_over {
                finding.outcome = execution.outcome;
            }
            // The others would take as long.
            if is_limit {
                break;
            }
        }
        Ok(finding)
    }
}

/// The same lines, apart from space at their ends and empty lines at the end.
fn is_same(written: &str, wanted: &str) -> bool {
    written.trim_end().lines().map(str::trim_end).eq(wanted.trim_end().lines().map(str::trim_end))
}

impl Judge for Code {
    fn judge(&self, request: &Request<'_>) -> Verdict {
        let Some(row) = request.task.as_object() else { return Verdict::unscored("the task is no row") };
        self.run(row, request.completion).unwrap_or_else(Verdict::unscored)
    }

    fn is_slow(&self, _: &Value) -> bool {
        true
    }

    /// Starts the guards, which it keeps.
    fn ready(&self) -> Result<(), String> {
        self.border.ready().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(value: Value) -> CodeConfig {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_program_that_reads_its_input_has_a_beginning_too() {
        let row = json!({"head": "n = int(input())\n", "in": ["3"], "out": ["9"]});
        let config = config(json!({"begin": "head", "inputs": "in", "outputs": "out"}));
        assert!(config.check("verifier").is_ok());
        let asked = config.asked(row.as_object().unwrap()).unwrap();
        let whole = "n = int(input())\nprint(n * n)\n";
        assert_eq!(program(&asked, "print(n * n)\n"), whole);
        assert_eq!(program(&asked, whole), whole);
    }

    #[test]
    fn an_answer_goes_on_from_the_beginning_or_says_it_again() {
        let begin = "import math\n\ndef help():\n    return 1\n\ndef f(x):\n    \"\"\"Doc.\"\"\"\n";
        let row = json!({"prompt": begin, "name": "f", "tests": "def check(f): assert f(1) == 1"});
        let config = config(json!({"entry_point": "name", "begin": "prompt"}));
        let asked = config.asked(row.as_object().unwrap()).unwrap();
        assert_eq!(program(&asked, "    return x\n"), format!("{begin}    return x\n"));
        let again = "def f(x):\n    return help()\n";
        let expected = format!("import math\n\ndef help():\n    return 1\n\n\n{again}");
        assert_eq!(program(&asked, again), expected);
        assert_eq!(program(&asked, "def ff(x):\n    pass\n"), format!("{begin}def ff(x):\n    pass\n"));
        assert_eq!(asked.how, How::Tests(vec!["def check(f): assert f(1) == 1\ncheck(f)\n".into()]));
    }

    #[test]
    fn the_names_that_tests_use_are_what_an_answer_defines() {
        let names = |keys: Value, row: Value| {
            let config = config(keys);
            config
                .asked(row.as_object().unwrap())
                .unwrap()
                .names
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let tests = json!({"tests": ["assert close(f(3), 1)", "def close(a, b): return a == b"], "setup": "def g(): 1"});
        assert_eq!(names(json!({}), tests), ["f"]);
        let check = json!({"tests": "def check(f): assert f(1) == 1", "name": "Solution().f"});
        assert_eq!(names(json!({"entry_point": "name"}), check), ["Solution"]);
        let runs = json!({"inputs": ["1"], "outputs": ["2"]});
        assert!(names(json!({"inputs": "inputs", "outputs": "outputs"}), runs).is_empty());
    }

    #[test]
    fn a_row_without_what_its_judgement_needs_is_refused_with_the_column() {
        let refuse = |keys: Value, row: Value, expected: &str| {
            let error = config(keys).check_row(row.as_object().unwrap()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        refuse(json!({}), json!({"test": "x"}), "`tests`");
        refuse(json!({}), json!({"tests": []}), "`tests`");
        refuse(json!({"tests": "t"}), json!({"t": [1]}), "`t`");
        refuse(json!({"inputs": "i", "outputs": "o"}), json!({"i": ["1"], "o": []}), "not empty");
        refuse(json!({"inputs": "i", "outputs": "o"}), json!({"i": ["1"], "o": ["1", "2"]}), "1 and 2 texts");
        for (keys, expected) in [
            (json!({"inputs": "i"}), "verifier.code.inputs"),
            (json!({"inputs": "i", "outputs": "o", "tests": "t"}), "leave out one"),
            (json!({"begin": "b"}), "entry_point"),
            (json!({"limits": {"wall_seconds": 0.0}}), "verifier.code.limits.wall_seconds"),
        ] {
            let error = config(keys).check("verifier").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn space_at_the_ends_of_lines_does_not_count() {
        assert!(is_same("1 \n2\n\n", "1\n2"));
        assert!(!is_same("1\n\n2", "1\n2"));
        assert!(!is_same(" 1", "1"));
    }
}
