//! Calls, and how gold calls of several turns are read, which are Python: `mv(source='a', destination='b')`.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::tools::Function;

/// A call of a function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// Name of the function.
    pub(super) name: String,
    /// Its arguments by name.
    pub(super) arguments: Map<String, Value>,
}

/// Reads a call of one of `functions`. Arguments without names get those of the parameters, in their order.
///
/// # Errors
/// What can't be read, with the call.
pub(super) fn read(text: &str, functions: &[Arc<Function>]) -> Result<Call, String> {
    let mut reader = Reader { text, at: 0 };
    let read = reader.call(functions);
    read.map_err(|problem| format!("`{text}`: {problem} at character {}", reader.at + 1))
}

/// Nesting that is read; more is no gold call.
const DEPTH_MAX: usize = 32;

struct Reader<'a> {
    text: &'a str,
    /// Bytes that were read.
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn take(&mut self, letter: char) -> bool {
        let is = self.peek() == Some(letter);
        if is {
            self.at += letter.len_utf8();
        }
        is
    }

    fn expect(&mut self, letter: char) -> Result<(), String> {
        if self.take(letter) { Ok(()) } else { Err(format!("`{letter}` is expected")) }
    }

    /// A name; empty if there is none.
    fn name(&mut self) -> String {
        self.peek();
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let name: String = self.rest().chars().take_while(|letter| is_part(*letter)).collect();
        self.at += name.len();
        name
    }

    fn call(&mut self, functions: &[Arc<Function>]) -> Result<Call, String> {
        let name = self.name();
        let function = functions.iter().find(|function| function.name == name);
        let function = function.ok_or_else(|| format!("there is no function `{name}`"))?;
        let parameters = function.parameters()?;
        self.expect('(')?;
        let mut arguments = Map::new();
        while !self.take(')') {
            if !arguments.is_empty() {
                self.expect(',')?;
                if self.take(')') {
                    break;
                }
            }
            let before = self.at;
            let key = self.name();
            let is_named = !key.is_empty() && self.take('=');
            let key = if is_named {
                key
            } else {
                self.at = before;
                let next = parameters.all.get(arguments.len()).map(|(name, _)| (*name).to_owned());
                next.ok_or("there are too many arguments")?
            };
            if parameters.get(&key).is_none() {
                return Err(format!("there is no parameter `{key}`"));
            }
            let value = self.value(0)?;
            if arguments.insert(key.clone(), value).is_some() {
                return Err(format!("`{key}` is given twice"));
            }
        }
        match self.peek() {
            None => Ok(Call { name, arguments }),
            Some(letter) => Err(format!("`{letter}` comes after the call")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err("the value is nested too deeply".to_owned());
        }
        match self.peek() {
            Some('\'' | '"') => Ok(Value::String(self.string()?)),
            Some('[') => self.items('[', ']', depth),
            Some('(') => self.items('(', ')', depth),
            Some('{') => self.object(depth),
            Some(letter) if letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.') => self.number(),
            _ => match self.name().as_str() {
                "True" => Ok(Value::Bool(true)),
                "False" => Ok(Value::Bool(false)),
                "None" => Ok(Value::Null),
                _ => Err("a value is expected".to_owned()),
            },
        }
    }

    fn items(&mut self, open: char, close: char, depth: usize) -> Result<Value, String> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.take(close) {
            if !items.is_empty() {
                self.expect(',')?;
                if self.take(close) {
                    break;
                }
            }
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.expect('{')?;
        let mut fields = Map::new();
        while !self.take('}') {
            if !fields.is_empty() {
                self.expect(',')?;
                if self.take('}') {
                    break;
                }
            }
            self.peek();
            let key = self.string()?;
            self.expect(':')?;
            let value = self.value(depth + 1)?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }

    fn number(&mut self) -> Result<Value, String> {
        let is_part = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '+' | '.');
        let digits: String = self.rest().chars().take_while(is_part).collect();
        let whole = digits.parse::<i64>().ok().map(Value::from);
        let float = || digits.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number);
        let value = whole.or_else(float).ok_or_else(|| format!("`{digits}` is no number"))?;
        self.at += digits.len();
        Ok(value)
    }

    /// A string in single or double quotes, with Python's escapes of one letter.
    fn string(&mut self) -> Result<String, String> {
        let mut letters = self.rest().char_indices();
        let quote = letters.next().map(|(_, letter)| letter).filter(|letter| matches!(letter, '\'' | '"'));
        let quote = quote.ok_or("a string is expected")?;
        let mut said = String::new();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => match letters.next().map(|(_, letter)| letter) {
                    Some('n') => said.push('\n'),
                    Some('t') => said.push('\t'),
                    Some('r') => said.push('\r'),
                    Some(letter @ ('\\' | '\'' | '"')) => said.push(letter),
                    Some(letter) => return Err(format!("the escape `\\{letter}` is not read")),
                    None => break,
                },
                letter if letter == quote => {
                    self.at += at + 1;
                    return Ok(said);
                }
                letter => said.push(letter),
            }
        }
        Err("the string does not end".to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::python::shown;
    use super::*;

    fn functions() -> Vec<Arc<Function>> {
        let string = json!({"type": "string"});
        let parameters = json!({"type": "dict", "properties": {"a": string, "b": string}, "required": []});
        let function: Function =
            serde_json::from_value(json!({"name": "f", "description": "", "parameters": parameters}))
                .unwrap();
        vec![Arc::new(function)]
    }

    #[test]
    fn calls_are_read_with_their_arguments_in_place() {
        let arguments = |text: &str| Value::Object(read(text, &functions()).unwrap().arguments);
        assert_eq!(arguments("f()"), json!({}));
        assert_eq!(arguments(" f ( 'x' , b = [1, -2.5, True,], ) "), json!({"a": "x", "b": [1, -2.5, true]}));
        assert_eq!(
            arguments(r#"f(b={'k': (1, None), "l": ""}, a="it's\n\"so\"")"#),
            json!({"b": {"k": [1, null], "l": ""}, "a": "it's\n\"so\""})
        );
    }

    #[test]
    fn what_is_no_call_is_named_with_its_place() {
        for (text, complaint) in [
            ("g()", "there is no function `g` at character 2"),
            ("f(", "a value is expected"),
            ("f('x)", "the string does not end"),
            ("f(1, 2, 3)", "too many arguments"),
            ("f(c=1)", "no parameter `c`"),
            ("f(1, a=2)", "`a` is given twice"),
            ("f() x", "`x` comes after"),
            ("f(1e)", "`1e` is no number"),
            ("f('\\q')", "escape `\\q`"),
        ] {
            let said = read(text, &functions()).unwrap_err();
            assert!(said.contains(complaint), "{said}");
        }
    }

    proptest! {
        #[test]
        fn what_python_writes_is_read_back(text in "[a-z'\"\\\\\n é]{0,12}", number in any::<i64>(), float in -1e9..1e9f64) {
            let value = json!({"b": [text, number, float, null, true, {"k": text}]});
            let call = format!("f(b={})", shown(&value["b"]));
            prop_assert_eq!(Value::Object(read(&call, &functions()).unwrap().arguments), value);
        }

        #[test]
        fn nothing_that_is_read_panics(text in "f\\([a-z0-9'\"\\\\,=\\[\\]\\{\\}é ]{0,20}\\)?") {
            let _ = read(&text, &functions());
        }
    }
}
