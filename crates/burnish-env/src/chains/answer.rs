//! Reads answers: lines of work, then the final answer.

use super::language;
use super::problem::{NUMBER_MAX, Operator, Step};

/// The sign at the beginning of the final answer's line, in plain signs.
pub const FINAL: char = '>';

/// A parsed answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The well-formed steps, in order.
    pub steps: Vec<Step>,
    /// The last final answer.
    pub value: Option<u64>,
    /// Whether it is lines of steps and then exactly one final answer, and nothing else.
    pub is_well_formed: bool,
}

enum Line {
    Step(Step),
    Final(u64),
    Other,
}

/// Reads an answer in any language or mixture of languages. White space at its ends does not count.
pub fn read(text: &str) -> Answer {
    let plain = language::read(text);
    let lines: Vec<Line> = plain.trim().split('\n').map(line).collect();
    let mut answer = Answer::default();
    let mut others = 0;
    let mut finals = 0;
    for line in &lines {
        match line {
            Line::Step(step) => answer.steps.push(*step),
            Line::Final(value) => {
                finals += 1;
                answer.value = Some(*value);
            }
            Line::Other => others += 1,
        }
    }
    answer.is_well_formed = others == 0 && finals == 1 && matches!(lines.last(), Some(Line::Final(_)));
    answer
}

/// The number that `text` gives: its last final answer, or the whole text if that is a number.
pub(super) fn stated(text: &str) -> Option<u64> {
    read(text).value.or_else(|| number(language::read(text).trim()))
}

/// Lines of work in plain signs, each with its line break.
pub(super) fn work(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("{step}\n")).collect()
}

/// A number without leading zeros, up to [`NUMBER_MAX`].
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|value| is_plain && *value <= NUMBER_MAX)
}

fn line(text: &str) -> Line {
    if let Some(value) = text.strip_prefix(FINAL).and_then(number) {
        return Line::Final(value);
    }
    step(text).map_or(Line::Other, Line::Step)
}

fn step(text: &str) -> Option<Step> {
    let (work, result) = text.split_once('=')?;
    let at = work.find(|sign: char| !sign.is_ascii_digit())?;
    let operator = Operator::ALL.into_iter().find(|operator| work[at..].starts_with(operator.sign()))?;
    let (left, right) = (number(&work[..at])?, number(&work[at + 1..])?);
    Some(Step { left, operator, right, result: number(result)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn work_and_one_final_answer_are_well_formed_in_any_language() {
        let text = "7+5=12\n12*2=24\n>24";
        for language in 0..language::LANGUAGES_MAX {
            let answer = read(&language::write(language, text));
            assert!(answer.is_well_formed && answer.value == Some(24));
            assert_eq!(work(&answer.steps) + ">24", text);
        }
        assert!(read(">24").is_well_formed && read(" \n7+5=12\n>12\n").is_well_formed);
    }

    #[test]
    fn everything_else_is_not_well_formed() {
        for text in [
            "",
            "24",
            "7+5=12",
            ">24\n>24",
            ">24\n7+5=12",
            "7+5=12\n\n>12",
            "7+5=\n>12",
            "7 +5=12\n>12",
            "=\n>1",
            "7+5=12>12",
            "07+5=12\n>12",
            "7+5=12\n>012",
            "x\n>1",
            ">9999999999",
            "7%5=2\n>2",
            ">",
            "7+5=12=3\n>3",
        ] {
            assert!(!read(text).is_well_formed, "{text:?}");
        }
    }

    #[test]
    fn the_number_of_a_text_is_its_last_final_answer_or_all_of_it() {
        assert_eq!(stated("7+5=12\n>12"), Some(12));
        assert_eq!(stated(">3\n>4\nx"), Some(4));
        assert_eq!(stated(" 18\n"), Some(18));
        assert_eq!(stated(&language::write(2, "18")), Some(18));
        assert_eq!((stated("eighteen"), stated(""), stated("1 8"), stated("-3")), (None, None, None, None));
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in prop_oneof![any::<String>(), "[0-9+*/=?>@ \n-]{0,60}"]) {
            let answer = read(&text);
            prop_assert!(!answer.is_well_formed || answer.value.is_some());
        }
    }
}
