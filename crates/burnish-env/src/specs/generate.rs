//! Generated tasks: a family, its slots drawn, and cases with known answers.

use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose, Stream};

use super::families::{Family, Slot};
use super::mini::{Expr, Program, Scope, Value, eval, expression, program};
use super::report::Cases;
use super::values::{alike, any, between, changed, drawn, spoilt};

/// Inputs that are drawn for one task at most.
const DRAWS_MAX: usize = 3_000;

/// What can go wrong with a family; a test makes every one, so that no user meets it.
type Made<T> = Result<T, String>;

/// A family with its slots filled.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) family: &'static Family,
    pub(super) name: String,
    pub(super) says: String,
    /// Assertions on the inputs, and on the output.
    pub(super) pre: Vec<String>,
    pub(super) post: Vec<String>,
    /// The reference program, line by line.
    pub(super) reference: Vec<String>,
    program: Program,
    another: Option<Program>,
    is_valid: Vec<Expr>,
    is_right: Vec<Expr>,
}

/// Which valid outputs a mutant or a random value may not be.
enum Checked {
    Right,
    Wrong,
}

impl Problem {
    /// Draws the slots of a family.
    ///
    /// # Errors
    /// If what is written in the family is not in the language.
    pub(super) fn draw(family: &'static Family, stream: &mut Stream) -> Made<Self> {
        let mut filled: Vec<(String, String)> = Vec::new();
        for slot in family.slots {
            let (name, words, code) = match slot {
                Slot::Number(name, least, most) => {
                    let number = between(stream, [*least, *most]).to_string();
                    (name, number.clone(), number)
                }
                Slot::Choice(name, choices) => {
                    let (words, code) = choices[stream.index(choices.len())];
                    (name, words.to_owned(), code.to_owned())
                }
            };
            filled.push((format!("{{{name}!}}"), code));
            filled.push((format!("{{{name}}}"), words));
        }
        let fill =
            |text: &str| filled.iter().fold(text.to_owned(), |text, (slot, by)| text.replace(slot, by));
        let fill_all = |texts: &[&str]| texts.iter().map(|text| fill(text)).collect::<Vec<_>>();
        let (pre, post) = (fill_all(family.pre), fill_all(family.post));
        let reference = fill_all(family.reference);
        let read = |texts: &[String]| texts.iter().map(|text| expression(text)).collect::<Made<Vec<_>>>();
        Ok(Problem {
            family,
            name: fill(family.name),
            says: fill(family.says),
            program: program(&reference)?,
            another: family.another.map(|lines| program(&fill_all(lines))).transpose()?,
            is_valid: read(&pre)?,
            is_right: read(&post)?,
            pre,
            post,
            reference,
        })
    }

    /// The names of its inputs, with commas between them.
    pub(super) fn inputs(&self) -> String {
        self.family.inputs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The reference program as Python.
    pub(super) fn program(&self) -> String {
        let lines: String = self.reference.iter().map(|line| format!("    {line}\n")).collect();
        format!("def {}({}):\n{lines}", self.name, self.inputs())
    }

    /// A specification with these assertions.
    pub(super) fn spec(&self, pre: &[String], post: &[String]) -> String {
        let lines = |assertions: &[String]| match assertions {
            [] => "    pass\n".to_owned(),
            _ => assertions.iter().map(|assertion| format!("    assert {assertion}\n")).collect(),
        };
        let inputs = self.inputs();
        format!(
            "def preconditions({inputs}):\n{}\ndef postconditions({inputs}, output):\n{}",
            lines(pre),
            lines(post)
        )
    }

    fn scope(&self, inputs: &[Value]) -> Scope {
        let names = self.family.inputs.iter().map(|(name, _)| (*name).to_owned());
        names.zip(inputs.iter().cloned()).collect()
    }

    /// Whether the statement allows these inputs.
    fn allows(&self, inputs: &[Value]) -> bool {
        holds(&self.is_valid, &self.scope(inputs))
    }

    /// Whether this output is right for these inputs: by the assertions of a family with many answers, or by being
    /// that of the reference.
    fn checks(&self, inputs: &[Value], right: &Value, output: &Value) -> Checked {
        let is_right = match self.another {
            Some(_) => {
                let mut scope = self.scope(inputs);
                scope.insert("output".to_owned(), output.clone());
                holds(&self.is_right, &scope)
            }
            None => output == right,
        };
        if is_right { Checked::Right } else { Checked::Wrong }
    }

    /// Cases of each pool, at most `count` and at least one; `None` if the draws give none for a pool.
    pub(super) fn cases(&self, count: usize, seed: u64) -> Option<Cases> {
        let stream = |step| Stream::new(Address { step, ..Address::new(seed, Purpose::Environment) }.seed());
        let valid = self.valid(count, &mut stream(0));
        let mut pos_post = Vec::new();
        let mut rights: Vec<(Vec<Value>, Value)> = Vec::new();
        let mut others = 0;
        for inputs in &valid {
            let scope = self.scope(inputs);
            let right = self.program.run(&scope).ok()?;
            if !matches!(self.checks(inputs, &right, &right), Checked::Right) {
                return None;
            }
            // Of a family with many answers, a specification must accept other answers than the reference's too.
            let other = self.another.as_ref().and_then(|program| program.run(&scope).ok());
            let is_other = other.as_ref().is_some_and(|other| *other != right);
            others += usize::from(is_other);
            let shown = match other {
                Some(other) if is_other => other,
                _ => right.clone(),
            };
            if !matches!(self.checks(inputs, &right, &shown), Checked::Right) {
                return None;
            }
            push(&mut pos_post, call(inputs, Some(&shown)));
            rights.push((inputs.clone(), right));
        }
        if self.another.is_some() && others == 0 {
            return None;
        }
        let cases = Cases {
            pos_pre: valid.iter().map(|inputs| call(inputs, None)).collect(),
            neg_pre: self.invalid(&valid, count, &mut stream(1)),
            pos_post,
            neg_hard: self.nearly_right(&rights, count, &mut stream(2)),
            neg_random: self.unrelated(&rights, count, &mut stream(3)),
        };
        let pools = [&cases.pos_pre, &cases.neg_pre, &cases.pos_post, &cases.neg_hard, &cases.neg_random];
        pools.iter().all(|pool| !pool.is_empty()).then_some(cases)
    }

    /// Different valid inputs.
    fn valid(&self, count: usize, stream: &mut Stream) -> Vec<Vec<Value>> {
        let mut found: Vec<Vec<Value>> = Vec::new();
        for _ in 0..DRAWS_MAX {
            if found.len() == count {
                break;
            }
            let inputs: Vec<Value> =
                self.family.inputs.iter().map(|(_, draw)| drawn(*draw, stream)).collect();
            if self.allows(&inputs) && !found.contains(&inputs) {
                found.push(inputs);
            }
        }
        found
    }

    /// Inputs that the statement does not allow: drawn ones, and valid ones with one of them spoilt, in turns.
    fn invalid(&self, valid: &[Vec<Value>], count: usize, stream: &mut Stream) -> Vec<String> {
        let mut found = Vec::new();
        for turn in 0..DRAWS_MAX {
            if found.len() == count || valid.is_empty() {
                break;
            }
            let mut inputs = valid[stream.index(valid.len())].clone();
            let at = stream.index(inputs.len());
            if turn % 2 == 0 {
                inputs[at] = drawn(self.family.inputs[at].1, stream);
            } else {
                inputs[at] = spoilt(&inputs[at], stream);
            }
            if !self.allows(&inputs) {
                push(&mut found, call(&inputs, None));
            }
        }
        found
    }

    /// What mutants of the reference give, and right outputs with one small change, where the checker rejects it.
    fn nearly_right(&self, rights: &[(Vec<Value>, Value)], count: usize, stream: &mut Stream) -> Vec<String> {
        let mut mutants = self.program.mutants();
        stream.shuffle(&mut mutants);
        let mut found = Vec::new();
        let mut add = |inputs: &[Value], right: &Value, output: &Value| {
            if found.len() < count && matches!(self.checks(inputs, right, output), Checked::Wrong) {
                push(&mut found, call(inputs, Some(output)));
            }
        };
        // Each mutant once, on the first inputs from a place of its own on that show it.
        for (turn, mutant) in mutants.iter().enumerate() {
            for step in 0..rights.len() {
                let (inputs, right) = &rights[(turn + step) % rights.len()];
                // What a mutant gives in place of a value of the right type is no near miss.
                if let Ok(output) = mutant.run(&self.scope(inputs))
                    && kind(&output) == kind(right)
                    && matches!(self.checks(inputs, right, &output), Checked::Wrong)
                {
                    add(inputs, right, &output);
                    break;
                }
            }
        }
        for _ in 0..4 * count {
            if let Some((inputs, right)) = rights.get(stream.index(rights.len())) {
                add(inputs, right, &changed(right, stream));
            }
        }
        found
    }

    /// Values that have nothing to do with the inputs: of the right type, and of others.
    fn unrelated(&self, rights: &[(Vec<Value>, Value)], count: usize, stream: &mut Stream) -> Vec<String> {
        let mut found = Vec::new();
        for turn in 0..DRAWS_MAX {
            let Some((inputs, right)) = rights.get(stream.index(rights.len())) else { break };
            if found.len() == count {
                break;
            }
            let output = if turn % 3 == 2 { any(stream) } else { alike(right, stream) };
            if matches!(self.checks(inputs, right, &output), Checked::Wrong) {
                push(&mut found, call(inputs, Some(&output)));
            }
        }
        found
    }

    /// The labels of its tasks.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let answers = if self.another.is_some() { "many" } else { "one" };
        BTreeMap::from([
            ("track".to_owned(), "generated".to_owned()),
            ("family".to_owned(), self.family.id.to_owned()),
            ("answers".to_owned(), answers.to_owned()),
        ])
    }
}

/// Whether every assertion holds, in their order; one that raises does not.
fn holds(assertions: &[Expr], scope: &Scope) -> bool {
    assertions.iter().all(|assertion| eval(assertion, scope).is_ok_and(|value| value.is_true()))
}

fn push(found: &mut Vec<String>, case: String) {
    if !found.contains(&case) {
        found.push(case);
    }
}

/// The arguments of a call, as Python writes them.
fn call(inputs: &[Value], output: Option<&Value>) -> String {
    inputs.iter().chain(output).map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::None => 0,
        Value::Bool(_) => 1,
        Value::Int(_) => 2,
        Value::Text(_) => 3,
        Value::List(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::families::FAMILIES;

    #[test]
    fn every_family_makes_every_pool_from_nearly_every_draw() {
        for family in FAMILIES {
            let mut made = 0;
            for seed in 0..60 {
                let problem = Problem::draw(family, &mut Stream::new(seed)).unwrap();
                let texts = [&problem.pre[..], &problem.post, &problem.reference].concat().join("\n");
                for text in [&problem.says, &problem.name, &texts] {
                    assert!(!text.contains('{') && !text.contains('}'), "{}: {text}", family.id);
                }
                let Some(cases) = problem.cases(6, seed) else { continue };
                made += 1;
                assert!(cases.neg_pre.len() >= 4 && cases.neg_hard.len() >= 3, "{}: {cases:?}", family.id);
                // No case is in two pools of one function.
                for negatives in [&cases.neg_hard, &cases.neg_random] {
                    assert!(negatives.iter().all(|case| !cases.pos_post.contains(case)), "{}", family.id);
                }
                assert!(cases.neg_pre.iter().all(|case| !cases.pos_pre.contains(case)));
            }
            assert!(made >= 50, "{}: {made} of 60", family.id);
        }
        assert!(FAMILIES.len() >= 12 && FAMILIES.is_sorted_by_key(|family| family.id));
        assert!(FAMILIES.iter().filter(|family| family.another.is_some()).count() >= 4);
    }

    /// The assertions of families with one answer are written independently of their references: both must say the
    /// same of right outputs, of near misses and of random values.
    #[test]
    fn assertions_and_references_agree_on_every_output() {
        let mut compared = [0, 0];
        for family in FAMILIES.iter().filter(|family| family.another.is_none()) {
            for seed in 0..40 {
                let mut stream = Stream::new(seed);
                let problem = Problem::draw(family, &mut stream).unwrap();
                for inputs in problem.valid(4, &mut stream) {
                    let right = problem.program.run(&problem.scope(&inputs)).unwrap();
                    let outputs = problem
                        .program
                        .mutants()
                        .into_iter()
                        .filter_map(|mutant| mutant.run(&problem.scope(&inputs)).ok());
                    let outputs: Vec<Value> =
                        outputs.chain([right.clone(), changed(&right, &mut stream)]).collect();
                    for output in outputs {
                        let mut scope = problem.scope(&inputs);
                        scope.insert("output".to_owned(), output.clone());
                        let said = holds(&problem.is_right, &scope);
                        // A truth value is a number in Python, so `True` may be right where `1` is.
                        assert_eq!(said, output == right, "{}: {}: {output}", family.id, call(&inputs, None));
                        compared[usize::from(said)] += 1;
                    }
                }
            }
        }
        assert!(compared.iter().all(|count| *count > 500), "{compared:?}");
    }
}
