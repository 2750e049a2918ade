//! Macros, callers and blocks.

use std::rc::Rc;
use std::sync::Arc;

use super::{Run, Scope};
use crate::args::Call;
use crate::ast::MacroBody;
use crate::error::{Error, Result, type_error};
use crate::value::{Dict, Other, Value};

/// A macro, with its enclosing scope.
#[derive(Debug)]
pub struct Macro {
    pub(crate) body: Arc<MacroBody>,
    scope: Rc<Scope>,
}

/// A block of a template, called by its name.
#[derive(Debug)]
pub struct Block {
    pub(crate) name: String,
}

pub(super) fn value_of(body: Arc<MacroBody>, scope: Rc<Scope>) -> Value {
    Value::Other(Other::Macro(Rc::new(Macro { body, scope })))
}

impl Macro {
    pub(crate) fn name(&self) -> Option<&str> {
        self.body.name.as_deref()
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<Value> {
        Some(match name {
            "name" => self.name().map_or(Value::None, Value::text),
            "arguments" => Value::tuple(
                self.body.parameters.names.iter().map(|name| Value::text(name.as_str())).collect(),
            ),
            "caller" => Value::Bool(self.body.uses_caller),
            "catch_kwargs" => Value::Bool(self.body.uses_kwargs),
            "catch_varargs" => Value::Bool(self.body.uses_varargs),
            "explicit_caller" => Value::Bool(self.body.parameters.names.iter().any(|name| name == "caller")),
            _ => return None,
        })
    }
}

impl Run<'_> {
    pub(super) fn call_macro(&mut self, called: &Macro, call: Call) -> Result<Value> {
        self.deeper(|run| run.call_macro_once(called, call))
    }

    fn call_macro_once(&mut self, called: &Macro, call: Call) -> Result<Value> {
        let body = &called.body;
        let shown = body.name.as_deref().unwrap_or("None");
        let names = &body.parameters.names;
        let scope = Scope::within(&called.scope);
        let Call { mut args, mut named } = call;
        let rest = args.split_off(args.len().min(names.len()));
        let mut take = |name: &str| {
            let at = named.iter().position(|(known, _)| known == name)?;
            Some(named.remove(at).1)
        };
        let mut given: Vec<Option<Value>> = args.into_iter().map(Some).collect();
        let mut found_caller = given.len() == names.len() && names.iter().any(|name| name == "caller");
        for name in &names[given.len()..] {
            found_caller |= name == "caller";
            given.push(take(name));
        }
        if body.uses_caller && !found_caller {
            let caller = take("caller").filter(|caller| !matches!(caller, Value::None));
            scope.set("caller", caller.unwrap_or_else(|| Value::undefined("No caller defined")));
        }
        if body.uses_kwargs {
            let mut kwargs = Dict::default();
            for (name, value) in named {
                kwargs.set(&name, value);
            }
            scope.set("kwargs", Value::dict(kwargs));
        } else if let Some((name, _)) = named.first() {
            return type_error(format!("macro '{shown}' takes no keyword argument '{name}'"));
        }
        if body.uses_varargs {
            scope.set("varargs", Value::tuple(rest));
        } else if !rest.is_empty() {
            return type_error(format!("macro '{shown}' takes not more than {} argument(s)", names.len()));
        }
        let without_default = names.len() - body.parameters.defaults.len();
        for (at, (name, value)) in names.iter().zip(given).enumerate() {
            let value = match value {
                Some(value) => value,
                None => match at.checked_sub(without_default) {
                    Some(at) => self.eval(&body.parameters.defaults[at], &scope)?,
                    None => Value::undefined(format!("parameter '{name}' was not provided")),
                },
            };
            scope.set(name, value);
        }
        let mut text = String::new();
        self.nodes(&body.body, &scope, &mut text)?;
        Ok(text.into())
    }

    /// Renders a block.
    pub(super) fn block(&mut self, name: &str, around: &Rc<Scope>) -> Result<String> {
        let Some(body) = self.parsed.blocks.get(name).cloned() else {
            return Err(Error::other(format!("there is no block '{name}'")));
        };
        let scope = Scope::within(around);
        self.deeper(|run| {
            let mut text = String::new();
            run.nodes(&body, &scope, &mut text)?;
            Ok(text)
        })
    }
}
