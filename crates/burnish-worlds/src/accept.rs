//! The four acceptance tests of a world (EnvFactory, arXiv:2605.18703): its interface is what its tools do, they run,
//! they return what they should, and they change what they should and nothing else.

use std::collections::BTreeSet;
use std::fmt;

use burnish_core::rng::{Address, Purpose, Stream};
use serde_json::Value;

use crate::expr::{Expr, equal};
use crate::file::Test;
use crate::graph::{Graph, LIKENESS};
use crate::query::braces;
use crate::state::State;
use crate::step::Failure;
use crate::world::{Source, Tool, World};

/// Which of the tests failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// (i) What a tool declares is what it reads and returns, and each has tests.
    Interface,
    /// (ii) States can be drawn, and calls end with a result or a refusal that was foreseen.
    Executes,
    /// (iii) Test calls give the results that they should.
    Results,
    /// (iv) Test calls change the state as they should.
    Transitions,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Check::Interface => "interface",
            Check::Executes => "executes",
            Check::Results => "results",
            Check::Transitions => "transitions",
        })
    }
}

/// Why a world is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The acceptance test.
    pub check: Check,
    /// The tool, if it is about one.
    pub tool: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.check, self.tool, self.problem)
    }
}

/// States that are drawn to see whether tools run on them.
const DRAWN: u64 = 16;
/// Calls of each tool on a drawn state.
const CALLS: u64 = 4;

/// Why `world` is not accepted; nothing, if it is.
pub fn complaints(world: &World) -> Vec<Complaint> {
    let mut all = Vec::new();
    let graph = Graph::new(std::slice::from_ref(world), LIKENESS);
    for (at, tool) in world.tools.iter().enumerate() {
        let mut complain = |check, problem| all.push(Complaint { check, tool: tool.name.clone(), problem });
        interface(world, tool, &mut complain);
        for (parameter, it) in tool.parameters.iter().enumerate() {
            if it.source == Source::Internal && graph.producers(at, parameter).is_empty() {
                let problem = format!("no tool returns what its internal parameter `{}` takes", it.name);
                complain(Check::Interface, problem);
            }
        }
        for test in world.tests.iter().filter(|test| test.tool == tool.name) {
            outcome(world, tool, test, &mut complain);
        }
    }
    drawn(world, &mut all);
    all
}

fn interface(world: &World, tool: &Tool, complain: &mut impl FnMut(Check, String)) {
    let mut read = BTreeSet::new();
    let returned = tool.returns.iter().map(|it| &it.value);
    for expression in tool.steps.iter().flat_map(|step| step.expressions()).chain(returned) {
        Expr::parameters(expression, &mut |name| {
            read.insert(name);
        });
    }
    for parameter in tool.parameters.iter().filter(|it| !read.contains(it.name.as_str())) {
        complain(Check::Interface, format!("nothing reads the parameter `{}`", parameter.name));
    }
    let required: BTreeSet<&str> =
        tool.parameters.iter().filter(|it| !it.optional).map(|it| it.name.as_str()).collect();
    let asked = braces(&tool.ask);
    if asked.len() != required.len() || asked.iter().copied().collect::<BTreeSet<_>>() != required {
        complain(Check::Interface, "`ask` must have each required parameter in braces, once".to_owned());
    }
    if let Some(unknown) =
        tool.noun.iter().flat_map(|noun| braces(noun)).find(|name| !required.contains(name))
    {
        complain(Check::Interface, format!("`noun` has `{{{unknown}}}`, which is no required parameter"));
    }
    let mut tests = world.tests.iter().filter(|test| test.tool == tool.name);
    if !tests.clone().any(|test| test.result.is_some()) {
        complain(Check::Interface, "no test shows it succeed".to_owned());
    }
    // Without parameters it only depends on the fixture, which is one.
    if tool.refuses() && !tool.parameters.is_empty() && !tests.any(|test| test.error.is_some()) {
        complain(Check::Interface, "no test shows it fail".to_owned());
    }
}

fn outcome(world: &World, tool: &Tool, test: &Test, complain: &mut impl FnMut(Check, String)) {
    let arguments = Value::Object(test.arguments.clone());
    let mut state = world.fixture.clone();
    let got = tool.call(world, &mut state, &test.arguments);
    match (&got, &test.result, &test.error) {
        (Err(failure @ (Failure::Arguments(_) | Failure::Unforeseen(_))), None, Some(error))
            if failure.text() != error =>
        {
            complain(Check::Executes, format!("{arguments}: {}", failure.text()));
        }
        (Err(failure), None, Some(error)) if failure.text() != error => {
            complain(Check::Results, format!("{arguments} fails with `{}`, not `{error}`", failure.text()));
        }
        (Err(failure), Some(_), _) => {
            let check = if matches!(failure, Failure::Refused(_)) { Check::Results } else { Check::Executes };
            complain(check, format!("{arguments} fails: {}", failure.text()));
        }
        (Ok(result), None, _) => {
            complain(
                Check::Results,
                format!("{arguments} gives {}, but must fail", Value::Object(result.clone())),
            );
        }
        (Ok(result), Some(should), _)
            if !same(&Value::Object(result.clone()), &Value::Object(should.clone())) =>
        {
            let (result, should) = (Value::Object(result.clone()), Value::Object(should.clone()));
            complain(Check::Results, format!("{arguments} gives {result}, not {should}"));
        }
        _ => {}
    }
    let (changed, mut removed) = world.fixture.changes(&state, world);
    let mut should = test.removed.clone();
    should.sort_unstable();
    removed.sort_unstable();
    if !same(&Value::Object(changed.clone()), &Value::Object(test.changed.clone())) || removed != should {
        let (changed, wanted) = (Value::Object(changed), Value::Object(test.changed.clone()));
        complain(
            Check::Transitions,
            format!("{arguments} changes {changed} and removes {removed:?}, not {wanted} and {should:?}"),
        );
    }
}

/// Runs tools on drawn states. A refusal is right, anything else that was not foreseen is not.
fn drawn(world: &World, all: &mut Vec<Complaint>) {
    for seed in 0..DRAWN {
        let place = Address { task: seed, ..Address::new(0, Purpose::Environment) };
        let mut stream = Stream::new(place.seed());
        let start = State::draw(world, &mut stream);
        if let Err(problem) = start.check(world) {
            all.push(Complaint { check: Check::Executes, tool: world.name.clone(), problem });
            return;
        }
        for tool in &world.tools {
            for _ in 0..CALLS {
                let value = |parameter: &crate::world::Parameter| {
                    Some((
                        parameter.name.clone(),
                        drawn_value(world, &start, &parameter.source, &mut stream)?,
                    ))
                };
                let arguments = tool.parameters.iter().filter_map(value).collect();
                let mut state = start.clone();
                let failure = tool.call(world, &mut state, &arguments).err();
                if let Some(Failure::Unforeseen(problem)) = failure {
                    let problem = format!("{} on a drawn state: {problem}", Value::Object(arguments));
                    all.push(Complaint { check: Check::Executes, tool: tool.name.clone(), problem });
                    return;
                }
            }
        }
    }
}

/// A value for a parameter; for an internal one the key of any row, which may be of another table.
fn drawn_value(world: &World, state: &State, source: &Source, stream: &mut Stream) -> Option<Value> {
    match source {
        Source::Internal => {
            let keys: Vec<String> = world
                .tables
                .iter()
                .flat_map(|table| state.rows(&table.name).map(|(number, _)| table.key(number)))
                .collect();
            (!keys.is_empty()).then(|| Value::from(keys[stream.index(keys.len())].clone()))
        }
        source => crate::chain::said(world, state, source, stream),
    }
}

/// Whether two JSON values are the same, numbers by their value.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (left, right) => equal(left, right),
    }
}
