//! Which answers are equal, and which of them has the most votes.

use burnish_core::Message;
use burnish_verify::Verifier;

/// The final answer of a message. Calls of tools are an answer too.
pub(crate) fn answer_of(equality: Verifier, message: &Message) -> Option<String> {
    if message.tool_calls.is_empty() {
        return equality.answer(&message.content).filter(|answer| !answer.trim().is_empty());
    }
    let calls = message.tool_calls.iter().map(|call| (&call.function.name, &call.function.arguments));
    serde_json::to_string(&calls.collect::<Vec<_>>()).ok()
}

/// Numbers answers: each gets the number of the first earlier one that is equal to it, or the next new number. `None`
/// where there is no answer. Equality need not be transitive: what counts is the first answer of a number.
pub(crate) fn numbered(equality: Verifier, answers: &[Option<String>]) -> Vec<Option<usize>> {
    let mut firsts: Vec<&str> = Vec::new();
    let mut numbers = Vec::with_capacity(answers.len());
    for answer in answers {
        let number = answer.as_deref().map(|answer| {
            let known = firsts.iter().position(|first| equality.is_same(first, answer));
            known.unwrap_or_else(|| {
                firsts.push(answer);
                firsts.len() - 1
            })
        });
        numbers.push(number);
    }
    numbers
}

/// The index of the first candidate whose answer has the greatest weight; of equal weights, that of the answer that was
/// given first. Candidates without an answer have no vote; if none has one, the first candidate wins.
pub(crate) fn winner(answers: &[Option<usize>], weights: &[f64]) -> usize {
    let count = answers.iter().flatten().max().map_or(0, |most| most + 1);
    let mut sums = vec![0.0; count];
    for (answer, weight) in answers.iter().zip(weights) {
        if let Some(answer) = answer {
            sums[*answer] += weight;
        }
    }
    let best = (0..count).reduce(|best, other| if sums[other] > sums[best] { other } else { best });
    answers.iter().position(|answer| answer.is_some() && *answer == best).unwrap_or(0)
}

/// As [`winner`], with one vote for each candidate.
pub(crate) fn majority(answers: &[Option<usize>]) -> usize {
    winner(answers, &vec![1.0; answers.len()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(answers: &[&str]) -> Vec<Option<usize>> {
        let answers: Vec<Option<String>> =
            answers.iter().map(|text| (!text.is_empty()).then(|| (*text).to_owned())).collect();
        numbered(Verifier::Math, &answers)
    }

    #[test]
    fn equal_answers_have_one_number_and_the_first_of_the_most_wins() {
        assert_eq!(of(&["0.5", "3", "1/2", "", "3.0"]), [Some(0), Some(1), Some(0), None, Some(1)]);
        assert_eq!(majority(&of(&["7", "8", "8.0"])), 1);
        // A tie: the answer that stands first.
        assert_eq!(majority(&of(&["7", "8", "8", "7"])), 0);
        assert_eq!(majority(&of(&["", "8", "7"])), 1);
        assert_eq!(majority(&of(&["", ""])), 0);
        assert_eq!(winner(&of(&["7", "8", "8"]), &[0.9, 0.3, 0.3]), 0);
    }

    proptest! {
        #[test]
        fn a_copy_of_the_winner_wins_again(answers in prop::collection::vec(prop::option::of(0usize..4), 1..12)) {
            // Numbers in the order of their first answers, as `numbered` gives them.
            let texts: Vec<Option<String>> =
                answers.iter().map(|answer| answer.map(|number| number.to_string())).collect();
            let numbers = numbered(Verifier::Number, &texts);
            let won = majority(&numbers);
            let mut more = numbers.clone();
            more.push(numbers[won]);
            prop_assert_eq!(majority(&more), won);
            // The winner has at least as many votes as any answer.
            let votes = |number: Option<usize>| numbers.iter().filter(|other| **other == number).count();
            if numbers[won].is_some() {
                prop_assert!(numbers.iter().flatten().all(|number| votes(Some(*number)) <= votes(numbers[won])));
            }
        }
    }
}
