//! The grammar of expressions, from tokens.

use num_rational::BigRational;
use num_traits::One;

use crate::lex::{Bracket, Token};
use crate::syntax::{Expr, Function};
use crate::units::Unit;

/// The deepest nesting that is read.
const DEPTH: usize = 40;

/// Reads tokens from left to right.
pub(crate) struct Parser<'a> {
    pub(crate) tokens: &'a [Token],
    pub(crate) at: usize,
    depth: usize,
    /// Number of open `|`.
    bars: usize,
    /// A currency sign that stood inside the expression being read.
    pub(crate) currency: Option<Unit>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(tokens: &'a [Token]) -> Self {
        Parser { tokens, at: 0, depth: 0, bars: 0, currency: None }
    }

    pub(crate) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub(crate) fn ahead(&self, count: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + count)
    }

    pub(crate) fn eat(&mut self, token: &Token) -> bool {
        let is_there = self.peek() == Some(token);
        self.at += usize::from(is_there);
        is_there
    }

    /// Runs `read` one level deeper; `None` if that is too deep.
    pub(crate) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEPTH {
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Terms with signs between them.
    pub(crate) fn sum(&mut self) -> Option<Expr> {
        self.nested(|p| {
            let mut terms = vec![p.product()?];
            loop {
                let term = match p.peek() {
                    Some(Token::Plus) => {
                        p.at += 1;
                        p.product()?
                    }
                    Some(Token::Minus) => {
                        p.at += 1;
                        Expr::Negative(Box::new(p.product()?))
                    }
                    Some(Token::PlusMinus(is_plus)) => {
                        p.at += 1;
                        Expr::PlusMinus(*is_plus, Box::new(p.product()?))
                    }
                    _ => break,
                };
                terms.push(term);
            }
            Some(single(terms, Expr::Sum))
        })
    }

    /// Factors, with or without a sign between them; division binds like multiplication, from the left.
    fn product(&mut self) -> Option<Expr> {
        let mut factors = vec![self.signed()?];
        loop {
            match self.peek() {
                Some(Token::Times) => {
                    self.at += 1;
                    factors.push(self.signed()?);
                }
                Some(Token::Divide) => {
                    // `5 km/h`: a rate ends the expression, see `quantity`.
                    self.at += 1;
                    let divisor = self.signed()?;
                    let dividend = single(std::mem::take(&mut factors), Expr::Product);
                    factors.push(Expr::Quotient(Box::new(dividend), Box::new(divisor)));
                }
                Some(token) if self.starts_factor(token) => factors.push(self.power()?),
                _ => return Some(single(factors, Expr::Product)),
            }
        }
    }

    fn starts_factor(&self, token: &Token) -> bool {
        match token {
            // Two numbers side by side, or a number after a letter, have no certain meaning.
            Token::Number { .. } => matches!(
                self.tokens.get(self.at.wrapping_sub(1)),
                Some(Token::Close(_) | Token::Constant(_) | Token::Bang)
            ),
            Token::Bar => self.bars == 0,
            Token::Symbol(_)
            | Token::Constant(_)
            | Token::Function(_)
            | Token::Infinity
            | Token::Frac
            | Token::Sqrt
            | Token::Binomial
            | Token::Open(_) => true,
            _ => false,
        }
    }

    fn signed(&mut self) -> Option<Expr> {
        let mut is_negative = false;
        loop {
            match self.peek()? {
                Token::Minus => is_negative = !is_negative,
                Token::Plus => {}
                Token::PlusMinus(is_plus) => {
                    self.at += 1;
                    let inner = self.nested(Self::product)?;
                    let inner = if is_negative { Expr::Negative(Box::new(inner)) } else { inner };
                    return Some(Expr::PlusMinus(*is_plus, Box::new(inner)));
                }
                Token::Currency(unit) => self.currency = Some(*unit),
                _ => break,
            }
            self.at += 1;
        }
        let inner = self.mixed().or_else(|| self.power())?;
        Some(if is_negative { Expr::Negative(Box::new(inner)) } else { inner })
    }

    /// `3\frac{1}{2}` and `3 1/2`: a whole number and a fraction of whole numbers.
    fn mixed(&mut self) -> Option<Expr> {
        let start = self.at;
        let whole = self.whole()?;
        let fraction = match self.peek() {
            Some(Token::Frac) => match self.primary() {
                Some(Expr::Quotient(a, b)) if is_whole(&a) && is_whole(&b) => Some(Expr::Quotient(a, b)),
                _ => None,
            },
            Some(Token::Number { .. }) if self.ahead(1) == Some(&Token::Divide) => self
                .whole()
                .filter(|_| self.eat(&Token::Divide))
                .and_then(|a| self.whole().map(|b| Expr::Quotient(Box::new(a), Box::new(b)))),
            _ => None,
        };
        if fraction.is_none() || self.peek() == Some(&Token::Caret) {
            self.at = start;
            return None;
        }
        fraction.map(|fraction| Expr::Sum(vec![whole, fraction]))
    }

    fn whole(&mut self) -> Option<Expr> {
        match self.peek()? {
            Token::Number { value, decimals: None, .. } if value.is_integer() => {
                self.at += 1;
                Some(Expr::Number { value: value.clone(), decimals: None })
            }
            _ => None,
        }
    }

    fn power(&mut self) -> Option<Expr> {
        self.nested(|p| {
            let base = p.postfix()?;
            if p.peek() != Some(&Token::Caret) {
                return Some(base);
            }
            p.at += 1;
            if p.degree_sign() {
                return Some(Expr::Degrees(Box::new(base)));
            }
            let exponent = p.exponent()?;
            p.postfix_of(Expr::Power(Box::new(base), Box::new(exponent)))
        })
    }

    /// `\circ` or `{\circ}` after `^`.
    fn degree_sign(&mut self) -> bool {
        if self.eat(&Token::Degree) {
            return true;
        }
        let is_grouped = self.peek() == Some(&Token::Open(Bracket::Group))
            && self.ahead(1) == Some(&Token::Degree)
            && self.ahead(2) == Some(&Token::Close(Bracket::Group));
        self.at += if is_grouped { 3 } else { 0 };
        is_grouped
    }

    fn exponent(&mut self) -> Option<Expr> {
        if self.eat(&Token::Minus) {
            return self.nested(Self::power).map(|inner| Expr::Negative(Box::new(inner)));
        }
        self.eat(&Token::Plus);
        self.nested(Self::power)
    }

    fn postfix(&mut self) -> Option<Expr> {
        let primary = self.primary()?;
        self.postfix_of(primary)
    }

    fn postfix_of(&mut self, mut inner: Expr) -> Option<Expr> {
        for _ in 0..4 {
            match self.peek() {
                Some(Token::Bang) => inner = Expr::Call(Function::Factorial, vec![inner]),
                Some(Token::Percent) => inner = Expr::Percent(Box::new(inner)),
                Some(Token::Degree) => inner = Expr::Degrees(Box::new(inner)),
                _ => return Some(inner),
            }
            self.at += 1;
        }
        None
    }

    fn primary(&mut self) -> Option<Expr> {
        let token = self.peek()?;
        self.at += 1;
        match token {
            Token::Number { value, decimals, digits } => {
                if self.peek() == Some(&Token::Underscore) {
                    return self.based(digits, decimals.is_none());
                }
                Some(Expr::Number { value: value.clone(), decimals: *decimals })
            }
            Token::Symbol(name) => Some(Expr::Symbol(self.subscripted(name)?)),
            Token::Constant(constant) => Some(match self.peek() {
                // `e_1` and `i_2` are not constants.
                Some(Token::Underscore) => Expr::Symbol(self.subscripted(&format!("{constant:?}"))?),
                _ => Expr::Constant(*constant),
            }),
            Token::Infinity => Some(Expr::Infinity),
            Token::Frac => {
                // `\\frac12`: LaTeX takes one digit for the numerator; the rest is meant as the denominator.
                if let Some(Token::Number { digits, decimals: None, .. }) = self.peek()
                    && digits.len() > 1
                {
                    self.at += 1;
                    let (top, bottom) = digits.split_at(1);
                    let [top, bottom] = [top.parse().ok()?, bottom.parse().ok()?].map(Expr::integer);
                    return Some(Expr::Quotient(Box::new(top), Box::new(bottom)));
                }
                let (top, bottom) = (self.argument()?, self.argument()?);
                Some(Expr::Quotient(Box::new(top), Box::new(bottom)))
            }
            Token::Binomial => Some(Expr::Call(Function::Binomial, vec![self.argument()?, self.argument()?])),
            Token::Sqrt => {
                let index = if self.eat(&Token::Open(Bracket::Square)) {
                    let index = self.sum()?;
                    self.eat(&Token::Close(Bracket::Square)).then_some(index)?
                } else {
                    Expr::integer(2)
                };
                Some(Expr::Root(Box::new(self.argument()?), Box::new(index)))
            }
            Token::Function(function) => self.call(*function),
            Token::Bar => {
                self.bars += 1;
                let inner = self.sum();
                self.bars -= 1;
                self.eat(&Token::Bar).then_some(Expr::Call(Function::Abs, vec![inner?]))
            }
            Token::Open(bracket) if *bracket != Bracket::Set && *bracket != Bracket::Angle => {
                let bars = std::mem::take(&mut self.bars);
                let inner = self.sum();
                self.bars = bars;
                let inner = inner?;
                if !self.eat(&Token::Close(*bracket)) {
                    return None;
                }
                Some(match bracket {
                    Bracket::Floor => Expr::Call(Function::Floor, vec![inner]),
                    Bracket::Ceiling => Expr::Call(Function::Ceiling, vec![inner]),
                    Bracket::Bar => Expr::Call(Function::Abs, vec![inner]),
                    _ => inner,
                })
            }
            _ => None,
        }
    }

    /// The argument of a command: a group, or one token.
    fn argument(&mut self) -> Option<Expr> {
        match self.peek()? {
            Token::Open(Bracket::Group | Bracket::Round) | Token::Number { .. } => self.primary(),
            Token::Minus => {
                self.at += 1;
                self.nested(Self::argument).map(|inner| Expr::Negative(Box::new(inner)))
            }
            Token::Symbol(_) | Token::Constant(_) | Token::Infinity | Token::Frac | Token::Sqrt => {
                self.nested(Self::primary)
            }
            _ => None,
        }
    }

    /// `_8` or `_{8}` after digits.
    fn based(&mut self, digits: &str, is_whole: bool) -> Option<Expr> {
        self.at += 1;
        let is_grouped = self.eat(&Token::Open(Bracket::Group));
        let base = match self.whole()? {
            Expr::Number { value, .. } => u32::try_from(value.to_integer()).ok()?,
            _ => return None,
        };
        if is_grouped && !self.eat(&Token::Close(Bracket::Group)) {
            return None;
        }
        let is_valid = is_whole
            && (2..=36).contains(&base)
            && digits.chars().all(|c| c.to_digit(36).is_some_and(|d| d < base));
        is_valid.then(|| Expr::Based { digits: digits.trim_start_matches('0').to_owned(), base })
    }

    /// The name with its subscript and primes.
    fn subscripted(&mut self, name: &str) -> Option<String> {
        let mut name = name.to_owned();
        if self.eat(&Token::Underscore) {
            name.push('_');
            let is_grouped = self.eat(&Token::Open(Bracket::Group));
            loop {
                match self.peek()? {
                    Token::Number { digits, .. } => name.push_str(digits),
                    Token::Symbol(inner) | Token::Words(inner) => name.push_str(inner),
                    Token::Constant(constant) => name.push_str(&format!("{constant:?}").to_lowercase()),
                    Token::Plus => name.push('+'),
                    Token::Minus => name.push('-'),
                    _ => return None,
                }
                self.at += 1;
                if !is_grouped {
                    break;
                }
                if self.eat(&Token::Close(Bracket::Group)) {
                    break;
                }
            }
        }
        while self.eat(&Token::Prime) {
            name.push('\'');
        }
        Some(name)
    }

    fn call(&mut self, function: Function) -> Option<Expr> {
        let mut base = None;
        let mut exponent = None;
        for _ in 0..2 {
            if self.eat(&Token::Underscore) {
                base = Some(self.nested(Self::primary)?);
            } else if self.eat(&Token::Caret) {
                exponent = Some(self.exponent()?);
            }
        }
        let argument = self.nested(Self::function_argument)?;
        let mut arguments = vec![argument];
        if function == Function::Log {
            arguments.push(base.unwrap_or_else(|| Expr::integer(10)));
        } else if base.is_some() {
            return None;
        }
        let inverse = match function {
            Function::Sin => Some(Function::Arcsin),
            Function::Cos => Some(Function::Arccos),
            Function::Tan => Some(Function::Arctan),
            _ => None,
        };
        match (exponent, inverse) {
            (Some(Expr::Negative(one)), Some(inverse)) if one.literal().is_some_and(|(v, _)| v.is_one()) => {
                Some(Expr::Call(inverse, arguments))
            }
            (Some(exponent), _) => {
                Some(Expr::Power(Box::new(Expr::Call(function, arguments)), Box::new(exponent)))
            }
            (None, _) => Some(Expr::Call(function, arguments)),
        }
    }

    /// Brackets, or the factors up to the next sign or function: `\sin 2x`.
    fn function_argument(&mut self) -> Option<Expr> {
        if matches!(self.peek()?, Token::Open(_) | Token::Bar) {
            return self.primary();
        }
        let is_negative = self.eat(&Token::Minus);
        let mut factors = vec![self.power()?];
        while self.peek().is_some_and(|token| {
            self.starts_factor(token) && !matches!(token, Token::Function(_) | Token::Open(_))
        }) {
            factors.push(self.power()?);
        }
        let inner = single(factors, Expr::Product);
        Some(if is_negative { Expr::Negative(Box::new(inner)) } else { inner })
    }
}

fn is_whole(expr: &Expr) -> bool {
    matches!(expr, Expr::Number { value, decimals: None } if BigRational::is_integer(value))
}

/// The only item, or `many` of them.
fn single(mut items: Vec<Expr>, many: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    match items.pop() {
        Some(only) if items.is_empty() => only,
        last => {
            items.extend(last);
            many(items)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lex::lex;
    use crate::sample::evaluate;

    /// The value of an expression, which shows how it was read.
    fn worth(text: &str) -> Option<f64> {
        let tokens = lex(text, true)?;
        let mut parser = Parser::new(&tokens);
        let expr = parser.sum()?;
        parser.peek().is_none().then(|| evaluate(&expr, 0).re)
    }

    #[test]
    fn signs_bind_as_usual() {
        let cases = [
            ("2+3*4", 14.0),
            ("2-3-4", -5.0),
            ("12/3/2", 2.0),
            ("2^3^2", 512.0),
            ("-2^2", -4.0),
            ("--3", 3.0),
            ("2^{-1}", 0.5),
            ("2^-1", 0.5),
            ("2(3+4)", 14.0),
            (r"\frac12+1", 1.5),
            (r"\frac 59", 5.0 / 9.0),
            (r"\frac9{18}", 0.5),
            (r"\frac{1}{23}", 1.0 / 23.0),
            (r"3\frac12", 3.5),
            (r"3\cdot\frac12", 1.5),
            ("137 1/2", 137.5),
            (r"\sqrt[3]{27}", 3.0),
            (r"\sqrt9", 3.0),
            ("sqrt(9)+1", 4.0),
            ("3!", 6.0),
            (r"\left|{-3}\right|+|2|", 5.0),
            (r"\lfloor 2.5 \rfloor", 2.0),
            (r"\log_2 8", 3.0),
            (r"\sin 30^\circ", 0.5),
            (r"\cos^2 0", 1.0),
            (r"\tan^{-1}(0)", 0.0),
            ("2**3", 8.0),
            ("2516_8", 1358.0),
        ];
        for (text, expected) in cases {
            let found = worth(text).unwrap_or(f64::NAN);
            assert!((found - expected).abs() < 1e-12, "{text} is {found}");
        }
    }

    #[test]
    fn what_has_no_certain_meaning_is_not_read() {
        for text in ["2 3", "x2", "1+", "*2", "2^", r"\frac{1}", "(1", "1)", "|1", "5!!!!!", r"2519_8", ""] {
            assert_eq!(worth(text), None, "{text}");
        }
    }
}
