//! Loops, and the variable `loop`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::{Flow, Run, Scope};
use crate::args::Call;
use crate::ast::For;
use crate::error::{Error, Result, type_error};
use crate::ops;
use crate::value::{Other, Value};

/// The variable `loop`.
#[derive(Debug)]
pub struct Loop {
    items: Rc<Vec<Value>>,
    pub(crate) index: usize,
    depth: usize,
    last_changed: Option<Value>,
    /// What a recursive loop runs again.
    again: Option<(Arc<For>, Rc<Scope>)>,
}

impl Loop {
    pub(crate) fn length(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn attribute(&self, value: &Value, name: &str) -> Result<Option<Value>> {
        let left = self.items.len().saturating_sub(self.index);
        Ok(Some(match name {
            "index" => Value::size(self.index + 1),
            "index0" => Value::size(self.index),
            "revindex" => Value::size(left),
            "revindex0" => Value::Int(left as i64 - 1),
            "first" => Value::Bool(self.index == 0),
            "last" => Value::Bool(left <= 1),
            "length" => Value::size(self.items.len()),
            "depth" => Value::size(self.depth + 1),
            "depth0" => Value::size(self.depth),
            "previtem" => match self.index.checked_sub(1) {
                Some(before) => self.items[before].clone(),
                None => Value::undefined("there is no previous item"),
            },
            "nextitem" => match self.items.get(self.index + 1) {
                Some(next) => next.clone(),
                None => Value::undefined("there is no next item"),
            },
            "cycle" | "changed" => Value::Other(Other::Method(Rc::new(value.clone()), name.into())),
            _ => return Ok(None),
        }))
    }

    pub(crate) fn call(&mut self, name: &str, call: Call) -> Result<Value> {
        if !call.named.is_empty() {
            return type_error(format!("loop.{name}() got an unexpected keyword argument"));
        }
        if name == "changed" {
            let value = Value::tuple(call.args);
            let is_same = self.last_changed.as_ref().is_some_and(|last| ops::equal(last, &value));
            if !is_same {
                self.last_changed = Some(value);
            }
            return Ok(Value::Bool(!is_same));
        }
        match call.args.len() {
            0 => type_error("no items for cycling given"),
            count => Ok(call.args[self.index % count].clone()),
        }
    }
}

impl Run<'_> {
    pub(super) fn run_for(&mut self, each: &Arc<For>, scope: &Rc<Scope>, out: &mut String) -> Result<Flow> {
        let over = self.eval(&each.over, scope)?;
        self.loop_over(each, scope, &over, 0, out)
    }

    fn loop_over(
        &mut self,
        each: &Arc<For>,
        scope: &Rc<Scope>,
        over: &Value,
        depth: usize,
        out: &mut String,
    ) -> Result<Flow> {
        let mut items = over.items().map_err(|error| match over {
            Value::None => Error::other("None can't be looped over"),
            _ => error,
        })?;
        if let Some(test) = &each.test {
            let mut kept = Vec::new();
            for item in items {
                let inner = Scope::within(scope);
                self.assign(&each.target, item.clone(), &inner)?;
                if self.eval(test, &inner)?.is_true() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            return self.nodes(&each.otherwise, &Scope::within(scope), out);
        }
        let items = Rc::new(items);
        let state = Rc::new(RefCell::new(Loop {
            items: items.clone(),
            index: 0,
            depth,
            last_changed: None,
            again: each.is_recursive.then(|| (each.clone(), scope.clone())),
        }));
        for (at, item) in items.iter().enumerate() {
            state.borrow_mut().index = at;
            let inner = Scope::within(scope);
            inner.set("loop", Value::Other(Other::Loop(state.clone())));
            self.assign(&each.target, item.clone(), &inner)?;
            if self.nodes(&each.body, &inner, out)? == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    /// `loop(items)`: runs the loop's own body over other items.
    pub(super) fn call_loop(&mut self, state: &Rc<RefCell<Loop>>, call: Call) -> Result<Value> {
        let [over] = call.bind("loop", ["iterable"], 1)?;
        let (again, depth) = {
            let state = state.borrow();
            (state.again.clone(), state.depth + 1)
        };
        let Some((each, scope)) = again else {
            return type_error("The loop must have the 'recursive' marker to be called recursively.");
        };
        self.deeper(|run| {
            let mut text = String::new();
            run.loop_over(&each, &scope, &over.unwrap_or(Value::None), depth, &mut text)?;
            Ok(text.into())
        })
    }
}
