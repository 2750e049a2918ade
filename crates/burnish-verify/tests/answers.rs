//! Where answers are found, and how they are compared with each other.
#![allow(clippy::unwrap_used, reason = "tests")]

use burnish_verify::{Place, Reading, Reason, Verifier};

#[test]
fn the_answer_is_where_the_verifier_looks_for_it() {
    let cases = [
        (Verifier::Number, "3 and 4 make 7. The answer is 7.", Some("7")),
        (Verifier::Math, r"So \boxed{\frac{7}{2}}.", Some(r"\frac{7}{2}")),
        (Verifier::Choice, "The answer is (B).", Some("B")),
        (Verifier::Text, "<answer>Paris</answer>", Some("Paris")),
        (Verifier::Abstention, "I think <answer> No Answer </answer>", Some("No Answer")),
        (Verifier::Choice, "I can't say", None),
        (Verifier::Json, "nothing", None),
    ];
    for (verifier, response, expected) in cases {
        let found = verifier.answer(response);
        let is_expected = match (&found, expected) {
            // Brackets and a full stop may stand around a letter.
            (Some(found), Some(expected)) => found.trim_matches(['(', ')', '.', ' ']) == expected,
            (None, None) => true,
            _ => false,
        };
        assert!(is_expected, "{verifier:?} {response}: {found:?}");
    }
}

#[test]
fn answers_are_the_same_if_the_verifier_says_so() {
    for (verifier, one, other) in [
        (Verifier::Math, r"\frac{7}{2}", "3.5"),
        (Verifier::Number, "1,000", "1000"),
        (Verifier::Text, "the Eiffel Tower", "eiffel tower"),
        (Verifier::Abstention, "No Answer", "no answer"),
        (Verifier::Json, r#"{"a": 1}"#, r#"{ "a" : 1 }"#),
        // No mathematics: compared as texts.
        (Verifier::Number, "many", "many"),
    ] {
        assert!(verifier.is_same(one, other), "{verifier:?} {one} {other}");
        assert!(verifier.is_same(other, one), "{verifier:?} {other} {one}");
    }
    for (verifier, one, other) in
        [(Verifier::Math, "7", "8"), (Verifier::Number, "many", "few"), (Verifier::Exact, "a", "A")]
    {
        assert!(!verifier.is_same(one, other), "{verifier:?} {one} {other}");
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
        (r"\boxed{\text{at least } 2}", Some(Place::Box), None),
        ("", None, None),
    ] {
        let explained = gold.explain(response);
        assert_eq!(explained.judgement, gold.judge(response));
        assert_eq!((explained.place, explained.answer.as_deref()), (place, answer), "{response}");
        assert_eq!(explained.reference, "1/2");
    }
}

#[test]
fn without_a_mark_only_the_reading_last_finds_an_answer() {
    for (verifier, reference, marked, unmarked) in [
        (Verifier::Number, "18", "The answer is 18 dollars.", "9 * 2 = 18 dollars"),
        (
            Verifier::Math,
            r"\frac12",
            r"Thus $x = 3$. #### $\frac{1}{2}$",
            "Thus $x = 3$ or rather it is $0.5$",
        ),
        (Verifier::Choice, "B", "The answer is (B).", "A is wrong, so (B)."),
        (Verifier::Text, "Paris", "<answer>paris</answer>", "Paris."),
        (Verifier::Exact, "Paris", "Answer: Paris", "Paris"),
        (Verifier::Json, "[1]", "<answer>[1]</answer>", "So: [1]"),
    ] {
        let last = verifier.gold(reference).unwrap();
        let mark = last.clone().with_reading(Reading::Mark);
        assert!(last.judge(marked).is_correct && mark.judge(marked).is_correct, "{verifier:?} {marked}");
        assert!(last.judge(unmarked).is_correct, "{verifier:?} {unmarked}");
        assert_eq!(mark.judge(unmarked).reason, Reason::NoAnswer, "{verifier:?} {unmarked}");
        assert_eq!(mark.explain(unmarked).place, None, "{verifier:?} {unmarked}");
    }
}
