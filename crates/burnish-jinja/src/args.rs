//! The arguments of a call.

use crate::error::{Result, type_error};
use crate::value::Value;

/// The values of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(crate) args: Vec<Value>,
    pub(crate) named: Vec<(String, Value)>,
}

impl Call {
    pub(crate) fn of(args: Vec<Value>) -> Self {
        Call { args, named: Vec::new() }
    }

    /// The values of the parameters `names`, given by position or by name; the first `required` must be present.
    pub(crate) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
        required: usize,
    ) -> Result<[Option<Value>; N]> {
        if self.args.len() > N {
            return type_error(format!(
                "{function}() takes at most {N} arguments ({} given)",
                self.args.len()
            ));
        }
        let mut bound = [const { None }; N];
        for (place, value) in bound.iter_mut().zip(self.args) {
            *place = Some(value);
        }
        for (name, value) in self.named {
            let Some(at) = names.iter().position(|known| *known == name) else {
                return type_error(format!("{function}() got an unexpected keyword argument '{name}'"));
            };
            if bound[at].replace(value).is_some() {
                return type_error(format!("{function}() got multiple values for argument '{name}'"));
            }
        }
        match bound.iter().take(required).position(Option::is_none) {
            Some(at) => type_error(format!("{function}() is missing its argument '{}'", names[at])),
            None => Ok(bound),
        }
    }

    /// At least `least` and at most `N` values, none of them by name.
    pub(crate) fn positional<const N: usize>(
        self,
        function: &str,
        least: usize,
    ) -> Result<[Option<Value>; N]> {
        if !self.named.is_empty() {
            return type_error(format!("{function}() takes no keyword arguments"));
        }
        if self.args.len() < least || self.args.len() > N {
            return type_error(format!(
                "{function}() takes {least} to {N} arguments ({} given)",
                self.args.len()
            ));
        }
        let mut bound = [const { None }; N];
        for (place, value) in bound.iter_mut().zip(self.args) {
            *place = Some(value);
        }
        Ok(bound)
    }
}

/// A text argument.
pub(crate) fn text<'a>(value: &'a Option<Value>, function: &str) -> Result<&'a str> {
    match value.as_ref().and_then(Value::as_str) {
        Some(text) => Ok(text),
        None => {
            let found = value.as_ref().map_or("nothing", Value::type_name);
            type_error(format!("{function}() argument must be str, not {found}"))
        }
    }
}

/// A whole number, or `default` if it is absent.
pub(crate) fn whole(value: &Option<Value>, default: i64) -> Result<i64> {
    match value {
        None => Ok(default),
        Some(value) => match value.as_place() {
            Some(number) => Ok(number),
            None => type_error(format!("'{}' object cannot be interpreted as an integer", value.type_name())),
        },
    }
}

/// A whole number or `None`.
pub(crate) fn optional_whole(value: &Option<Value>) -> Result<Option<i64>> {
    match value {
        None | Some(Value::None) => Ok(None),
        value => whole(value, 0).map(Some),
    }
}

pub(crate) fn is_true(value: &Option<Value>) -> bool {
    value.as_ref().is_some_and(Value::is_true)
}
