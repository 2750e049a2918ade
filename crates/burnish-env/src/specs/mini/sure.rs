//! Whether a text that anybody may have written means here what it means in Python.
//!
//! [`super::parse`] and [`super::eval`] know the part of Python in which families are written. A text that happens to be
//! read as well may still be something else in Python: `012` and a name like `while` are no Python at all, and `len`
//! without a call is a function there. What passes here either has the value that it has in Python, raises where Python
//! does, or ends with [`super::Halt::Unknown`]; a test compares with Python.

use std::collections::BTreeSet;

use super::{Expr, Relation, expression};

/// Python's keywords, which name nothing.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Functions, with the fewest and the most arguments that are known here.
const FUNCTIONS: [(&str, usize, usize); 15] = [
    ("abs", 1, 1),
    ("all", 1, 1),
    ("any", 1, 1),
    ("chr", 1, 1),
    ("int", 1, 1),
    ("isinstance", 2, 2),
    ("len", 1, 1),
    ("list", 1, 1),
    ("max", 1, usize::MAX),
    ("min", 1, usize::MAX),
    ("ord", 1, 1),
    ("range", 1, 3),
    ("sorted", 1, 1),
    ("str", 1, 1),
    ("sum", 1, 1),
];

/// Types that a value can be an instance of.
const TYPES: [&str; 4] = ["bool", "int", "list", "str"];

/// A range is a list here and no list in Python, so it may stand only where that makes no difference.
const TAKES_RANGE: [&str; 8] = ["all", "any", "len", "list", "max", "min", "sorted", "sum"];

/// Longest expression, in bytes, and deepest nesting of brackets: they are read by functions that call themselves.
const LENGTH_MAX: usize = 1_000;
const DEPTH_MAX: usize = 20;

/// Whether Python takes it as a name, and nothing is called so already that the language knows.
pub(in crate::specs) fn is_free_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with("__")
        && !KEYWORDS.contains(&name)
        && !TYPES.contains(&name)
        && FUNCTIONS.iter().all(|(function, ..)| *function != name)
}

/// The expression that a text is in Python, with these names in scope. `None` if that is not known here.
pub(in crate::specs) fn sure_expression(text: &str, names: &BTreeSet<String>) -> Option<Expr> {
    let expr = is_plain(text).then(|| expression(text).ok())??;
    is_sure(&expr, names).then_some(expr)
}

/// Whether tokens are where Python sees them too.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_printable = bytes.iter().all(|byte| (b' '..=b'~').contains(byte) && *byte != b'\\');
    if !is_printable || text.len() > LENGTH_MAX {
        return false;
    }
    let (mut depth, mut before) = (0_usize, b' ');
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            // `1.5`, `1e5`, `0x1`, `1_000`.
            b'.' | b'_' | b'a'..=b'z' | b'A'..=b'Z'
                if before.is_ascii_digit() && starts_number(&bytes[..at]) =>
            {
                return false;
            }
            // `012`.
            b'0'..=b'9' if before == b'0' && starts_number(&bytes[..at]) && is_lone_zero(&bytes[..at]) => {
                return false;
            }
            _ => {}
        }
        if depth > DEPTH_MAX {
            return false;
        }
        before = byte;
    }
    true
}

/// Whether the digits at the end are a number, and not the end of a name.
fn starts_number(bytes: &[u8]) -> bool {
    let word =
        bytes.iter().rposition(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').map_or(0, |at| at + 1);
    bytes.get(word).is_some_and(u8::is_ascii_digit)
}

/// Whether the digits at the end are a single zero.
fn is_lone_zero(bytes: &[u8]) -> bool {
    bytes.len() < 2 || !bytes[bytes.len() - 2].is_ascii_digit()
}

/// Whether an expression that stands where a range may stand is known.
fn is_sure_or_range(expr: &Expr, names: &BTreeSet<String>) -> bool {
    match expr {
        Expr::Call(name, arguments) if name == "range" => {
            (1..=3).contains(&arguments.len()) && arguments.iter().all(|argument| is_sure(argument, names))
        }
        _ => is_sure(expr, names),
    }
}

fn is_sure(expr: &Expr, names: &BTreeSet<String>) -> bool {
    let all = |exprs: &[Expr]| exprs.iter().all(|expr| is_sure(expr, names));
    match expr {
        Expr::Literal(_) => true,
        Expr::Name(name) => names.contains(name),
        Expr::List(items) => all(items),
        Expr::Minus(of) | Expr::Not(of) => is_sure(of, names),
        Expr::Sign(_, sides) | Expr::And(sides) | Expr::Or(sides) | Expr::Index(sides) => all(&sides[..]),
        Expr::If(parts) => all(&parts[..]),
        Expr::Compare(first, others) => {
            // What stands between two relations belongs to both.
            let only_in = |at: usize, relation: Relation| {
                matches!(relation, Relation::In | Relation::NotIn) && at + 1 == others.len()
            };
            is_sure(first, names)
                && others.iter().enumerate().all(|(at, (relation, side))| {
                    if only_in(at, *relation) { is_sure_or_range(side, names) } else { is_sure(side, names) }
                })
        }
        Expr::Slice(of, parts) => {
            is_sure(of, names) && parts.iter().flatten().all(|part| is_sure(part, names))
        }
        Expr::Call(name, arguments) => match &arguments[..] {
            [value, Expr::Name(of)] if name == "isinstance" => {
                is_sure(value, names) && TYPES.contains(&of.as_str())
            }
            [of] if TAKES_RANGE.contains(&name.as_str()) => is_sure_or_range(of, names),
            arguments => {
                let fits = |(known, least, most): &(&str, usize, usize)| {
                    known == name && (*least..=*most).contains(&arguments.len())
                };
                name != "isinstance" && name != "range" && FUNCTIONS.iter().any(fits) && all(arguments)
            }
        },
        Expr::Method(of, name, arguments) => {
            ["count", "join"].contains(&name.as_str())
                && arguments.len() == 1
                && is_sure(of, names)
                && all(arguments)
        }
        Expr::Each(item, fors, condition) => {
            let mut inner = names.clone();
            let are_known = fors.iter().all(|(name, through)| {
                // A name that is there already would be another one in what comes before it.
                is_sure_or_range(through, &inner) && is_free_name(name) && inner.insert(name.clone())
            });
            are_known
                && is_sure(item, &inner)
                && condition.as_deref().is_none_or(|condition| is_sure(condition, &inner))
        }
    }
}
