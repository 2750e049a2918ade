//! Properties for any input: no panic, expressions equal themselves in other forms, other values are rejected.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use burnish_verify::{Reading, Reason, Verifier};
use proptest::prelude::*;

/// References that every verifier is tried with.
const REFERENCES: &[&str] = &[
    "2",
    "1/2",
    r"\frac{\sqrt{3}}{3}",
    "(1,2)",
    "[1,2)",
    "x=5",
    "x^2+1",
    "1,2",
    "50%",
    "east",
    "B",
    r#"{"a": 1}"#,
    r#"["a", "b"]"#,
    "2516_8",
    r"\begin{pmatrix}1\\2\end{pmatrix}",
    "-3.5 million dollars",
];

/// Pieces of mathematics and prose that parsers stumble over.
fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "\\frac",
            "\\sqrt",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "\\{",
            "\\}",
            "^",
            "_",
            "|",
            "!",
            "%",
            "\\%",
            "$",
            "$$",
            "\\(",
            "\\)",
            "\\boxed{",
            "\\text{",
            "####",
            "<answer>",
            "</answer>",
            "answer is ",
            "answer: ",
            ",",
            ";",
            " or ",
            " and ",
            "=",
            "<",
            "\\le",
            "\\in",
            "\\cup",
            "\\pm",
            "-",
            "+",
            "*",
            "/",
            "\\\\",
            "&",
            "\\begin{pmatrix}",
            "\\end{pmatrix}",
            "\\infty",
            "\\overline{",
            "9^9^9^9",
            "1e999",
            ".",
            "\n",
            " ",
            "½",
            "²",
            "৪",
            "é",
            "答案是",
            "\\sin",
            "\\log_",
            "x",
            "e",
            "i",
            "12",
            "0",
            "1,234",
            "0.5",
            "million",
            "cm",
            "°",
            "```json\n",
            "```",
            "\"",
            "\\left",
            "\\right",
            "sqrt",
            "pi",
            "3 1/2",
            "million percent",
            "\u{202f}",
            "\\boxed",
            "\\mathrm{i}",
            "\\over",
            "\\choose",
            "\\mid",
            ":",
            "\\{x \\mid x <",
            "~~~py\n",
            "a.m.",
            "C++",
            "e\u{301}",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,6}",
        "\\PC{0,3}",
    ]
}

/// An expression with its value as a fraction, computed alongside; denominators stay small.
#[derive(Debug, Clone)]
struct Known {
    latex: String,
    plain: String,
    top: i64,
    bottom: i64,
}

fn known() -> impl Strategy<Value = Known> {
    let leaf = (-50_i64..50, 1_i64..10).prop_map(|(top, bottom)| Known {
        latex: if bottom == 1 { format!("{top}") } else { format!("\\frac{{{top}}}{{{bottom}}}") },
        plain: format!("{top}/{bottom}"),
        top,
        bottom,
    });
    leaf.prop_recursive(3, 8, 2, |inner| {
        (inner.clone(), inner, 0..3).prop_map(|(a, b, operation)| {
            let (sign, plain_sign, top, bottom) = match operation {
                0 => ("+", "+", a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom),
                1 => ("-", "-", a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom),
                _ => ("\\cdot", "*", a.top * b.top, a.bottom * b.bottom),
            };
            Known {
                latex: format!("\\left({}\\right) {sign} \\left({}\\right)", a.latex, b.latex),
                plain: format!("({}){plain_sign}({})", a.plain, b.plain),
                top,
                bottom,
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn judging_never_panics(parts in prop::collection::vec(fragment(), 0..30), reference in prop::sample::select(REFERENCES)) {
        let response = parts.concat();
        for verifier in Verifier::ALL {
            for reference in [reference, response.as_str()] {
                if let Ok(gold) = verifier.gold(reference) {
                    let judgement = gold.judge(&response);
                    prop_assert_eq!(judgement.is_correct, judgement.reason == Reason::Correct);
                    prop_assert_eq!(judgement.answer.is_none(), judgement.reason == Reason::NoAnswer);
                }
            }
        }
    }

    #[test]
    fn an_expression_is_its_value_and_nothing_else(known in known(), off in 1_i64..1000) {
        let gold = Verifier::Math.gold(&format!("\\frac{{{}}}{{{}}}", known.top, known.bottom)).unwrap();
        for response in [
            format!("\\boxed{{{}}}", known.latex),
            format!("The answer is ${}$.", known.latex),
            format!("<answer>{}</answer>", known.plain),
        ] {
            prop_assert!(gold.judge(&response).is_correct, "{}", response);
        }
        let other = format!("\\boxed{{{} + \\frac{{{off}}}{{1000}}}}", known.latex);
        prop_assert_eq!(gold.judge(&other).reason, Reason::Different);
    }

    #[test]
    fn a_polynomial_is_its_factored_form(roots in prop::collection::vec(-9_i64..9, 1..5), off in 1_i64..9) {
        let mut coefficients = vec![1_i64];
        for root in &roots {
            // Times (x - root), by hand.
            let mut next = vec![0; coefficients.len() + 1];
            for (power, coefficient) in coefficients.iter().enumerate() {
                next[power + 1] += coefficient;
                next[power] -= root * coefficient;
            }
            coefficients = next;
        }
        let expanded = coefficients.iter().enumerate().map(|(power, c)| format!("+({c})x^{{{power}}}")).collect::<String>();
        let factored = roots.iter().map(|root| format!("(x-({root}))")).collect::<String>();
        let gold = Verifier::Math.gold(&expanded).unwrap();
        let right = format!("\\boxed{{{factored}}}");
        let wrong = format!("\\boxed{{{factored}+{off}x}}");
        prop_assert!(gold.judge(&right).is_correct);
        prop_assert_eq!(gold.judge(&wrong).reason, Reason::Different);
    }

    #[test]
    fn a_list_is_accepted_in_any_order_and_only_whole(mut items in prop::collection::hash_set(-99_i64..99, 2..6)) {
        let items: Vec<i64> = items.drain().collect();
        let join = |items: &[i64]| items.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let gold = Verifier::Math.gold(&join(&items)).unwrap();
        let mut sorted = items.clone();
        sorted.sort_unstable();
        let whole = format!("\\boxed{{\\{{{}\\}}}}", join(&sorted));
        let part = format!("\\boxed{{{}}}", join(&sorted[1..]));
        prop_assert!(gold.judge(&whole).is_correct);
        prop_assert!(!gold.judge(&part).is_correct);
        // And a list is not equal to one of its members.
        let one = Verifier::Math.gold(&items[0].to_string()).unwrap();
        prop_assert!(!one.judge(&whole).is_correct);
    }

    #[test]
    fn e_notation_is_its_value(digits in 1_i64..999_999, power in -12_i32..12) {
        let zeros = "0".repeat(power.unsigned_abs() as usize);
        let value = if power < 0 { format!("{digits}/1{zeros}") } else { format!("{digits}{zeros}") };
        let gold = Verifier::Math.gold(&value).unwrap();
        for text in [
            format!("{digits}e{power}"),
            format!("{digits}E{power:+03}"),
            format!("The answer is {digits}e{power}."),
            format!("So it is {digits} \\times 10^{{{power}}} metres."),
            format!("{digits} x 10^{power}"),
            format!("{digits}*10^{power}"),
        ] {
            prop_assert!(gold.judge(&text).is_correct, "{} is {}", text, value);
        }
        let other = Verifier::Math.gold(&format!("{digits}e{}", power + 1)).unwrap();
        prop_assert!(!other.judge(&value).is_correct);
    }

    #[test]
    fn a_mark_gives_the_same_answer_under_both_readings_and_nothing_else_is_one(
        number in 3_i64..100_000,
        off in 1_i64..50,
        frame in prop::sample::select(vec!["The answer is {}.", "Answer: {} apples", "<answer>{}</answer>", "#### {}", "\\boxed{{}}"]),
        unmarked in prop::sample::select(vec!["It is {}", "{}", "So we get {}.", "The total of 2 is {} apples."]),
    ) {
        for verifier in [Verifier::Number, Verifier::Math] {
            let last = verifier.gold(&number.to_string()).unwrap();
            let mark = last.clone().with_reading(Reading::Mark);
            let said = |frame: &str, number: i64| frame.replacen("{}", &number.to_string(), 1);
            for (number, reason) in [(number, Reason::Correct), (number + off, Reason::Different)] {
                let response = format!("{} {}", said(unmarked, off), said(frame, number));
                prop_assert_eq!(last.judge(&response).reason, reason, "{}", response);
                prop_assert_eq!(mark.judge(&response).reason, reason, "{}", response);
                let response = said(unmarked, number);
                prop_assert_eq!(last.judge(&response).reason, reason, "{}", response);
                prop_assert_eq!(mark.judge(&response).reason, Reason::NoAnswer, "{}", response);
            }
        }
    }

    #[test]
    fn a_text_is_itself_in_any_dress(words in prop::collection::vec("[b-z][a-z]{2,8}", 1..6)) {
        // An article alone is no text.
        prop_assume!(words.iter().any(|word| word != "the"));
        let text = words.join(" ");
        let gold = Verifier::Text.gold(&text).unwrap();
        let dressed = format!("So: <answer> The {}. </answer>", words.join("  ").to_uppercase());
        prop_assert!(gold.judge(&dressed).is_correct);
        let wrong = format!("{} extra", text);
        prop_assert!(!gold.judge(&wrong).is_correct);
        let exact = Verifier::Exact.gold(&text).unwrap();
        let right = format!("The answer is {text}.");
        prop_assert!(exact.judge(&right).is_correct);
        prop_assert!(!exact.judge(&text.to_uppercase()).is_correct);
    }
}

#[test]
fn hostile_responses_are_judged_like_any_other() {
    let long = 100_000;
    let responses = [
        r"\boxed{9^9^9^9}".to_owned(),
        r"\boxed{9^{9^{9^9}}}".to_owned(),
        "(".repeat(long),
        format!("\\boxed{{{}", "{".repeat(long)),
        format!("\\boxed{{{}1{}}}", "(".repeat(900), ")".repeat(900)),
        r"\frac{1}{".repeat(long / 8),
        "1,".repeat(long),
        "1 or ".repeat(long),
        "$".repeat(long),
        "$1$ or ".repeat(long),
        "\\boxed{77} or ".repeat(long / 8),
        "the answer to ".repeat(long / 8),
        "the answer is (( 3x ".repeat(long / 8),
        "the answer is 7, ".repeat(long / 8),
        "answer:\n".repeat(long / 8),
        "7 7x ".repeat(long / 8),
        "#### ".repeat(long / 8),
        "<answer>".repeat(long / 8),
        "9".repeat(long),
        format!("\\boxed{{{}}}", "9".repeat(300) + &"^9".repeat(20)),
        format!("\\boxed{{{}}}", "x+".repeat(400) + "1"),
        format!("\\boxed{{({})^{{99999}}}}", "x+y+z"),
        format!("\\boxed{{{}}}", "\\sqrt{".repeat(39) + "2" + &"}".repeat(39)),
        "[".repeat(long),
        "{\"a\":".repeat(long / 8),
        "100000!".to_owned() + &"!".repeat(50),
        r"\boxed{\binom{1000000000}{500000000}}".to_owned(),
        r"\boxed{1.0e99999999999}".to_owned(),
        "A ".repeat(long),
    ];
    for verifier in Verifier::ALL {
        for reference in REFERENCES {
            let Ok(gold) = verifier.gold(reference) else { continue };
            for response in &responses {
                let start: String = response.chars().take(40).collect();
                assert!(!gold.judge(response).is_correct, "{verifier:?} {reference} {start}");
            }
        }
    }
}

#[test]
fn references_that_cannot_be_judged_against_are_refused_with_the_reason() {
    for (verifier, reference, expected) in [
        (Verifier::Number, "x+1", "it is not one number"),
        (Verifier::Number, "1, 2", "it is not one number"),
        (Verifier::Math, r"\mystery{3}", "it can't be read as mathematics"),
        (Verifier::Choice, "BC", "it is not one letter"),
        (Verifier::Json, "{", "it is not JSON"),
        (Verifier::Text, "?!", "it has no words"),
        (Verifier::Exact, "  ", "it is empty"),
    ] {
        let error = verifier.gold(reference).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(reference), "{error}");
    }
}

#[test]
fn names_are_those_of_serde() {
    for verifier in Verifier::ALL {
        assert_eq!(serde_json::to_string(&verifier).unwrap(), format!("\"{}\"", verifier.name()));
    }
}
