//! Values that are drawn: inputs, and what is put in the place of right ones.

use burnish_core::rng::Stream;

use super::families::Draw;
use super::mini::Value;

/// A whole number of the range, both ends included.
pub(super) fn between(stream: &mut Stream, [least, most]: [i64; 2]) -> i64 {
    let width = u64::try_from(most - least + 1).unwrap_or(1);
    least + i64::try_from(stream.below(width)).unwrap_or(0)
}

fn letter(stream: &mut Stream, letters: u64) -> char {
    u8::try_from(stream.below(letters.min(26))).map_or('a', |at| char::from(b'a' + at))
}

pub(super) fn drawn(draw: Draw, stream: &mut Stream) -> Value {
    match draw {
        Draw::Int(range) => Value::Int(between(stream, range)),
        Draw::Ints { len, items } => {
            let length = between(stream, len);
            Value::List((0..length).map(|_| Value::Int(between(stream, items))).collect())
        }
        Draw::Word { len, letters } => {
            let length = between(stream, len);
            Value::Text((0..length).map(|_| letter(stream, letters)).collect())
        }
    }
}

/// A value that is probably not allowed where this one is.
pub(super) fn spoilt(value: &Value, stream: &mut Stream) -> Value {
    match (value, stream.below(5)) {
        (Value::List(items), 0 | 1) if !items.is_empty() => {
            let mut items = items.clone();
            let at = stream.index(items.len());
            items[at] = [Value::None, Value::Text("b".into()), Value::Int(41)][stream.index(3)].clone();
            Value::List(items)
        }
        (Value::List(items), 2) => {
            let mut longer = items.clone();
            while longer.len() < 16 {
                longer.push(Value::Int(between(stream, [0, 9])));
            }
            Value::List(longer)
        }
        (Value::Text(text), 0 | 1) => {
            let mark = ["A", "?", " ", "7"][stream.index(4)];
            Value::Text(format!("{text}{mark}"))
        }
        (Value::Text(text), 2) => Value::Text(format!("{text}abcabcabc")),
        (Value::Int(number), 0 | 1) => Value::Int(-1 - number.abs()),
        (Value::Int(number), 2) => Value::Int(number + 100_000),
        _ => any(stream),
    }
}

/// A right output with one small change.
pub(super) fn changed(value: &Value, stream: &mut Stream) -> Value {
    let by = if stream.below(2) == 0 { 1 } else { -1 };
    match value {
        Value::Int(number) => Value::Int(number.saturating_add(by)),
        Value::List(items) => {
            let mut items = items.clone();
            let at = stream.index(items.len());
            match (stream.below(4), items.get(at).cloned()) {
                (0, Some(_)) => drop(items.remove(at)),
                (1, Some(item)) => items.insert(at, item),
                (2, Some(_)) => items.reverse(),
                (_, Some(Value::Int(number))) => items[at] = Value::Int(number.saturating_add(by)),
                _ => items.push(Value::Int(0)),
            }
            Value::List(items)
        }
        Value::Text(text) => {
            let mut letters: Vec<char> = text.chars().collect();
            let at = stream.index(letters.len());
            match (stream.below(3), letters.len()) {
                (0, 1..) => drop(letters.remove(at)),
                (1, 1..) => letters[at] = letter(stream, 26),
                _ => letters.push(letter(stream, 26)),
            }
            Value::Text(letters.into_iter().collect())
        }
        Value::Bool(holds) => Value::Bool(!holds),
        Value::None => Value::Int(0),
    }
}

/// A random value of the same type.
pub(super) fn alike(value: &Value, stream: &mut Stream) -> Value {
    match value {
        Value::Int(_) | Value::Bool(_) => Value::Int(between(stream, [-20, 99])),
        Value::Text(_) => drawn(Draw::Word { len: [0, 9], letters: 26 }, stream),
        Value::List(_) => drawn(Draw::Ints { len: [0, 9], items: [-20, 40] }, stream),
        Value::None => any(stream),
    }
}

/// A random value of any type.
pub(super) fn any(stream: &mut Stream) -> Value {
    match stream.below(4) {
        0 => Value::None,
        1 => Value::Int(between(stream, [-99, 99])),
        2 => drawn(Draw::Word { len: [1, 6], letters: 26 }, stream),
        _ => drawn(Draw::Ints { len: [0, 5], items: [-20, 40] }, stream),
    }
}
