//! Judges a specification by running it on cases whose answers are known.
//!
//! Each case is a job of its own in the sandbox: a fresh process that holds the specification, the arguments of one
//! call, and nothing else. So a specification that changes its arguments changes no other case; it can't compare cases;
//! and nothing in its process says which pool a case is from. There is also nothing to forge: all that a specification
//! can say is whether it accepts one call, and what it should say never enters the sandbox.
//!
//! Every case that ended is run again, in an interpreter started separately (with another seed of hashes) and with
//! another seed of `random`. A case counts as right only if both runs are.
//!
//! A specification of nothing but assertions in the part of Python that is known here needs none of this
//! ([`super::direct`]).

use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use burnish_sandbox::{Execution, Job, Limits, Outcome, Part, Sandbox};
use serde::Deserialize;
use serde_json::json;

use super::config::{Config, Rejects};
use super::direct::Direct;
use super::report::{Cases, Pool, Report};

/// Reads a specification without running it.
const READ: &str = include_str!("read.py");

/// Makes sure that both functions are there before a call is judged: a missing one is no rejection.
const NAMES: &str = "preconditions, postconditions";

/// What a specification says of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Accepts,
    /// It raised; whether that was an `AssertionError`.
    Rejects(bool),
    /// It took too long: neither accepted nor rejected.
    Hangs,
    /// Its process ended otherwise, as described: neither accepted nor rejected.
    Ends(String),
}

/// What a specification is before it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// It can be run.
    Ready,
    /// It does not parse; why.
    Unreadable(String),
    /// It parses, but a function is missing or can't take its arguments.
    Malformed(String),
}

#[derive(Deserialize)]
struct Read {
    kind: String,
    problem: Option<String>,
}

/// Runs specifications. Everything that judges with the same sandboxes shares their interpreters.
#[derive(Debug, Clone)]
pub struct Judge {
    /// One per run; their interpreters are never shared.
    runs: [Arc<Sandbox>; 2],
    limits: Limits,
    rejects: Rejects,
    hangs: usize,
}

/// A call to run.
struct Call<'c> {
    pool: Pool,
    arguments: &'c str,
}

impl Judge {
    /// No sandbox is started yet.
    pub fn new(config: &Config) -> Self {
        let sandbox = |seed| Arc::new(Sandbox::with_hash_seed(config.sandbox.clone(), seed));
        Judge {
            runs: [sandbox(0), sandbox(1)],
            limits: config.limits(),
            rejects: config.rejects,
            hangs: config.hangs as usize,
        }
    }

    /// The sandbox of first runs (0), or that of second runs (1).
    pub(super) fn sandbox(&self, run: usize) -> &Sandbox {
        &self.runs[run.min(1)]
    }

    /// What each case may use.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether programs can be run here.
    ///
    /// # Errors
    /// If not: why.
    pub fn ready(&self) -> Result<(), String> {
        for run in &self.runs {
            run.report().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Parses a specification, in the sandbox and without running it, for a function of `inputs` inputs.
    ///
    /// # Errors
    /// If nothing can be run here.
    pub fn read(&self, spec: &str, inputs: usize) -> Result<Reading, String> {
        self.read_for(spec, &[("preconditions", inputs), ("postconditions", inputs + 1)])
    }

    /// The same for functions of these names, each with the number of arguments that it must take.
    ///
    /// # Errors
    /// If nothing can be run here.
    pub(super) fn read_for(&self, spec: &str, functions: &[(&str, usize)]) -> Result<Reading, String> {
        let stdin = json!({"spec": spec, "functions": functions}).to_string();
        let job = Job {
            parts: vec![Part("<read>", READ)],
            name: "read",
            stdin: &stdin,
            limits: self.limits,
            ..Job::default()
        };
        let execution = self.sandbox(0).run(&job).map_err(|error| error.to_string())?;
        // A text can be such that the parser itself gives up.
        if execution.outcome != Outcome::Done {
            return Ok(Reading::Unreadable(format!(
                "parsing it {}",
                execution.outcome.in_words(&self.limits)
            )));
        }
        let read: Read = serde_json::from_str(&execution.stdout)
            .map_err(|error| format!("read.py did not answer as it should: {error}"))?;
        let problem = read.problem.unwrap_or_default();
        Ok(match read.kind.as_str() {
            "ok" => Reading::Ready,
            "unreadable" => Reading::Unreadable(problem),
            _ => Reading::Malformed(problem),
        })
    }

    /// The report on a specification of a function of `inputs` inputs, where it can be had without running Python: what
    /// [`Judge::judge`] would report. `None` where that is not known.
    pub fn judge_direct(&self, spec: &str, inputs: usize, cases: &Cases) -> Option<Report> {
        let spec = Direct::read(spec, inputs)?;
        let said: Option<Vec<Said>> = calls(cases).map(|call| spec.says(call.pool, call.arguments)).collect();
        Some(self.report(cases, said?.iter().map(|said| [Some(said); 2])))
    }

    /// Runs a specification on every case, twice.
    ///
    /// # Errors
    /// If nothing can be run here. Whatever the specification does is part of the report.
    pub fn judge(&self, spec: &str, cases: &Cases) -> Result<Report, String> {
        let calls: Vec<Call<'_>> = calls(cases).collect();
        let mut said: [Vec<Option<Said>>; 2] = [vec![None; calls.len()], vec![None; calls.len()]];
        let mut hung = 0;
        for (run, answers) in (0u64..).zip(0..2usize) {
            for at in order(spec, calls.len(), run) {
                // What hung once would take as long again.
                if hung >= self.hangs || (answers == 1 && said[0][at] == Some(Said::Hangs)) {
                    continue;
                }
                let answer = self.call(spec, &calls[at], run)?;
                hung += usize::from(answer == Said::Hangs);
                said[answers][at] = Some(answer);
            }
        }
        let [first, second] = &said;
        let both = first.iter().zip(second).map(|(first, second)| [first.as_ref(), second.as_ref()]);
        Ok(self.report(cases, both))
    }

    /// The report on what was said of each case in the two runs.
    fn report<'s>(&self, cases: &Cases, said: impl Iterator<Item = [Option<&'s Said>; 2]>) -> Report {
        let mut report = Report::default();
        for (call, said) in calls(cases).zip(said) {
            report.add(&call, said, self.rejects);
        }
        report.note(cases);
        report
    }

    fn call(&self, spec: &str, call: &Call<'_>, run: u64) -> Result<Said, String> {
        let Call { pool, arguments } = call;
        let text = format!("{}({arguments})", pool.function());
        // A case that uses `random` comes out the same whenever this run is repeated.
        let seed = Address { step: run, ..Address::new(hash(&[spec, &text]), Purpose::Environment) }.seed();
        let seed = format!("__import__('random').seed({seed})");
        let job = Job {
            parts: vec![Part("<seed>", &seed), Part("<spec>", spec), Part("<names>", NAMES)],
            checks: vec![&text],
            name: "spec",
            stdin: "",
            limits: self.limits,
        };
        let execution = self.sandbox(usize::from(run != 0)).run(&job).map_err(|error| error.to_string())?;
        Ok(said(execution, &self.limits))
    }
}

/// Every call, in the order of pools.
fn calls(cases: &Cases) -> impl Iterator<Item = Call<'_>> {
    let of = |pool: Pool| cases.of(pool).iter().map(move |arguments| Call { pool, arguments });
    Pool::ALL.into_iter().flat_map(of)
}

fn hash(texts: &[&str]) -> u64 {
    let length: usize = texts.iter().map(|text| text.len()).sum();
    texts.iter().fold(length as u64, |hash, text| fold_bytes(hash, text.as_bytes()))
}

/// The order in which a run goes through the cases.
fn order(spec: &str, count: usize, run: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let place = Address { step: run, ..Address::new(hash(&[spec]), Purpose::Shuffle) };
    Stream::new(place.seed()).shuffle(&mut order);
    order
}

fn said(execution: Execution, limits: &Limits) -> Said {
    let Execution { outcome, checks, .. } = execution;
    match (&outcome, checks.into_iter().next().flatten()) {
        (Outcome::Done, Some(check)) if check.passed => Said::Accepts,
        (Outcome::Done, Some(check)) => {
            let error = check.error.unwrap_or_default();
            Said::Rejects(error == "AssertionError" || error.starts_with("AssertionError:"))
        }
        (Outcome::WallTime | Outcome::CpuTime, _) => Said::Hangs,
        _ => Said::Ends(outcome.in_words(limits)),
    }
}

impl Report {
    fn add(&mut self, call: &Call<'_>, said: [Option<&Said>; 2], rejects: Rejects) {
        let is_accepted = |said: Option<&Said>| match said {
            Some(Said::Accepts) => Some(true),
            Some(Said::Rejects(is_assertion)) => {
                (*is_assertion || rejects == Rejects::AnyException).then_some(false)
            }
            _ => None,
        };
        let pool = &mut self.pools[call.pool as usize];
        pool.of += 1;
        let any = |holds: fn(&Said) -> bool| usize::from(said.iter().flatten().any(|said| holds(said)));
        let hung = any(|said| *said == Said::Hangs);
        pool.hung += hung;
        pool.ended += any(|said| matches!(said, Said::Ends(_)));
        pool.crashed += any(|said| *said == Said::Rejects(false));
        pool.unrun += usize::from(hung == 0 && said.contains(&None));
        let answers = said.map(is_accepted);
        let wanted = Some(call.pool.is_positive());
        if answers == [wanted, wanted] {
            pool.right += 1;
            return;
        }
        let differs = matches!(answers, [Some(first), Some(second)] if first != second);
        self.is_nondeterministic |= differs;
        let verb = if call.pool.is_positive() { "accept" } else { "reject" };
        let happened = match said {
            _ if differs => "does so only sometimes".to_owned(),
            [Some(Said::Ends(how)), _] | [_, Some(Said::Ends(how))] => how.clone(),
            _ if hung > 0 => "took too long".to_owned(),
            [Some(Said::Rejects(false)), _] => "raises another exception than AssertionError".to_owned(),
            [None, _] | [_, None] => "was not run, because too many cases took too long".to_owned(),
            _ => "does not".to_owned(),
        };
        self.feedback.get_or_insert_with(|| {
            format!("must {verb} {}({}), and {happened}", call.pool.function(), call.arguments)
        });
    }

    /// Says that a pool is empty, unless something else was wrong.
    fn note(&mut self, cases: &Cases) {
        let empty = Pool::ALL.into_iter().find(|&pool| cases.of(pool).is_empty());
        if let Some(pool) = empty {
            self.feedback.get_or_insert_with(|| format!("the pool {} is empty", pool.name()));
        }
    }
}
