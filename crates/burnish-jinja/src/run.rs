//! Runs a template.

mod expressions;
mod loops;
mod macros;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use loops::Loop;
pub(crate) use macros::{Block, Macro};

use crate::ast::{Node, Statement, Target};
use crate::error::{Error, Result, type_error, value_error};
use crate::parser::Parsed;
use crate::value::{Dict, Value};
use crate::{access, globals};

/// Deepest recursion of macros and loops: deeper ones would not fit on a thread's stack.
const MAX_CALLS: usize = 100;

/// Variables, and the enclosing scope.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    variables: RefCell<HashMap<String, Value>>,
    around: Option<Rc<Scope>>,
}

impl Scope {
    pub(crate) fn within(around: &Rc<Scope>) -> Rc<Self> {
        Rc::new(Scope { variables: RefCell::default(), around: Some(around.clone()) })
    }

    pub(crate) fn set(&self, name: &str, value: Value) {
        self.variables.borrow_mut().insert(name.to_owned(), value);
    }

    fn get(&self, name: &str) -> Option<Value> {
        let mut scope = self;
        loop {
            if let Some(value) = scope.variables.borrow().get(name) {
                return Some(value.clone());
            }
            scope = scope.around.as_deref()?;
        }
    }
}

/// How a run of statements ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
}

pub(crate) struct Run<'a> {
    pub(crate) parsed: &'a Parsed,
    pub(crate) context: &'a Dict,
    pub(crate) now: i64,
    /// Inserted before and after the text of a generation block.
    pub(crate) marks: Option<(char, char)>,
    /// The scope of the template itself, which blocks see.
    pub(crate) outermost: Rc<Scope>,
    /// Scopes that contain macros, which in turn hold their scope.
    closures: Vec<Rc<Scope>>,
    pub(crate) calls: usize,
}

impl Drop for Run<'_> {
    /// Breaks the reference cycles of these scopes, so that they are freed.
    fn drop(&mut self) {
        for scope in &self.closures {
            scope.variables.take();
        }
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(parsed: &'a Parsed, context: &'a Dict, now: i64, marks: Option<(char, char)>) -> Self {
        Run { parsed, context, now, marks, outermost: Rc::default(), closures: Vec::new(), calls: 0 }
    }

    pub(crate) fn whole(&mut self) -> Result<String> {
        let mut out = String::new();
        let scope = self.outermost.clone();
        self.nodes(&self.parsed.body, &scope, &mut out)?;
        Ok(out)
    }

    pub(crate) fn name(&self, name: &str, scope: &Scope) -> Value {
        if let Some(value) = scope.get(name) {
            return value;
        }
        match self.context.get_str(name) {
            Some(value) => value.clone(),
            None if name == "self" => Value::Other(crate::value::Other::Blocks(Rc::new(
                self.parsed.blocks.keys().cloned().collect(),
            ))),
            None => globals::find(name).unwrap_or_else(|| Value::undefined(format!("'{name}' is undefined"))),
        }
    }

    pub(crate) fn nodes(&mut self, nodes: &[Node], scope: &Rc<Scope>, out: &mut String) -> Result<Flow> {
        for node in nodes {
            let flow = self.node(node, scope, out).map_err(|error| error.at(node.line))?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// Runs statements in a scope of their own and returns their text. They may leave a loop around them.
    fn captured(&mut self, nodes: &[Node], scope: &Rc<Scope>) -> Result<(String, Flow)> {
        let mut text = String::new();
        let flow = self.nodes(nodes, &Scope::within(scope), &mut text)?;
        Ok((text, flow))
    }

    fn node(&mut self, node: &Node, scope: &Rc<Scope>, out: &mut String) -> Result<Flow> {
        match &node.statement {
            Statement::Unset(names) => {
                for name in names {
                    scope.set(name, Value::undefined(format!("'{name}' is undefined")));
                }
            }
            Statement::Text(text) => out.push_str(text),
            Statement::Print(expr) => {
                let value = self.eval(expr, scope)?;
                match value.as_str() {
                    Some(text) => out.push_str(text),
                    None => out.push_str(&value.str()?),
                }
                if out.len() > crate::ops::MAX_SIZE {
                    return Err(Error::other("the text gets too long"));
                }
            }
            Statement::Set(target, expr) => {
                let value = self.eval(expr, scope)?;
                self.assign(target, value, scope)?;
            }
            Statement::SetBlock(target, filter, body) => {
                let (text, flow) = self.captured(body, scope)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                let mut value = Value::from(text);
                if let Some(filter) = filter {
                    value = self.filter_block(filter, value, scope)?;
                }
                self.assign(target, value, scope)?;
            }
            Statement::For(each) => return self.run_for(each, scope, out),
            Statement::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.eval(test, scope)?.is_true() {
                        return self.nodes(body, scope, out);
                    }
                }
                return self.nodes(otherwise, scope, out);
            }
            Statement::With(values, body) => {
                let inner = Scope::within(scope);
                let values: Vec<_> = values
                    .iter()
                    .map(|(target, expr)| Ok((target, self.eval(expr, scope)?)))
                    .collect::<Result<_>>()?;
                for (target, value) in values {
                    self.assign(target, value, &inner)?;
                }
                return self.nodes(body, &inner, out);
            }
            Statement::Filter(filter, body) => {
                let (text, flow) = self.captured(body, scope)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                out.push_str(&self.filter_block(filter, text.into(), scope)?.str()?);
            }
            Statement::Macro(body) => {
                let value = macros::value_of(body.clone(), scope.clone());
                self.closures.push(scope.clone());
                scope.set(body.name.as_deref().unwrap_or_default(), value);
            }
            Statement::CallBlock(call, body) => {
                let caller = macros::value_of(body.clone(), scope.clone());
                let value = self.eval_call(call, scope, Some(caller))?;
                out.push_str(&value.str()?);
            }
            Statement::Generation(body) => {
                let (text, _) = self.captured(body, scope)?;
                match self.marks {
                    Some((open, close)) => {
                        out.push(open);
                        out.push_str(&text);
                        out.push(close);
                    }
                    None => out.push_str(&text),
                }
            }
            Statement::Block(name, is_scoped) => {
                let around = if *is_scoped { scope.clone() } else { self.outermost.clone() };
                out.push_str(&self.block(name, &around)?);
            }
            Statement::Autoescape(is_on, body) => {
                if self.eval(is_on, scope)?.is_true() {
                    return Err(Error::other("autoescape is not supported"));
                }
                return self.nodes(body, &Scope::within(scope), out);
            }
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
            Statement::Load(word) => {
                return Err(Error::other(format!(
                    "`{word}`: a chat template has no other templates to load"
                )));
            }
        }
        Ok(Flow::Next)
    }

    pub(crate) fn assign(&mut self, target: &Target, value: Value, scope: &Rc<Scope>) -> Result<()> {
        match target {
            Target::Name(name) => scope.set(name, value),
            Target::Attribute(namespace, attribute) => {
                access::set_attribute(&self.name(namespace, scope), attribute, value)?;
            }
            Target::Tuple(targets) => {
                if !value.is_iterable() {
                    return type_error(format!("cannot unpack non-iterable {} object", value.type_name()));
                }
                let values = value.items()?;
                if values.len() < targets.len() {
                    return value_error(format!(
                        "not enough values to unpack (expected {}, got {})",
                        targets.len(),
                        values.len()
                    ));
                }
                if values.len() > targets.len() {
                    return value_error(format!("too many values to unpack (expected {})", targets.len()));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value, scope)?;
                }
            }
        }
        Ok(())
    }

    /// Runs something that may recurse.
    pub(crate) fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.calls == MAX_CALLS {
            return Err(Error::other(format!(
                "macros or loops call each other more than {MAX_CALLS} levels deep"
            )));
        }
        self.calls += 1;
        let result = run(self);
        self.calls -= 1;
        result
    }
}
