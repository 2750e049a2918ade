//! Tokens of an answer: LaTeX, plain mathematics and the few words around them.

use num_rational::BigRational;
use unicode_normalization::UnicodeNormalization;

use crate::commands::{Command, command, function, is_wordlike};
use crate::infix::prefixed;
use crate::numeral::ascii_digit;
use crate::syntax::{Constant, Function, Relation};
use crate::units::{self, Unit};

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Number {
        value: BigRational,
        decimals: Option<u32>,
        digits: String,
    },
    Symbol(String),
    Constant(Constant),
    Function(Function),
    Infinity,
    Words(String),
    Separator,
    /// "or" between two items.
    Or,
    /// `:` after the variable of a set.
    Colon,
    Open(Bracket),
    Close(Bracket),
    Bar,
    Plus,
    Minus,
    PlusMinus(bool),
    Times,
    Divide,
    Caret,
    Underscore,
    Bang,
    Percent,
    Degree,
    Prime,
    Relation(Relation),
    In,
    Union,
    Frac,
    Sqrt,
    Binomial,
    /// `\over`, `\choose`: gone when the tokens are parsed.
    Over,
    Choose,
    Currency(Unit),
    Begin,
    End,
    Ampersand,
    Row,
}

/// Kinds of brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bracket {
    Round,
    Square,
    /// `{`: only groups.
    Group,
    /// `\{`.
    Set,
    Angle,
    Floor,
    Ceiling,
    /// `\lvert`.
    Bar,
}

/// The longest answer that is read as mathematics, in characters.
pub(crate) const LENGTH: usize = 2000;

/// Splits `text` into tokens. `None` if it holds something unknown or is too long. With `grouped`, `1,234` outside of
/// brackets is one number.
pub(crate) fn lex(text: &str, grouped: bool) -> Option<Vec<Token>> {
    let chars: Vec<char> = text.chars().take(LENGTH + 1).map(plain).collect();
    if chars.len() > LENGTH {
        return None;
    }
    let has_rows = text.contains("\\begin");
    let mut lexer = Lexer { chars, at: 0, tokens: Vec::new(), depth: 0, grouped, is_spaced: false, has_rows };
    while lexer.at < lexer.chars.len() {
        lexer.step()?;
    }
    prefixed(lexer.tokens)
}

/// A letter without its font: the 𝑥 and ℝ of copied formulas as x and R.
fn plain(c: char) -> char {
    let mut letters = std::iter::once(c).nfkc();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if c.is_alphabetic() => letter,
        _ => c,
    }
}

pub(crate) struct Lexer {
    pub(crate) chars: Vec<char>,
    pub(crate) at: usize,
    tokens: Vec<Token>,
    /// Depth of brackets other than groups.
    pub(crate) depth: usize,
    pub(crate) grouped: bool,
    /// Whether there is space before the token being read.
    is_spaced: bool,
    /// Whether `\\` may end a row.
    has_rows: bool,
}

impl Lexer {
    pub(crate) fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    pub(crate) fn digit(&self, ahead: usize) -> Option<char> {
        self.peek(ahead).and_then(ascii_digit)
    }

    pub(crate) fn push(&mut self, token: Token) {
        match token {
            Token::Open(Bracket::Group) | Token::Close(Bracket::Group) => {}
            Token::Open(_) => self.depth += 1,
            Token::Close(_) => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.tokens.push(token);
        self.is_spaced = false;
    }

    fn step(&mut self) -> Option<()> {
        let c = self.peek(0)?;
        if self.digit(0).is_some() || (c == '.' && self.digit(1).is_some()) {
            return self.number();
        }
        if c == '\\' {
            return self.command();
        }
        if c.is_ascii_alphabetic() {
            return self.letters();
        }
        self.at += 1;
        if c.is_whitespace() || matches!(c, '~' | '\u{200b}' | '\u{feff}') {
            self.is_spaced = true;
            return Some(());
        }
        let token = match c {
            '+' => Token::Plus,
            '-' | '−' | '–' | '﹣' | '－' => Token::Minus,
            '±' => Token::PlusMinus(true),
            '∓' => Token::PlusMinus(false),
            '*' => {
                if self.peek(0) == Some('*') {
                    self.at += 1;
                    Token::Caret
                } else {
                    Token::Times
                }
            }
            '×' | '·' | '⋅' | '∙' => Token::Times,
            '/' | '÷' | '⁄' => Token::Divide,
            '^' => Token::Caret,
            '_' => Token::Underscore,
            '!' if self.peek(0) == Some('=') => {
                self.at += 1;
                Token::Relation(Relation::NotEqual)
            }
            '!' => Token::Bang,
            '%' | '％' => Token::Percent,
            '°' => Token::Degree,
            '\'' | '′' => Token::Prime,
            '(' | '（' => Token::Open(Bracket::Round),
            ')' | '）' => Token::Close(Bracket::Round),
            '[' => Token::Open(Bracket::Square),
            ']' => Token::Close(Bracket::Square),
            '{' => {
                // `{,}` is LaTeX's thousands comma; in that case the number has consumed it.
                Token::Open(Bracket::Group)
            }
            '}' => Token::Close(Bracket::Group),
            '⟨' => Token::Open(Bracket::Angle),
            '⟩' => Token::Close(Bracket::Angle),
            '|' => Token::Bar,
            ',' | ';' | '，' | '、' | '；' => Token::Separator,
            ':' => Token::Colon,
            '=' => Token::Relation(Relation::Equal),
            '≈' => Token::Relation(Relation::Approx),
            '≠' => Token::Relation(Relation::NotEqual),
            '<' | '>' | '≤' | '≥' => self.order(c),
            '∈' => Token::In,
            '∪' => Token::Union,
            '∞' => Token::Infinity,
            'π' => Token::Constant(Constant::Pi),
            '√' => Token::Sqrt,
            '&' => Token::Ampersand,
            '⁻' | '⁺' => return self.superscript(c),
            c if superscript(c).is_some() => return self.superscript(c),
            '½' => return self.vulgar(1, 2),
            '¼' => return self.vulgar(1, 4),
            '¾' => return self.vulgar(3, 4),
            // A dollar is a delimiter far more often than money; `\$` is money.
            '$' => return Some(()),
            // A full stop is not part of mathematics; `\right.` ends here too.
            '.' | '。' if self.chars[self.at..].iter().all(|c| c.is_whitespace() || *c == '$') => {
                return Some(());
            }
            '"' | '“' | '”' => return Some(()),
            c => {
                if let Some(unit) = units::currency(c) {
                    Token::Currency(unit)
                } else if ('α'..='ω').contains(&c) || ('Α'..='Ω').contains(&c) {
                    Token::Symbol(c.to_string())
                } else if c.is_alphabetic() {
                    return self.foreign_word(c);
                } else {
                    return None;
                }
            }
        };
        self.push(token);
        Some(())
    }

    fn order(&mut self, c: char) -> Token {
        let or_equal = self.peek(0) == Some('=');
        if or_equal {
            self.at += 1;
        }
        Token::Relation(match (c, or_equal) {
            ('<', false) => Relation::Less,
            ('<', true) | ('≤', _) => Relation::LessEqual,
            ('>', false) => Relation::Greater,
            _ => Relation::GreaterEqual,
        })
    }

    /// `²`, `⁻¹²`: as a power.
    fn superscript(&mut self, first: char) -> Option<()> {
        let mut digits = match first {
            '⁻' => "-".to_owned(),
            first => superscript(first).map(String::from).unwrap_or_default(),
        };
        while let Some(digit) = self.peek(0).and_then(superscript) {
            digits.push(digit);
            self.at += 1;
        }
        let power: i64 = digits.parse().ok()?;
        self.push(Token::Caret);
        if power < 0 {
            self.push(Token::Minus);
        }
        self.push(small(power.checked_abs()?));
        Some(())
    }

    /// `½`: as `\frac{1}{2}`, so that `3½` is a mixed number.
    fn vulgar(&mut self, numerator: i64, denominator: i64) -> Option<()> {
        self.push(Token::Frac);
        for part in [numerator, denominator] {
            self.push(Token::Open(Bracket::Group));
            self.push(small(part));
            self.push(Token::Close(Bracket::Group));
        }
        Some(())
    }

    fn foreign_word(&mut self, first: char) -> Option<()> {
        let mut word = first.to_string();
        while let Some(c) = self.peek(0).filter(|c| c.is_alphabetic() && !c.is_ascii()) {
            word.push(c);
            self.at += 1;
        }
        self.push(Token::Words(word));
        Some(())
    }

    /// ASCII letters outside of commands: a known name, a word, or variables side by side.
    fn letters(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c.is_ascii_alphabetic()) {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        let after_value = self.is_after_value();
        if after_value && word.len() > 1 && units::find(&word).is_some() {
            self.push(Token::Words(word));
            return Some(());
        }
        // `6.05 x 10^7`
        if matches!(word.as_str(), "x" | "X") && after_value && self.is_power_of_ten() {
            self.push(Token::Times);
            return Some(());
        }
        if let Some(token) = named(&word) {
            self.push(token);
            return Some(());
        }
        if word.len() >= 4 || (word.len() >= 3 && after_value && self.is_spaced) {
            self.push(Token::Words(word));
            return Some(());
        }
        for c in word.chars() {
            self.push(letter(c));
        }
        Some(())
    }

    fn is_after_value(&self) -> bool {
        matches!(
            self.tokens.last(),
            Some(
                Token::Number { .. }
                    | Token::Close(_)
                    | Token::Words(_)
                    | Token::Constant(_)
                    | Token::Percent
            )
        )
    }

    /// Whether `10^` or `10²` comes next.
    fn is_power_of_ten(&self) -> bool {
        let rest: Vec<char> =
            self.chars[self.at..].iter().copied().filter(|c| !c.is_whitespace()).take(5).collect();
        let is_raised = |c: &char| *c == '^' || *c == '⁻' || superscript(*c).is_some();
        match rest[..] {
            ['1', '0', '{', '}', '^'] | ['1', '0', '*', '*', _] => true,
            ['1', '0', ref rest @ ..] => rest.first().is_some_and(is_raised),
            _ => false,
        }
    }

    fn command(&mut self) -> Option<()> {
        self.at += 1;
        let start = self.at;
        while self.peek(0).is_some_and(|c| c.is_ascii_alphabetic()) {
            self.at += 1;
        }
        if self.at == start {
            let c = self.peek(0)?;
            self.at += 1;
            match c {
                ',' | ';' | ':' | '!' | ' ' | '(' | ')' | '[' | ']' => self.is_spaced = true,
                '%' => self.push(Token::Percent),
                '$' => self.push(Token::Currency(units::currency('$')?)),
                '{' => self.push(Token::Open(Bracket::Set)),
                '}' => self.push(Token::Close(Bracket::Set)),
                '|' => self.push(Token::Bar),
                // If there are no rows, `\\frac` is a command that was escaped twice.
                '\\' if !self.has_rows && self.peek(0).is_some_and(|c| c.is_ascii_alphabetic()) => {
                    self.at -= 1
                }
                '\\' => self.push(Token::Row),
                _ => return None,
            }
            return Some(());
        }
        let name: String = self.chars[start..self.at].iter().collect();
        match command(&name)? {
            Command::Token(token) => self.push(token),
            Command::Nothing => self.is_spaced = true,
            Command::Delimiter => {
                if self.peek(0) == Some('.') {
                    self.at += 1;
                }
            }
            Command::Argument => {
                self.argument()?;
            }
            Command::Environment(token) => {
                let name = self.argument()?;
                // `vmatrix` is a determinant.
                if !["matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "array"]
                    .contains(&name.as_str())
                {
                    return None;
                }
                // `\begin{array}{cc}`: the columns' layout.
                if name == "array" && matches!(token, Token::Begin) {
                    self.argument()?;
                }
                self.push(token);
            }
            Command::Text => {
                let content = self.argument()?;
                self.text(&content)?;
            }
        }
        Some(())
    }

    /// The braced argument that follows, as text.
    fn argument(&mut self) -> Option<String> {
        while self.peek(0).is_some_and(char::is_whitespace) {
            self.at += 1;
        }
        if self.peek(0)? != '{' {
            return None;
        }
        let start = self.at + 1;
        let mut depth = 0_usize;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(self.chars[start..self.at - 1].iter().collect());
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The content of `\text{...}`: words, a connective, or mathematics after all.
    fn text(&mut self, content: &str) -> Option<()> {
        let is_spaced = self.is_spaced || content.starts_with(char::is_whitespace);
        let content = content.trim().trim_matches('.');
        let lower = content.to_lowercase();
        if content.is_empty() {
            self.is_spaced = true;
        } else if matches!(lower.as_str(), "or" | ", or") {
            self.push(Token::Or);
        } else if matches!(lower.as_str(), "and" | "," | ", and" | ",and") {
            self.push(Token::Separator);
        } else if let Some(function) = function(content) {
            self.push(Token::Function(function));
        } else if let Some(c) = single(content) {
            // `5\,\mathrm{m}` has a unit, `5\mathrm{i}` has not.
            let is_behind = self.is_after_value()
                || matches!(self.tokens.last(), Some(Token::Degree))
                || (is_spaced && matches!(self.tokens.last(), Some(Token::Symbol(_))));
            let is_unit = is_behind && units::LETTERS.contains(c);
            self.push(if is_unit { Token::Words(content.to_owned()) } else { letter(c) });
        } else if is_wordlike(content) {
            let content = content.replace(['{', '}'], " ");
            self.push(Token::Words(content));
        } else {
            // `\text{3}`: nested at most once, because words are not read again.
            let inner = if content.contains('\\') { None } else { lex(content, self.grouped) };
            for token in inner? {
                self.push(token);
            }
        }
        Some(())
    }
}

/// The one letter that `text` is.
fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|c| c.is_ascii_alphabetic() && chars.next().is_none())
}

/// Whether `word` is a name of mathematics without a backslash: `sqrt`, `pi`, `sin`.
pub(crate) fn is_name(word: &str) -> bool {
    !matches!(word, "and" | "or") && named(word).is_some_and(|token| token != Token::Percent)
}

fn small(value: i64) -> Token {
    Token::Number { value: crate::work::rational(value), decimals: None, digits: value.to_string() }
}

/// A letter by itself.
pub(crate) fn letter(c: char) -> Token {
    match c {
        'e' => Token::Constant(Constant::E),
        'i' => Token::Constant(Constant::I),
        c => Token::Symbol(c.to_string()),
    }
}

/// The digit that a raised digit stands for.
fn superscript(c: char) -> Option<char> {
    "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().zip('0'..='9').find_map(|(raised, digit)| (raised == c).then_some(digit))
}

/// Names that need no backslash.
fn named(word: &str) -> Option<Token> {
    Some(match word {
        "pi" => Token::Constant(Constant::Pi),
        "sqrt" => Token::Sqrt,
        "infinity" | "inf" | "oo" | "Infinity" => Token::Infinity,
        "and" => Token::Separator,
        "or" => Token::Or,
        "percent" | "percentage" | "pct" => Token::Percent,
        word => Token::Function(function(word)?),
    })
}
