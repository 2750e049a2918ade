//! The track of small repositories: each has a function with a bug, its fix, and tests of which some fail because of the
//! bug. A specification is a file whose `install(hooks)` wraps the function.
//!
//! It is *correct* if every test of the fixed repository passes with it, and at least one called the function through
//! the hook; *complete* if on the buggy repository each test that the bug fails now fails because of the specification.
//! There is no test framework: a test is a function without arguments that raises, run in a job of its own (`repo.py`).

use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Task, Verdict};
use burnish_sandbox::{Job, Outcome, Part};
use serde_json::json;

use super::judge::Judge;
use super::play::verdict;
use super::{ID, Truth};
use crate::settings::to_value;
use crate::tasks::task;
use crate::{CellReport, EnvError, TaskSet};

/// Why nothing may be trained on these tasks.
pub(super) const TEST_ONLY: &str = "the track `repo` has only a handful of repositories, which are for `burnish eval` and never for \
    training; train on the track `generated`";

/// The runner of tests.
const RUNNER: &str = include_str!("repo.py");

/// Puts the runner where a specification's names don't meet its own.
const START: &str = "\
def _start():
    import json, sys, types
    asked = json.loads(sys.stdin.read())
    runner = types.ModuleType('burnish_hooks')
    sys.modules[runner.__name__] = runner
    exec(compile(asked['runner'], '<runner>', 'exec'), runner.__dict__)
    runner.begin(asked['files'], asked['target'])
_start()
del _start";

const INSTALL: &str = "install(__import__('burnish_hooks').hooks)";

const TRIGGERED: &str = "__import__('burnish_hooks').triggered()";

/// How the runner's report of a failed check begins if the specification failed.
const BLAMED: &str = "burnish_hooks.SpecFailure";

/// A repository.
#[derive(Debug)]
pub(super) struct Repo {
    name: &'static str,
    /// What is wrong, as a user reports it.
    issue: &'static str,
    /// The module and the function that is specified, with its inputs.
    target: [&'static str; 3],
    /// The modules that both versions have.
    files: &'static [(&'static str, &'static str)],
    fixed: &'static str,
    buggy: &'static str,
    tests: &'static str,
    /// Tests that fail because of the bug.
    failing: &'static [&'static str],
    #[cfg_attr(not(test), allow(dead_code, reason = "only tests and people read it"))]
    strong: &'static str,
}

macro_rules! text {
    ($path:literal) => {
        include_str!(concat!("repos/", $path))
    };
}

/// Every repository, sorted by name.
pub(super) const REPOS: &[Repo] = &[
    Repo {
        name: "cart",
        issue: "Three apples cost as much as one.",
        target: ["cart", "total", "items, percent"],
        files: &[("prices", text!("cart/prices.py"))],
        fixed: text!("cart/cart.py"),
        buggy: text!("cart/buggy.py"),
        tests: text!("cart/tests.py"),
        failing: &["test_counts_matter", "test_receipt_with_discount"],
        strong: text!("cart/strong.py"),
    },
    Repo {
        name: "grid",
        issue: "Walks leave the grid on its first row or column.",
        target: ["cells", "neighbours", "cell, rows, columns"],
        files: &[("walk", text!("grid/walk.py"))],
        fixed: text!("grid/cells.py"),
        buggy: text!("grid/buggy.py"),
        tests: text!("grid/tests.py"),
        failing: &["test_corner_at_the_start", "test_no_way_around_outside"],
        strong: text!("grid/strong.py"),
    },
    Repo {
        name: "merge",
        issue: "A long meeting is cut short by a short one during it.",
        target: ["spans", "merge", "spans"],
        files: &[("busy", text!("merge/busy.py"))],
        fixed: text!("merge/spans.py"),
        buggy: text!("merge/buggy.py"),
        tests: text!("merge/tests.py"),
        failing: &["test_one_inside_another", "test_hours_of_a_long_meeting"],
        strong: text!("merge/strong.py"),
    },
    Repo {
        name: "paging",
        issue: "The end of a list is missing unless its last page is full.",
        target: ["pages", "count", "length, size"],
        files: &[("reader", text!("paging/reader.py"))],
        fixed: text!("paging/pages.py"),
        buggy: text!("paging/buggy.py"),
        tests: text!("paging/tests.py"),
        failing: &["test_the_last_page_may_be_short", "test_nothing_is_lost"],
        strong: text!("paging/strong.py"),
    },
    Repo {
        name: "wrap",
        issue: "Some lines stick out of their box by one letter.",
        target: ["lines", "wrap", "words, width"],
        files: &[("box", text!("wrap/box.py"))],
        fixed: text!("wrap/lines.py"),
        buggy: text!("wrap/buggy.py"),
        tests: text!("wrap/tests.py"),
        failing: &["test_the_space_counts", "test_box_is_straight"],
        strong: text!("wrap/strong.py"),
    },
];

/// What became of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Passed,
    /// A precondition or postcondition failed.
    Blamed,
    Failed,
    Hung,
    /// The process ended otherwise, or the specification could not be installed.
    Ended,
}

/// How a specification came out.
#[derive(Debug, Clone, Default)]
pub(super) struct RepoReport {
    /// Tests of the fixed version, and those that pass in both runs.
    fixed: [usize; 2],
    /// Tests that the bug fails, and those that fail because of the specification in both runs.
    buggy: [usize; 2],
    is_triggered: bool,
    is_nondeterministic: bool,
    hung: usize,
    ended: usize,
    feedback: Option<String>,
}

impl RepoReport {
    fn is_correct(&self) -> bool {
        self.is_triggered && self.fixed[0] == self.fixed[1]
    }

    fn is_complete(&self) -> bool {
        self.is_triggered && self.buggy[0] == self.buggy[1]
    }

    /// The verdict.
    pub(super) fn verdict(&self) -> Verdict {
        let one = |holds: bool| f64::from(u8::from(holds));
        let (correct, complete) = (self.is_correct(), self.is_complete());
        let share = |[of, right]: [usize; 2]| right as f64 / of.max(1) as f64;
        let apart = if self.is_triggered { share(self.fixed) + share(self.buggy) - 1.0 } else { 0.0 };
        let mut set = Vec::new();
        for (flag, holds) in [
            ("timeout", self.hung > 0),
            ("ended", self.ended > 0),
            ("nondeterministic", self.is_nondeterministic),
            ("not_triggered", !self.is_triggered),
        ] {
            set.extend(holds.then_some(flag));
        }
        let score = (one(correct) + one(complete)) / 2.0;
        let components = [one(correct && complete), one(correct), one(complete), score, apart.max(0.0)];
        let metrics = [("right_fixed", share(self.fixed)), ("right_buggy", share(self.buggy))];
        Verdict {
            metrics: metrics.map(|(name, share)| (name.to_owned(), share)).into(),
            ..verdict(components, &set, self.feedback.clone())
        }
    }
}

impl Repo {
    /// The repository of this name.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn named(name: &str) -> Result<&'static Repo, String> {
        let names = || REPOS.iter().map(|repo| repo.name).collect::<Vec<_>>().join(", ");
        REPOS
            .iter()
            .find(|repo| repo.name == name)
            .ok_or_else(|| format!("there is no repository `{name}`; there are: {}", names()))
    }

    /// The names of its tests, in the order of the file.
    fn tests(&self) -> impl Iterator<Item = &'static str> {
        self.tests
            .lines()
            .filter_map(|line| line.strip_prefix("def "))
            .filter_map(|line| line.split('(').next())
            .filter(|name| name.starts_with("test_"))
    }

    /// Runs a specification on both versions, twice.
    ///
    /// # Errors
    /// If nothing can be run here.
    pub(super) fn judge(&self, judge: &Judge, spec: &str) -> Result<RepoReport, String> {
        let mut report = RepoReport::default();
        for test in self.tests() {
            let [first, second] =
                [self.run(judge, spec, test, true, 0)?, self.run(judge, spec, test, true, 1)?];
            report.is_triggered |= first.1 && second.1;
            report.fixed[0] += 1;
            report.fixed[1] += usize::from(report.holds(test, "fixed", [first.0, second.0], Ran::Passed));
        }
        for test in self.failing {
            let [first, second] = [0, 1].map(|run| self.run(judge, spec, test, false, run));
            report.buggy[0] += 1;
            let both = [first?.0, second?.0];
            report.buggy[1] += usize::from(report.holds(test, "buggy", both, Ran::Blamed));
        }
        if !report.is_triggered {
            let [module, name, _] = self.target;
            report.feedback = Some(format!("no test called {module}.{name} through the hook"));
        }
        Ok(report)
    }

    /// Runs one test of one version; also whether the target was called through the hook.
    fn run(
        &self,
        judge: &Judge,
        spec: &str,
        test: &str,
        fixed: bool,
        run: usize,
    ) -> Result<(Ran, bool), String> {
        let [module, function, _] = self.target;
        let mut files: BTreeMap<&str, &str> = self.files.iter().copied().collect();
        files.insert(module, if fixed { self.fixed } else { self.buggy });
        files.insert("tests", self.tests);
        let stdin = json!({"runner": RUNNER, "files": files, "target": [module, function]}).to_string();
        let seed = Address { step: run as u64, ..Address::new(0, Purpose::Environment) }.seed();
        let seed = format!("__import__('random').seed({seed})");
        let call = format!("__import__('burnish_hooks').test({})", json!(test));
        let job = Job {
            parts: vec![
                Part("<seed>", &seed),
                Part("<start>", START),
                Part("<spec>", spec),
                Part("<install>", INSTALL),
            ],
            checks: vec![&call, TRIGGERED],
            name: "spec",
            stdin: &stdin,
            limits: judge.limits(),
        };
        let execution = judge.sandbox(run).run(&job).map_err(|error| error.to_string())?;
        let mut checks = execution.checks.iter().map(Option::as_ref);
        let (tested, triggered) = (checks.next().flatten(), checks.next().flatten());
        let ran = match (&execution.outcome, tested) {
            (Outcome::WallTime | Outcome::CpuTime, _) => Ran::Hung,
            (Outcome::Done, Some(check)) if check.passed => Ran::Passed,
            (Outcome::Done, Some(check)) => {
                let error = check.error.as_deref().unwrap_or_default();
                if error.starts_with(BLAMED) { Ran::Blamed } else { Ran::Failed }
            }
            _ => Ran::Ended,
        };
        Ok((ran, triggered.is_some_and(|check| check.passed)))
    }

    /// What the policy reads: the issue, the buggy repository, and how to hook.
    fn prompt(&self) -> String {
        let [module, function, inputs] = self.target;
        let files = [(module, self.buggy)].into_iter().chain(self.files.iter().copied());
        let files: String = files.map(|(name, text)| format!("\n{name}.py\n```\n{text}```\n")).collect();
        format!(
            "A repository has a bug: {issue}\n{files}\nWrite a specification of {module}.{function} as it should be, by \
             which calls of the buggy function fail and those of a fixed one do not: one ```python block with\n\
             def preconditions({inputs}): ...            # asserts what must hold of the inputs\n\
             def postconditions({inputs}, output): ...   # asserts what must hold of the output\n\
             def install(hooks):\n    hooks.wrap(\"{module}\", \"{function}\", preconditions, postconditions)",
            issue = self.issue,
        )
    }

    fn task(&self) -> Result<Task, EnvError> {
        let labels = BTreeMap::from([
            ("track".to_owned(), "repo".to_owned()),
            ("family".to_owned(), self.name.to_owned()),
            ("answers".to_owned(), "one".to_owned()),
        ]);
        Ok(task(
            ID,
            format!("repo/{}", self.name),
            vec![Message::user(self.prompt())],
            to_value(&Truth::Repo(self.name.to_owned()))?,
            labels,
        ))
    }
}

impl RepoReport {
    /// Whether a test came out as it must in both runs; notes what else happened.
    fn holds(&mut self, test: &str, version: &str, ran: [Ran; 2], wanted: Ran) -> bool {
        self.is_nondeterministic |= ran[0] != ran[1] && !ran.contains(&Ran::Hung);
        self.hung += usize::from(ran.contains(&Ran::Hung));
        self.ended += usize::from(ran.contains(&Ran::Ended));
        let holds = ran == [wanted; 2];
        if !holds {
            let happened = match ran[0] {
                _ if ran.contains(&Ran::Hung) => "took too long",
                _ if ran.contains(&Ran::Ended) => "could not be run with this specification",
                _ if ran[0] != ran[1] => "came out differently when it was run again",
                Ran::Blamed => "fails because of the specification",
                Ran::Failed => "fails without the specification noticing",
                _ => "passes",
            };
            self.feedback.get_or_insert_with(|| format!("{test} of the {version} version {happened}"));
        }
        holds
    }
}

/// The repositories in shuffled order; if `count` exceeds their number, they are repeated.
///
/// # Errors
/// None that a user can cause.
pub(super) fn tasks(seed: u64, count: usize) -> Result<TaskSet, EnvError> {
    let seed = Address::new(seed, Purpose::Shuffle).seed();
    let order = burnish_data::passes(REPOS.len(), seed).take(count);
    let tasks = order.map(|index| REPOS[index].task()).collect::<Result<_, _>>()?;
    let report = CellReport::all("track=repo", count);
    Ok(TaskSet { tasks, cells: vec![report] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repository_has_tests_that_fail_and_tests_that_pass() {
        assert!(REPOS.is_sorted_by_key(|repo| repo.name));
        for repo in REPOS {
            let tests: Vec<&str> = repo.tests().collect();
            assert!(repo.failing.iter().all(|test| tests.contains(test)), "{}: {tests:?}", repo.name);
            assert!(tests.len() > repo.failing.len());
            assert_ne!(repo.fixed, repo.buggy);
            assert!(repo.strong.contains("hooks.wrap"));
            assert!(!repo.prompt().contains(repo.fixed), "the fix is shown");
        }
        assert!(Repo::named("nope").unwrap_err().contains("cart, grid"));
    }
}
