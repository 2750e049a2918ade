//! Programs that are nearly right: one operator, constant, bound or condition of a program is changed.

use super::{Expr, Program, Relation, Sign, Value};

impl Program {
    /// Every program that differs from this one by one change, each once, in a fixed order.
    pub(in crate::specs) fn mutants(&self) -> Vec<Program> {
        let mut found: Vec<Program> = Vec::new();
        let mut add = |mutant: Program| {
            if mutant != *self && !found.contains(&mutant) {
                found.push(mutant);
            }
        };
        for (at, (_, line)) in self.lines.iter().enumerate() {
            for changed in mutants(line) {
                let mut mutant = self.clone();
                mutant.lines[at].1 = changed;
                add(mutant);
            }
        }
        for returns in mutants(&self.returns) {
            add(Program { returns, ..self.clone() });
        }
        found
    }
}

fn mutants(expr: &Expr) -> Vec<Expr> {
    let mut found = own(expr);
    let count = expr.clone().children().len();
    for at in 0..count {
        let mut copy = expr.clone();
        let changes = copy.children().get(at).map(|child| mutants(child)).unwrap_or_default();
        for change in changes {
            let mut mutant = expr.clone();
            if let Some(child) = mutant.children().get_mut(at) {
                **child = change;
            }
            found.push(mutant);
        }
    }
    found
}

impl Expr {
    fn children(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Literal(_) | Expr::Name(_) => Vec::new(),
            Expr::List(items) | Expr::Call(_, items) => items.iter_mut().collect(),
            Expr::Minus(of) | Expr::Not(of) => vec![of],
            Expr::Sign(_, sides) | Expr::And(sides) | Expr::Or(sides) | Expr::Index(sides) => {
                sides.iter_mut().collect()
            }
            Expr::Compare(first, others) => {
                [&mut **first].into_iter().chain(others.iter_mut().map(|(_, other)| other)).collect()
            }
            Expr::If(parts) => parts.iter_mut().collect(),
            Expr::Slice(of, parts) => {
                [&mut **of].into_iter().chain(parts.iter_mut().flatten().map(|part| &mut **part)).collect()
            }
            Expr::Method(of, _, arguments) => [&mut **of].into_iter().chain(arguments.iter_mut()).collect(),
            Expr::Each(item, fors, condition) => [&mut **item]
                .into_iter()
                .chain(fors.iter_mut().map(|(_, through)| through))
                .chain(condition.iter_mut().map(|condition| &mut **condition))
                .collect(),
        }
    }
}

fn others(relation: Relation) -> &'static [Relation] {
    match relation {
        Relation::Less => &[Relation::LessEqual, Relation::Greater],
        Relation::LessEqual => &[Relation::Less, Relation::GreaterEqual],
        Relation::Greater => &[Relation::GreaterEqual, Relation::Less],
        Relation::GreaterEqual => &[Relation::Greater, Relation::LessEqual],
        Relation::Equal => &[Relation::Unequal],
        Relation::Unequal => &[Relation::Equal],
        Relation::In => &[Relation::NotIn],
        Relation::NotIn => &[Relation::In],
    }
}

/// What one function is taken for.
fn mistaken(name: &str) -> Option<&'static str> {
    Some(match name {
        "max" => "min",
        "min" => "max",
        "all" => "any",
        "any" => "all",
        "sum" => "max",
        "sorted" => "list",
        _ => return None,
    })
}

/// The changes of this node itself.
fn own(expr: &Expr) -> Vec<Expr> {
    let next = |expr: &Expr, by: i64| {
        let by = Expr::Literal(Value::Int(by));
        Expr::Sign(Sign::Plus, Box::new([expr.clone(), by]))
    };
    match expr {
        Expr::Literal(Value::Int(number)) => {
            [-1, 1].map(|by| Expr::Literal(Value::Int(number.saturating_add(by)))).into()
        }
        Expr::Literal(Value::Bool(holds)) => vec![Expr::Literal(Value::Bool(!holds))],
        Expr::Not(of) => vec![(**of).clone()],
        Expr::Sign(sign, sides) => {
            let other = match sign {
                Sign::Plus => Sign::Minus,
                Sign::Minus | Sign::Times => Sign::Plus,
                Sign::Div => Sign::Rest,
                Sign::Rest => Sign::Div,
            };
            vec![Expr::Sign(other, sides.clone()), sides[0].clone()]
        }
        Expr::Compare(first, chain) => {
            let mut found = Vec::new();
            for (at, (relation, _)) in chain.iter().enumerate() {
                for other in others(*relation) {
                    let mut chain = chain.clone();
                    chain[at].0 = *other;
                    found.push(Expr::Compare(first.clone(), chain));
                }
            }
            found
        }
        Expr::And(sides) => vec![Expr::Or(sides.clone()), sides[0].clone(), sides[1].clone()],
        Expr::Or(sides) => vec![Expr::And(sides.clone()), sides[0].clone(), sides[1].clone()],
        Expr::If(parts) => vec![parts[1].clone(), parts[2].clone()],
        Expr::Index(sides) => {
            vec![Expr::Index(Box::new([sides[0].clone(), next(&sides[1], 1)]))]
        }
        Expr::Slice(of, [from, to, step]) => {
            let slice = |from: Option<Box<Expr>>, to: Option<Box<Expr>>| {
                Expr::Slice(of.clone(), [from, to, step.clone()])
            };
            let mut found = vec![(**of).clone()];
            if let Some(part) = from {
                found.push(slice(Some(Box::new(next(part, 1))), to.clone()));
                found.push(slice(None, to.clone()));
            }
            if let Some(part) = to {
                found.push(slice(from.clone(), Some(Box::new(next(part, -1)))));
                found.push(slice(from.clone(), None));
            }
            found
        }
        Expr::Call(name, arguments) if name == "range" => {
            let at = usize::from(arguments.len() > 1);
            let shifted = |by: i64| {
                let mut arguments = arguments.clone();
                arguments[at] = next(&arguments[at], by);
                Expr::Call(name.clone(), arguments)
            };
            vec![shifted(-1), shifted(1)]
        }
        Expr::Call(name, arguments) => {
            let mut found: Vec<Expr> = mistaken(name)
                .map(|other| Expr::Call(other.to_owned(), arguments.clone()))
                .into_iter()
                .collect();
            if let ("abs", [of]) = (name.as_str(), &arguments[..]) {
                found.push(of.clone());
            }
            found
        }
        Expr::Each(item, fors, Some(condition)) => vec![
            Expr::Each(item.clone(), fors.clone(), None),
            Expr::Each(item.clone(), fors.clone(), Some(Box::new(Expr::Not(condition.clone())))),
        ],
        _ => Vec::new(),
    }
}
