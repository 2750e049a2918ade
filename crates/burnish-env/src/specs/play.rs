//! One episode: a task, an answer, and the runs of its specification.

use std::collections::BTreeMap;

use burnish_core::{Task, Verdict};

use super::extract::block;
use super::judge::{Judge, Reading};
use super::repo::Repo;
use super::report::{Pool, Report};
use super::{COMPONENTS, Truth};

/// Names of the flags.
const FLAGS: [&str; 7] =
    ["not_extracted", "malformed", "timeout", "ended", "nondeterministic", "empty_pool", "not_triggered"];

/// The verdict on an answer of which nothing was run.
pub(super) fn not_run(flag: &str, why: &str) -> Verdict {
    verdict([0.0; 5], &[flag], Some(why.to_owned()))
}

/// A verdict with these components, in the order of [`COMPONENTS`], and with these flags set.
pub(super) fn verdict(components: [f64; 5], set: &[&str], feedback: Option<String>) -> Verdict {
    let passes = components[0] == 1.0;
    let rewards =
        COMPONENTS.iter().zip(components).map(|(name, reward)| ((*name).to_owned(), reward)).collect();
    let flags = FLAGS.iter().map(|name| ((*name).to_owned(), set.contains(name))).collect();
    Verdict { rewards, flags, feedback, ..Verdict::scored("", 0.0, passes) }
}

impl Report {
    /// The verdict.
    pub(super) fn verdict(&self) -> Verdict {
        let one = |holds: bool| f64::from(u8::from(holds));
        let (correct, complete) = (self.is_correct(), self.is_complete());
        let any = |count: fn(&super::PoolReport) -> bool| self.pools.iter().any(count);
        let mut set = Vec::new();
        for (flag, holds) in [
            ("timeout", self.hung() > 0),
            ("ended", any(|pool| pool.ended > 0)),
            ("nondeterministic", self.is_nondeterministic),
            ("empty_pool", any(|pool| pool.of == 0)),
        ] {
            set.extend(holds.then_some(flag));
        }
        let components =
            [one(correct && complete), one(correct), one(complete), self.score(), self.told_apart()];
        let mut metrics: BTreeMap<String, f64> = Pool::ALL
            .into_iter()
            .map(|pool| (format!("right_{}", pool.name()), self.pool(pool).share()))
            .collect();
        for (name, count) in [
            ("cases_hung", self.hung()),
            ("cases_unrun", self.pools.iter().map(|pool| pool.unrun).sum()),
            ("cases_crashed", self.pools.iter().map(|pool| pool.crashed).sum()),
        ] {
            metrics.insert(name.to_owned(), count as f64);
        }
        Verdict { metrics, ..verdict(components, &set, self.feedback.clone()) }
    }
}

impl Judge {
    /// The verdict on an answer.
    pub(super) fn verdict(&self, truth: &Truth, answer: &str) -> Verdict {
        let Some(spec) = block(answer) else {
            return not_run("not_extracted", "there is no ```python block in the answer");
        };
        self.verdict_on(truth, &spec).unwrap_or_else(Verdict::unscored)
    }

    fn verdict_on(&self, truth: &Truth, spec: &str) -> Result<Verdict, String> {
        if let Truth::Function { inputs, cases, .. } = truth
            && let Some(report) = self.judge_direct(spec, *inputs, cases)
        {
            return Ok(report.verdict());
        }
        let reading = match truth {
            Truth::Function { inputs, .. } => self.read(spec, *inputs)?,
            Truth::Repo(_) => self.read_for(spec, &[("install", 1)])?,
        };
        Ok(match (reading, truth) {
            (Reading::Unreadable(why), _) => not_run("not_extracted", &why),
            (Reading::Malformed(why), _) => not_run("malformed", &why),
            (Reading::Ready, Truth::Function { cases, .. }) => self.judge(spec, cases)?.verdict(),
            (Reading::Ready, Truth::Repo(name)) => Repo::named(name)?.judge(self, spec)?.verdict(),
        })
    }
}

/// Shows a task with its cases, and the effect of an answer.
pub(super) fn draw(judge: &Judge, task: &Task, answer: Option<&str>) -> String {
    let truth = match Truth::of(task) {
        Ok(truth) => truth,
        Err(error) => return error.to_string(),
    };
    let mut lines: Vec<String> = task.prompt.iter().map(|message| message.content.clone()).collect();
    if let Truth::Function { cases, program, .. } = &truth {
        lines.push(program.clone());
        for pool in Pool::ALL {
            lines.push(format!("{}:", pool.name()));
            lines.extend(cases.of(pool).iter().map(|case| format!("  {case}")));
        }
    }
    if let Some(answer) = answer {
        let verdict = judge.verdict(&truth, answer);
        let feedback = verdict.feedback.unwrap_or_else(|| "passes".into());
        lines.extend([answer.to_owned(), feedback]);
    }
    lines.join("\n")
}
