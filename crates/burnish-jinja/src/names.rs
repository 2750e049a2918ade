//! Finds the names that a template reads and sets.

use crate::ast::{Args, Expr, Node, Statement, Target};

pub(crate) fn is_constant(name: &str) -> bool {
    ["true", "false", "none", "True", "False", "None"].contains(&name)
}

/// The names that are assigned to.
pub(crate) fn of_target(target: &Target) -> Vec<&str> {
    match target {
        Target::Name(name) => vec![name],
        Target::Attribute(..) => Vec::new(),
        Target::Tuple(targets) => targets.iter().flat_map(of_target).collect(),
    }
}

/// The target that an expression denotes.
pub(crate) fn check_target(found: &mut Expr) -> Result<Target, String> {
    match found {
        Expr::Name(name) if !is_constant(name) => Ok(Target::Name(std::mem::take(name))),
        Expr::Attribute(namespace, attribute) => match &**namespace {
            Expr::Name(name) => Ok(Target::Attribute(name.clone(), std::mem::take(attribute))),
            _ => Err("can't assign to an attribute".into()),
        },
        Expr::Tuple(items) => {
            Ok(Target::Tuple(items.iter_mut().map(check_target).collect::<Result<_, _>>()?))
        }
        Expr::Const(_) => Err("can't assign to a constant".into()),
        _ => Err("can't assign to an expression".into()),
    }
}

/// Is the name read anywhere in these statements?
pub(crate) fn mentions(nodes: &[Node], name: &str) -> bool {
    nodes.iter().any(|node| in_node(node, name))
}

fn in_node(node: &Node, name: &str) -> bool {
    let inside = |nodes: &[Node]| mentions(nodes, name);
    let read = |expr: &Expr| in_expr(expr, name);
    match &node.statement {
        Statement::Unset(_)
        | Statement::Text(_)
        | Statement::Break
        | Statement::Continue
        | Statement::Load(_)
        | Statement::Block(..) => false,
        Statement::Print(expr) => read(expr),
        Statement::Set(target, expr) => in_target(target, name) || read(expr),
        Statement::SetBlock(_, filter, body) => filter.as_ref().is_some_and(read) || inside(body),
        Statement::For(each) => {
            read(&each.over)
                || each.test.as_ref().is_some_and(read)
                || inside(&each.body)
                || inside(&each.otherwise)
        }
        Statement::If(branches, otherwise) => {
            branches.iter().any(|(test, body)| read(test) || inside(body)) || inside(otherwise)
        }
        Statement::With(values, body) => values.iter().any(|(_, value)| read(value)) || inside(body),
        Statement::Filter(expr, body) | Statement::Autoescape(expr, body) => read(expr) || inside(body),
        Statement::Macro(body) => body.parameters.defaults.iter().any(read) || inside(&body.body),
        Statement::CallBlock(call, body) => {
            read(call) || body.parameters.defaults.iter().any(read) || inside(&body.body)
        }
        Statement::Generation(body) => inside(body),
    }
}

fn in_target(target: &Target, name: &str) -> bool {
    match target {
        Target::Name(_) => false,
        Target::Attribute(namespace, _) => namespace == name,
        Target::Tuple(targets) => targets.iter().any(|target| in_target(target, name)),
    }
}

fn in_args(args: &Args, name: &str) -> bool {
    args.positional.iter().any(|arg| in_expr(arg, name))
        || args.named.iter().any(|(_, arg)| in_expr(arg, name))
        || [&args.rest, &args.rest_named].into_iter().flatten().any(|arg| in_expr(arg, name))
}

fn in_expr(expr: &Expr, name: &str) -> bool {
    let read = |expr: &Expr| in_expr(expr, name);
    match expr {
        Expr::Const(_) | Expr::BadSlice => false,
        Expr::Name(found) => found == name,
        Expr::List(items) | Expr::Tuple(items) | Expr::Concat(items) => items.iter().any(read),
        Expr::Dict(items) => items.iter().any(|(key, value)| read(key) || read(value)),
        Expr::Not(inner) | Expr::Negative(inner) | Expr::Positive(inner) | Expr::Attribute(inner, _) => {
            read(inner)
        }
        Expr::Binary(_, left, right)
        | Expr::And(left, right)
        | Expr::Or(left, right)
        | Expr::Item(left, right) => read(left) || read(right),
        Expr::Compare(first, others) => read(first) || others.iter().any(|(_, other)| read(other)),
        Expr::If(test, value, otherwise) => {
            read(test) || read(value) || otherwise.as_deref().is_some_and(read)
        }
        Expr::Slice(value, bounds) => read(value) || bounds.iter().flatten().any(|bound| read(bound)),
        Expr::Call(callee, args, _) => read(callee) || in_args(args, name),
        Expr::Filter(value, _, args, _) => value.as_deref().is_some_and(read) || in_args(args, name),
        Expr::Test(value, _, args, _) => read(value) || in_args(args, name),
    }
}
