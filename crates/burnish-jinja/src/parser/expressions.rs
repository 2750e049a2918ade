//! Parses expressions, as `jinja2.parser` does.

use super::Parser;
use crate::ast::{Args, Binary, Comparison, Const, Expr};
use crate::error::{Error, Result};
use crate::lexer::Token;
use crate::{checks, filters};

/// Most operators, filters and subscripts in one tag: more would not fit on a thread's stack.
const MAX_LINKS: usize = 500;

impl Parser {
    pub(super) fn expression(&mut self, with_condition: bool) -> Result<Expr> {
        self.nested(|parser| if with_condition { parser.condition() } else { parser.or() })
    }

    fn condition(&mut self) -> Result<Expr> {
        // Only after the first operand is it known whether branches follow, and then that operand is soft too.
        let (at, line) = (self.at, self.line());
        let mut value = match self.or() {
            Err(error) if !self.is_soft => {
                self.at = at;
                match self.softly(Self::or) {
                    Ok(value) if self.is_name("if") => value,
                    _ => return Err(error.at(line)),
                }
            }
            read => read?,
        };
        while self.skip_name("if") {
            self.link()?;
            let (test, otherwise) = self.softly(|parser| {
                let test = parser.or()?;
                let otherwise = if parser.skip_name("else") {
                    Some(Box::new(parser.nested(Self::condition)?))
                } else {
                    None
                };
                Ok((test, otherwise))
            })?;
            value = Expr::If(Box::new(test), Box::new(value), otherwise);
        }
        Ok(value)
    }

    /// Counts the operators, filters and subscripts of a tag: each one contains what comes before it.
    fn link(&mut self) -> Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return self.fail(format!("more than {MAX_LINKS} operators and filters in one tag"));
        }
        Ok(())
    }

    fn or(&mut self) -> Result<Expr> {
        let mut left = self.and()?;
        while self.skip_name("or") {
            self.link()?;
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr> {
        let mut left = self.not()?;
        while self.skip_name("and") {
            self.link()?;
            left = Expr::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr> {
        if self.skip_name("not") {
            return Ok(Expr::Not(Box::new(self.nested(Self::not)?)));
        }
        let first = self.sum()?;
        let mut others = Vec::new();
        loop {
            let comparison = match self.peek() {
                Token::Op("==") => Comparison::Eq,
                Token::Op("!=") => Comparison::Ne,
                Token::Op("<") => Comparison::Lt,
                Token::Op("<=") => Comparison::Le,
                Token::Op(">") => Comparison::Gt,
                Token::Op(">=") => Comparison::Ge,
                Token::Name(name) if name == "in" => Comparison::In,
                Token::Name(name) if name == "not" => match self.peek_second() {
                    Token::Name(name) if name == "in" => {
                        self.at += 1;
                        Comparison::NotIn
                    }
                    _ => break,
                },
                _ => break,
            };
            self.at += 1;
            others.push((comparison, self.sum()?));
        }
        Ok(if others.is_empty() { first } else { Expr::Compare(Box::new(first), others) })
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.concat()?;
        loop {
            let op = match self.peek() {
                Token::Op("+") => Binary::Add,
                Token::Op("-") => Binary::Sub,
                _ => return Ok(left),
            };
            self.at += 1;
            self.link()?;
            left = Expr::Binary(op, Box::new(left), Box::new(self.concat()?));
        }
    }

    fn concat(&mut self) -> Result<Expr> {
        let first = self.product()?;
        if !self.is_op("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_op("~") {
            parts.push(self.product()?);
        }
        Ok(Expr::Concat(parts))
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.power()?;
        loop {
            let op = match self.peek() {
                Token::Op("*") => Binary::Mul,
                Token::Op("/") => Binary::Div,
                Token::Op("//") => Binary::FloorDiv,
                Token::Op("%") => Binary::Mod,
                _ => return Ok(left),
            };
            self.at += 1;
            self.link()?;
            left = Expr::Binary(op, Box::new(left), Box::new(self.power()?));
        }
    }

    /// Left-associative, unlike in Python.
    fn power(&mut self) -> Result<Expr> {
        let mut left = self.unary(true)?;
        while self.skip_op("**") {
            self.link()?;
            left = Expr::Binary(Binary::Pow, Box::new(left), Box::new(self.unary(true)?));
        }
        Ok(left)
    }

    fn unary(&mut self, with_filter: bool) -> Result<Expr> {
        let value = if self.skip_op("-") {
            Expr::Negative(Box::new(self.nested(|parser| parser.unary(false))?))
        } else if self.skip_op("+") {
            Expr::Positive(Box::new(self.nested(|parser| parser.unary(false))?))
        } else {
            self.primary()?
        };
        let mut value = self.postfix(value)?;
        if !with_filter {
            return Ok(value);
        }
        loop {
            if self.is_op("|") {
                self.link()?;
                value = self.filters(Some(value), false)?.unwrap_or(Expr::BadSlice);
            } else if self.is_name("is") {
                self.link()?;
                value = self.test(value)?;
            } else if self.is_op("(") {
                value = self.call(value)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        let token = self.peek().clone();
        self.at += 1;
        Ok(match token {
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Expr::Const(Const::Bool(true)),
                "false" | "False" => Expr::Const(Const::Bool(false)),
                "none" | "None" => Expr::Const(Const::None),
                _ => Expr::Name(name),
            },
            Token::Str(mut text) => {
                while let Token::Str(more) = self.peek() {
                    text += more;
                    self.at += 1;
                }
                Expr::Const(Const::Str(text.into()))
            }
            Token::Int(digits) => Expr::Const(digits.parse().map_or(Const::Big(digits), Const::Int)),
            Token::Float(value) => Expr::Const(Const::Float(value)),
            Token::Op("(") => {
                let value = self.nested(|parser| parser.tuple(true, &[], true))?;
                self.expect_op(")")?;
                value
            }
            Token::Op("[") => {
                let mut items = Vec::new();
                while !self.is_op("]") {
                    if !items.is_empty() {
                        self.expect_op(",")?;
                    }
                    if self.is_op("]") {
                        break;
                    }
                    items.push(self.expression(true)?);
                }
                self.expect_op("]")?;
                Expr::List(items)
            }
            Token::Op("{") => {
                let mut items = Vec::new();
                while !self.is_op("}") {
                    if !items.is_empty() {
                        self.expect_op(",")?;
                    }
                    if self.is_op("}") {
                        break;
                    }
                    let key = self.expression(true)?;
                    self.expect_op(":")?;
                    items.push((key, self.expression(true)?));
                }
                self.expect_op("}")?;
                Expr::Dict(items)
            }
            token => {
                self.at -= 1;
                return self.fail(format!("unexpected {}", super::described(&token)));
            }
        })
    }

    fn is_tuple_end(&self, ends: &[&str]) -> bool {
        match self.peek() {
            Token::VariableEnd | Token::BlockEnd | Token::Op(")") => true,
            Token::Name(name) => ends.contains(&name.as_str()),
            _ => false,
        }
    }

    /// One expression, or several separated by commas.
    pub(super) fn tuple(&mut self, with_condition: bool, ends: &[&str], in_brackets: bool) -> Result<Expr> {
        self.tuple_of(ends, in_brackets, |parser| parser.expression(with_condition))
    }

    /// The expression of an assignment's target; [`crate::names::check_target`] turns it into one.
    pub(super) fn simple_tuple(&mut self, ends: &[&str], with_namespace: bool) -> Result<Expr> {
        self.tuple_of(ends, false, |parser| {
            if with_namespace
                && let (Token::Name(name), Token::Op(".")) = (parser.peek().clone(), parser.peek_second())
            {
                parser.at += 2;
                return Ok(Expr::Attribute(Box::new(Expr::Name(name)), parser.any_name()?));
            }
            parser.primary()
        })
    }

    fn tuple_of(
        &mut self,
        ends: &[&str],
        in_brackets: bool,
        mut read: impl FnMut(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            if self.is_tuple_end(ends) {
                break;
            }
            items.push(read(self)?);
            if !self.is_op(",") {
                break;
            }
            is_tuple = true;
        }
        match items.pop() {
            Some(item) if !is_tuple => Ok(item),
            None if !in_brackets => self.unexpected("an expression"),
            last => {
                items.extend(last);
                Ok(Expr::Tuple(items))
            }
        }
    }

    fn postfix(&mut self, mut value: Expr) -> Result<Expr> {
        loop {
            if self.skip_op(".") {
                self.link()?;
                value = match self.peek().clone() {
                    Token::Name(name) => Expr::Attribute(Box::new(value), name),
                    Token::Int(digits) => {
                        let place = Const::Int(digits.parse().unwrap_or(i64::MAX));
                        Expr::Item(Box::new(value), Box::new(Expr::Const(place)))
                    }
                    _ => return self.fail("expected name or number"),
                };
                self.at += 1;
            } else if self.skip_op("[") {
                self.link()?;
                value = self.subscript(value)?;
            } else if self.is_op("(") {
                value = self.call(value)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn subscript(&mut self, value: Expr) -> Result<Expr> {
        let mut items = Vec::new();
        let mut slice = None;
        while !self.is_op("]") {
            if !items.is_empty() || slice.is_some() {
                self.expect_op(",")?;
            }
            let begin = if self.is_op(":") { None } else { Some(self.expression(true)?) };
            match begin {
                Some(item) if !self.is_op(":") => items.push(item),
                begin => {
                    self.expect_op(":")?;
                    let mut bound = || {
                        let is_absent = self.is_op("]") || self.is_op(",") || self.is_op(":");
                        if is_absent {
                            Ok(None)
                        } else {
                            self.expression(true).map(|bound| Some(Box::new(bound)))
                        }
                    };
                    let end = bound()?;
                    let step = if self.skip_op(":") {
                        let is_absent = self.is_op("]") || self.is_op(",");
                        if is_absent { None } else { Some(Box::new(self.expression(true)?)) }
                    } else {
                        None
                    };
                    if slice.is_some() || !items.is_empty() {
                        items.push(Expr::BadSlice);
                    } else {
                        slice = Some([begin.map(Box::new), end, step]);
                    }
                }
            }
        }
        self.expect_op("]")?;
        Ok(match slice {
            Some(bounds) if items.is_empty() => Expr::Slice(Box::new(value), bounds),
            Some(_) => Expr::Item(Box::new(value), Box::new(Expr::BadSlice)),
            None if items.len() == 1 => Expr::Item(Box::new(value), Box::new(items.remove(0))),
            None => Expr::Item(Box::new(value), Box::new(Expr::Tuple(items))),
        })
    }

    fn args(&mut self) -> Result<Args> {
        let mut args = Args::default();
        let mut is_first = true;
        let line = self.line();
        let invalid = || Err(Error::other("invalid syntax for function call expression").at(line));
        self.expect_op("(")?;
        while !self.is_op(")") {
            if !is_first {
                self.expect_op(",")?;
                if self.is_op(")") {
                    break;
                }
            }
            is_first = false;
            if self.skip_op("*") {
                if args.rest.is_some() || args.rest_named.is_some() {
                    return invalid();
                }
                args.rest = Some(Box::new(self.expression(true)?));
            } else if self.skip_op("**") {
                if args.rest_named.is_some() {
                    return invalid();
                }
                args.rest_named = Some(Box::new(self.expression(true)?));
            } else if let (Token::Name(name), Token::Op("=")) = (self.peek().clone(), self.peek_second()) {
                if args.rest_named.is_some() || args.named.iter().any(|(known, _)| *known == name) {
                    return invalid();
                }
                self.at += 2;
                args.named.push((name, self.expression(true)?));
            } else {
                if args.rest.is_some() || args.rest_named.is_some() || !args.named.is_empty() {
                    return invalid();
                }
                args.positional.push(self.expression(true)?);
            }
        }
        self.expect_op(")")?;
        Ok(args)
    }

    fn call(&mut self, callee: Expr) -> Result<Expr> {
        let line = self.line();
        self.link()?;
        Ok(Expr::Call(Box::new(callee), self.args()?, line))
    }

    fn dotted_name(&mut self) -> Result<String> {
        let mut name = self.any_name()?;
        while self.skip_op(".") {
            name = format!("{name}.{}", self.any_name()?);
        }
        Ok(name)
    }

    /// Filters after a value. Each begins with `|`; if `begins`, the first one comes without it.
    pub(super) fn filters(&mut self, value: Option<Expr>, mut begins: bool) -> Result<Option<Expr>> {
        let mut value = value;
        while begins || self.skip_op("|") {
            self.link()?;
            begins = false;
            let line = self.line();
            let name = self.dotted_name()?;
            if !self.is_soft && !filters::is_known(&name) {
                return Err(Error::other(format!("No filter named '{name}'.")).at(line));
            }
            let args = if self.is_op("(") { self.args()? } else { Args::default() };
            value = Some(Expr::Filter(value.map(Box::new), name, args, line));
        }
        Ok(value)
    }

    fn test(&mut self, value: Expr) -> Result<Expr> {
        self.expect_name("is")?;
        let is_negated = self.skip_name("not");
        let line = self.line();
        let name = self.dotted_name()?;
        if !self.is_soft && !checks::is_known(&name) {
            return Err(Error::other(format!("No test named '{name}'.")).at(line));
        }
        let is_word = |token: &Token| matches!(token, Token::Name(name) if ["else", "or", "and"].contains(&name.as_str()));
        let args = match self.peek() {
            Token::Op("(") => self.args()?,
            Token::Name(name) if name == "is" => return self.fail("You cannot chain multiple tests with is"),
            token @ (Token::Name(_)
            | Token::Str(_)
            | Token::Int(_)
            | Token::Float(_)
            | Token::Op("[" | "{"))
                if !is_word(token) =>
            {
                let argument = self.primary()?;
                let argument = self.postfix(argument)?;
                Args { positional: vec![argument], ..Args::default() }
            }
            _ => Args::default(),
        };
        let test = Expr::Test(Box::new(value), name, args, line);
        Ok(if is_negated { Expr::Not(Box::new(test)) } else { test })
    }
}
