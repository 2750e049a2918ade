//! Answers that are compared with each other, without anything that is right.

use burnish_verify::Verifier;

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
