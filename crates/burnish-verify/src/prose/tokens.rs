//! Running text as words, values and the stops between them.

use super::mathematics::is_plain_number;
use crate::extract;
use crate::numeral::ascii_digit;
use crate::structure::read;
use crate::syntax::{Expr, Value};
use crate::units;

/// A piece of running text and its position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// In lower case.
    Word(String),
    Found(Found),
    /// `+ - * / = < > ...` between words and values.
    Sign(char),
    /// `.`, `!`, `?`, or the end of a line.
    Stop(char),
    Comma,
    Semicolon,
    Colon,
    Dash,
    Open,
    Close,
}

/// A value in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// `None` if it can't be read, or is not a single value: `20-30`, `7+`, `7-fold`.
    pub(super) value: Option<Value>,
    /// Whether it is a number alone, not a formula or an equation.
    pub(super) is_plain: bool,
    /// `7th`, `7-day`: the number is part of a word.
    pub(super) is_part: bool,
}

/// Words that keep their full stop.
const ABBREVIATIONS: &[&str] = &[
    "approx", "i.e", "e.g", "ie", "eg", "vs", "mr", "mrs", "ms", "dr", "max", "min", "etc", "st", "resp",
    "cf", "ca", "ans", "fig", "eq", "sec", "hr", "hrs", "oz", "lb", "lbs", "ft", "in", "yd", "approx",
    "incl", "excl",
];

/// Splits `text` from `from` on into at most `limit` tokens.
pub(super) fn tokens(text: &str, from: usize, limit: usize) -> Vec<Token> {
    let formulas = extract::formulas(text);
    let mut scanner = Scanner { text, formulas: &formulas, at: from, tokens: Vec::new() };
    while scanner.at < text.len() && scanner.tokens.len() < limit {
        scanner.step();
    }
    scanner.tokens
}

/// Tags that stand inside a sentence.
const INLINE_TAGS: &[&str] = &[
    "b", "i", "u", "em", "strong", "mark", "code", "span", "font", "sub", "sup", "small", "big", "tt", "kbd",
    "a",
];

/// Length of the tag at the start of `text`, and whether a sentence goes on through it: `<b>`, `</think>`,
/// `<|im_end|>`. `a<b` and `x < y and z > 3` are not tags.
fn tag(text: &str) -> Option<(usize, bool)> {
    let inner = &text[1..text.find('>')?];
    let bare = inner.trim_start_matches(['/', '|']);
    let name_length =
        bare.find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))).unwrap_or(bare.len());
    let (name, rest) = bare.split_at(name_length);
    let is_tag = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && inner.len() <= 80
        && !inner.contains(['<', '\n'])
        && (matches!(rest.trim(), "" | "/" | "|") || (rest.starts_with(' ') && rest.contains('=')));
    is_tag.then(|| (inner.len() + 2, INLINE_TAGS.contains(&name.to_ascii_lowercase().as_str())))
}

pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) formulas: &'a [(std::ops::Range<usize>, &'a str)],
    pub(super) at: usize,
    pub(super) tokens: Vec<Token>,
}

impl Scanner<'_> {
    fn push(&mut self, kind: Kind, end: usize) {
        self.tokens.push(Token { kind, start: self.at, end });
        self.at = end;
    }

    pub(super) fn before(&self) -> Option<char> {
        self.text[..self.at].chars().next_back()
    }

    pub(super) fn last(&self) -> Option<&Kind> {
        self.tokens.last().map(|token| &token.kind)
    }

    /// Whether there is only space and Markdown before this place in its line.
    fn opens_line(&self) -> bool {
        let line = self.text[..self.at].rsplit('\n').next().unwrap_or("");
        line.chars().all(|c| c.is_whitespace() || matches!(c, '*' | '#' | '>' | '_' | '`'))
    }

    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let Some(c) = rest.chars().next() else { return };
        let next = self.at + c.len_utf8();
        if let Some((range, inner)) = self.formulas.iter().find(|(range, _)| range.start == self.at)
            && self.formula(range.end, inner)
        {
            return;
        }
        if c.is_whitespace() {
            if c == '\n' {
                self.line_end();
            }
            self.at = next;
            return;
        }
        let after = rest[c.len_utf8()..].chars().next();
        let is_number = ascii_digit(c).is_some() || (c == '.' && after.and_then(ascii_digit).is_some());
        if is_number && self.opens_line() && self.numbering(rest) {
            return;
        }
        if matches!(c, '-' | '*' | '+' | '•' | '–')
            && after.is_some_and(char::is_whitespace)
            && self.opens_line()
        {
            // The marker of a list item.
            self.at = next;
            return;
        }
        // Struck-through text does not count.
        if let Some(struck) = rest.strip_prefix("~~")
            && let Some(length) = struck.find("~~")
        {
            self.at += length + 4;
            return;
        }
        if c == '<'
            && let Some((length, is_inline)) = tag(rest)
        {
            let end = self.at + length;
            if is_inline || matches!(self.last(), None | Some(Kind::Stop(_))) {
                self.at = end;
            } else {
                self.push(Kind::Stop('\n'), end);
            }
            return;
        }
        if c == '>' && self.opens_line() {
            // The marker of a quotation.
            self.at = next;
            return;
        }
        if let Some((end, found)) = self.mathematics() {
            self.push(Kind::Found(found), end);
            return;
        }
        if c.is_alphabetic() {
            self.word();
            return;
        }
        let is_spaced = |c: Option<char>| c.is_none_or(char::is_whitespace);
        match c {
            '.' if rest.starts_with("...") => {
                let end = self.at + rest.len() - rest.trim_start_matches('.').len();
                self.push(Kind::Dash, end);
            }
            '.' | '!' | '?' | '。' | '।' | '！' | '？' if self.is_stop(c, after) => {
                let sign = if matches!(c, '?' | '？') { '?' } else { '.' };
                self.push(Kind::Stop(sign), next);
            }
            ',' | '，' | '、' => self.push(Kind::Comma, next),
            ';' | '；' => self.push(Kind::Semicolon, next),
            // A ratio: `3 : 5`
            ':' if is_spaced(self.before()) && matches!(self.last(), Some(Kind::Found(_))) => {
                self.push(Kind::Sign(':'), next)
            }
            ':' | '：' => self.push(Kind::Colon, next),
            '(' | '（' | '[' => self.push(Kind::Open, next),
            ')' | '）' | ']' => self.push(Kind::Close, next),
            '—' | '–' | '→' | '⇒' => {
                let end = if after == Some('>') { next + 1 } else { next };
                self.push(Kind::Dash, end)
            }
            // A tick behind a value or an equation approves of it.
            '✓' | '✔' | '☑' if !matches!(self.last(), None | Some(Kind::Stop('\n'))) => {
                self.push(Kind::Word("✓".to_owned()), next)
            }
            '-' if rest.starts_with("--") || rest.starts_with("->") => self.push(Kind::Dash, next + 1),
            '=' if rest.starts_with("=>") || rest.starts_with("==>") => {
                self.push(Kind::Dash, self.at + rest.find('>').unwrap_or(0) + 1)
            }
            '-' | '−' if is_spaced(self.before()) && is_spaced(after) => self.push(Kind::Sign('-'), next),
            '*' if !rest.starts_with("**") && is_spaced(self.before()) && is_spaced(after) => {
                self.push(Kind::Sign('*'), next)
            }
            '×' | '·' | '⋅' => self.push(Kind::Sign('*'), next),
            '+' | '/' | '÷' | '=' | '^' | '≈' | '±' => self.push(Kind::Sign(c), next),
            '&' => self.push(Kind::Word("and".to_owned()), next),
            '~' if self.before().is_some_and(|c| c.is_ascii_digit()) => self.push(Kind::Dash, next),
            '!' if rest.starts_with("!=") => self.push(Kind::Sign('<'), next + 1),
            '<' | '≤' | '>' | '≥' | '≠' => self.push(Kind::Sign('<'), next),
            '~' if after.is_some_and(|c| c.is_ascii_digit() || units::currency(c).is_some()) => {
                self.push(Kind::Sign('≈'), next)
            }
            '\\' => {
                // A leftover formula delimiter, or a command that is not a value: `\approx 7`.
                let name: String = rest[1..].chars().take_while(char::is_ascii_alphabetic).collect();
                let end = self.at + 1 + name.len();
                match name.as_str() {
                    "approx" | "sim" | "simeq" => self.push(Kind::Sign('≈'), end),
                    "le" | "leq" | "ge" | "geq" | "lt" | "gt" | "ne" | "neq" => {
                        self.push(Kind::Sign('<'), end)
                    }
                    "times" | "cdot" => self.push(Kind::Sign('*'), end),
                    "div" => self.push(Kind::Sign('/'), end),
                    "pm" => self.push(Kind::Sign('±'), end),
                    _ => self.at = if name.is_empty() { next } else { end },
                }
            }
            _ => self.at = next,
        }
    }

    /// The end of a line ends a sentence, unless the next line continues it.
    fn line_end(&mut self) {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\r']);
        let is_paragraph = rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        let goes_on = !is_paragraph && rest.trim_start().chars().next().is_some_and(char::is_lowercase);
        let is_open = matches!(self.last(), None | Some(Kind::Stop(_) | Kind::Colon | Kind::Comma));
        if !(goes_on || is_open) {
            self.push(Kind::Stop('\n'), self.at + 1);
        }
    }

    fn is_stop(&self, c: char, after: Option<char>) -> bool {
        let is_last = after.is_none_or(|c| {
            c.is_whitespace() || matches!(c, '*' | '"' | '”' | '\'' | ')' | '_' | '`' | '$' | '\\' | '<')
        });
        let is_abbreviation = matches!(self.last(), Some(Kind::Word(word)) if ABBREVIATIONS.contains(&word.as_str()))
            && !self.text[self.at + 1..].trim_start().chars().next().is_none_or(char::is_uppercase);
        !(c == '.' && (is_abbreviation || !is_last))
    }

    /// `1.` and `1)` before the text of a list item.
    fn numbering(&mut self, rest: &str) -> bool {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let tail = rest[digits..].trim_start_matches(['*', '_']);
        let is_mark = (1..=2).contains(&digits) && (tail.starts_with(". ") || tail.starts_with(") "));
        let line = tail.get(2..).unwrap_or("").lines().next().unwrap_or("").trim();
        // If it is the only number of the text, a number with a full stop is an answer: "18. She has nine eggs."
        let is_item = line.chars().any(char::is_alphanumeric)
            && (rest.starts_with("1.")
                || rest.starts_with("1)")
                || self.text.contains("\n1.")
                || self.text.contains("\n2.")
                || self.text.starts_with("1.")
                || self.text.contains("\n1)"));
        if is_mark && is_item {
            self.at += digits + 1;
            return true;
        }
        false
    }

    fn word(&mut self) {
        let rest = &self.text[self.at..];
        let mut end = rest.len();
        for (index, c) in rest.char_indices() {
            let next = rest[index + c.len_utf8()..].chars().next();
            let joins =
                matches!(c, '\'' | '’' | '-' | '.') && next.is_some_and(char::is_alphabetic) && index > 0;
            if !(c.is_alphabetic() || joins || (index > 0 && (c.is_ascii_digit() || c == '_'))) {
                end = index;
                break;
            }
            // In scripts without spaces, a whole sentence would be one word.
            if !c.is_ascii() && index > 0 && next.and_then(ascii_digit).is_some() {
                end = index + c.len_utf8();
                break;
            }
        }
        let word = rest[..end.max(1)].to_lowercase().replace('’', "'");
        let end = self.at + end.max(1);
        self.push(Kind::Word(word), end);
    }

    /// A formula in its delimiters. `false` if it turns out not to be one.
    fn formula(&mut self, end: usize, inner: &str) -> bool {
        let trimmed =
            ["\\approx", "\\sim", "\\simeq", "\\Rightarrow", "\\implies", "\\therefore", "\\rightarrow"]
                .iter()
                .find_map(|sign| inner.trim().strip_prefix(sign).filter(|rest| rest.starts_with([' ', '{'])))
                .unwrap_or(inner)
                .trim();
        let trimmed = trimmed.strip_prefix('=').unwrap_or(trimmed).trim_start();
        let value = extract_value(trimmed);
        let is_readable = value.as_ref().is_some_and(|value| !has_digit_words(value));
        if !is_readable {
            if trimmed.ends_with(['+', '-', '–', '/', '=', '(', ',']) {
                return false;
            }
            // Prose inside a formula: `7 \text{ or more}`.
            if inner.contains("\\text") || inner.contains("\\mbox") || inner.contains("\\mathrm") {
                let plain = unwrapped(inner);
                let (start, spliced) = (self.at, tokens(&plain, 0, 64));
                if spliced.iter().any(|token| matches!(token.kind, Kind::Found(_)))
                    && !plain.contains("\\text")
                {
                    self.tokens.extend(spliced.into_iter().map(|token| Token {
                        kind: token.kind,
                        start,
                        end,
                    }));
                    self.at = end;
                    return true;
                }
            }
        }
        let is_plain = is_plain_number(trimmed);
        self.push(Kind::Found(Found { value, is_plain, is_part: false }), end);
        true
    }
}

/// Whether a value consists of words with digits among them: prose that was taken for a text answer.
fn has_digit_words(value: &Value) -> bool {
    match value {
        Value::Text(words) => words.contains(|c: char| c.is_ascii_digit()) && words.contains(' '),
        Value::List(items) | Value::Chain(items, _) => items.iter().any(has_digit_words),
        _ => false,
    }
}

fn extract_value(inner: &str) -> Option<Value> {
    read(extract::stripped(inner), true).or_else(|| {
        let (name, value) = inner.split_once('=')?;
        is_naming(name).then(|| read(extract::stripped(value), true)).flatten()
    })
}

/// Whether the left side of an equation only names what the right side is: `\angle ABC`, `\text{Area}`.
fn is_naming(left: &str) -> bool {
    let is_worked = ["frac", "sqrt", "cdot", "times", "sum", "int", "div", "pm", "ne", "le", "ge", "not"];
    let commands = left
        .split('\\')
        .skip(1)
        .map(|rest| &rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())]);
    left.contains(char::is_alphabetic)
        && !left.contains(|c: char| c.is_ascii_digit() || "+-−*/<>≤≥≠!".contains(c))
        && !commands.into_iter().any(|command| is_worked.contains(&command))
}

/// `\text{...}` without its markup.
pub(super) fn unwrapped(text: &str) -> String {
    let mut plain = text.to_owned();
    for command in ["\\text", "\\mbox", "\\mathrm", "\\textbf", "\\textit"] {
        let open = format!("{command}{{");
        for _ in 0..32 {
            let Some(start) = plain.find(&open) else { break };
            let inner = start + open.len();
            let Some(length) = extract::closing(&plain[inner..]) else { break };
            let content = format!(" {} ", &plain[inner..inner + length]);
            plain.replace_range(start..=inner + length, &content);
        }
    }
    plain
}

/// `value` times `factor`.
pub(super) fn scaled(value: Value, factor: &num_rational::BigRational) -> Value {
    let Value::Quantity { expr, unit } = value else { return value };
    let factor = Expr::Number { value: factor.clone(), decimals: None };
    Value::Quantity { expr: Expr::Product(vec![expr, factor]), unit }
}
