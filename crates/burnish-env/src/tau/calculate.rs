//! The tool `calculate`: an expression of numbers, as Python computes it.

use super::wire::rounded;

/// Most parentheses and signs inside each other.
const DEPTH_MAX: usize = 64;

/// What an expression comes to, rounded to cents and written as Python writes a float (`299.0`).
///
/// # Errors
/// Why it has no value.
pub(super) fn calculate(expression: &str) -> Result<String, String> {
    if !expression.chars().all(|sign| sign.is_ascii_digit() || "+-*/(). ".contains(sign)) {
        return Err("Invalid characters in expression".to_owned());
    }
    let mut reader = Reader { text: expression.as_bytes(), at: 0 };
    let value = reader.sum(0)?;
    reader.skip_spaces();
    if reader.at < reader.text.len() {
        return Err(invalid());
    }
    if !value.is_finite() {
        return Err("the result is too large".to_owned());
    }
    Ok(format!("{:?}", rounded(value)))
}

fn invalid() -> String {
    "invalid syntax".to_owned()
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn skip_spaces(&mut self) {
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }

    /// Goes past `sign` if it is next, and no longer operator begins with it.
    fn takes(&mut self, sign: &str) -> bool {
        self.skip_spaces();
        let rest = &self.text[self.at..];
        let is_longer = matches!(sign, "*" | "/") && rest.get(1) == rest.first();
        let takes = rest.starts_with(sign.as_bytes()) && !is_longer;
        self.at += if takes { sign.len() } else { 0 };
        takes
    }

    fn sum(&mut self, depth: usize) -> Result<f64, String> {
        let mut value = self.product(depth)?;
        loop {
            if self.takes("+") {
                value += self.product(depth)?;
            } else if self.takes("-") {
                value -= self.product(depth)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self, depth: usize) -> Result<f64, String> {
        let mut value = self.signed(depth)?;
        loop {
            if self.takes("*") {
                value *= self.signed(depth)?;
                continue;
            }
            let floors = self.takes("//");
            if !floors && !self.takes("/") {
                return Ok(value);
            }
            let divisor = self.signed(depth)?;
            if divisor == 0.0 {
                return Err("division by zero".to_owned());
            }
            value = if floors { (value / divisor).floor() } else { value / divisor };
        }
    }

    fn signed(&mut self, depth: usize) -> Result<f64, String> {
        if depth > DEPTH_MAX {
            return Err("too many nested parentheses".to_owned());
        }
        if self.takes("-") {
            return Ok(-self.signed(depth + 1)?);
        }
        if self.takes("+") {
            return self.signed(depth + 1);
        }
        let base = self.atom(depth)?;
        if self.takes("**") { Ok(base.powf(self.signed(depth + 1)?)) } else { Ok(base) }
    }

    fn atom(&mut self, depth: usize) -> Result<f64, String> {
        if self.takes("(") {
            let value = self.sum(depth + 1)?;
            return if self.takes(")") { Ok(value) } else { Err("'(' was never closed".to_owned()) };
        }
        let from = self.at;
        while self.text.get(self.at).is_some_and(|sign| sign.is_ascii_digit() || *sign == b'.') {
            self.at += 1;
        }
        let number = std::str::from_utf8(&self.text[from..self.at]).ok();
        number.and_then(|number| number.parse().ok()).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_values_that_python_gives_them() {
        for (expression, value) in [
            ("2 + 2", "4.0"),
            ("135.24 - 153.23", "-17.99"),
            ("2 + 3 * 4", "14.0"),
            ("(2 + 3) * 4", "20.0"),
            ("-2 ** 2", "-4.0"),
            ("2 ** -1", "0.5"),
            ("7 // 2 + 1 / 8", "3.12"),
            ("--3 - +1", "2.0"),
            ("10 / 4 / 5", "0.5"),
            ("2.675 * 1", "2.67"),
            (" ( .5 ) ", "0.5"),
        ] {
            assert_eq!(calculate(expression), Ok(value.to_owned()), "{expression}");
        }
        for (expression, problem) in [
            ("2 + x", "Invalid characters in expression"),
            ("1 / (2 - 2)", "division by zero"),
            ("(1", "'(' was never closed"),
            ("", "invalid syntax"),
            ("1 2", "invalid syntax"),
            ("1.2.3", "invalid syntax"),
            ("9 ** 9 ** 9", "the result is too large"),
        ] {
            assert_eq!(calculate(expression), Err(problem.to_owned()), "{expression}");
        }
        assert_eq!(calculate(&"(".repeat(10_000)), Err("too many nested parentheses".to_owned()));
    }
}
