//! Expressions, beside what Python makes of them.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use burnish_core::rng::Stream;
use serde_json::json;

use super::*;

fn value(text: &str) -> Result<String, Halt> {
    let scope: Scope = [
        ("xs".to_owned(), Value::ints(&[3, -1, 4, 1])),
        ("s".to_owned(), Value::Text("banana".into())),
        ("n".to_owned(), Value::Int(-7)),
    ]
    .into();
    eval(&expression(text).unwrap(), &scope).map(|value| value.to_string())
}

#[test]
fn expressions_mean_what_they_mean_in_python() {
    for (text, expected) in [
        ("1 + 2 * 3 - 4", "3"),
        ("n // 2", "-4"),
        ("n % 3", "2"),
        ("-n % -3", "-2"),
        ("-xs[0]", "-3"),
        ("xs[-1]", "1"),
        ("xs[1:3]", "[-1, 4]"),
        ("xs[::-1]", "[1, 4, -1, 3]"),
        ("xs[-2:]", "[4, 1]"),
        ("xs[5:]", "[]"),
        ("s[1:4]", "'ana'"),
        ("[x * 2 for x in xs if x > 0]", "[6, 8, 2]"),
        ("[[i, j] for i in range(3) for j in range(i + 1, 3)]", "[[0, 1], [0, 2], [1, 2]]"),
        ("0 <= len(xs) < 5", "True"),
        ("1 < 2 > 3", "False"),
        ("'an' in s and 'x' not in s", "True"),
        ("s.count('an')", "2"),
        ("''.join([c for c in s if c != 'a'])", "'bnn'"),
        ("sum(xs) if len(xs) > 2 else None", "7"),
        ("max([abs(x) for x in xs])", "4"),
        ("sorted(xs) == [-1, 1, 3, 4]", "True"),
        ("sorted(s)", "['a', 'a', 'a', 'b', 'n', 'n']"),
        ("all([]) and not any([])", "True"),
        ("isinstance(True, int) and not isinstance(s, list)", "True"),
        ("isinstance(n, int) or 1 // 0", "True"),
        ("chr((ord('y') - 97 + 3) % 26 + 97)", "'b'"),
        ("list(range(5, 0, -2))", "[5, 3, 1]"),
        ("int(str(12) + '3')", "123"),
        ("True == 1", "True"),
        ("max(1, 5, 3)", "5"),
    ] {
        assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_python_refuses_raises_and_what_never_ends_is_given_up() {
    for text in [
        "xs[9]",
        "1 // 0",
        "n < s",
        "s + n",
        "max([])",
        "len(n)",
        "unknown",
        "int('x')",
        "ord('ab')",
        "n in n",
    ] {
        assert_eq!(value(text), Err(Halt::Raised), "{text}");
    }
    assert_eq!(value("len([i for i in range(10000000)])"), Err(Halt::Unknown));
    assert_eq!(value("[i for i in range(1000) for j in range(1000)]"), Err(Halt::Unknown));
}

#[test]
fn mutants_differ_from_their_program_in_one_place() {
    let original = program(&["kept = [x for x in xs if x > 2]".into(), "return sum(kept)".into()]).unwrap();
    let mutants = original.mutants();
    assert_eq!(mutants.len(), 7);
    for (at, mutant) in mutants.iter().enumerate() {
        assert_ne!(mutant, &original);
        assert!(!mutants[..at].contains(mutant));
    }
    let texts: Vec<String> = mutants
        .iter()
        .filter_map(|mutant| {
            let scope = [("xs".to_owned(), Value::ints(&[1, 2, 3, 4]))].into();
            mutant.run(&scope).ok().map(|value| value.to_string())
        })
        .collect();
    // `>` to `>=`, 2 to 1; no filter; 2 to 3; `>` to `<`; sum to max.
    for expected in ["9", "10", "4", "1"] {
        assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
    }
}

#[test]
fn what_is_not_in_the_language_is_refused_with_the_place() {
    for text in ["1 +", "xs[", "x for x in xs", "'open", "f(x=1)", "a b", "1 $ 2", "[x for x in]"] {
        assert!(expression(text).is_err(), "{text}");
    }
    assert!(expression("1 $ 2").unwrap_err().contains("`$`"));
    assert!(program(&["x = 1".into()]).is_err());
}

#[test]
fn what_may_mean_something_else_is_not_sure() {
    let names = BTreeSet::from(["xs".to_owned(), "s".to_owned()]);
    for text in [
        // Names that are bound twice, or as what is called.
        "[1 for a in xs for xs in xs]",
        "[a for a in [1 for a in xs] for a in xs]",
        "[len(x) for len in xs for x in [s]]",
        "[isinstance(s, str) for str in xs]",
        "[isinstance(s, bool) for bool in xs]",
        "range(3) == [0, 1, 2]",
        "1 in range(3) in xs",
        "max(range(3), xs)",
        "012",
        "1.count(s)",
    ] {
        assert_eq!(sure_expression(text, &names), None, "{text}");
    }
    assert!(
        sure_expression("[x for x in xs if x in range(3)] == [0] or s.count('7') > 10", &names).is_some()
    );
}

/// Answers are untrusted: the longest that are read neither fill the memory nor overflow the stack of a thread.
#[test]
fn long_expressions_and_large_values_are_no_danger() {
    let texts = || {
        let literal = "a".repeat(90);
        let square = format!("'{literal}'.join('{literal}')");
        [
            (format!("0{}", "+1".repeat(499)), true),
            (format!("{}1", "-".repeat(998)), true),
            (format!("{}1", "not ".repeat(249)), true),
            (format!("1{}", " and 1".repeat(160)), true),
            (format!("{}1", "0 if 0 else ".repeat(82)), true),
            (format!("'a'{}", "[0]".repeat(330)), true),
            (format!("len(({square}).join({square}))"), false),
            (format!("len([list('{}') for i in range(10000)])", "a".repeat(900)), false),
            (format!("len([x for x in [list('{}')] for i in range(10000)])", "a".repeat(900)), false),
        ]
    };
    let checked = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        for (text, is_known) in texts() {
            let expr = sure_expression(&text, &BTreeSet::new()).unwrap();
            assert_eq!(eval(&expr, &Scope::new()).is_ok(), is_known, "{text}");
        }
    });
    checked.unwrap().join().unwrap();
    assert_eq!(sure_expression(&format!("0{}", "+1".repeat(500)), &BTreeSet::new()), None);
    assert_eq!(sure_expression(&format!("{}1{}", "(".repeat(21), ")".repeat(21)), &BTreeSet::new()), None);
}

/// Writes expressions, of which many raise.
struct Writer(Stream);

impl Writer {
    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.0.index(texts.len())]
    }

    fn atom(&mut self) -> String {
        let atoms = [
            "xs", "xs", "s", "s", "n", "b", "empty", "pairs", "words", "bits", "len", "int", "nobody",
            "range(3)", "range(n)", "mixed", "None", "True", "False", "''", "'a'", "'an'", "'-'", "' 12 '",
            "'1_0'", "0", "1", "2", "3", "7", "-1", "-2", "12", "97", "[]", "[1]", "[2, 3]",
        ];
        self.one_of(&atoms).to_owned()
    }

    fn range(&mut self, depth: usize) -> String {
        let arguments: Vec<String> = (0..=self.0.index(3)).map(|_| self.expr(depth)).collect();
        format!("range({})", arguments.join(", "))
    }

    fn through(&mut self, depth: usize) -> String {
        if self.0.below(3) == 0 { self.range(depth) } else { format!("({})", self.expr(depth)) }
    }

    fn expr(&mut self, depth: usize) -> String {
        let Some(less) = depth.checked_sub(1) else { return self.atom() };
        match self.0.below(17) {
            0 | 1 => self.atom(),
            2 => format!("-{}", self.atom()),
            3 => format!("(not {})", self.expr(less)),
            4 | 5 => {
                let sign = self.one_of(&["+", "+", "-", "*", "//", "%"]);
                format!("({} {sign} {})", self.expr(less), self.expr(less))
            }
            6 | 7 => {
                let relation = self.one_of(&["<", "<=", ">", ">=", "==", "!=", "in", "not in"]);
                format!("({} {relation} {})", self.expr(less), self.expr(less))
            }
            8 => format!("({} < {} <= {})", self.expr(less), self.expr(less), self.expr(less)),
            9 => {
                let word = self.one_of(&["and", "or"]);
                format!("({} {word} {})", self.expr(less), self.expr(less))
            }
            10 => format!("({} if {} else {})", self.expr(less), self.expr(less), self.expr(less)),
            11 => format!("({})[{}]", self.expr(less), self.expr(less)),
            12 => {
                let part = |writer: &mut Writer| match writer.0.below(2) {
                    0 => String::new(),
                    _ => writer.expr(less),
                };
                let (from, to) = (part(self), part(self));
                let step = self.one_of(&["", "", ":", ":-1", ":1", ":2", ":0"]);
                format!("({})[{from}:{to}{step}]", self.expr(less))
            }
            13 => {
                let name = self.one_of(&["count", "count", "join"]);
                format!("({}).{name}({})", self.expr(less), self.expr(less))
            }
            14 => {
                let of = self.one_of(&["int", "bool", "str", "list"]);
                format!("isinstance({}, {of})", self.expr(less))
            }
            15 => {
                let name = self.one_of(&[
                    "len", "abs", "sum", "max", "min", "sorted", "list", "all", "any", "str", "int", "ord",
                    "chr",
                ]);
                let of = match name {
                    "max" | "min" if self.0.below(2) == 0 => {
                        format!("{}, {}", self.expr(less), self.expr(less))
                    }
                    "str" | "int" | "ord" | "chr" | "abs" => self.expr(less),
                    _ => self.through(less),
                };
                format!("{name}({of})")
            }
            _ => {
                // Each depth has names of its own.
                let item = self.one_of(&["i{}", "i{} + 1", "[i{}, n]", "str(i{})", "i{} + j{}"]);
                let item = item.replace("{}", &depth.to_string());
                let second = match item.contains('j') || self.0.below(4) == 0 {
                    true => format!(" for j{depth} in {}", self.through(less)),
                    false => String::new(),
                };
                let condition = match self.0.below(2) {
                    0 => String::new(),
                    _ => format!(" if {} {} i{depth}", self.atom(), self.one_of(&["<", "==", "in", "!="])),
                };
                let text = format!("[{item} for i{depth} in {}{second}{condition}]", self.through(less));
                // Some are called as something else is, or as nothing can be.
                let [one, two] = [format!("i{depth}"), format!("j{depth}")];
                let name = if self.0.below(2) == 0 { one } else { two };
                match self.0.below(6) {
                    0 => text.replace(
                        &name,
                        self.one_of(&["xs", "s", "n", "while", "len", "str", "print", "other"]),
                    ),
                    _ => text,
                }
            }
        }
    }

    /// The text with a character changed, so that it may not be Python any more.
    fn spoilt(&mut self, text: &str) -> String {
        let at = self.0.index(text.len());
        let new = self
            .one_of(&["", "", "0", "1", ".", "(", ")", "[", ",", " ", "=", "-", "n", "s", "_", "e", " or "]);
        format!("{}{new}{}", &text[..at], &text[at + usize::from(self.0.below(2) == 0)..])
    }
}

const PYTHON: &str = r#"
import json, sys, warnings
warnings.simplefilter("ignore")
scope = json.loads(sys.stdin.readline())
for line in sys.stdin:
    text = json.loads(line)
    try:
        code = compile(text.strip(), "text", "eval")
        try:
            value = eval(code, dict(scope))
            known = lambda value: type(value) in (bool, int, str, type(None)) or (
                type(value) is list and all(map(known, value)))
            said = {"value": json.dumps(value)} if known(value) else "another type"
        except Exception as error:
            said = "raised"
    except (SyntaxError, ValueError) as error:
        said = "no Python"
    print(json.dumps(said))
"#;

fn as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::None => serde_json::Value::Null,
        Value::Bool(holds) => json!(holds),
        Value::Int(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::List(items) => items.iter().map(as_json).collect(),
    }
}

#[test]
fn what_is_sure_is_what_python_says() {
    let text = |text: &str| Value::Text(text.into());
    let scope: Scope = [
        ("xs", Value::ints(&[3, -1, 4, 1, 3])),
        ("s", text("banana")),
        ("n", Value::Int(5)),
        ("b", Value::Bool(true)),
        ("empty", Value::List(Vec::new())),
        ("pairs", Value::List(vec![Value::ints(&[1, 2]), Value::ints(&[1]), Value::ints(&[0, 9])])),
        ("words", Value::List(vec![text("b"), text("an"), text("")])),
        ("bits", Value::List(vec![Value::Bool(true), Value::Int(1), Value::Int(0), Value::Bool(false)])),
        ("mixed", Value::List(vec![Value::Int(1), text("a"), Value::None, Value::Bool(true)])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let names: BTreeSet<String> = scope.keys().cloned().collect();
    let mut writer = Writer(Stream::new(7));
    let mut texts = Vec::new();
    for at in 0..10_000 {
        let text = writer.expr(1 + at % 3);
        texts.push(writer.spoilt(&text));
        texts.push(text);
    }
    let read: Vec<(&String, Result<Value, Halt>)> = texts
        .iter()
        .filter_map(|text| Some((text, eval(&sure_expression(text, &names)?, &scope))))
        .filter(|(_, value)| *value != Err(Halt::Unknown))
        .collect();
    let count =
        |holds: fn(&Result<Value, Halt>) -> bool| read.iter().filter(|(_, value)| holds(value)).count();
    assert!(count(Result::is_ok) > 3_000 && count(Result::is_err) > 3_000, "{} are sure", read.len());

    let python =
        Command::new("python3").arg("-c").arg(PYTHON).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        println!("skipped: there is no python3");
        return;
    };
    let mut lines = vec![
        scope.iter().map(|(name, value)| (name.clone(), as_json(value))).collect::<serde_json::Map<_, _>>(),
    ]
    .into_iter()
    .map(|scope| json!(scope).to_string())
    .collect::<Vec<_>>();
    lines.extend(read.iter().map(|(text, _)| json!(text).to_string()));
    let mut stdin = python.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all((lines.join("\n") + "\n").as_bytes()));
    let output = python.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    let said: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(said.len(), read.len());
    let differ = read.iter().zip(&said).filter_map(|((text, value), said)| {
        let own = match value {
            Ok(value) => as_json(value),
            Err(_) => json!("raised"),
        };
        let theirs = match said["value"].as_str() {
            Some(value) => serde_json::from_str(value).unwrap(),
            None => said.clone(),
        };
        let agree = own == theirs && value.is_ok() == said["value"].is_string();
        (!agree).then(|| format!("{text}: {own}, Python: {said}"))
    });
    let differ: Vec<String> = differ.collect();
    assert!(
        differ.is_empty(),
        "{} of {}:\n{}",
        differ.len(),
        read.len(),
        differ[..differ.len().min(20)].join("\n")
    );
}
