//! Names that a scope sets somewhere and that have no value in it before that, even if an outer variable has the same
//! name.
//!
//! jinja2 decides at compile time which variable a name means (`jinja2.idtracking`). A name that a scope sets before
//! reading it belongs to the scope from its beginning. A loop that reads the name further up therefore finds nothing,
//! even if the conversation has a variable of that name.

use std::collections::{HashMap, HashSet};

use crate::ast::{Args, Expr, Node, Statement, Target};
use crate::names;

/// The meaning of a name at the beginning of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// The same as outside the scope.
    Around,
    /// Nothing.
    Unset,
}

#[derive(Debug, Clone, Default)]
struct Symbols {
    names: HashMap<String, Begin>,
    stored: HashSet<String>,
}

/// Records in every scope the names that begin without a value.
pub(crate) fn mark(body: &mut Vec<Node>) {
    scope(body, &[], &[]);
}

/// `around`: the names that the enclosing scopes know.
fn scope(body: &mut Vec<Node>, parameters: &[&str], around: &[&HashSet<String>]) {
    let mut symbols = Symbols::default();
    for name in parameters {
        symbols.names.insert((*name).to_owned(), Begin::Around);
        symbols.stored.insert((*name).to_owned());
    }
    let is_around = |name: &str| around.iter().any(|names| names.contains(name));
    read_nodes(body, &mut symbols, &is_around);
    let known: HashSet<String> = symbols.names.keys().cloned().collect();
    let mut all: Vec<&HashSet<String>> = around.to_vec();
    all.push(&known);
    body.iter_mut().for_each(|node| inside(node, &all));
    let mut unset: Vec<String> =
        symbols.names.into_iter().filter(|(_, begin)| *begin == Begin::Unset).map(|(name, _)| name).collect();
    if !unset.is_empty() {
        unset.sort_unstable();
        body.insert(0, Node { line: 1, statement: Statement::Unset(unset) });
    }
}

/// Visits the scopes within a statement.
fn inside(node: &mut Node, around: &[&HashSet<String>]) {
    use std::sync::Arc;
    match &mut node.statement {
        Statement::For(each) => {
            if let Some(each) = Arc::get_mut(each) {
                let target = each.target.clone();
                let mut parameters = names::of_target(&target);
                parameters.push("loop");
                scope(&mut each.body, &parameters, around);
                scope(&mut each.otherwise, &[], around);
            }
        }
        Statement::If(branches, otherwise) => {
            branches.iter_mut().flat_map(|(_, body)| body).for_each(|node| inside(node, around));
            otherwise.iter_mut().for_each(|node| inside(node, around));
        }
        Statement::With(values, body) => {
            let targets: Vec<Target> = values.iter().map(|(target, _)| target.clone()).collect();
            let parameters: Vec<&str> = targets.iter().flat_map(names::of_target).collect();
            scope(body, &parameters, around);
        }
        Statement::Macro(body) | Statement::CallBlock(_, body) => {
            if let Some(body) = Arc::get_mut(body) {
                let own = body.parameters.names.clone();
                let mut parameters: Vec<&str> = own.iter().map(String::as_str).collect();
                parameters.extend(["caller", "kwargs", "varargs"]);
                scope(&mut body.body, &parameters, around);
            }
        }
        Statement::SetBlock(_, _, body)
        | Statement::Filter(_, body)
        | Statement::Generation(body)
        | Statement::Autoescape(_, body) => scope(body, &[], around),
        _ => {}
    }
}

fn read_nodes(nodes: &[Node], symbols: &mut Symbols, is_around: &dyn Fn(&str) -> bool) {
    for node in nodes {
        read_node(node, symbols, is_around);
    }
}

fn read_node(node: &Node, symbols: &mut Symbols, is_around: &dyn Fn(&str) -> bool) {
    match &node.statement {
        Statement::Print(expr) => read(expr, symbols),
        Statement::Set(target, expr) => {
            read(expr, symbols);
            store(target, symbols, is_around);
        }
        Statement::SetBlock(target, ..) => store(target, symbols, is_around),
        Statement::For(each) => read(&each.over, symbols),
        Statement::If(branches, otherwise) => read_if(branches, otherwise, symbols, is_around),
        Statement::With(values, _) => values.iter().for_each(|(_, value)| read(value, symbols)),
        Statement::Filter(expr, _) | Statement::CallBlock(expr, _) => read(expr, symbols),
        Statement::Macro(body) => {
            store_name(body.name.as_deref().unwrap_or_default(), symbols, is_around);
        }
        _ => {}
    }
}

/// A name that every branch sets belongs to the scope; one that only some branches set may come from outside.
fn read_if(
    branches: &[(Expr, Vec<Node>)],
    otherwise: &[Node],
    symbols: &mut Symbols,
    is_around: &dyn Fn(&str) -> bool,
) {
    let Some(((test, body), others)) = branches.split_first() else { return };
    read(test, symbols);
    let branch = |read: &dyn Fn(&mut Symbols)| {
        let mut inner = symbols.clone();
        read(&mut inner);
        inner
    };
    let read_branches = [
        branch(&|inner| read_nodes(body, inner, is_around)),
        // Each `elif` is a condition of its own, one after the other.
        branch(&|inner| {
            for (at, _) in others.iter().enumerate() {
                read_if(&others[at..=at], &[], inner, is_around);
            }
        }),
        branch(&|inner| read_nodes(otherwise, inner, is_around)),
    ];
    let before = symbols.stored.clone();
    for inner in &read_branches {
        symbols.names.extend(inner.names.clone());
        symbols.stored.extend(inner.stored.iter().cloned());
    }
    for name in symbols.stored.difference(&before) {
        if !read_branches.iter().all(|inner| inner.stored.contains(name)) {
            symbols.names.insert(name.clone(), Begin::Around);
        }
    }
}

fn store(target: &Target, symbols: &mut Symbols, is_around: &dyn Fn(&str) -> bool) {
    match target {
        Target::Name(name) => store_name(name, symbols, is_around),
        Target::Attribute(namespace, _) => load(namespace, symbols),
        Target::Tuple(targets) => targets.iter().for_each(|target| store(target, symbols, is_around)),
    }
}

fn store_name(name: &str, symbols: &mut Symbols, is_around: &dyn Fn(&str) -> bool) {
    symbols.stored.insert(name.to_owned());
    if !symbols.names.contains_key(name) {
        let begin = if is_around(name) { Begin::Around } else { Begin::Unset };
        symbols.names.insert(name.to_owned(), begin);
    }
}

fn load(name: &str, symbols: &mut Symbols) {
    symbols.names.entry(name.to_owned()).or_insert(Begin::Around);
}

fn read_args(args: &Args, symbols: &mut Symbols) {
    args.positional.iter().for_each(|arg| read(arg, symbols));
    args.named.iter().for_each(|(_, arg)| read(arg, symbols));
    [&args.rest, &args.rest_named].into_iter().flatten().for_each(|arg| read(arg, symbols));
}

fn read(expr: &Expr, symbols: &mut Symbols) {
    match expr {
        Expr::Const(_) | Expr::BadSlice => {}
        Expr::Name(name) => load(name, symbols),
        Expr::List(items) | Expr::Tuple(items) | Expr::Concat(items) => {
            items.iter().for_each(|item| read(item, symbols));
        }
        Expr::Dict(items) => items.iter().for_each(|(key, value)| {
            read(key, symbols);
            read(value, symbols);
        }),
        Expr::Not(inner) | Expr::Negative(inner) | Expr::Positive(inner) | Expr::Attribute(inner, _) => {
            read(inner, symbols);
        }
        Expr::Binary(_, left, right)
        | Expr::And(left, right)
        | Expr::Or(left, right)
        | Expr::Item(left, right) => {
            read(left, symbols);
            read(right, symbols);
        }
        Expr::Compare(first, others) => {
            read(first, symbols);
            others.iter().for_each(|(_, other)| read(other, symbols));
        }
        Expr::If(test, value, otherwise) => {
            read(test, symbols);
            read(value, symbols);
            otherwise.iter().for_each(|otherwise| read(otherwise, symbols));
        }
        Expr::Slice(value, bounds) => {
            read(value, symbols);
            bounds.iter().flatten().for_each(|bound| read(bound, symbols));
        }
        Expr::Call(callee, args, _) => {
            read(callee, symbols);
            read_args(args, symbols);
        }
        Expr::Filter(value, _, args, _) => {
            value.iter().for_each(|value| read(value, symbols));
            read_args(args, symbols);
        }
        Expr::Test(value, _, args, _) => {
            read(value, symbols);
            read_args(args, symbols);
        }
    }
}
