//! Parses statements, as `jinja2.parser` does.

mod expressions;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Expr, For, MacroBody, Node, Parameters, Statement, Target};
use crate::error::{Error, Result};
use crate::lexer::{Token, tokens};
use crate::{frames, names};

/// Deepest nesting of statements and expressions: deeper ones would not fit on a thread's stack.
const MAX_DEPTH: usize = 120;

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) body: Vec<Node>,
    pub(crate) blocks: BTreeMap<String, Arc<Vec<Node>>>,
    pub(crate) has_generation: bool,
}

pub(crate) struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    /// Number of operators and filters in this tag so far.
    links: usize,
    /// Whether this is inside a branch, where an unknown filter or test is an error only when it is reached.
    is_soft: bool,
    /// Number of loops around this point, within the current function.
    loops: usize,
    blocks: BTreeMap<String, Arc<Vec<Node>>>,
    has_generation: bool,
}

pub(crate) fn parse(source: &str) -> Result<Parsed> {
    let mut parser = Parser {
        tokens: tokens(source)?,
        at: 0,
        depth: 0,
        links: 0,
        is_soft: false,
        loops: 0,
        blocks: BTreeMap::new(),
        has_generation: false,
    };
    let mut body = parser.nodes(&[])?;
    frames::mark(&mut body);
    parser.blocks.values_mut().filter_map(Arc::get_mut).for_each(frames::mark);
    Ok(Parsed { body, blocks: parser.blocks, has_generation: parser.has_generation })
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    fn line(&self) -> usize {
        self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    fn fail<T>(&self, problem: impl Into<String>) -> Result<T> {
        Err(Error::other(problem).at(self.line()))
    }

    fn is_op(&self, op: &str) -> bool {
        matches!(self.peek(), Token::Op(found) if *found == op)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if found == name)
    }

    fn skip_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        self.at += usize::from(found);
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    fn expect_op(&mut self, op: &str) -> Result<()> {
        if self.skip_op(op) { Ok(()) } else { self.unexpected(&format!("'{op}'")) }
    }

    fn expect_name(&mut self, name: &str) -> Result<()> {
        if self.skip_name(name) { Ok(()) } else { self.unexpected(&format!("'{name}'")) }
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T> {
        self.fail(format!("expected {expected}, got {}", described(self.peek())))
    }

    fn any_name(&mut self) -> Result<String> {
        match self.peek() {
            Token::Name(name) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return self.fail(format!("more than {MAX_DEPTH} levels lie within each other"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Parses statements up to a tag that begins with one of `ends`, or to the end of the template if `ends` is empty.
    /// The tag's first word is the next token.
    fn nodes(&mut self, ends: &[&str]) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        loop {
            let line = self.line();
            self.links = 0;
            let statement = match self.peek().clone() {
                Token::Data(text) => {
                    self.at += 1;
                    Statement::Text(text.into())
                }
                Token::VariableBegin => {
                    self.at += 1;
                    let value = self.tuple(true, &[], false)?;
                    if *self.peek() != Token::VariableEnd {
                        return self.unexpected("end of print statement");
                    }
                    self.at += 1;
                    Statement::Print(value)
                }
                Token::BlockBegin => {
                    self.at += 1;
                    if ends.iter().any(|end| self.is_name(end)) {
                        return Ok(nodes);
                    }
                    let read = self.nested(Self::statement)?;
                    if *self.peek() != Token::BlockEnd {
                        return self.unexpected("end of statement block");
                    }
                    self.at += 1;
                    nodes.extend(read.into_iter().map(|statement| Node { line, statement }));
                    continue;
                }
                Token::End if ends.is_empty() => return Ok(nodes),
                _ => {
                    let ends = ends.join("' or '");
                    return self.fail(format!("the template ends before '{ends}'"));
                }
            };
            nodes.push(Node { line, statement });
        }
    }

    /// Parses the rest of a tag, and statements up to one of `ends`.
    fn body(&mut self, ends: &[&str]) -> Result<Vec<Node>> {
        self.skip_op(":");
        if *self.peek() != Token::BlockEnd {
            return self.unexpected("end of statement block");
        }
        self.at += 1;
        self.nodes(ends)
    }

    /// As [`Parser::body`], including the word of the closing tag.
    fn whole_body(&mut self, end: &str) -> Result<Vec<Node>> {
        let body = self.body(&[end])?;
        self.at += 1;
        Ok(body)
    }

    /// Parses a body that is a scope of its own. If `is_function`, the loops around it are out of reach.
    fn scope<T>(&mut self, is_function: bool, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (is_soft, loops) = (self.is_soft, self.loops);
        self.is_soft = false;
        if is_function {
            self.loops = 0;
        }
        let read = read(self);
        (self.is_soft, self.loops) = (is_soft, loops);
        read
    }

    fn softly<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let is_soft = std::mem::replace(&mut self.is_soft, true);
        let read = read(self);
        self.is_soft = is_soft;
        read
    }

    fn statement(&mut self) -> Result<Vec<Statement>> {
        let Token::Name(word) = self.peek().clone() else { return self.fail("tag name expected") };
        if word == "for" {
            self.at += 1;
            return Ok(vec![self.parse_for()?]);
        }
        if word == "if" {
            return Ok(vec![self.softly(Self::parse_if)?]);
        }
        self.at += 1;
        Ok(vec![match word.as_str() {
            "set" => self.parse_set()?,
            "with" => {
                let mut values = Vec::new();
                while *self.peek() != Token::BlockEnd && !self.is_op(":") {
                    if !values.is_empty() {
                        self.expect_op(",")?;
                    }
                    let target = self.target(&[], false)?;
                    self.expect_op("=")?;
                    values.push((target, self.expression(true)?));
                }
                Statement::With(values, self.scope(false, |parser| parser.whole_body("endwith"))?)
            }
            "filter" => {
                let filter = self.filters(None, true)?;
                let body = self.scope(false, |parser| parser.whole_body("endfilter"))?;
                Statement::Filter(filter.unwrap_or(Expr::Tuple(Vec::new())), body)
            }
            "macro" => {
                let name = self.any_name()?;
                Statement::Macro(self.parse_macro(Some(name), "endmacro")?)
            }
            "call" => {
                let parameters = if self.is_op("(") { self.parameters()? } else { Parameters::default() };
                let call = self.expression(true)?;
                if !matches!(call, Expr::Call(..)) {
                    return self.fail("expected call");
                }
                let body = self.scope(true, |parser| parser.whole_body("endcall"))?;
                Statement::CallBlock(call, Arc::new(self.macro_of(Some("caller".into()), parameters, body)?))
            }
            "generation" => {
                self.has_generation = true;
                Statement::Generation(self.scope(true, |parser| parser.whole_body("endgeneration"))?)
            }
            "autoescape" => {
                let is_on = self.expression(true)?;
                Statement::Autoescape(is_on, self.scope(false, |parser| parser.whole_body("endautoescape"))?)
            }
            "block" => self.parse_block()?,
            "print" => {
                let mut nodes = Vec::new();
                while *self.peek() != Token::BlockEnd {
                    if !nodes.is_empty() {
                        self.expect_op(",")?;
                    }
                    nodes.push(Statement::Print(self.expression(true)?));
                }
                return Ok(nodes);
            }
            "break" | "continue" if self.loops == 0 => return self.fail(format!("'{word}' outside loop")),
            "break" => Statement::Break,
            "continue" => Statement::Continue,
            "extends" | "include" | "import" | "from" => {
                self.expression(true)?;
                while *self.peek() != Token::BlockEnd {
                    if *self.peek() == Token::End {
                        return self.unexpected("end of statement block");
                    }
                    self.at += 1;
                }
                let words = ["extends", "include", "import", "from"];
                Statement::Load(words.iter().find(|known| **known == word).unwrap_or(&words[0]))
            }
            _ => return self.fail(format!("Encountered unknown tag '{word}'")),
        }])
    }

    fn parse_set(&mut self) -> Result<Statement> {
        let target = self.target(&[], true)?;
        if self.skip_op("=") {
            return Ok(Statement::Set(target, self.tuple(true, &[], false)?));
        }
        let filter = self.filters(None, false)?;
        let body = self.scope(false, |parser| parser.whole_body("endset"))?;
        Ok(Statement::SetBlock(target, filter, body))
    }

    fn parse_for(&mut self) -> Result<Statement> {
        let target = self.target(&["in"], false)?;
        let names = names::of_target(&target);
        if names.contains(&"loop") {
            return self.fail("Can't assign to special loop variable in for-loop target");
        }
        self.expect_name("in")?;
        let over = self.tuple(false, &["recursive"], false)?;
        let test = if self.skip_name("if") {
            let test = self.scope(false, |parser| parser.expression(true))?;
            Some(test)
        } else {
            None
        };
        let is_recursive = self.skip_name("recursive");
        self.loops += 1;
        let body = self.scope(is_recursive, |parser| {
            parser.loops += usize::from(is_recursive);
            parser.body(&["endfor", "else"])
        });
        self.loops -= 1;
        let body = body?;
        let otherwise = match self.any_name()?.as_str() {
            "else" => self.scope(is_recursive, |parser| parser.whole_body("endfor"))?,
            _ => Vec::new(),
        };
        Ok(Statement::For(Arc::new(For { target, over, test, body, otherwise, is_recursive })))
    }

    fn parse_if(&mut self) -> Result<Statement> {
        let mut branches = Vec::new();
        self.expect_name("if")?;
        loop {
            let test = self.tuple(false, &[], false)?;
            branches.push((test, self.body(&["elif", "else", "endif"])?));
            match self.any_name()?.as_str() {
                "elif" => {}
                "else" => return Ok(Statement::If(branches, self.whole_body("endif")?)),
                _ => return Ok(Statement::If(branches, Vec::new())),
            }
        }
    }

    fn parameters(&mut self) -> Result<Parameters> {
        let mut found = Parameters::default();
        self.expect_op("(")?;
        while !self.is_op(")") {
            if !found.names.is_empty() {
                self.expect_op(",")?;
            }
            let name = self.any_name()?;
            if names::is_constant(&name) {
                return self.fail(format!("can't assign to '{name}'"));
            }
            found.names.push(name);
            if self.skip_op("=") {
                found.defaults.push(self.expression(true)?);
            } else if !found.defaults.is_empty() {
                return self.fail("non-default argument follows default argument");
            }
        }
        self.expect_op(")")?;
        Ok(found)
    }

    fn parse_macro(&mut self, name: Option<String>, end: &str) -> Result<Arc<MacroBody>> {
        let parameters = self.parameters()?;
        let body = self.scope(true, |parser| parser.whole_body(end))?;
        Ok(Arc::new(self.macro_of(name, parameters, body)?))
    }

    fn macro_of(&self, name: Option<String>, parameters: Parameters, body: Vec<Node>) -> Result<MacroBody> {
        let uses = |wanted: &str| {
            !parameters.names.iter().any(|name| name == wanted) && names::mentions(&body, wanted)
        };
        let is_explicit = parameters.names.iter().position(|name| name == "caller");
        if let Some(at) = is_explicit
            && parameters.names.len() - at > parameters.defaults.len()
        {
            return self.fail(
                "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a \
                 default.",
            );
        }
        Ok(MacroBody {
            uses_caller: is_explicit.is_some() || uses("caller"),
            uses_kwargs: uses("kwargs"),
            uses_varargs: uses("varargs"),
            name,
            parameters,
            body,
        })
    }

    fn parse_block(&mut self) -> Result<Statement> {
        let name = self.any_name()?;
        let is_scoped = self.skip_name("scoped");
        let is_required = self.skip_name("required");
        let body = self.scope(true, |parser| parser.whole_body("endblock"))?;
        self.skip_name(&name);
        if is_required {
            let blank =
                |node: &Node| matches!(&node.statement, Statement::Text(text) if text.trim().is_empty());
            return match body.iter().all(blank) {
                true => self.fail(format!("Required block '{name}' not found")),
                false => self.fail("Required blocks can only contain comments or whitespace"),
            };
        }
        if self.blocks.insert(name.clone(), Arc::new(body)).is_some() {
            return self.fail(format!("block '{name}' defined twice"));
        }
        Ok(Statement::Block(name, is_scoped))
    }

    /// Parses the target of an assignment; `ends` are words that end it.
    fn target(&mut self, ends: &[&str], with_namespace: bool) -> Result<Target> {
        let line = self.line();
        let mut found = self.simple_tuple(ends, with_namespace)?;
        names::check_target(&mut found).map_err(|problem| Error::other(problem).at(line))
    }
}

fn described(token: &Token) -> String {
    match token {
        Token::Data(_) => "template data / text".into(),
        Token::VariableBegin => "begin of print statement".into(),
        Token::VariableEnd => "end of print statement".into(),
        Token::BlockBegin => "begin of statement block".into(),
        Token::BlockEnd => "end of statement block".into(),
        Token::Name(name) => format!("'{name}'"),
        Token::Str(_) => "a text".into(),
        Token::Int(_) | Token::Float(_) => "a number".into(),
        Token::Op(op) => format!("'{op}'"),
        Token::End => "end of template".into(),
    }
}
