//! Python's operators.

mod arithmetic;

use std::cmp::Ordering;

pub(crate) use arithmetic::{Number, int_to_f64};
use arithmetic::{arithmetic, compare_numbers};

use crate::ast::{Binary, Comparison};
use crate::error::{Error, Result, type_error, value_error};
use crate::html;
use crate::value::{Other, Value, View};
use crate::{printf, text};

/// Most bytes or bits that a template may create at once: anything longer is a mistake, or an attempt to exhaust
/// memory.
pub(crate) const MAX_SIZE: usize = 1 << 26;

fn undefined(value: &Value) -> Result<()> {
    match value {
        Value::Undefined(problem) => Err(Error::other(&**problem)),
        _ => Ok(()),
    }
}

pub(crate) fn binary(op: Binary, left: &Value, right: &Value) -> Result<Value> {
    // A text on the left formats any value on the right.
    if op == Binary::Mod
        && let Some(format) = left.as_str()
    {
        let is_markup = matches!(left, Value::Markup(_));
        let text = printf::format(format, right, is_markup)?;
        return Ok(if is_markup { Value::Markup(text.into()) } else { text.into() });
    }
    undefined(left)?;
    undefined(right)?;
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        let fast = match op {
            Binary::Add => left.checked_add(*right),
            Binary::Sub => left.checked_sub(*right),
            Binary::Mul => left.checked_mul(*right),
            _ => None,
        };
        if let Some(value) = fast {
            return Ok(Value::Int(value));
        }
    }
    if let (Some(left), Some(right)) = (Number::of(left), Number::of(right)) {
        return arithmetic(op, left, right);
    }
    match op {
        Binary::Add => add(left, right),
        Binary::Mul => match (left.as_place(), right.as_place()) {
            (_, Some(times)) => repeat(left, times),
            (Some(times), _) => repeat(right, times),
            _ => unsupported(op, left, right),
        },
        _ => unsupported(op, left, right),
    }
}

fn unsupported<T>(op: Binary, left: &Value, right: &Value) -> Result<T> {
    let sign = match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::FloorDiv => "//",
        Binary::Mod => "%",
        Binary::Pow => "** or pow()",
    };
    type_error(format!(
        "unsupported operand type(s) for {sign}: '{}' and '{}'",
        left.type_name(),
        right.type_name()
    ))
}

fn add(left: &Value, right: &Value) -> Result<Value> {
    let is_markup = |value: &Value| matches!(value, Value::Markup(_));
    match (left.as_str(), right.as_str()) {
        (Some(_), Some(_)) if is_markup(left) || is_markup(right) => {
            Ok(Value::Markup((html::escaped(left)? + &html::escaped(right)?).into()))
        }
        (Some(left), Some(right)) if left.len() + right.len() > MAX_SIZE => {
            Err(Error::other(format!("a value of more than {MAX_SIZE} bytes")))
        }
        (Some(left), Some(right)) => Ok(format!("{left}{right}").into()),
        (Some(_), None) => {
            type_error(format!("can only concatenate str (not \"{}\") to str", right.type_name()))
        }
        _ => match (left, right, left.as_tuple(), right.as_tuple()) {
            (Value::List(left), Value::List(right), ..) => {
                Ok(Value::list(left.iter().chain(right.iter()).cloned().collect()))
            }
            (.., Some(left), Some(right)) => {
                Ok(Value::tuple(left.iter().chain(right.iter()).cloned().collect()))
            }
            _ => unsupported(Binary::Add, left, right),
        },
    }
}

fn repeat(value: &Value, times: i64) -> Result<Value> {
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    let check = |length: usize| match length.checked_mul(times) {
        Some(size) if size <= MAX_SIZE => Ok(()),
        _ => Err(Error::other(format!("a value of more than {MAX_SIZE} bytes"))),
    };
    let repeated = |items: &[Value]| -> Result<Vec<Value>> {
        check(items.len() * 16)?;
        Ok(std::iter::repeat_n(items, times).flatten().cloned().collect())
    };
    match value {
        Value::Str(text) => check(text.len()).map(|()| text.repeat(times).into()),
        Value::Markup(text) => check(text.len()).map(|()| Value::Markup(text.repeat(times).into())),
        Value::List(items) => repeated(items).map(Value::list),
        _ => match value.as_tuple() {
            Some(items) => repeated(items).map(Value::tuple),
            None => unsupported(Binary::Mul, value, &Value::Int(0)),
        },
    }
}

pub(crate) fn negative(value: &Value) -> Result<Value> {
    undefined(value)?;
    match Number::of(value) {
        Some(Number::Int(value)) => Ok(Value::big(-value)),
        Some(Number::Float(value)) => Ok(Value::Float(-value)),
        None => type_error(format!("bad operand type for unary -: '{}'", value.type_name())),
    }
}

pub(crate) fn positive(value: &Value) -> Result<Value> {
    undefined(value)?;
    match Number::of(value) {
        Some(Number::Int(value)) => Ok(Value::big(value)),
        Some(Number::Float(value)) => Ok(Value::Float(value)),
        None => type_error(format!("bad operand type for unary +: '{}'", value.type_name())),
    }
}

/// `left == right`.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return left == right;
    }
    if let (Some(left), Some(right)) = (Number::of(left), Number::of(right)) {
        return compare_numbers(&left, &right) == Some(Ordering::Equal);
    }
    let all = |left: &[Value], right: &[Value]| {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
    };
    if let (Some(left), Some(right)) = (left.as_tuple(), right.as_tuple()) {
        return all(left, right);
    }
    match (left, right) {
        (Value::None, Value::None) | (Value::Undefined(_), Value::Undefined(_)) => true,
        (Value::List(left), Value::List(right)) => all(left, right),
        (Value::Dict(left), Value::Dict(right)) => {
            left.len() == right.len()
                && left
                    .entries()
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Other(left), Value::Other(right)) => equal_others(left, right),
        _ => false,
    }
}

/// Equal or identical: this is how containers compare their items.
fn same(left: &Value, right: &Value) -> bool {
    equal(left, right)
}

fn equal_others(left: &Other, right: &Other) -> bool {
    use std::rc::Rc;
    match (left, right) {
        (Other::Range(left), Other::Range(right)) => {
            let (count, other) = (left.len(), right.len());
            count == other
                && (count == 0 || left.start == right.start && (count == 1 || left.step == right.step))
        }
        (Other::View(View::Values, _), _) | (_, Other::View(View::Values, _)) => false,
        (Other::View(kind, left), Other::View(other, right)) if kind == other => match kind {
            View::Keys => {
                left.len() == right.len() && left.entries().iter().all(|(key, _)| right.get(key).is_some())
            }
            _ => equal(&Value::Dict(left.clone()), &Value::Dict(right.clone())),
        },
        (Other::Iter(left), Other::Iter(right)) => Rc::ptr_eq(left, right),
        (Other::Namespace(left), Other::Namespace(right)) => Rc::ptr_eq(left, right),
        (Other::Macro(left), Other::Macro(right)) => Rc::ptr_eq(left, right),
        (Other::Loop(left), Other::Loop(right)) => Rc::ptr_eq(left, right),
        (Other::Cycler(left), Other::Cycler(right)) => Rc::ptr_eq(left, right),
        (Other::Joiner(left), Other::Joiner(right)) => Rc::ptr_eq(left, right),
        (Other::Global(left), Other::Global(right)) => left == right,
        (Other::Method(of, left), Other::Method(other, right)) => left == right && equal(of, other),
        _ => false,
    }
}

/// `left < right` and the like; `accept` says which orderings hold, `sign` is for the error.
pub(crate) fn ordered(left: &Value, right: &Value, sign: &str, accept: fn(Ordering) -> bool) -> Result<bool> {
    undefined(left)?;
    undefined(right)?;
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return Ok(accept(left.cmp(right)));
    }
    if let (Some(left), Some(right)) = (Number::of(left), Number::of(right)) {
        return Ok(compare_numbers(&left, &right).is_some_and(accept));
    }
    let lists = match (left, right) {
        (Value::List(left), Value::List(right)) => Some((left, right)),
        _ => left.as_tuple().zip(right.as_tuple()),
    };
    if let Some((left, right)) = lists {
        return match left.iter().zip(right.iter()).find(|(left, right)| !same(left, right)) {
            Some((left, right)) => ordered(left, right, sign, accept),
            None => Ok(accept(left.len().cmp(&right.len()))),
        };
    }
    type_error(format!(
        "'{sign}' not supported between instances of '{}' and '{}'",
        left.type_name(),
        right.type_name()
    ))
}

pub(crate) fn less(left: &Value, right: &Value) -> Result<bool> {
    ordered(left, right, "<", Ordering::is_lt)
}

pub(crate) fn compare(op: Comparison, left: &Value, right: &Value) -> Result<bool> {
    match op {
        Comparison::Eq => Ok(equal(left, right)),
        Comparison::Ne => Ok(!equal(left, right)),
        Comparison::Lt => less(left, right),
        Comparison::Le => ordered(left, right, "<=", Ordering::is_le),
        Comparison::Gt => ordered(left, right, ">", Ordering::is_gt),
        Comparison::Ge => ordered(left, right, ">=", Ordering::is_ge),
        Comparison::In => contains(right, left),
        Comparison::NotIn => contains(right, left).map(|is_in| !is_in),
    }
}

/// `item in container`.
pub(crate) fn contains(container: &Value, item: &Value) -> Result<bool> {
    if let Some(whole) = container.as_str() {
        return match item.as_str() {
            Some(part) => Ok(whole.contains(part)),
            None => {
                type_error(format!("'in <string>' requires string as left operand, not {}", item.type_name()))
            }
        };
    }
    match container {
        Value::Dict(dict) | Value::Other(Other::View(View::Keys, dict)) => {
            item.check_hashable()?;
            Ok(dict.get(item).is_some())
        }
        Value::Other(Other::Iter(items)) => loop {
            let next = items.borrow_mut().left.pop_front();
            match next {
                Some(found) if equal(&found, item) => return Ok(true),
                Some(_) => {}
                None => return items.borrow_mut().error.take().map_or(Ok(false), Err),
            }
        },
        Value::Undefined(_) => Ok(false),
        container if container.is_iterable() => Ok(container.items()?.iter().any(|found| equal(found, item))),
        _ => type_error(format!("argument of type '{}' is not iterable", container.type_name())),
    }
}

/// The position that an index means in a sequence of this `length`.
pub(crate) fn place(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// `value[start:stop:step]`.
pub(crate) fn slice(value: &Value, bounds: [Value; 3]) -> Result<Value> {
    undefined(value)?;
    let bound = |bound: &Value| match bound {
        Value::None => Ok(None),
        bound => match bound.as_place() {
            Some(place) => Ok(Some(place)),
            None => type_error("slice indices must be integers or None or have an __index__ method"),
        },
    };
    if !matches!(value, Value::Str(_) | Value::Markup(_) | Value::List(_) | Value::Other(Other::Range(_)))
        && value.as_tuple().is_none()
    {
        return match value {
            Value::Dict(_) => type_error("unhashable type: 'slice'"),
            _ => type_error(format!("'{}' object is not subscriptable", value.type_name())),
        };
    }
    let step = bound(&bounds[2])?.unwrap_or(1);
    if step == 0 {
        return value_error("slice step cannot be zero");
    }
    let length = value.len()? as i64;
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |place: i64| {
        let place = if place < 0 { place.saturating_add(length) } else { place };
        place.clamp(low, high)
    };
    let begin = bound(&bounds[0])?.map_or(if step > 0 { low } else { high }, clamp);
    let end = bound(&bounds[1])?.map_or(if step > 0 { high } else { low }, clamp);
    let places = crate::value::Range { start: begin, stop: end, step };
    let at = |index: usize| places.get(index) as usize;
    let count = places.len();
    let pick = |items: &[Value]| (0..count).map(|index| items[at(index)].clone()).collect::<Vec<_>>();
    let text = |text: &str| -> String {
        if step == 1 {
            return text.chars().skip(begin.max(0) as usize).take(count).collect();
        }
        let chars: Vec<char> = text.chars().collect();
        (0..count).map(|index| chars[at(index)]).collect()
    };
    Ok(match value {
        Value::Str(whole) => text(whole).into(),
        Value::Markup(whole) => Value::Markup(text(whole).into()),
        Value::List(items) => Value::list(pick(items)),
        Value::Other(Other::Range(range)) => {
            let moved = |place: i64| range.start.saturating_add(range.step.saturating_mul(place));
            Value::Other(Other::Range(crate::value::Range {
                start: moved(begin),
                stop: moved(end),
                step: range.step.saturating_mul(step),
            }))
        }
        value => Value::tuple(value.as_tuple().map(|items| pick(items)).unwrap_or_default()),
    })
}

/// The texts of all parts, joined: `a ~ b`.
pub(crate) fn concat(parts: &[Value]) -> Result<Value> {
    parts.iter().map(Value::str).collect::<Result<String>>().map(Value::from)
}

/// How an error message shows a value.
pub(crate) fn shown(value: &Value) -> String {
    value.repr().unwrap_or_else(|_| text::quoted(value.type_name()))
}
