//! What is read from a sentence.

use super::*;

fn sources(text: &str) -> Vec<&str> {
    let tokens = tokens::tokens(text, 0, TOKENS);
    let found = tokens.iter().filter(|token| matches!(token.kind, Kind::Found(_)));
    found.map(|token| text[token.start..token.end].trim()).collect()
}

#[test]
fn numbers_stand_with_sign_currency_fraction_percent_and_exponent() {
    let text = "At -$1,234.50 or 3 1/2 cups, 50 % of 2x and x2, 10-3 is 7, 6.05e7 or 1E-3, and ৪২ more.";
    assert_eq!(sources(text), ["-$1,234.50", "3 1/2", "50 %", "2x", "10-3", "7", "6.05e7", "1E-3", "৪২"]);
    assert_eq!(sources("1 500 000 and 1,2 or 7th"), ["1 500 000", "1,2", "7th"]);
}

#[test]
fn mathematics_between_words_is_found_without_its_signs() {
    for (text, expected) in [
        (r"Thus we get \frac{3}{4} of it.", r"\frac{3}{4}"),
        ("so x = 5 holds", "x = 5"),
        ("the polynomial x^2 + 1 is it", "x^2 + 1"),
        ("at (1, 2) they meet", "(1, 2)"),
        ("we have 9 * 2 = 18 eggs", "9 * 2 = 18"),
        ("a value of 2*sqrt(3) in all", "2*sqrt(3)"),
        (r"the set \{1, 2\} only", r"\{1, 2\}"),
    ] {
        assert_eq!(sources(text), [expected], "{text}");
    }
    assert!(sources("I see a cat, and x marks it").is_empty());
}

#[test]
fn joined_numbers_are_a_list_a_sum_or_unclear() {
    let is_list = |text| matches!(last(text, true), Reading::Value(Value::List(_), _));
    assert!(is_list("it is 1, 2, or 3"));
    assert!(is_list("5 dollars or 6 dollars"));
    for text in ["20-30", "5 of 7", "5 out of 7", "between 5 and 7", "5 to 7"] {
        assert!(matches!(last(text, true), Reading::Unclear(_)), "{text}");
    }
    assert!(
        matches!(last("so 9 * 2", true), Reading::Value(Value::Quantity { .. }, source) if source == "9 * 2")
    );
}

#[test]
fn prose_is_told_from_formulas_by_its_words() {
    for text in ["therefore 18", "18 is it", r"\text{at least } 7", "7 dozen", "no 7"] {
        assert!(has_words(text), "{text}");
    }
    for text in [
        "18 dollars",
        r"15\text{ cm}",
        "x^2+1",
        r"\frac{3}{4}",
        "sqrt(2)",
        "abc",
        "3 million",
        r"\text{even}",
        "1 or 2",
    ] {
        assert!(!has_words(text), "{text}");
    }
}
