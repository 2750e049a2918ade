//! Runs a specification without an interpreter, where all of it is in the part of Python that is known here.
//!
//! It has nothing that could change an argument, be random, or see anything but the arguments of its call; what takes too
//! long is left to Python. So it says the same of a case in every run, and starting two processes for each would add
//! nothing but their time.

use std::collections::BTreeSet;

use super::judge::Said;
use super::mini::{Expr, Halt, Scope, Value, eval, is_free_name, sure_expression};
use super::report::Pool;

/// One function: its parameters, and what it asserts in turn.
#[derive(Debug)]
struct Function {
    parameters: Vec<String>,
    assertions: Vec<Expr>,
}

/// A specification that can be run here.
#[derive(Debug)]
pub(super) struct Direct {
    before: Function,
    after: Function,
}

impl Direct {
    /// Reads a specification of a function of `inputs` inputs: two functions of `assert` and `pass`. `None` if there is
    /// anything else in it, or it may mean something else in Python.
    pub(super) fn read(spec: &str, inputs: usize) -> Option<Direct> {
        let mut before = None;
        let mut after = None;
        let mut lines = spec.split('\n').filter(|line| !line.trim_matches(' ').is_empty()).peekable();
        while let Some(head) = lines.next() {
            let mut body = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
                body.push(line);
            }
            let (name, parameters) = head_of(head)?;
            let (place, count) = match name {
                "preconditions" => (&mut before, inputs),
                "postconditions" => (&mut after, inputs + 1),
                _ => return None,
            };
            if place.is_some() || parameters.len() != count {
                return None;
            }
            *place = Some(Function::read(parameters, &body)?);
        }
        Some(Direct { before: before?, after: after? })
    }

    /// What it says of a case of this pool. `None` if that is not known here.
    pub(super) fn says(&self, pool: Pool, arguments: &str) -> Option<Said> {
        let function = if pool.function() == "preconditions" { &self.before } else { &self.after };
        function.call(arguments)
    }
}

/// The name and the parameters of `def name(a, b):`.
fn head_of(line: &str) -> Option<(&str, Vec<String>)> {
    let (name, parameters) =
        line.strip_prefix("def ")?.trim_end_matches(' ').strip_suffix("):")?.split_once('(')?;
    let parameters: Vec<String> =
        parameters.split(',').map(|parameter| parameter.trim_matches(' ').to_owned()).collect();
    let distinct: BTreeSet<&String> = parameters.iter().collect();
    let are_names = parameters.iter().all(|name| is_free_name(name)) && distinct.len() == parameters.len();
    are_names.then_some((name, parameters))
}

impl Function {
    fn read(parameters: Vec<String>, body: &[&str]) -> Option<Function> {
        let names: BTreeSet<String> = parameters.iter().cloned().collect();
        let mut assertions = Vec::new();
        for line in body {
            let statement = line.strip_prefix("    ")?.trim_end_matches(' ');
            if statement != "pass" {
                assertions.push(sure_expression(statement.strip_prefix("assert ")?, &names)?);
            }
        }
        (!body.is_empty()).then_some(Function { parameters, assertions })
    }

    /// What it says of these arguments.
    fn call(&self, arguments: &str) -> Option<Said> {
        let arguments = sure_expression(&format!("[{arguments}]"), &BTreeSet::new())?;
        let Ok(Value::List(arguments)) = eval(&arguments, &Scope::new()) else { return None };
        if arguments.len() != self.parameters.len() {
            return None;
        }
        let scope: Scope = self.parameters.iter().cloned().zip(arguments).collect();
        for assertion in &self.assertions {
            match eval(assertion, &scope) {
                Ok(value) if value.is_true() => {}
                Ok(_) => return Some(Said::Rejects(true)),
                Err(Halt::Raised) => return Some(Said::Rejects(false)),
                Err(Halt::Unknown) => return None,
            }
        }
        Some(Said::Accepts)
    }
}
