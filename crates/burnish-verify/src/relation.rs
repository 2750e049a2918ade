//! Equations, inequalities and memberships, and how they are compared with values and sets.

use std::borrow::Cow;

use num_rational::BigRational;

use crate::equal::{same, same_number};
use crate::normal::normal;
use crate::syntax::{End, Expr, Relation, Value};
use crate::work::{Stop, Work};

/// Both answers in the form in which they are compared: `x \in S` is S; an equation compared with a value is its last
/// side; an inequality compared with a set is the set of its solutions.
pub(crate) fn aligned<'a>(gold: &'a Value, answer: &'a Value) -> (Cow<'a, Value>, Cow<'a, Value>) {
    let (gold, answer) = (without_member(gold), without_member(answer));
    let (is_gold_chain, is_answer_chain) = (is_equation(gold), is_equation(answer));
    let align = |value: &'a Value, other: &Value, unwrap: bool| -> Cow<'a, Value> {
        if unwrap && let Some(side) = last_side(value) {
            return Cow::Borrowed(side);
        }
        if !has_relation(other)
            && let Some(set) = solutions(value)
        {
            return Cow::Owned(set);
        }
        Cow::Borrowed(value)
    };
    // The answer may say `x = 5` where the reference says 5. The reverse holds only if the reference names a value
    // (`x = 5`), not if it is an equation to be stated (`2x + y = 1`).
    let unwrap_gold = is_gold_chain && !has_relation(answer) && is_assignment(gold);
    let unwrap_answer = is_answer_chain && !has_relation(gold);
    (align(gold, answer, unwrap_gold), align(answer, gold, unwrap_answer))
}

fn without_member(value: &Value) -> &Value {
    match value {
        Value::Member(inner) => inner,
        other => other,
    }
}

fn is_equation(value: &Value) -> bool {
    matches!(value, Value::Chain(_, relations) if Value::is_equation(relations))
}

fn has_relation(value: &Value) -> bool {
    match value {
        Value::Chain(..) => true,
        Value::List(items) => items.iter().any(has_relation),
        _ => false,
    }
}

/// `x = ...` or `f(x) = ...`.
fn is_assignment(value: &Value) -> bool {
    matches!(value, Value::Chain(sides, _) if sides.first().is_some_and(is_name))
}

/// A variable, `f(x)`, or words.
pub(crate) fn is_name(value: &Value) -> bool {
    let is_symbol = |expr: &Expr| matches!(expr, Expr::Symbol(_) | Expr::Constant(_));
    match value {
        Value::Quantity { expr: Expr::Product(factors), .. } => {
            factors.len() == 2 && factors.iter().all(is_symbol)
        }
        Value::Quantity { expr, .. } => is_symbol(expr),
        Value::Text(_) => true,
        _ => false,
    }
}

/// The value that an equation gives: its last side, or the side before the first `\approx`, unless that is only a name.
fn last_side(value: &Value) -> Option<&Value> {
    let Value::Chain(sides, relations) = value else { return None };
    let exact = relations.iter().position(|relation| *relation == Relation::Approx);
    match exact {
        Some(index) if !is_name(&sides[index]) => sides.get(index),
        _ => sides.last(),
    }
}

/// Whether two chains say the same.
pub(crate) fn same_chain(
    (gold, signs): (&[Value], &[Relation]),
    (answer, others): (&[Value], &[Relation]),
    work: &mut Work,
) -> bool {
    let is_plain = Value::is_equation(signs) && Value::is_equation(others);
    let names = (gold.first().filter(|v| is_name(v)), answer.first().filter(|v| is_name(v)));
    if is_plain && let (Some(left), Some(right)) = names {
        return left == right
            && matches!((gold.last(), answer.last()), (Some(a), Some(b)) if same(a, b, work));
    }
    if signs == others && gold.len() == answer.len() && gold.iter().zip(answer).all(|(a, b)| same(a, b, work))
    {
        return true;
    }
    if let ([left, right], [sign], [other_left, other_right], [other]) = (gold, signs, answer, others) {
        let turned = turn(*other);
        let sides = [left, right, other_left, other_right].map(|side| match side {
            Value::Quantity { expr, .. } => Some(expr),
            _ => None,
        });
        if let [Some(a), Some(b), Some(c), Some(d)] = sides {
            return (sign == other && proportional((a, b), (c, d), *sign, work))
                || (*sign == turned && proportional((a, b), (d, c), *sign, work));
        }
        return false;
    }
    // 1 < x < 2 turned round.
    let turned: Vec<Relation> = others.iter().rev().map(|sign| turn(*sign)).collect();
    signs == turned
        && gold.len() == answer.len()
        && gold.iter().zip(answer.iter().rev()).all(|(a, b)| same(a, b, work))
}

fn turn(relation: Relation) -> Relation {
    match relation {
        Relation::Less => Relation::Greater,
        Relation::LessEqual => Relation::GreaterEqual,
        Relation::Greater => Relation::Less,
        Relation::GreaterEqual => Relation::LessEqual,
        same => same,
    }
}

/// Whether `a - b` is a constant times `c - d`: any but zero for an equation, positive for an inequality.
fn proportional((a, b): (&Expr, &Expr), (c, d): (&Expr, &Expr), relation: Relation, work: &mut Work) -> bool {
    let minus =
        |left: &Expr, right: &Expr| Expr::Sum(vec![left.clone(), Expr::Negative(Box::new(right.clone()))]);
    let (first, second) = (minus(a, b), minus(c, d));
    let Ok(Some(factor)) = ratio(&first, &second, work) else { return same_number(&first, &second, work) };
    let is_allowed = match relation {
        Relation::Equal | Relation::Approx | Relation::NotEqual => {
            factor != BigRational::from_integer(0.into())
        }
        _ => crate::equal::sign(&factor) > 0,
    };
    let scaled = Expr::Product(vec![Expr::Number { value: factor, decimals: None }, second]);
    is_allowed && same_number(&first, &scaled, work)
}

/// The quotient of the leading coefficients.
fn ratio(first: &Expr, second: &Expr, work: &mut Work) -> Result<Option<BigRational>, Stop> {
    let (first, second) = (normal(first, work)?, normal(second, work)?);
    let lead = |poly: &crate::poly::Poly| poly.0.iter().next_back().map(|(_, value)| value.clone());
    Ok(match (lead(&first.top), lead(&second.top)) {
        (Some(a), Some(b)) => Some(a / b),
        _ => None,
    })
}

/// The solutions of `a < x \le b`, `x > a`, or several of them joined by "or", as a set.
fn solutions(value: &Value) -> Option<Value> {
    if let Value::List(items) = value {
        return Some(Value::Union(items.iter().map(solutions).collect::<Option<Vec<Value>>>()?));
    }
    let Value::Chain(sides, relations) = value else { return None };
    let turned: Vec<Relation> = relations.iter().map(|relation| turn(*relation)).collect();
    let reversed: Vec<Value> = sides.iter().rev().cloned().collect();
    let reversed_signs: Vec<Relation> = turned.iter().rev().copied().collect();
    ascending(sides, relations).or_else(|| ascending(&reversed, &reversed_signs))
}

fn ascending(sides: &[Value], relations: &[Relation]) -> Option<Value> {
    let closed = |relation: &Relation| match relation {
        Relation::Less => Some(false),
        Relation::LessEqual => Some(true),
        _ => None,
    };
    let expr = |value: &Value| match value {
        Value::Quantity { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let infinite = |expr| End { at: expr, is_closed: false };
    let (low, high) = match (sides, relations) {
        ([a, x, b], [first, second]) if is_name(x) => (
            End { at: expr(a)?, is_closed: closed(first)? },
            End { at: expr(b)?, is_closed: closed(second)? },
        ),
        ([x, b], [sign]) if is_name(x) => (
            infinite(Expr::Negative(Box::new(Expr::Infinity))),
            End { at: expr(b)?, is_closed: closed(sign)? },
        ),
        ([a, x], [sign]) if is_name(x) => {
            (End { at: expr(a)?, is_closed: closed(sign)? }, infinite(Expr::Infinity))
        }
        _ => return None,
    };
    if low.is_closed || high.is_closed {
        return Some(Value::Interval(low, high));
    }
    // The open interval looks like a pair.
    Some(Value::Tuple(vec![Value::bare(low.at), Value::bare(high.at)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::read;

    #[test]
    fn inequalities_are_sets_of_numbers() {
        for (inequality, set) in [
            (r"1 < x \le 2", "(1,2]"),
            (r"2 \ge x > 1", "(1,2]"),
            ("x < 3", r"(-\infty,3)"),
            (r"3 \le x", r"[3,\infty)"),
            (r"x<2 \text{ or } x>3", r"(-\infty,2)\cup(3,\infty)"),
        ] {
            let (Some(inequality), Some(set)) = (read(inequality, true), read(set, true)) else {
                panic!("{set}")
            };
            assert_eq!(solutions(&inequality), Some(set));
        }
        for other in ["x = 3", "1 < 2", "x + 1 < 3", r"1 < x > 2", r"x \ne 3"] {
            assert_eq!(read(other, true).as_ref().and_then(solutions), None, "{other}");
        }
    }

    #[test]
    fn an_equation_says_its_last_exact_side() {
        let side = |text| read(text, true).as_ref().and_then(last_side).cloned();
        for (text, expected) in [
            ("x = 2+3 = 5", "5"),
            (r"A = 10\pi \approx 31.4", r"10\pi"),
            (r"x \approx 3.1", "3.1"),
            ("f(x) = 2x", "2x"),
        ] {
            assert_eq!(side(text), read(expected, true), "{text}");
        }
    }
}
