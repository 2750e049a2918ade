//! Python's `sorted`: stable, using only `<`.

use crate::error::Result;
use crate::ops;
use crate::value::Value;

/// The items in the order of their keys.
///
/// # Errors
/// If two keys can't be compared.
pub(crate) fn by_key<T: Clone>(
    items: Vec<T>,
    key: impl Fn(&T) -> Result<Value>,
    is_reversed: bool,
) -> Result<Vec<T>> {
    let mut keyed: Vec<(Value, T)> =
        items.into_iter().map(|item| Ok((key(&item)?, item))).collect::<Result<_>>()?;
    if is_reversed {
        keyed.reverse();
    }
    let mut sorted = merged(keyed, &|left, right| ops::less(&left.0, &right.0))?;
    if is_reversed {
        sorted.reverse();
    }
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

/// A merge sort that assumes nothing about the order: NaNs have none.
pub(crate) fn merged<T: Clone>(mut items: Vec<T>, less: &dyn Fn(&T, &T) -> Result<bool>) -> Result<Vec<T>> {
    if items.len() < 2 {
        return Ok(items);
    }
    let right = merged(items.split_off(items.len() / 2), less)?;
    let left = merged(items, less)?;
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        out.extend(if less(second, first)? { right.next() } else { left.next() });
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}
