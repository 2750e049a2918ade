//! Filters of sequences.

use std::rc::Rc;

use crate::args::{Call, is_true, whole};
use crate::ast::Binary;
use crate::error::{Error, Result, type_error};
use crate::value::{Other, Value, View};
use crate::{access, checks, ops, sort};

pub(super) fn call(name: &str, value: &Value, call: Call) -> Result<Value> {
    Ok(match name {
        "list" => {
            call.bind::<0>(name, [], 0)?;
            Value::list(value.items()?)
        }
        "first" => {
            call.bind::<0>(name, [], 0)?;
            return first(value);
        }
        "last" => {
            call.bind::<0>(name, [], 0)?;
            let items = reversed(value)?;
            items.into_iter().next().unwrap_or_else(|| Value::undefined("No last item, sequence was empty."))
        }
        "reverse" => {
            call.bind::<0>(name, [], 0)?;
            match value.as_str() {
                Some(text) => text.chars().rev().collect::<String>().into(),
                None => match reversed(value) {
                    Ok(items) => Value::iter_of(items),
                    // Values that can't be read from the end are turned into a list first.
                    Err(_) => {
                        let items = value.items().map_err(|_| Error::other("argument must be iterable"))?;
                        Value::list(items.into_iter().rev().collect())
                    }
                },
            }
        }
        "items" => {
            call.bind::<0>(name, [], 0)?;
            match value {
                Value::Dict(dict) => {
                    Value::iter_of(Value::Other(Other::View(View::Items, dict.clone())).items()?)
                }
                Value::Undefined(_) => Value::iter_of([]),
                _ => Value::lazily([type_error("Can only get item pairs from a mapping.")]),
            }
        }
        "join" => {
            let [delimiter, attribute] = call.bind(name, ["d", "attribute"], 0)?;
            let delimiter = delimiter.map_or_else(|| Ok(String::new()), |d| d.str())?;
            let path = attribute.filter(|attribute| !matches!(attribute, Value::None)).map(|a| path(&a));
            let text = |item: Value| match &path {
                Some(path) => along(&item, path, None)?.str(),
                None => item.str(),
            };
            let texts: Vec<String> = value.items()?.into_iter().map(text).collect::<Result<_>>()?;
            texts.join(&delimiter).into()
        }
        "sort" => {
            let [reverse, sensitive, attribute] =
                call.bind(name, ["reverse", "case_sensitive", "attribute"], 0)?;
            let key = Key::several(attribute, is_true(&sensitive));
            Value::list(sort::by_key(value.items()?, |item| key.of(item), is_true(&reverse))?)
        }
        "dictsort" => {
            let [sensitive, by, reverse] = call.bind(name, ["case_sensitive", "by", "reverse"], 0)?;
            let by_value = match by.as_ref().map(|by| by.as_str()) {
                None | Some(Some("key")) => false,
                Some(Some("value")) => true,
                _ => return Err(Error::other("You can only sort by either \"key\" or \"value\"")),
            };
            let Value::Dict(dict) = value else { return type_error("dictsort: expected a dictionary") };
            let is_sensitive = is_true(&sensitive);
            let key = |(key, value): &(Value, Value)| {
                let key = if by_value { value } else { key };
                Ok(if is_sensitive { key.clone() } else { lowered(key) })
            };
            let sorted = sort::by_key(dict.entries().to_vec(), key, is_true(&reverse))?;
            Value::list(sorted.into_iter().map(|(key, value)| Value::tuple(vec![key, value])).collect())
        }
        "unique" => {
            let [sensitive, attribute] = call.bind(name, ["case_sensitive", "attribute"], 0)?;
            let key = Key::one(attribute, is_true(&sensitive));
            let mut seen: Vec<Value> = Vec::new();
            Value::lazily(value.items()?.into_iter().map(|item| {
                let key = key.of(&item)?;
                key.check_hashable()?;
                let is_new = !seen.iter().any(|other| ops::equal(other, &key));
                seen.push(key);
                Ok(is_new.then_some(item))
            }))
        }
        "min" | "max" => {
            let [sensitive, attribute] = call.bind(name, ["case_sensitive", "attribute"], 0)?;
            let key = Key::one(attribute, is_true(&sensitive));
            let mut items = value.items()?.into_iter();
            let Some(mut best) = items.next() else {
                return Ok(Value::undefined("No aggregated item, sequence was empty."));
            };
            let mut best_key = key.of(&best)?;
            for item in items {
                let item_key = key.of(&item)?;
                let is_better = if name == "min" {
                    ops::less(&item_key, &best_key)?
                } else {
                    ops::ordered(&item_key, &best_key, ">", std::cmp::Ordering::is_gt)?
                };
                if is_better {
                    (best, best_key) = (item, item_key);
                }
            }
            best
        }
        "sum" => {
            let [attribute, start] = call.bind(name, ["attribute", "start"], 0)?;
            let path = attribute.filter(|attribute| !matches!(attribute, Value::None)).map(|a| path(&a));
            let mut sum = start.unwrap_or(Value::Int(0));
            if sum.as_str().is_some() {
                return type_error("sum() can't sum strings [use ''.join(seq) instead]");
            }
            for item in value.items()? {
                let item = match &path {
                    Some(path) => along(&item, path, None)?,
                    None => item,
                };
                sum = ops::binary(Binary::Add, &sum, &item)?;
            }
            sum
        }
        "groupby" => return groupby(value, call),
        "batch" => {
            let [count, fill] = call.bind(name, ["linecount", "fill_with"], 1)?;
            return batch(value, whole(&count, 0)?, fill);
        }
        "slice" => {
            let [slices, fill] = call.bind(name, ["slices", "fill_with"], 1)?;
            return slice(value, whole(&slices, 1)?, fill);
        }
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => return chosen(name, value, call),
        _ => return Err(Error::other(format!("No filter named '{name}' found."))),
    })
}

/// The first item; an iterator loses only that item.
pub(crate) fn first(value: &Value) -> Result<Value> {
    let none = || Value::undefined("No first item, sequence was empty.");
    if let Value::Other(Other::Iter(items)) = value {
        let mut items = items.borrow_mut();
        return match (items.left.pop_front(), items.error.take()) {
            (Some(item), error) => {
                items.error = error;
                Ok(item)
            }
            (None, Some(error)) => Err(error),
            (None, None) => Ok(none()),
        };
    }
    Ok(value.items()?.into_iter().next().unwrap_or_else(none))
}

/// The items from last to first, for the types that Python's `reversed` accepts.
fn reversed(value: &Value) -> Result<Vec<Value>> {
    if matches!(value, Value::Other(Other::Iter(_) | Other::Loop(_))) {
        return type_error(format!("'{}' object is not reversible", value.type_name()));
    }
    let mut items = value.items()?;
    items.reverse();
    Ok(items)
}

/// A path of attributes: `a.b.0`.
fn path(attribute: &Value) -> Vec<Value> {
    let part = |part: &str| {
        let is_number = !part.is_empty() && part.chars().all(crate::chars::is_digit);
        match part.parse::<i64>() {
            Ok(number) if is_number => Value::Int(number),
            _ => Value::text(part),
        }
    };
    match (attribute, attribute.as_str()) {
        (Value::None, _) => Vec::new(),
        (_, Some(text)) => text.split('.').map(part).collect(),
        (other, None) => vec![other.clone()],
    }
}

fn along(item: &Value, path: &[Value], default: Option<&Value>) -> Result<Value> {
    let mut found = item.clone();
    for part in path {
        found = access::item(&found, part)?;
        if let (true, Some(default)) = (found.is_undefined(), default) {
            found = default.clone();
        }
    }
    Ok(found)
}

fn lowered(value: &Value) -> Value {
    match value.as_str() {
        Some(text) => text.to_lowercase().into(),
        None => value.clone(),
    }
}

/// The key by which items are compared.
struct Key {
    paths: Vec<Vec<Value>>,
    is_sensitive: bool,
    is_list: bool,
}

impl Key {
    fn one(attribute: Option<Value>, is_sensitive: bool) -> Self {
        Key { paths: vec![path(&attribute.unwrap_or(Value::None))], is_sensitive, is_list: false }
    }

    /// Several attributes, separated by commas.
    fn several(attribute: Option<Value>, is_sensitive: bool) -> Self {
        let attribute = attribute.unwrap_or(Value::None);
        let paths = match attribute.as_str() {
            Some(text) => text.split(',').map(|part| path(&Value::text(part))).collect(),
            None => vec![path(&attribute)],
        };
        Key { paths, is_sensitive, is_list: true }
    }

    fn of(&self, item: &Value) -> Result<Value> {
        let mut parts = Vec::new();
        for path in &self.paths {
            let part = along(item, path, None)?;
            parts.push(if self.is_sensitive { part } else { lowered(&part) });
        }
        Ok(match parts.pop() {
            Some(part) if !self.is_list => part,
            part => {
                parts.extend(part);
                Value::list(parts)
            }
        })
    }
}

fn groupby(value: &Value, call: Call) -> Result<Value> {
    let [attribute, default, sensitive] =
        call.bind("groupby", ["attribute", "default", "case_sensitive"], 1)?;
    let path = path(&attribute.unwrap_or(Value::None));
    let default = default.filter(|default| !matches!(default, Value::None));
    let is_sensitive = is_true(&sensitive);
    let own = |item: &Value| along(item, &path, default.as_ref());
    let key = |item: &Value| own(item).map(|key| if is_sensitive { key } else { lowered(&key) });
    let sorted = sort::by_key(value.items()?, key, false)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for item in sorted {
        let of = key(&item)?;
        match groups.last_mut() {
            Some((last, items)) if ops::equal(last, &of) => items.push(item),
            _ => groups.push((of, vec![item])),
        }
    }
    let mut out = Vec::new();
    for (key, items) in groups {
        let key = if is_sensitive { key } else { own(&items[0])? };
        out.push(Value::Other(Other::Group(Rc::new(vec![key, Value::list(items)]))));
    }
    Ok(Value::list(out))
}

fn batch(value: &Value, count: i64, fill: Option<Value>) -> Result<Value> {
    let items = value.items()?;
    // Without a positive count no group is ever full.
    let count = if count > 0 { count as usize } else { usize::MAX };
    let mut out: Vec<Vec<Value>> =
        items.chunks(count.min(items.len().max(1))).map(<[Value]>::to_vec).collect();
    if let (Some(last), Some(fill)) = (out.last_mut(), fill.filter(|fill| !matches!(fill, Value::None)))
        && last.len() < count
        && count < ops::MAX_SIZE / 16
    {
        last.resize(count, fill);
    }
    Ok(Value::iter_of(out.into_iter().map(Value::list)))
}

fn slice(value: &Value, slices: i64, fill: Option<Value>) -> Result<Value> {
    let items = match value.items() {
        Ok(items) => items,
        Err(error) => return Ok(Value::lazily([Err(error)])),
    };
    if slices == 0 {
        return Ok(Value::lazily([Err(Error::other("integer division or modulo by zero"))]));
    }
    let fill = fill.filter(|fill| !matches!(fill, Value::None));
    let slices = usize::try_from(slices).unwrap_or(0).min(ops::MAX_SIZE / 64);
    let (each, more) = (items.len() / slices.max(1), items.len() % slices.max(1));
    let mut begin = 0;
    let mut out = Vec::new();
    for at in 0..slices {
        let end = begin + each + usize::from(at < more);
        let mut part = items[begin..end].to_vec();
        if at >= more {
            part.extend(fill.clone());
        }
        out.push(Value::list(part));
        begin = end;
    }
    Ok(Value::iter_of(out))
}

/// `map`, and the four filters that select by a test.
fn chosen(name: &str, value: &Value, mut call: Call) -> Result<Value> {
    if !value.is_true() {
        return Ok(Value::iter_of([]));
    }
    let fail = |problem: &str| Ok(Value::lazily([Err(Error::other(problem))]));
    let mut map = None;
    let mut attribute = None;
    if name == "map" && call.args.is_empty() && call.named.iter().any(|(key, _)| key == "attribute") {
        let [attribute, default] = match call.bind("map", ["attribute", "default"], 0) {
            Ok(bound) => bound,
            Err(error) => return Ok(Value::lazily([Err(error)])),
        };
        let default = default.filter(|default| !matches!(default, Value::None));
        map = Some((path(&attribute.unwrap_or(Value::None)), default));
        call = Call::default();
    } else if name == "map" && call.args.is_empty() {
        return fail("map requires a filter argument");
    }
    if name.ends_with("attr") {
        if call.args.is_empty() {
            return fail("Missing parameter for attribute name");
        }
        attribute = Some(path(&call.args.remove(0)));
    }
    let function = if call.args.is_empty() { None } else { Some(call.args.remove(0)) };
    let function = match function {
        None => None,
        Some(function) => match function.as_str() {
            Some(name) => Some(name.to_owned()),
            None => return fail("the name of a filter or a test must be a text"),
        },
    };
    let items = match value.items() {
        Ok(items) => items,
        Err(error) => return Ok(Value::lazily([Err(error)])),
    };
    let wanted = name.starts_with("select");
    Ok(Value::lazily(items.into_iter().map(|item| {
        if let Some((path, default)) = &map {
            return along(&item, path, default.as_ref()).map(Some);
        }
        if name == "map" {
            let function = function.as_deref().unwrap_or_default();
            return if super::is_known(function) {
                super::call(function, &item, call.clone()).map(Some)
            } else {
                Err(Error::other(format!("No filter named '{function}'.")))
            };
        }
        let tested = match &attribute {
            Some(path) => along(&item, path, None)?,
            None => item.clone(),
        };
        let is_so = match &function {
            Some(function) => checks::call(function, &tested, call.clone())?,
            None => tested.is_true(),
        };
        Ok((is_so == wanted).then_some(item))
    })))
}
