//! Evaluates expressions.

use std::rc::Rc;

use super::{Run, Scope};
use crate::args::Call;
use crate::ast::{Args, Comparison, Expr};
use crate::error::{Error, Result, type_error};
use crate::value::{Dict, Other, Value};
use crate::{access, checks, filters, globals, methods, ops};

impl Run<'_> {
    pub(crate) fn eval(&mut self, expr: &Expr, scope: &Rc<Scope>) -> Result<Value> {
        Ok(match expr {
            Expr::Const(constant) => constant.value(),
            Expr::Name(name) => self.name(name, scope),
            Expr::List(items) => Value::list(self.all(items, scope)?),
            Expr::Tuple(items) => Value::tuple(self.all(items, scope)?),
            Expr::Dict(items) => {
                let mut dict = Dict::default();
                for (key, value) in items {
                    let key = self.eval(key, scope)?;
                    dict.insert(key, self.eval(value, scope)?)?;
                }
                Value::dict(dict)
            }
            Expr::Not(inner) => Value::Bool(!self.eval(inner, scope)?.is_true()),
            Expr::Negative(inner) => ops::negative(&self.eval(inner, scope)?)?,
            Expr::Positive(inner) => ops::positive(&self.eval(inner, scope)?)?,
            Expr::Binary(op, left, right) => {
                let left = self.eval(left, scope)?;
                ops::binary(*op, &left, &self.eval(right, scope)?)?
            }
            Expr::Concat(parts) => ops::concat(&self.all(parts, scope)?)?,
            Expr::And(left, right) => {
                let left = self.eval(left, scope)?;
                if left.is_true() { self.eval(right, scope)? } else { left }
            }
            Expr::Or(left, right) => {
                let left = self.eval(left, scope)?;
                if left.is_true() { left } else { self.eval(right, scope)? }
            }
            Expr::Compare(first, others) => return self.comparisons(first, others, scope),
            Expr::If(test, value, otherwise) => match (self.eval(test, scope)?.is_true(), otherwise) {
                (true, _) => self.eval(value, scope)?,
                (false, Some(otherwise)) => self.eval(otherwise, scope)?,
                (false, None) => Value::undefined(
                    "the inline if-expression evaluated to false and no else section was defined.",
                ),
            },
            Expr::Attribute(value, name) => {
                let value = self.eval(value, scope)?;
                access::attribute(&value, name)?
            }
            Expr::Item(value, key) => {
                let value = self.eval(value, scope)?;
                let key = self.eval(key, scope)?;
                access::item(&value, &key)?
            }
            Expr::Slice(value, bounds) => {
                let value = self.eval(value, scope)?;
                let mut found = [Value::None, Value::None, Value::None];
                for (place, bound) in found.iter_mut().zip(bounds) {
                    if let Some(bound) = bound {
                        *place = self.eval(bound, scope)?;
                    }
                }
                ops::slice(&value, found)?
            }
            Expr::BadSlice => return type_error("several slices at once are not supported"),
            Expr::Call(..) => return self.eval_call(expr, scope, None),
            Expr::Filter(value, name, args, line) => {
                let value = match value {
                    Some(value) => self.eval(value, scope)?,
                    None => return Err(Error::other(format!("the filter `{name}` has no value"))),
                };
                let call = self.args(args, scope)?;
                return self.filter(&value, name, call).map_err(|error| error.at(*line));
            }
            Expr::Test(value, name, args, line) => {
                let value = self.eval(value, scope)?;
                let call = self.args(args, scope)?;
                Value::Bool(checks::call(name, &value, call).map_err(|error| error.at(*line))?)
            }
        })
    }

    fn all(&mut self, items: &[Expr], scope: &Rc<Scope>) -> Result<Vec<Value>> {
        items.iter().map(|item| self.eval(item, scope)).collect()
    }

    fn comparisons(
        &mut self,
        first: &Expr,
        others: &[(Comparison, Expr)],
        scope: &Rc<Scope>,
    ) -> Result<Value> {
        let mut left = self.eval(first, scope)?;
        for (op, other) in others {
            let right = self.eval(other, scope)?;
            if !ops::compare(*op, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn args(&mut self, args: &Args, scope: &Rc<Scope>) -> Result<Call> {
        let mut call = Call::of(self.all(&args.positional, scope)?);
        for (name, value) in &args.named {
            call.named.push((name.clone(), self.eval(value, scope)?));
        }
        if let Some(rest) = &args.rest {
            let rest = self.eval(rest, scope)?;
            if !rest.is_iterable() {
                return type_error(format!("argument after * must be an iterable, not {}", rest.type_name()));
            }
            call.args.extend(rest.items()?);
        }
        if let Some(rest) = &args.rest_named {
            let Value::Dict(dict) = self.eval(rest, scope)? else {
                return type_error("argument after ** must be a mapping");
            };
            for (name, value) in dict.entries() {
                let Some(name) = name.as_str() else { return type_error("keywords must be strings") };
                if call.named.iter().any(|(known, _)| known == name) {
                    return type_error(format!("got multiple values for keyword argument '{name}'"));
                }
                call.named.push((name.to_owned(), value.clone()));
            }
        }
        Ok(call)
    }

    fn filter(&mut self, value: &Value, name: &str, call: Call) -> Result<Value> {
        if !filters::is_known(name) {
            return Err(Error::other(format!("No filter named '{name}' found.")));
        }
        filters::call(name, value, call)
    }

    /// Applies the filters of a block to its text.
    pub(super) fn filter_block(&mut self, filter: &Expr, text: Value, scope: &Rc<Scope>) -> Result<Value> {
        let Expr::Filter(inner, name, args, line) = filter else { return Ok(text) };
        let value = match inner {
            Some(inner) => self.filter_block(inner, text, scope)?,
            None => text,
        };
        let call = self.args(args, scope)?;
        self.filter(&value, name, call).map_err(|error| error.at(*line))
    }

    /// Calls a value, with the caller of a call block if there is one.
    pub(super) fn eval_call(
        &mut self,
        expr: &Expr,
        scope: &Rc<Scope>,
        caller: Option<Value>,
    ) -> Result<Value> {
        let Expr::Call(callee, args, line) = expr else { return Err(Error::other("expected call")) };
        let callee = self.eval(callee, scope)?;
        let mut call = self.args(args, scope)?;
        if let Some(caller) = caller {
            call.named.push(("caller".to_owned(), caller));
        }
        self.call(&callee, call).map_err(|error| error.at(*line))
    }

    fn call(&mut self, callee: &Value, call: Call) -> Result<Value> {
        match callee {
            Value::Undefined(problem) => Err(Error::other(&**problem)),
            Value::Other(Other::Method(value, name)) => methods::call(value, name, call),
            Value::Other(Other::Global(name)) => globals::call(name, call, self.now),
            Value::Other(Other::Macro(called)) => self.call_macro(called, call),
            Value::Other(Other::Loop(state)) => self.call_loop(state, call),
            Value::Other(Other::Joiner(state)) => {
                call.positional::<0>("joiner", 0)?;
                Ok(if state.1.replace(true) { state.0.clone() } else { Value::text("") })
            }
            Value::Other(Other::Block(block)) => {
                call.positional::<0>("block", 0)?;
                let around = self.outermost.clone();
                self.block(&block.name, &around).map(Value::from)
            }
            _ => type_error(format!("'{}' object is not callable", callee.type_name())),
        }
    }
}
