//! Splits a template's text into tokens, by the rules of `jinja2.lexer` with `trim_blocks` and `lstrip_blocks`.

use crate::chars::is_space;
use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Data(String),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(String),
    Str(String),
    /// Decimal digits.
    Int(String),
    Float(f64),
    Op(&'static str),
    End,
}

/// Longer operators come before shorter ones that are their prefixes.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",", ";",
];

pub(crate) fn tokens(source: &str) -> Result<Vec<(Token, usize)>> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    let mut lexer = Lexer { source: &source, at: 0, line: 1, begins_line: true, out: Vec::new() };
    lexer.run()?;
    let line = lexer.line;
    let mut out = lexer.out;
    out.push((Token::End, line));
    Ok(out)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Did the last text read end with a line feed?
    begins_line: bool,
    out: Vec<(Token, usize)>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn fail<T>(&self, problem: impl Into<String>) -> Result<T> {
        Err(Error::other(problem).at(self.line))
    }

    fn push(&mut self, token: Token) {
        self.out.push((token, self.line));
    }

    /// Moves forward by `length` bytes.
    fn skip(&mut self, length: usize) {
        let text = &self.rest()[..length];
        self.line += text.matches('\n').count();
        self.begins_line = text.ends_with('\n');
        self.at += length;
    }

    fn run(&mut self) -> Result<()> {
        while !self.rest().is_empty() {
            let rest = self.rest();
            let found = ["{%", "{{", "{#"].iter().filter_map(|open| Some((rest.find(open)?, *open))).min();
            let Some((begin, open)) = found else {
                self.push(Token::Data(rest.into()));
                self.skip(rest.len());
                return Ok(());
            };
            let sign = rest[begin + 2..].chars().next().filter(|c| ['-', '+'].contains(c));
            self.data(begin, sign, open == "{{");
            let raw = (open == "{%").then(|| raw_begin(&rest[begin..])).flatten();
            if let Some(length) = raw {
                self.skip(begin + length);
                self.raw()?;
                continue;
            }
            self.skip(begin + 2 + usize::from(sign.is_some()));
            match open {
                "{#" => self.comment()?,
                "{{" => {
                    self.push(Token::VariableBegin);
                    self.code("}}")?;
                    self.push(Token::VariableEnd);
                }
                _ => {
                    self.push(Token::BlockBegin);
                    self.code("%}")?;
                    self.push(Token::BlockEnd);
                }
            }
        }
        Ok(())
    }

    /// The text before a tag, without what the tag's whitespace control removes.
    fn data(&mut self, length: usize, sign: Option<char>, is_variable: bool) {
        let text = &self.rest()[..length];
        let kept = match sign {
            Some('-') => text.trim_end_matches(is_space),
            None if !is_variable => {
                let line = text.rfind('\n').map_or(0, |at| at + 1);
                let is_blank = (line > 0 || self.begins_line) && text[line..].chars().all(is_space);
                if is_blank { &text[..line] } else { text }
            }
            _ => text,
        };
        if !kept.is_empty() {
            self.push(Token::Data(kept.into()));
        }
    }

    fn comment(&mut self) -> Result<()> {
        let Some(end) = self.rest().find("#}") else { return self.fail("Missing end of comment tag") };
        self.skip(end + 2);
        self.after_close(self.source[..self.at - 2].chars().next_back().filter(|_| end > 0));
        Ok(())
    }

    /// After a closing delimiter: a `-` in it removes all whitespace, a `+` none; otherwise one line feed is removed.
    fn after_close(&mut self, sign: Option<char>) {
        let rest = self.rest();
        let length = match sign {
            Some('-') => rest.len() - rest.trim_start_matches(is_space).len(),
            Some('+') => 0,
            _ => usize::from(rest.starts_with('\n')),
        };
        if length > 0 {
            self.skip(length);
        }
    }

    /// After the beginning of a raw block: reads its text up to its end.
    fn raw(&mut self) -> Result<()> {
        let rest = self.rest();
        let mut from = 0;
        while let Some(found) = rest[from..].find("{%") {
            let begin = from + found;
            if let Some((length, sign)) = raw_end(&rest[begin..]) {
                let before = rest[begin + 2..].chars().next().filter(|c| ['-', '+'].contains(c));
                self.data(begin, before, false);
                self.skip(begin + length);
                self.after_close(sign);
                return Ok(());
            }
            from = begin + 2;
        }
        self.fail("Missing end of raw directive")
    }

    /// The tokens of a tag, including its closing delimiter.
    fn code(&mut self, close: &str) -> Result<()> {
        let mut open: Vec<char> = Vec::new();
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return self.fail(format!("the template ends within a tag; `{close}` is missing"));
            };
            if open.is_empty() {
                let signs: &[char] = if close == "}}" { &['-'] } else { &['-', '+'] };
                let sign = Some(first).filter(|c| signs.contains(c) && rest[1..].starts_with(close));
                if sign.is_some() || rest.starts_with(close) {
                    self.skip(close.len() + usize::from(sign.is_some()));
                    // Only blocks remove the line feed after them.
                    if sign.is_some() || close == "%}" {
                        self.after_close(sign);
                    }
                    return Ok(());
                }
            }
            if is_space(first) {
                self.skip(first.len_utf8());
            } else if let Some((length, value)) = self.float() {
                self.push(Token::Float(value));
                self.skip(length);
            } else if let Some((length, digits)) = integer(rest) {
                self.push(Token::Int(digits));
                self.skip(length);
            } else if first.is_alphanumeric() || first == '_' {
                let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                if first.is_numeric() {
                    return self.fail("Invalid character in identifier");
                }
                self.push(Token::Name(rest[..length].into()));
                self.skip(length);
            } else if let Some(length) = string_length(rest) {
                let text =
                    unescape(&rest[1..length - 1]).map_err(|problem| Error::other(problem).at(self.line))?;
                self.push(Token::Str(text));
                self.skip(length);
            } else if let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) {
                match *op {
                    "(" => open.push(')'),
                    "[" => open.push(']'),
                    "{" => open.push('}'),
                    ")" | "]" | "}" => match open.pop() {
                        Some(expected) if op.starts_with(expected) => {}
                        Some(expected) => {
                            return self.fail(format!("unexpected '{op}', expected '{expected}'"));
                        }
                        None => return self.fail(format!("unexpected '{op}'")),
                    },
                    _ => {}
                }
                self.push(Token::Op(op));
                self.skip(op.len());
            } else {
                return self.fail(format!("unexpected char {first:?}"));
            }
        }
    }

    /// A number with a fraction or an exponent. There is none after a dot: `x.1.2` is two subscripts.
    fn float(&self) -> Option<(usize, f64)> {
        if self.source[..self.at].ends_with('.') {
            return None;
        }
        let rest = self.rest();
        let whole = digits(rest)?;
        let fraction = rest[whole..].strip_prefix('.').and_then(digits).map_or(0, |length| length + 1);
        let after = &rest[whole + fraction..];
        let exponent = after.strip_prefix(['e', 'E']).and_then(|after| {
            let sign = usize::from(after.starts_with(['+', '-']));
            Some(1 + sign + digits(&after[sign..])?)
        });
        let length = whole + fraction + exponent.unwrap_or(0);
        if fraction == 0 && exponent.is_none() {
            return None;
        }
        rest[..length].replace('_', "").parse().ok().map(|value| (length, value))
    }
}

/// The length of a run of digits with single underscores between them.
fn digits(text: &str) -> Option<usize> {
    grouped(text, |c| c.is_ascii_digit(), false)
}

fn grouped(text: &str, is_digit: impl Fn(char) -> bool, may_begin_grouped: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(|b| is_digit(char::from(*b)));
    let mut at = 0;
    loop {
        if digit(at) {
            at += 1;
        } else if bytes.get(at) == Some(&b'_') && digit(at + 1) && (at > 0 || may_begin_grouped) {
            at += 2;
        } else {
            break;
        }
    }
    (at > 0).then_some(at)
}

fn integer(rest: &str) -> Option<(usize, String)> {
    for (prefix, radix) in [("0b", 2), ("0o", 8), ("0x", 16)] {
        if rest.get(..2).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
            && let Some(length) = grouped(&rest[2..], |c| c.is_digit(radix), true)
        {
            let text = rest[2..2 + length].replace('_', "");
            let value = num_bigint::BigInt::parse_bytes(text.as_bytes(), radix)?;
            return Some((2 + length, value.to_string()));
        }
    }
    let length = match rest.chars().next()? {
        '0' => grouped(rest, |c| c == '0', false)?,
        '1'..='9' => digits(rest)?,
        _ => return None,
    };
    Some((length, rest[..length].replace('_', "")))
}

fn raw_tag<'a>(tag: &'a str, word: &str) -> Option<&'a str> {
    let inner = tag.strip_prefix("{%")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_start_matches(is_space);
    Some(inner.strip_prefix(word)?.trim_start_matches(is_space))
}

/// The length of a tag that begins a raw block, including the whitespace that it removes.
fn raw_begin(tag: &str) -> Option<usize> {
    let inner = raw_tag(tag, "raw")?;
    let rest = match inner.strip_prefix("-%}") {
        Some(rest) => rest.trim_start_matches(is_space),
        None => inner.strip_prefix("%}")?,
    };
    Some(tag.len() - rest.len())
}

/// The length of a tag that ends a raw block, and the sign before its closing delimiter.
fn raw_end(tag: &str) -> Option<(usize, Option<char>)> {
    let inner = raw_tag(tag, "endraw")?;
    let sign = inner.chars().next().filter(|c| ['-', '+'].contains(c));
    let rest = inner[usize::from(sign.is_some())..].strip_prefix("%}")?;
    Some((tag.len() - rest.len(), sign))
}

/// The length of the quoted text at the beginning of `rest`, including the quotes.
fn string_length(rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next()?;
            }
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Python's `unicode-escape`.
fn unescape(text: &str) -> std::result::Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(code) = chars.next() else { return Err("\\ at end of string".into()) };
        let mut number = |digits: usize| {
            let text: String = (0..digits).map_while(|_| chars.next_if(char::is_ascii_hexdigit)).collect();
            if text.len() < digits {
                return Err(format!("truncated \\{code} escape"));
            }
            let number = u32::from_str_radix(&text, 16).map_err(|error| error.to_string())?;
            char::from_u32(number).ok_or_else(|| format!("\\{code}{text} is no character of its own"))
        };
        match code {
            '\n' => {}
            '\\' | '\'' | '"' => out.push(code),
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\u{b}'),
            'x' => out.push(number(2)?),
            'u' => out.push(number(4)?),
            'U' => out.push(number(8)?),
            'N' => return Err("\\N{...} is not supported in a template's text; write the character".into()),
            '0'..='7' => {
                let mut value = code.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    chars.next();
                }
                out.extend(char::from_u32(value));
            }
            // At this point Python has already escaped what is not ASCII, and so reads two backslashes.
            c if !c.is_ascii() => {
                let number = u32::from(c);
                out += &match number {
                    ..=0xff => format!("\\x{number:02x}"),
                    0x100..=0xffff => format!("\\u{number:04x}"),
                    _ => format!("\\U{number:08x}"),
                };
            }
            c => {
                out.push('\\');
                out.push(c);
            }
        }
    }
    Ok(out)
}
