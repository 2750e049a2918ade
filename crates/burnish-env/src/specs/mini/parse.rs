//! Reads expressions and programs.

use super::{Expr, Program, Relation, Sign, Value};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Int(i64),
    Text(String),
    /// A name or a word of the language.
    Word(String),
    Mark(&'static str),
}

/// Marks, longer ones first.
const MARKS: [&str; 19] =
    ["//", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "%", "(", ")", "[", "]", ",", ":", ".", "="];

const WORDS: [&str; 9] = ["and", "or", "not", "in", "if", "else", "for", "is", "lambda"];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let run = |holds: fn(char) -> bool| rest.find(|c| !holds(c)).unwrap_or(rest.len());
        if first.is_ascii_digit() {
            let (number, after) = rest.split_at(run(|c| c.is_ascii_digit()));
            tokens.push(Token::Int(number.parse().map_err(|_| format!("{number} is too large"))?));
            rest = after;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let (word, after) = rest.split_at(run(|c| c.is_ascii_alphanumeric() || c == '_'));
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        } else if first == '\'' || first == '"' {
            let inner = &rest[1..];
            let end = inner.find(first).ok_or_else(|| format!("the text {rest} has no end"))?;
            tokens.push(Token::Text(inner[..end].to_owned()));
            rest = &inner[end + 1..];
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
            let mark = mark.ok_or_else(|| format!("`{first}` is not understood"))?;
            tokens.push(Token::Mark(mark));
            rest = &rest[mark.len()..];
        }
    }
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
}

/// An expression.
///
/// # Errors
/// If the text is none: what is wrong.
pub(in crate::specs) fn expression(text: &str) -> Result<Expr, String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0 };
    let expr = reader.expr().map_err(|problem| format!("`{text}`: {problem}"))?;
    match reader.tokens.get(reader.at) {
        None => Ok(expr),
        Some(token) => Err(format!("`{text}`: {token:?} is too much")),
    }
}

/// A program: lines `name = expression`, and `return expression` as the last.
///
/// # Errors
/// If the lines are none: what is wrong.
pub(in crate::specs) fn program(lines: &[String]) -> Result<Program, String> {
    let (last, before) = lines.split_last().ok_or("a program needs a line")?;
    let returns = last.strip_prefix("return ").ok_or_else(|| format!("`{last}` does not return"))?;
    let read = |line: &String| {
        let (name, value) = line.split_once(" = ").ok_or_else(|| format!("`{line}` is no assignment"))?;
        Ok((name.trim().to_owned(), expression(value)?))
    };
    let lines = before.iter().map(read).collect::<Result<_, String>>()?;
    Ok(Program { lines, returns: expression(returns)? })
}

type Read<T> = Result<T, String>;

impl Reader {
    fn takes(&mut self, token: &Token) -> bool {
        let is_next = self.tokens.get(self.at) == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn takes_mark(&mut self, mark: &'static str) -> bool {
        self.takes(&Token::Mark(mark))
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.takes(&Token::Word(word.to_owned()))
    }

    fn mark(&mut self, mark: &'static str) -> Read<()> {
        if self.takes_mark(mark) { Ok(()) } else { Err(self.wanted(&format!("`{mark}`"))) }
    }

    fn wanted(&self, what: &str) -> String {
        match self.tokens.get(self.at) {
            Some(token) => format!("{what} should stand in place of {token:?}"),
            None => format!("{what} is missing at the end"),
        }
    }

    fn name(&mut self) -> Read<String> {
        match self.tokens.get(self.at) {
            Some(Token::Word(word)) if !WORDS.contains(&word.as_str()) => {
                self.at += 1;
                Ok(self.tokens[self.at - 1].word())
            }
            _ => Err(self.wanted("a name")),
        }
    }

    fn expr(&mut self) -> Read<Expr> {
        let value = self.or()?;
        if !self.takes_word("if") {
            return Ok(value);
        }
        let condition = self.or()?;
        if !self.takes_word("else") {
            return Err(self.wanted("`else`"));
        }
        let other = self.expr()?;
        Ok(Expr::If(Box::new([condition, value, other])))
    }

    fn or(&mut self) -> Read<Expr> {
        let mut left = self.and()?;
        while self.takes_word("or") {
            left = Expr::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Read<Expr> {
        let mut left = self.not()?;
        while self.takes_word("and") {
            left = Expr::And(Box::new([left, self.not()?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Read<Expr> {
        if self.takes_word("not") {
            return Ok(Expr::Not(Box::new(self.not()?)));
        }
        let first = self.sum()?;
        let mut others = Vec::new();
        while let Some(relation) = self.relation() {
            others.push((relation, self.sum()?));
        }
        Ok(if others.is_empty() { first } else { Expr::Compare(Box::new(first), others) })
    }

    fn relation(&mut self) -> Option<Relation> {
        for (mark, relation) in [
            ("<=", Relation::LessEqual),
            (">=", Relation::GreaterEqual),
            ("==", Relation::Equal),
            ("!=", Relation::Unequal),
            ("<", Relation::Less),
            (">", Relation::Greater),
        ] {
            if self.takes_mark(mark) {
                return Some(relation);
            }
        }
        if self.takes_word("in") {
            return Some(Relation::In);
        }
        let next = |ahead: usize, word: &str| {
            self.tokens.get(self.at + ahead).is_some_and(|token| *token == Token::Word(word.to_owned()))
        };
        if next(0, "not") && next(1, "in") {
            self.at += 2;
            return Some(Relation::NotIn);
        }
        None
    }

    fn sum(&mut self) -> Read<Expr> {
        let mut left = self.product()?;
        loop {
            let sign = match () {
                () if self.takes_mark("+") => Sign::Plus,
                () if self.takes_mark("-") => Sign::Minus,
                () => return Ok(left),
            };
            left = Expr::Sign(sign, Box::new([left, self.product()?]));
        }
    }

    fn product(&mut self) -> Read<Expr> {
        let mut left = self.unary()?;
        loop {
            let sign = match () {
                () if self.takes_mark("*") => Sign::Times,
                () if self.takes_mark("//") => Sign::Div,
                () if self.takes_mark("%") => Sign::Rest,
                () => return Ok(left),
            };
            left = Expr::Sign(sign, Box::new([left, self.unary()?]));
        }
    }

    fn unary(&mut self) -> Read<Expr> {
        if self.takes_mark("-") {
            return Ok(match self.unary()? {
                Expr::Literal(Value::Int(number)) => Expr::Literal(Value::Int(-number)),
                other => Expr::Minus(Box::new(other)),
            });
        }
        let mut value = self.atom()?;
        loop {
            if self.takes_mark("[") {
                value = self.index(value)?;
            } else if self.takes_mark(".") {
                let name = self.name()?;
                self.mark("(")?;
                value = Expr::Method(Box::new(value), name, self.items(")")?);
            } else {
                return Ok(value);
            }
        }
    }

    fn index(&mut self, of: Expr) -> Read<Expr> {
        let mut parts: [Option<Box<Expr>>; 3] = [None, None, None];
        let mut is_slice = false;
        for (place, part) in parts.iter_mut().enumerate() {
            if !matches!(self.tokens.get(self.at), Some(Token::Mark(":" | "]"))) {
                *part = Some(Box::new(self.expr()?));
            }
            if place == 2 || !self.takes_mark(":") {
                break;
            }
            is_slice = true;
        }
        self.mark("]")?;
        match parts {
            parts if is_slice => Ok(Expr::Slice(Box::new(of), parts)),
            [Some(at), ..] => Ok(Expr::Index(Box::new([of, *at]))),
            _ => Err("an index is missing".into()),
        }
    }

    /// Expressions with commas between them, up to `end`.
    fn items(&mut self, end: &'static str) -> Read<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.takes_mark(end) {
            if !items.is_empty() {
                self.mark(",")?;
            }
            items.push(self.expr()?);
        }
        Ok(items)
    }

    fn atom(&mut self) -> Read<Expr> {
        match self.tokens.get(self.at).cloned() {
            Some(Token::Int(number)) => {
                self.at += 1;
                Ok(Expr::Literal(Value::Int(number)))
            }
            Some(Token::Text(text)) => {
                self.at += 1;
                Ok(Expr::Literal(Value::Text(text)))
            }
            Some(Token::Mark("(")) => {
                self.at += 1;
                let inner = self.expr()?;
                self.mark(")")?;
                Ok(inner)
            }
            Some(Token::Mark("[")) => {
                self.at += 1;
                self.list()
            }
            Some(Token::Word(_)) => {
                let name = self.name()?;
                Ok(match name.as_str() {
                    "True" => Expr::Literal(Value::Bool(true)),
                    "False" => Expr::Literal(Value::Bool(false)),
                    "None" => Expr::Literal(Value::None),
                    _ if self.takes_mark("(") => Expr::Call(name, self.items(")")?),
                    _ => Expr::Name(name),
                })
            }
            _ => Err(self.wanted("a value")),
        }
    }

    fn list(&mut self) -> Read<Expr> {
        if self.takes_mark("]") {
            return Ok(Expr::List(Vec::new()));
        }
        let first = self.expr()?;
        if !self.takes_word("for") {
            let mut items = vec![first];
            if self.takes_mark(",") {
                items.extend(self.items("]")?);
            } else {
                self.mark("]")?;
            }
            return Ok(Expr::List(items));
        }
        let mut fors = Vec::new();
        loop {
            let name = self.name()?;
            if !self.takes_word("in") {
                return Err(self.wanted("`in`"));
            }
            // Not a whole expression: an `if` that follows is the condition.
            fors.push((name, self.or()?));
            if !self.takes_word("for") {
                break;
            }
        }
        let condition = if self.takes_word("if") { Some(Box::new(self.or()?)) } else { None };
        self.mark("]")?;
        Ok(Expr::Each(Box::new(first), fors, condition))
    }
}

impl Token {
    fn word(&self) -> String {
        match self {
            Token::Word(word) => word.clone(),
            _ => String::new(),
        }
    }
}
