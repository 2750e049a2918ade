//! Neutral words change no verdict; bounds, negations and other numbers are never accepted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use burnish_verify::{Place, Reason, Verifier};
use proptest::prelude::*;

/// Words that say nothing about a number next to them.
const NEUTRAL: &[&str] = &[
    "therefore",
    "thus",
    "clearly",
    "quite",
    "plainly",
    "happily",
    "indeed",
    "exactly",
    "precisely",
    "of course",
    "in fact",
    "after all",
    "simply",
    "arguably",
    "naturally",
    "in the end",
    "surely",
    "evidently",
    "visibly",
    "as we see,",
    "it seems",
    "altogether",
];

const BOUNDS: &[&str] = &[
    "at least",
    "at most",
    "more than",
    "less than",
    "no more than",
    "over",
    "under",
    "fewer than",
    "up to",
    "not",
    "never",
    "anything but",
    "half of",
    "twice",
    "a multiple of",
    "almost",
    "other than",
    "one of",
    "in excess of",
    "greater than",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neutral_words_change_no_verdict(
        number in 3_i64..100_000,
        off in 1_i64..50,
        words in prop::collection::vec(prop::sample::select(NEUTRAL), 0..3),
        frame in prop::sample::select(vec!["The answer is {}.", "It is {}", "So we get {}.", "The total is {} apples.", "<answer>{}</answer>"]),
    ) {
        let said = |number: i64| frame.replace("{}", &format!("{} {number}", words.join(" ")));
        for verifier in [Verifier::Number, Verifier::Math] {
            let gold = verifier.gold(&number.to_string()).unwrap();
            prop_assert!(gold.judge(&said(number)).is_correct, "{}", said(number));
            prop_assert_eq!(gold.judge(&said(number + off)).reason, Reason::Different, "{}", said(number + off));
        }
    }

    #[test]
    fn a_bound_or_a_negation_is_never_the_number(
        number in 3_i64..100_000,
        bound in prop::sample::select(BOUNDS),
        frame in prop::sample::select(vec!["The answer is {}.", "It is {}", "{}", "The total is {} apples.", "<answer>{}</answer>", "#### {}"]),
    ) {
        let said = frame.replace("{}", &format!("{bound} {number}"));
        for verifier in [Verifier::Number, Verifier::Math] {
            prop_assert!(!verifier.gold(&number.to_string()).unwrap().judge(&said).is_correct, "{}", said);
        }
    }

    #[test]
    fn e_notation_is_its_value(digits in 1_i64..999_999, power in -12_i32..12) {
        let value = if power < 0 { format!("{digits}/1{}", "0".repeat(power.unsigned_abs() as usize)) } else { format!("{digits}{}", "0".repeat(power as usize)) };
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
}

#[test]
fn a_number_is_what_its_sentence_says() {
    for (response, value) in [
        ("7 dozen", "84"),
        ("half of 7", "3.5"),
        ("twice 7", "14"),
        ("7 minus 1", "6"),
        ("7 less than 10", "3"),
        ("7 more than 10", "17"),
        ("7 squared", "49"),
        ("7 and a half", "7.5"),
        ("7 hundred", "700"),
        ("9 eggs * $2", "18"),
        ("negative 7", "-7"),
        ("6.05×10⁷ metres", "60500000"),
        ("2.5k", "2500"),
        ("14% of 100", "14"),
    ] {
        assert!(Verifier::Number.gold(value).unwrap().judge(response).is_correct, "{response} is {value}");
        assert!(!Verifier::Number.gold("7").unwrap().judge(response).is_correct, "{response} is not 7");
    }
}

#[test]
fn what_is_unclear_is_unreadable_and_not_silent() {
    let gold = Verifier::Number.gold("7").unwrap();
    for response in [
        "at least 7",
        "The answer is no more than 7.",
        "It is not 7.",
        "7 to 9",
        "7 out of 9",
        "Is it 7?",
        "If it is 7, fine.",
        "7 or more",
        "The answer is 7. Scratch that.",
        r"\boxed{\text{at least } 7}",
    ] {
        assert_eq!(gold.judge(response).reason, Reason::Unreadable, "{response}");
    }
}

#[test]
fn a_judgement_can_be_explained() {
    let gold = Verifier::Math.gold(r"\frac12").unwrap();
    for (response, place, answer) in [
        (r"\boxed{0.5}", Some(Place::Box), Some("0.5")),
        ("<answer>1/2 cups</answer>", Some(Place::Tag), Some("1/2 cup")),
        ("#### 0.50", Some(Place::Hashes), Some("0.50")),
        ("The answer is therefore 2.", Some(Place::Phrase), Some("2")),
        ("2/4", Some(Place::Whole), Some("2/4")),
        ("So it is 1/2 in all.", Some(Place::Last), Some("1/2")),
        ("at least 2", Some(Place::Last), None),
        ("", None, None),
    ] {
        let explained = gold.explain(response);
        assert_eq!(explained.judgement, gold.judge(response));
        assert_eq!((explained.place, explained.answer.as_deref()), (place, answer), "{response}");
        assert_eq!(explained.reference, "1/2");
    }
}

#[test]
fn tags_and_the_marks_of_quotations_are_no_comparisons() {
    let gold = Verifier::Number.gold("18").unwrap();
    for response in [
        "</think>18",
        "<think>9 eggs at 2</think>\n\nShe makes 18 dollars",
        "<b>18</b>",
        "She makes <span class=\"n\">18</span> dollars",
        "<|start_header_id|>18<|im_end|>",
        "> 18",
        "Thus the total:\n> **18**",
        "<p>So it is 18</p>",
    ] {
        assert!(gold.judge(response).is_correct, "{response}");
    }
    for response in ["It is > 18", "So x < 18", "It is > 18 <b>indeed</b>", "17 < x"] {
        assert!(!gold.judge(response).is_correct, "{response}");
    }
}

/// All sentences of `sentences.txt` are judged as a person judged them.
#[test]
fn sentences_of_every_class_are_read_as_people_read_them() {
    let mut class = "";
    let mut faults = Vec::new();
    let mut count = 0;
    for line in include_str!("sentences.txt").lines() {
        if let Some(name) = line.strip_prefix("## ") {
            class = name;
        }
        let (is_right, rest) = match line.split_once(' ') {
            Some(("+", rest)) => (true, rest),
            Some(("-", rest)) => (false, rest),
            _ => continue,
        };
        let (reference, response) = rest.split_once(" | ").unwrap();
        let response = response.replace("\\n", "\n");
        let judgement = Verifier::Number.gold(reference).unwrap().judge(&response);
        count += 1;
        if judgement.is_correct != is_right {
            faults.push(format!("{class}: {reference} | {response} | {judgement:?}"));
        }
    }
    assert!(count > 500, "{count} sentences");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
