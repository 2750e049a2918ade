//! Evaluates expressions as Python does.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Expr, Relation, Sign, Value};

/// Names and their values.
pub(in crate::specs) type Scope = BTreeMap<String, Value>;

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::specs) enum Halt {
    /// Python raises.
    Raised,
    /// What Python does is not known here: it takes too many steps, a number becomes too large, or it is a use of a
    /// function or operator that is not in this part of the language.
    Unknown,
}

/// Steps that one expression may take.
const STEPS_MAX: usize = 100_000;

/// The value of an expression.
///
/// # Errors
/// As [`Halt`] says.
pub(in crate::specs) fn eval(expr: &Expr, scope: &Scope) -> Result<Value, Halt> {
    Run { left: Cell::new(STEPS_MAX) }.eval(expr, scope)
}

struct Run {
    left: Cell<usize>,
}

impl Run {
    fn spend(&self, steps: usize) -> Result<(), Halt> {
        let left = self.left.get().checked_sub(steps).ok_or(Halt::Unknown)?;
        self.left.set(left);
        Ok(())
    }

    fn eval(&self, expr: &Expr, scope: &Scope) -> Result<Value, Halt> {
        self.spend(1)?;
        Ok(match expr {
            Expr::Literal(value) => {
                self.spend(size(value))?;
                value.clone()
            }
            Expr::Name(name) => {
                let value = scope.get(name).ok_or(Halt::Raised)?;
                self.spend(size(value))?;
                value.clone()
            }
            Expr::List(items) => Value::List(self.all(items, scope)?),
            Expr::Minus(of) => Value::Int(int(&self.eval(of, scope)?)?.checked_neg().ok_or(Halt::Unknown)?),
            Expr::Not(of) => Value::Bool(!self.eval(of, scope)?.is_true()),
            Expr::Sign(sign, sides) => {
                compute(*sign, self.eval(&sides[0], scope)?, self.eval(&sides[1], scope)?)?
            }
            Expr::Compare(first, others) => {
                let mut left = self.eval(first, scope)?;
                for (relation, right) in others {
                    let right = self.eval(right, scope)?;
                    if !compare(*relation, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Value::Bool(true)
            }
            Expr::And(sides) => {
                let left = self.eval(&sides[0], scope)?;
                if left.is_true() { self.eval(&sides[1], scope)? } else { left }
            }
            Expr::Or(sides) => {
                let left = self.eval(&sides[0], scope)?;
                if left.is_true() { left } else { self.eval(&sides[1], scope)? }
            }
            Expr::If(parts) => {
                let which = if self.eval(&parts[0], scope)?.is_true() { 1 } else { 2 };
                self.eval(&parts[which], scope)?
            }
            Expr::Index(sides) => {
                let of = self.eval(&sides[0], scope)?;
                let at = int(&self.eval(&sides[1], scope)?)?;
                let items = items(&of)?;
                let length = items.len() as i64;
                let at = if at < 0 { at + length } else { at };
                usize::try_from(at).ok().and_then(|at| items.get(at).cloned()).ok_or(Halt::Raised)?
            }
            Expr::Slice(of, parts) => {
                let of = self.eval(of, scope)?;
                let part = |part: &Option<Box<Expr>>| match part.as_ref().map(|part| self.eval(part, scope)) {
                    None | Some(Ok(Value::None)) => Ok(None),
                    Some(value) => int(&value?).map(Some),
                };
                let [from, to, step] = parts;
                slice(&of, part(from)?, part(to)?, part(step)?)?
            }
            // `isinstance` takes the name of a type, which is no value here.
            Expr::Call(name, arguments) if name == "isinstance" => {
                let [value, Expr::Name(of)] = &arguments[..] else { return Err(Halt::Unknown) };
                Value::Bool(is_instance(&self.eval(value, scope)?, of)?)
            }
            Expr::Call(name, arguments) => self.call(name, &self.all(arguments, scope)?)?,
            Expr::Method(of, name, arguments) => {
                let of = self.eval(of, scope)?;
                self.method(&of, name, &self.all(arguments, scope)?)?
            }
            Expr::Each(item, fors, condition) => {
                let mut found = Vec::new();
                self.each(item, fors, condition.as_deref(), scope, &mut found)?;
                Value::List(found)
            }
        })
    }

    fn all(&self, exprs: &[Expr], scope: &Scope) -> Result<Vec<Value>, Halt> {
        exprs.iter().map(|expr| self.eval(expr, scope)).collect()
    }

    fn each(
        &self,
        item: &Expr,
        fors: &[(String, Expr)],
        condition: Option<&Expr>,
        scope: &Scope,
        found: &mut Vec<Value>,
    ) -> Result<(), Halt> {
        let Some(((name, through), inner)) = fors.split_first() else {
            let holds = match condition {
                Some(condition) => self.eval(condition, scope)?.is_true(),
                None => true,
            };
            if holds {
                found.push(self.eval(item, scope)?);
            }
            return Ok(());
        };
        let through = self.eval(through, scope)?;
        self.spend(scope.values().map(size).sum())?;
        let mut scope = scope.clone();
        for value in items(&through)? {
            self.spend(1)?;
            scope.insert(name.clone(), value);
            self.each(item, inner, condition, &scope, found)?;
        }
        Ok(())
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, Halt> {
        Ok(match (name, arguments) {
            ("len", [of]) => Value::Int(items(of)?.len() as i64),
            ("abs", [of]) => Value::Int(int(of)?.checked_abs().ok_or(Halt::Unknown)?),
            ("sum", [of]) => {
                let add = |sum: i64, item: &Value| sum.checked_add(int(item)?).ok_or(Halt::Unknown);
                Value::Int(items(of)?.iter().try_fold(0, add)?)
            }
            ("max" | "min", [of]) => extreme(name, items(of)?)?,
            ("max" | "min", [_, _, ..]) => extreme(name, arguments.to_vec())?,
            ("sorted", [of]) => Value::List(self.sorted(items(of)?)?),
            ("list", [of]) => Value::List(items(of)?),
            ("all", [of]) => Value::Bool(items(of)?.iter().all(Value::is_true)),
            ("any", [of]) => Value::Bool(items(of)?.iter().any(Value::is_true)),
            ("range", [to]) => self.range(0, int(to)?, 1)?,
            ("range", [from, to]) => self.range(int(from)?, int(to)?, 1)?,
            ("range", [from, to, step]) => self.range(int(from)?, int(to)?, int(step)?)?,
            ("str", [Value::Text(text)]) => Value::Text(text.clone()),
            // Python chooses the quotes of a text in a list by what is in it.
            ("str", [Value::List(items)]) if !items.iter().all(|item| item.number().is_some()) => {
                return Err(Halt::Unknown);
            }
            ("str", [of]) => Value::Text(of.to_string()),
            // Python also reads `1_000`, digits of other scripts, and numbers of any length.
            ("int", [Value::Text(text)]) => Value::Int(text.trim().parse().map_err(|_| {
                let is_plain = text.is_ascii() && text.len() < 19 && !text.contains('_');
                if is_plain { Halt::Raised } else { Halt::Unknown }
            })?),
            ("int", [of]) => Value::Int(int(of)?),
            ("ord", [Value::Text(text)]) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(one), None) => Value::Int(i64::from(u32::from(one))),
                    _ => return Err(Halt::Raised),
                }
            }
            ("chr", [of]) => {
                let code = int(of)?;
                let found = u32::try_from(code).ok().and_then(char::from_u32);
                // Half of a pair of UTF-16 is a character of Python.
                let halt = if (0xd800..0xe000).contains(&code) { Halt::Unknown } else { Halt::Raised };
                Value::Text(found.ok_or(halt)?.to_string())
            }
            ("ord", [_]) => return Err(Halt::Raised),
            _ => return Err(Halt::Unknown),
        })
    }

    fn method(&self, of: &Value, name: &str, arguments: &[Value]) -> Result<Value, Halt> {
        match (of, name, arguments) {
            (Value::Text(text), "count", [Value::Text(part)]) => Ok(Value::Int(match part.as_str() {
                "" => text.chars().count() as i64 + 1,
                part => text.matches(part).count() as i64,
            })),
            (Value::List(items), "count", [item]) => {
                Ok(Value::Int(items.iter().filter(|other| *other == item).count() as i64))
            }
            (Value::Text(between), "join", [of]) => {
                let texts: Result<Vec<String>, Halt> = items(of)?
                    .into_iter()
                    .map(|item| match item {
                        Value::Text(text) => Ok(text),
                        _ => Err(Halt::Raised),
                    })
                    .collect();
                let texts = texts?;
                // The only product of two sizes.
                self.spend(texts.len().saturating_mul(between.len()))?;
                Ok(Value::Text(texts.join(between)))
            }
            (_, "count" | "join", [_]) => Err(Halt::Raised),
            _ => Err(Halt::Unknown),
        }
    }

    /// Sorts stably, by insertion, so that items that can't be compared are met as an error.
    fn sorted(&self, items: Vec<Value>) -> Result<Vec<Value>, Halt> {
        let mut sorted: Vec<Value> = Vec::with_capacity(items.len());
        for item in items {
            let mut at = sorted.len();
            while at > 0 && order(&item, &sorted[at - 1])?.is_lt() {
                self.spend(1)?;
                at -= 1;
            }
            self.spend(sorted.len() - at)?;
            sorted.insert(at, item);
        }
        Ok(sorted)
    }

    fn range(&self, from: i64, to: i64, step: i64) -> Result<Value, Halt> {
        let mut numbers = Vec::new();
        let mut at = from;
        while step != 0 && if step > 0 { at < to } else { at > to } {
            self.spend(1)?;
            numbers.push(Value::Int(at));
            at = at.checked_add(step).ok_or(Halt::Unknown)?;
        }
        if step == 0 { Err(Halt::Raised) } else { Ok(Value::List(numbers)) }
    }
}

/// What copying a value costs. Nothing becomes larger than the steps that it took, up to a small factor.
fn size(value: &Value) -> usize {
    match value {
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Text(text) => 1 + text.len(),
        _ => 1,
    }
}

fn int(value: &Value) -> Result<i64, Halt> {
    value.number().ok_or(Halt::Raised)
}

/// What a loop goes through.
fn items(value: &Value) -> Result<Vec<Value>, Halt> {
    match value {
        Value::List(items) => Ok(items.clone()),
        Value::Text(text) => Ok(text.chars().map(|c| Value::Text(c.to_string())).collect()),
        _ => Err(Halt::Raised),
    }
}

fn is_instance(value: &Value, of: &str) -> Result<bool, Halt> {
    Ok(match of {
        "int" => value.number().is_some(),
        "bool" => matches!(value, Value::Bool(_)),
        "str" => matches!(value, Value::Text(_)),
        "list" => matches!(value, Value::List(_)),
        _ => return Err(Halt::Unknown),
    })
}

fn order(one: &Value, two: &Value) -> Result<Ordering, Halt> {
    match (one, two) {
        (Value::Text(one), Value::Text(two)) => Ok(one.cmp(two)),
        (Value::List(one), Value::List(two)) => {
            // As Python does: the first items that are not equal decide.
            match one.iter().zip(two).find(|(one, two)| one != two) {
                Some((one, two)) => order(one, two),
                None => Ok(one.len().cmp(&two.len())),
            }
        }
        _ => Ok(int(one)?.cmp(&int(two)?)),
    }
}

fn extreme(name: &str, items: Vec<Value>) -> Result<Value, Halt> {
    let better = if name == "max" { Ordering::Greater } else { Ordering::Less };
    let mut items = items.into_iter();
    let first = items.next().ok_or(Halt::Raised)?;
    items.try_fold(first, |best, item| Ok(if order(&item, &best)? == better { item } else { best }))
}

fn compare(relation: Relation, left: &Value, right: &Value) -> Result<bool, Halt> {
    let holds_in = || match (left, right) {
        (Value::Text(part), Value::Text(text)) => Ok(text.contains(part.as_str())),
        (item, Value::List(items)) => Ok(items.contains(item)),
        _ => Err(Halt::Raised),
    };
    Ok(match relation {
        Relation::Equal => left == right,
        Relation::Unequal => left != right,
        Relation::Less => order(left, right)?.is_lt(),
        Relation::LessEqual => order(left, right)?.is_le(),
        Relation::Greater => order(left, right)?.is_gt(),
        Relation::GreaterEqual => order(left, right)?.is_ge(),
        Relation::In => holds_in()?,
        Relation::NotIn => !holds_in()?,
    })
}

fn compute(sign: Sign, left: Value, right: Value) -> Result<Value, Halt> {
    match (sign, left, right) {
        (Sign::Plus, Value::Text(left), Value::Text(right)) => Ok(Value::Text(left + &right)),
        (Sign::Plus, Value::List(left), Value::List(right)) => Ok(Value::List([left, right].concat())),
        // A format, and repetitions.
        (Sign::Rest, Value::Text(_), _)
        | (Sign::Times, Value::Text(_) | Value::List(_), Value::Int(_) | Value::Bool(_))
        | (Sign::Times, Value::Int(_) | Value::Bool(_), Value::Text(_) | Value::List(_)) => {
            Err(Halt::Unknown)
        }
        (sign, left, right) => {
            let (left, right) = (int(&left)?, int(&right)?);
            if right == 0 && matches!(sign, Sign::Div | Sign::Rest) {
                return Err(Halt::Raised);
            }
            let result = match sign {
                Sign::Plus => left.checked_add(right),
                Sign::Minus => left.checked_sub(right),
                Sign::Times => left.checked_mul(right),
                // Python rounds down, and the rest has the sign of what it is divided by.
                Sign::Div => left
                    .checked_div(right)
                    .map(|down| down - i64::from(left % right != 0 && (left < 0) != (right < 0))),
                Sign::Rest => left
                    .checked_rem(right)
                    .map(|rest| if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest }),
            };
            result.map(Value::Int).ok_or(Halt::Unknown)
        }
    }
}

fn slice(of: &Value, from: Option<i64>, to: Option<i64>, step: Option<i64>) -> Result<Value, Halt> {
    let all = items(of)?;
    let length = all.len() as i64;
    let step = step.unwrap_or(1);
    let place = |at: i64| if at < 0 { at + length } else { at };
    let part: Vec<Value> = match (step, from, to) {
        (1, from, to) => {
            let from = place(from.unwrap_or(0)).clamp(0, length) as usize;
            let to = place(to.unwrap_or(length)).clamp(0, length) as usize;
            all.get(from..to.max(from)).unwrap_or_default().to_vec()
        }
        (-1, None, None) => all.into_iter().rev().collect(),
        // Other steps do not occur in the families.
        _ => return Err(Halt::Unknown),
    };
    Ok(match of {
        Value::Text(_) => Value::Text(
            part.iter().map(|item| if let Value::Text(text) = item { text.as_str() } else { "" }).collect(),
        ),
        _ => Value::List(part),
    })
}
