//! The grammar of whole answers: lists, sets, intervals, relations, matrices, quantities with units.

use crate::expression::Parser;
use crate::lex::{Bracket, Token, lex};
use crate::relation;
use crate::syntax::{End, Expr, Relation, Value};
use crate::text;
use crate::units::{self, Unit};

/// Most elements of a list.
const ELEMENTS: usize = 64;

/// Reads `answer`. With `grouped`, `1,234` outside of brackets is one number.
pub(crate) fn read(answer: &str, grouped: bool) -> Option<Value> {
    let tokens = lex(answer, grouped)?;
    let mut parser = Parser::new(&tokens);
    let mut items = parser.items(false)?;
    if parser.peek().is_some() {
        return None;
    }
    match items.len() {
        1 => items.pop(),
        _ => Some(Value::List(items)),
    }
}

impl Parser<'_> {
    /// Items with separators between them. `\pm` turns one item into two.
    fn items(&mut self, is_inside: bool) -> Option<Vec<Value>> {
        self.nested(|p| {
            let mut items = Vec::new();
            loop {
                let item = p.item()?;
                items.extend(expand(item));
                if items.len() > ELEMENTS {
                    return None;
                }
                if !p.separator() {
                    return Some(items);
                }
                while p.separator() {}
                // `18, ` and `x = 2;`: a separator may end an answer, but not the content of a bracket.
                if p.peek().is_none() && !is_inside {
                    return Some(items);
                }
            }
        })
    }

    fn separator(&mut self) -> bool {
        self.eat(&Token::Separator) || self.eat(&Token::Or)
    }

    /// Sides with relations between them.
    fn item(&mut self) -> Option<Value> {
        let first = self.union()?;
        if self.eat(&Token::In) {
            // `x \in S` names S; `3 \in S` is a statement about 3.
            if !(relation::is_name(&first) || matches!(first, Value::Tuple(_))) {
                return None;
            }
            return Some(Value::Member(Box::new(self.union()?)));
        }
        let mut sides = vec![first];
        let mut relations = Vec::new();
        while let Some(Token::Relation(relation)) = self.peek() {
            self.at += 1;
            relations.push(*relation);
            sides.push(self.union()?);
        }
        match (sides.len(), relations.is_empty()) {
            (1, true) => sides.pop(),
            _ => Some(Value::Chain(sides, relations)),
        }
    }

    fn union(&mut self) -> Option<Value> {
        let mut parts = vec![self.operand()?];
        while self.eat(&Token::Union) {
            parts.push(self.operand()?);
        }
        match parts.len() {
            1 => parts.pop(),
            _ => Some(Value::Union(parts)),
        }
    }

    fn operand(&mut self) -> Option<Value> {
        match self.peek()? {
            Token::Open(bracket) if *bracket == Bracket::Set || self.is_structure() => {
                let value = self.nested(|p| p.bracketed(*bracket))?;
                // `(3, 4) units`
                while matches!(self.peek(), Some(Token::Words(_))) {
                    self.at += 1;
                }
                Some(value)
            }
            Token::Begin => self.nested(Self::matrix),
            Token::Words(_) => self.words(),
            _ => self.quantity(),
        }
    }

    /// Whether the bracket here holds a separator or a structure of its own.
    fn is_structure(&self) -> bool {
        let mut depth = 0_usize;
        for token in &self.tokens[self.at..] {
            match token {
                Token::Open(_) => depth += 1,
                Token::Close(_) => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return false;
                    }
                }
                Token::Separator | Token::Or if depth == 1 => return true,
                Token::Begin | Token::Union | Token::Relation(_) => return true,
                // `{(1, 2)}`: a group is looked through.
                Token::Separator | Token::Or if self.tokens[self.at] == Token::Open(Bracket::Group) => {
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    fn bracketed(&mut self, open: Bracket) -> Option<Value> {
        self.at += 1;
        if open == Bracket::Set && self.eat(&Token::Close(Bracket::Set)) {
            return Some(Value::Set(Vec::new()));
        }
        if matches!(open, Bracket::Set | Bracket::Group) {
            let start = self.at;
            if let Some(condition) = self.solutions()
                && self.eat(&Token::Close(open))
            {
                return Some(condition);
            }
            self.at = start;
        }
        let mut items = self.items(true)?;
        let Some(Token::Close(close)) = self.peek() else { return None };
        self.at += 1;
        let is_interval = |b: Bracket| matches!(b, Bracket::Round | Bracket::Square);
        match (open, *close) {
            (Bracket::Set, Bracket::Set) => Some(Value::Set(items)),
            (Bracket::Group, Bracket::Group) if items.len() == 1 => items.pop(),
            (Bracket::Group, Bracket::Group) => Some(Value::Set(items)),
            (Bracket::Round, Bracket::Round) | (Bracket::Angle, Bracket::Angle) => match items.len() {
                1 => items.pop(),
                _ => Some(Value::Tuple(items)),
            },
            (Bracket::Square, Bracket::Square) if matches!(items[..], [Value::Matrix(_)]) => items.pop(),
            (open, close) if is_interval(open) && is_interval(close) => {
                let [low, high] = <[Value; 2]>::try_from(items).ok()?;
                let end = |value, bracket| match value {
                    Value::Quantity { expr, .. } => {
                        Some(End { at: expr, is_closed: bracket == Bracket::Square })
                    }
                    _ => None,
                };
                Some(Value::Interval(end(low, open)?, end(high, close)?))
            }
            _ => None,
        }
    }

    /// `x \mid 2 \le x < 5`, `x \in \mathbb{R} : ...`: the relation, or several joined by "or", that a set is given by.
    fn solutions(&mut self) -> Option<Value> {
        let Some(Token::Symbol(name)) = self.peek() else { return None };
        let variable = Value::bare(Expr::Symbol(name.clone()));
        self.at += 1;
        if self.eat(&Token::In) {
            let is_grouped = self.eat(&Token::Open(Bracket::Group));
            let is_real = self.eat(&Token::Symbol("R".to_owned()));
            if !is_real || (is_grouped && !self.eat(&Token::Close(Bracket::Group))) {
                return None;
            }
        }
        if !(self.eat(&Token::Bar) || self.eat(&Token::Colon)) {
            return None;
        }
        let mut parts = vec![self.item()?];
        while self.eat(&Token::Or) {
            parts.push(self.item()?);
        }
        let is_solved = |part: &Value| matches!(part, Value::Chain(sides, _) if sides.contains(&variable));
        match parts.len() {
            _ if !parts.iter().all(is_solved) => None,
            1 => parts.pop(),
            _ => Some(Value::List(parts)),
        }
    }

    fn matrix(&mut self) -> Option<Value> {
        self.at += 1;
        let mut rows = vec![Vec::new()];
        loop {
            // `\\` before `\end` does not start a row.
            if self.eat(&Token::End) {
                break;
            }
            let entry = self.operand()?;
            rows.last_mut()?.push(entry);
            match self.peek()? {
                Token::Ampersand => {}
                Token::Row => rows.push(Vec::new()),
                Token::End => continue,
                _ => return None,
            }
            self.at += 1;
        }
        if rows.last().is_some_and(Vec::is_empty) {
            rows.pop();
        }
        let width = rows.first()?.len();
        let is_rectangle = rows.iter().all(|row| row.len() == width);
        (is_rectangle && rows.len() * width <= ELEMENTS).then_some(Value::Matrix(rows))
    }

    /// Words up to the next separator, with the letters and numbers between them.
    fn words(&mut self) -> Option<Value> {
        let mut words = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Words(word) | Token::Symbol(word)) => words.push(word.clone()),
                Some(Token::Number { digits, .. }) => words.push(digits.clone()),
                Some(Token::Constant(constant)) => words.push(format!("{constant:?}")),
                Some(Token::Minus) => {}
                _ => break,
            }
            self.at += 1;
        }
        Some(Value::Text(text::words(&words.join(" "))))
    }

    /// An expression and what is said after it.
    fn quantity(&mut self) -> Option<Value> {
        self.currency = None;
        let mut expr = self.sum()?;
        let mut unit = self.currency.take();
        if let Some(Token::Currency(sign)) = self.peek() {
            self.at += 1;
            unit = Some(*sign);
        }
        let mut words = String::new();
        while let Some(Token::Words(word)) = self.peek() {
            self.at += 1;
            words.push(' ');
            words.push_str(word);
        }
        if !words.is_empty() {
            let power = self.unit_power()?;
            self.skip_rate();
            let said = units::trailing(&words, power);
            if said.scale > 0 {
                expr = Expr::Product(vec![expr, power_of_ten(said.scale)]);
            }
            if said.is_percent {
                expr = Expr::Percent(Box::new(expr));
            }
            unit = unit.or(said.unit);
        }
        if let Expr::Degrees(inner) = expr {
            expr = *inner;
            unit = unit.or(Some(units::DEGREE));
        }
        Some(Value::Quantity { expr, unit })
    }

    /// `^2` after a unit.
    fn unit_power(&mut self) -> Option<u32> {
        if !self.eat(&Token::Caret) {
            return Some(1);
        }
        let is_grouped = self.eat(&Token::Open(Bracket::Group));
        let Some(Token::Number { value, .. }) = self.peek() else { return None };
        let power = u32::try_from(value.to_integer()).ok()?;
        self.at += 1;
        (!is_grouped || self.eat(&Token::Close(Bracket::Group))).then_some(power)
    }

    /// `/h` after a unit.
    fn skip_rate(&mut self) {
        if self.peek() == Some(&Token::Divide)
            && matches!(self.ahead(1), Some(Token::Words(_) | Token::Symbol(_)))
        {
            self.at += 2;
        }
    }
}

fn power_of_ten(exponent: u32) -> Expr {
    let value = crate::work::rational(num_bigint::BigInt::from(10).pow(exponent));
    Expr::Number { value, decimals: None }
}

/// Both readings of an item that holds `\pm`, or the item.
fn expand(item: Value) -> Vec<Value> {
    let has_both = match &item {
        Value::Quantity { expr, .. } => has_plus_minus(expr),
        Value::Chain(sides, _) => {
            sides.iter().any(|side| matches!(side, Value::Quantity { expr, .. } if has_plus_minus(expr)))
        }
        _ => false,
    };
    if !has_both {
        return vec![item];
    }
    [true, false].into_iter().map(|is_plus| choose_sign(&item, is_plus)).collect()
}

fn choose_sign(item: &Value, is_plus: bool) -> Value {
    match item {
        Value::Quantity { expr, unit } => Value::Quantity { expr: signed(expr, is_plus), unit: *unit },
        Value::Chain(sides, relations) => Value::Chain(
            sides.iter().map(|side| choose_sign(side, is_plus)).collect::<Vec<Value>>(),
            relations.clone(),
        ),
        other => other.clone(),
    }
}

fn has_plus_minus(expr: &Expr) -> bool {
    matches!(expr, Expr::PlusMinus(..)) || expr.children().into_iter().any(has_plus_minus)
}

/// `expr` with every `\pm` read as plus, or as minus.
fn signed(expr: &Expr, is_plus: bool) -> Expr {
    match expr {
        Expr::PlusMinus(is_upper_plus, inner) => {
            let inner = signed(inner, is_plus);
            if *is_upper_plus == is_plus { inner } else { Expr::Negative(Box::new(inner)) }
        }
        other => other.map_children(|child| signed(child, is_plus)),
    }
}

impl Value {
    /// A bare quantity.
    pub(crate) fn bare(expr: Expr) -> Value {
        Value::Quantity { expr, unit: None::<Unit> }
    }

    /// Whether `a = b` (or `\approx`) is all the relations there are.
    pub(crate) fn is_equation(relations: &[Relation]) -> bool {
        relations.iter().all(|relation| matches!(relation, Relation::Equal | Relation::Approx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of value, which shows how a text was read.
    fn kind(text: &str) -> String {
        let debug = format!("{:?}", read(text, true));
        debug.trim_start_matches("Some(").chars().take_while(|c| c.is_alphanumeric()).collect()
    }

    #[test]
    fn brackets_and_separators_say_what_an_answer_is() {
        let cases = [
            ("1,234", "Quantity"),
            ("12,34", "List"),
            ("63,99,135", "List"),
            ("(1,234)", "Tuple"),
            ("[1,2)", "Interval"),
            ("]1,2[", "None"),
            (r"\{1,2\}", "Set"),
            (r"\{\}", "Set"),
            ("{(1,2)}", "Tuple"),
            (r"(1,2) \cup [3,4]", "Union"),
            (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "Matrix"),
            (r"\begin{pmatrix} 1 & 2 \\ 3 \end{pmatrix}", "None"),
            (r"1 \pm \sqrt{19}", "List"),
            ("x = 5", "Chain"),
            (r"x \in [1,2]", "Member"),
            (r"3 \in [1,2]", "None"),
            (r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}", "None"),
            (r"\\frac{1}{2}", "Quantity"),
            (r"\text{east}", "Text"),
            ("(x+1)(x+2)", "Quantity"),
            (r"15\mbox{ cm}^2", "Quantity"),
            ("5 apples", "Quantity"),
            ("60 km/h", "Quantity"),
            ("3 4", "None"),
            (r"\left[\begin{array}{c} 1 \\ -7 \end{array}\right]", "Matrix"),
            (r"\left[\begin{array}{c} 1 \\ -7 \end{array}\right)", "None"),
            ("[1]", "Quantity"),
            (r"{3 \over 4}", "Quantity"),
            (r"3{1 \over 4}, \left(n + 1 \over 2\right)", "List"),
            (r"1 \over 2 \over 3", "None"),
            (r"{1 \over 2", "None"),
            (r"\{x \mid 2 \le x < 5\}", "Chain"),
            (r"\{x \in \mathbb{R} : x < 2 \text{ or } x > 3\}", "List"),
            ("{x | x < 2}", "Chain"),
            (r"\{x \in \mathbb{Z} \mid 2 \le x < 5\}", "None"),
            (r"\{x \mid x > 2, x < 5\}", "None"),
            (r"\{x \mid y < 5\}", "None"),
            ("3:4", "None"),
            (r"\unknown{3}", "None"),
            ("", "None"),
            ("(1,2", "None"),
        ];
        for (text, expected) in cases {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn nesting_and_length_are_bounded() {
        for text in
            ["(".repeat(1900), "-".repeat(1900), "{".repeat(999) + &"}".repeat(999), "1+".repeat(999) + "1"]
        {
            // The test is that it returns.
            let _ = read(&text, true);
        }
        assert_eq!(read(&("(".repeat(60) + "1" + &")".repeat(60)), true), None);
        assert_eq!(read(&"1".repeat(2001), true), None);
        assert!(read(&("(".repeat(9) + "1" + &")".repeat(9)), true).is_some());
    }
}
