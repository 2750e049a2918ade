//! What the words on both sides of a value say about it.

use super::behind::{is_bound_after, is_called_bound};
use super::claims::{Claim, Rank};
use super::clause::{Clause, is_polite};

use super::lexicon::{CLAUSES, COPULAS, FAULTS, LABELS, NEGATIONS, OPERATIONS, STREETS};

use super::term::{Term, words_from};

use super::tokens::{Kind, Token, scaled};

use super::retraction::OVERLOOKING;
use super::{about, negation, report, retraction, sequel, words};

use crate::syntax::{Expr, Value};

pub(super) fn claim(
    tokens: &[Token],
    index: usize,
    term: &Term,
    clause: &Clause<'_>,
    wants_number: bool,
) -> Claim {
    let left: Vec<&str> = clause.left.iter().copied().filter(|word| *word != ",").collect();
    let mut value = term.value.clone();
    let mut right = words_from(tokens, term.next);
    let cut = right.iter().position(|word| CLAUSES.contains(word) && *word != "then").unwrap_or(right.len());
    let tail: Vec<&str> = right.split_off(cut);
    let mut is_negated =
        negation::is_negated(&left) || words::is_excluded(&left) || negation::is_rejected(&right);
    // "18, which is wrong", "7 (wrong)", "7 - no"
    let mut beyond = term.next + right.len() + tail.len();
    if tail.is_empty()
        && matches!(tokens.get(beyond).map(|token| &token.kind), Some(Kind::Comma | Kind::Open | Kind::Dash))
    {
        beyond += 1;
        let aside = words_from(tokens, beyond);
        let said = match aside[..] {
            ["but", "they" | "that" | "this" | "it" | "he" | "she", ref rest @ ..]
            | ["and" | "but", "that's" | "it's", ref rest @ ..]
            | ["which" | "that" | "this" | "it", ref rest @ ..] => rest,
            ref rest => rest,
        };
        if matches!(
            aside[..],
            ["doubled" | "tripled" | "halved" | "squared" | "cubed" | "quadrupled"]
                | ["but", "doubled" | "tripled" | "halved" | "squared" | "cubed" | "quadrupled"]
        ) {
            value = None;
        }
        let is_end =
            !matches!(tokens.get(beyond + aside.len()).map(|token| &token.kind), Some(Kind::Found(_)));
        // "Tom's answer, 48, is off by 10."
        let is_predicate = right.is_empty()
            && said.first().is_some_and(|word| {
                COPULAS.contains(word)
                    || NEGATIONS.contains(word)
                    || matches!(*word, "would" | "must" | "has")
            })
            && (is_end || said.last() == Some(&"by"));
        is_negated |= (is_end && (aside.len() != said.len() || aside.len() <= 2) || is_predicate)
            && negation::is_rejected(said);
        is_negated |= is_end
            && matches!(
                aside[..],
                ["not", "the" | "our" | "what", ..] if aside.iter().any(|word| matches!(*word, "answer" | "result" | "asked" | "wanted"))
            );
        if is_end
            && aside.len() <= 5
            && is_bound_after(&aside)
            && !matches!(aside.first(), Some(&("plus" | "or")) if aside.len() > 3 && aside[1] != "or")
        {
            value = None;
        }
    } else if matches!(tail[..], ["which" | "given", ..]) {
        is_negated |= negation::is_rejected(&tail[1..]);
    }
    is_negated |= negation::is_taken_back_later(tokens, term.next);
    let sums = left.iter().rev().take(5).any(|word| {
        matches!(
            *word,
            "sum"
                | "product"
                | "difference"
                | "quotient"
                | "average"
                | "mean"
                | "median"
                | "ratio"
                | "gcd"
                | "lcm"
                | "gcf"
                | "hcf"
                | "total"
        )
    });
    // "the sum of 48 and the tax"
    let is_summand = term.items == 1
        && sums
        && matches!(left.last(), Some(&("of" | "between")))
        && right.first() == Some(&"and")
        && right.len() > 1;
    let is_list_of =
        is_summand || term.items > 1 && sums && matches!(left.last(), Some(&("of" | "between" | "the")));
    // "between nothing and 18"
    let is_upper_end = left
        .iter()
        .rposition(|word| *word == "between")
        .is_some_and(|at| left.ends_with(&["and"]) && left.len() - at <= 5 && left.len() - at > 2);
    if about::is_of_answer(&left)
        || about::is_made_of_answer(&right)
        || about::is_one_case(&left)
        || about::is_called_case(&right)
        || about::is_lessened(&tail)
    {
        value = None;
    }
    if is_upper_end
        || is_list_of
        || is_called_bound(&right)
        || words::is_bound(&left)
        || is_bound_after(&right)
    {
        value = None;
    }
    let is_after_word = index > 0 && matches!(tokens[index - 1].kind, Kind::Word(_));
    match multiple(&left).filter(|_| is_after_word) {
        Some((top, bottom)) => {
            value =
                value.map(|value| scaled(value, &num_rational::BigRational::new(top.into(), bottom.into())))
        }
        None if matches!(left.last(), Some(&("negative" | "minus"))) => {
            value = value.map(|value| match value {
                Value::Quantity { expr, unit } => {
                    Value::Quantity { expr: Expr::Negative(Box::new(expr)), unit }
                }
                other => other,
            });
        }
        None => {}
    }
    // "7 plus tax", "7 plus"
    if matches!(right.iter().take(3).position(|word| matches!(*word, "plus" | "minus")), Some(at) if !right[..at].iter().any(|word| COPULAS.contains(word)))
    {
        value = None;
    }
    // "7 fewer sheep than that"
    if let Some(at) = right.iter().take(5).position(|word| *word == "than")
        && right[..at].iter().any(|word| {
            matches!(*word, "more" | "less" | "fewer" | "greater" | "higher" | "lower" | "larger" | "smaller")
        })
        && matches!(
            right.get(at + 1),
            Some(&("that" | "this" | "it" | "twice" | "half" | "double" | "thrice" | "what"))
        ) | (right.len() == at + 1 && tail.is_empty())
    {
        value = None;
    }
    if is_changed_by(&tokens[term.next.min(tokens.len())..]) {
        value = None;
    }
    let mut rank = clause.rank;
    let is_formula_with_names = wants_number && value.as_ref().is_some_and(is_formula);
    if is_formula_with_names {
        rank = rank.min(Rank::Aside);
    }
    if term.is_part {
        rank = rank.min(Rank::Adjunct);
    }
    // "page 36", "divide 48 by the number of guests"
    let is_planned =
        words::is_plan(&clause.left, clause.number) || negation::is_unfinished_later(tokens, term.next);
    let is_street = right.iter().take(3).any(|word| STREETS.contains(word));
    let is_numbered = matches!(
        left[..],
        [.., "wears" | "wore" | "jersey" | "bus" | "room" | "house" | "phone" | "player", "number"]
            | [.., "in" | "of" | "into", "grade"]
            | ["figure"]
            | [.., "see" | "in", "figure"]
            | [.., "room" | "house" | "phone" | "flight" | "jersey" | "account", "number", "is" | "was"]
    );
    let is_compound = term.is_part && matches!(left.last(), Some(&("the" | "this" | "his" | "her" | "that")));
    if is_planned
        || is_street
        || is_numbered
        || is_compound
        || (left.last().is_some_and(|word| LABELS.contains(word)) && !is_reached(&left))
        || is_operand(&left, &right)
        || (!matches!(value, Some(Value::Chain(..))) && is_worked_with(&left, clause))
        || (words::is_start(&left) && !term.is_change)
        || clause.is_helpless
        || (about::is_whole(&left) && !clause.has_value && tokens[..index].len() == left.len())
        || (clause.number == 0 && matches!(left[..], ["we", "only", "know", ..]))
    {
        rank = Rank::Condition;
    }
    let is_equal_next =
        matches!(tokens.get(term.next + right.len()).map(|token| &token.kind), Some(Kind::Sign('=')))
            && tail.is_empty();
    if is_equal_next {
        rank = rank.min(Rank::Aside);
    }
    // "would be 7 if ..." holds under a condition.
    let is_hypothetical =
        left.iter().rev().take(4).any(|word| matches!(*word, "would" | "could" | "had" | "were"))
            && tail
                .first()
                .is_some_and(|word| matches!(*word, "if" | "unless") && !is_polite(word, &tail[1..]));
    // "40 is what you get if you forget the tax"
    let is_pitfall = right.windows(3).any(|words| {
        matches!(
            words,
            ["what", "you" | "we" | "one" | "they" | "people", "get" | "gets" | "would" | "obtain" | "find"]
        )
    }) && tail.first().is_some_and(|word| matches!(*word, "if" | "when"))
        && tail.iter().any(|word| {
            NEGATIONS.contains(word)
                || FAULTS.contains(word)
                || matches!(
                    *word,
                    "forget"
                        | "forgets"
                        | "ignore"
                        | "omit"
                        | "neglect"
                        | "overlook"
                        | "leave"
                        | "skip"
                        | "miss"
                        | "instead"
                        | "only"
                        | "stop"
                        | "treat"
                        | "take"
                )
        })
        && !tail.contains(&"from");
    // "27 would only be right if she had kept them"
    let is_unmet = matches!(right[..], ["would", ..]) && tail.first() == Some(&"if");
    is_negated |= is_pitfall || is_unmet;
    let is_unreal = clause.is_unreal
        && left.iter().any(|word| {
            matches!(*word, "would" | "could" | "she'd" | "he'd" | "they'd" | "we'd" | "it'd" | "might")
        });
    let is_counterfactual = left.windows(3).any(|words| match words {
        ["would" | "could" | "might", "have", "been"] => true,
        // "If it had rained, it would have shown 20."
        [
            "would" | "could" | "might" | "they'd" | "she'd" | "he'd" | "it'd" | "we'd" | "i'd",
            "have",
            verb,
        ] => clause.is_unreal && !words::is_article(verb),
        _ => false,
    });
    // "With another rule, it would be 18."
    // "Ignoring the tax we'd have 48."
    let is_simplified = left
        .iter()
        .any(|word| matches!(*word, "would" | "we'd" | "you'd" | "he'd" | "she'd" | "they'd" | "it'd"))
        && matches!(&tokens[0].kind, Kind::Word(word) if matches!(
            word.as_str(),
            "ignoring" | "leaving" | "forgetting" | "neglecting" | "skipping" | "disregarding" | "omitting"
        ));
    // "Forgetting the tax gives 48."
    let is_forgetful = clause.number == 0
        && matches!(
            left.first(),
            Some(&("forgetting" | "overlooking" | "misreading" | "omitting" | "miscounting"))
        );
    let is_elsewhere = is_simplified || is_forgetful || left.contains(&"would")
        && tokens[..index].iter().take(4).any(|token| {
            matches!(&token.kind, Kind::Word(word) if matches!(word.as_str(), "another" | "different"))
        })
        && matches!(&tokens[0].kind, Kind::Word(word) if matches!(word.as_str(), "with" | "in" | "under" | "by" | "for" | "on"));
    if is_unreal
        || is_elsewhere
        || is_counterfactual
        || is_one_case(tokens, &tail)
        || is_hypothetical
        || matches!(tail[..], ["if", "and", "only", ..] | ["if", "there", "were", ..])
    {
        rank = Rank::Condition;
    }
    let said = named(tokens, term.next);
    let is_provisional = clause.is_provisional
        || left.windows(2).any(|pair| {
            matches!(
                pair,
                [
                    "might" | "may" | "could" | "would" | "should" | "it'd",
                    "be" | "have" | "well" | "also" | "equal" | "come" | "look" | "seem"
                ]
            )
        })
        || matches!(right[..], ["might" | "may" | "could" | "would" | "should", "be" | "have" | "well", ..]);
    let rest = words_behind(tokens, term.next);
    // "18 is given", "18, however, ignores the tax"
    let is_faulty = rest.split(|word| *word == ",").any(|clause| {
        let said = clause.strip_prefix(&["however"]).unwrap_or(clause);
        matches!(said, ["far", "from", ..])
            || matches!(said, ["a" | "an", fault] | ["a" | "an", _, fault] if FAULTS.contains(fault))
            || said.first().is_some_and(|word| OVERLOOKING.contains(word))
    });
    let is_given =
        matches!(right[..], ["is" | "was"]) && matches!(tail[..], ["given"] | ["given", "in" | "as", ..]);
    // "They replaced 18 with 99."
    let is_replaced = matches!(
        left.last(),
        Some(&("replaced" | "replace" | "replacing" | "swapped" | "swap" | "swapping" | "exchanged"))
    ) && matches!(right.last(), Some(&("with" | "by" | "for")))
        && matches!(tokens.get(term.next + right.len()).map(|token| &token.kind), Some(Kind::Found(_)));
    // "It had been 18 before the sale."
    let is_former = left.ends_with(&["had", "been"])
        && right.iter().chain(&tail).any(|word| matches!(*word, "before" | "until"))
        || matches!(left.last(), Some(&("was" | "were")))
            && matches!(right.first(), Some(&("until" | "till")));
    is_negated |= is_faulty
        || is_former
        || is_replaced
        || matches!(left[..], [.., "made", "up", "the", "number"] | [.., "made", "up"])
        || is_given
        || about::is_planned(&left)
        || clause.is_wrongly
        || sequel::is_denied_for_error(&words_until(tokens, term.next));
    let mut clauses = rest.split(|word| matches!(*word, "," | "but")).skip(1);
    let is_else = about::has_others(&rest)
        || about::is_taken_from(&rest)
        || rest.windows(2).any(|pair| pair == [",", "except"])
        || rest.windows(3).any(|three| {
            matches!(three, ["but", "not", "how" | "what" | "which" | "why" | "when" | "where" | "who"])
        })
        || (left.len() > 1 && left.ends_with(&["plus"]))
        || rest.split(|word| *word == ",").skip(1).any(sequel::counts_on)
        || sequel::is_withheld(&rest)
        || sequel::is_inconclusive(&tokens[term.next.min(tokens.len())..])
        || clauses.any(|clause| {
            sequel::names_other(clause) || retraction::asks_for_other(clause) || retraction::gives_up(clause)
        });
    if is_else || sequel::is_other_case(&rest) || (is_provisional && sequel::is_contrast(&rest)) {
        value = None;
    }
    Claim {
        value,
        start: tokens[index].start,
        end: tokens[index].end,
        rank,
        is_negated,
        is_supposed: (report::is_supposed(&left) && !left.contains(&"now"))
            || matches!(right[..], [.., "before" | "earlier" | "previously" | "originally" | "initially"])
            || matches!(right[..], [.., "at", "first"]),
        is_reported: about::is_attributed(&rest)
            || report::is_reported(
                &clause.left,
                right.first().is_none_or(|word| matches!(*word, "and" | "or" | "as" | "for")),
            ),
        is_tentative: clause.is_unless
            || left.iter().rev().take(2).any(|word| {
                matches!(
                    *word,
                    "maybe" | "perhaps" | "possibly" | "might" | "may" | "could" | "alternatively"
                )
            }),
        is_named: said,
        takes_back: false,
        clause: 0,
        is_led: false,
        has_verb: false,
        is_behind: false,
        has_lead: false,
        is_attached: false,
        is_provisional,
    }
}

/// "We can seat 48": the word is a verb; "he is on page 48": it is said how far somebody got.
fn is_reached(left: &[&str]) -> bool {
    let [before @ .., label] = left else { return false };
    let is_person =
        before.iter().any(|word| matches!(*word, "he" | "she" | "they" | "he's" | "she's" | "they're"));
    let is_place = matches!(*label, "page" | "chapter" | "row" | "seat" | "step")
        && matches!(before.last(), Some(&("on" | "at" | "reached" | "reaches" | "to")));
    matches!(before.last(), Some(&("can" | "could" | "will" | "must" | "should" | "may")))
        || is_person && is_place
}

/// The words of the sentence from a number to the next one; stops are given as commas.
fn words_until(tokens: &[Token], next: usize) -> Vec<&str> {
    tokens
        .iter()
        .skip(next)
        .map_while(|token| match &token.kind {
            Kind::Word(word) => Some(word.as_str()),
            Kind::Found(_) | Kind::Sign('=') => None,
            _ => Some(","),
        })
        .collect()
}

/// The words of the sentence after a number, if no other number follows; stops are given as commas.
fn words_behind(tokens: &[Token], next: usize) -> Vec<&str> {
    let rest = tokens.get(next..).unwrap_or_default();
    if rest.iter().any(|token| matches!(token.kind, Kind::Found(_) | Kind::Sign('='))) {
        return Vec::new();
    }
    rest.iter()
        .filter_map(|token| match &token.kind {
            Kind::Word(word) => Some(word.as_str()),
            Kind::Comma | Kind::Dash | Kind::Semicolon | Kind::Colon | Kind::Open => Some(","),
            _ => None,
        })
        .collect()
}

/// "75 with 5 added", "75 with 5 apples taken off"
fn is_changed_by(rest: &[Token]) -> bool {
    let words = match rest {
        [_, Token { kind: Kind::Found(_), .. }, ..] => words_from(rest, 2),
        _ => words_from(rest, 1),
    };
    matches!(rest.first(), Some(Token { kind: Kind::Word(with), .. }) if with == "with")
        && words.iter().take(3).any(|word| {
            matches!(
                *word,
                "added"
                    | "taken"
                    | "removed"
                    | "subtracted"
                    | "deducted"
                    | "more"
                    | "extra"
                    | "less"
                    | "off"
                    | "top"
            )
        })
}

/// Whether a value is only an operand, so that the result has not been said yet: "divide 48 by the number of guests".
fn is_operand(left: &[&str], right: &[&str]) -> bool {
    let is_worked = |words: &[&str]| {
        let glue = words.iter().rev().take_while(|word| words::is_article(word)).count();
        words[..words.len() - glue].last().is_some_and(|word| OPERATIONS.contains(word))
    };
    let is_second = matches!(left, [.., "by" | "from" | "to"]) && is_worked(&left[..left.len() - 1]);
    let is_first =
        is_worked(left) && right.iter().take(4).any(|word| matches!(*word, "by" | "from" | "to" | "into"));
    is_first || is_second
}

/// "Adding four to 11", "now subtract the cost from 18", "the answer is found by squaring 18"
fn is_worked_with(left: &[&str], clause: &Clause<'_>) -> bool {
    let glue = left.iter().rev().take_while(|word| words::is_article(word)).count();
    let is_direct = left[..left.len() - glue].last().is_some_and(|word| {
        OPERATIONS.contains(word)
            && (clause.is_work || word.ends_with("ing"))
            && !matches!(*word, "doubling" | "halving" | "tripling" | "double" | "triple" | "halve")
    });
    let is_by = clause.is_work
        && (if clause.has_value {
            left.len() == 1
        } else {
            left.iter().any(|word| OPERATIONS.contains(word))
        })
        && !left.iter().any(|word| COPULAS.contains(word) || matches!(*word, "get" | "have" | "up"))
        && match left.last() {
            Some(&("by" | "from" | "into" | "with")) => true,
            Some(&"to") => left.iter().any(|word| matches!(*word, "add" | "adding")) || left == ["to"],
            _ => false,
        };
    is_direct || is_by
}

/// Whether a value is that of one case of several: "7 if it is even and 8 otherwise".
fn is_one_case(tokens: &[Token], tail: &[&str]) -> bool {
    let count = |wanted: &str| {
        tokens.iter().filter(|token| matches!(&token.kind, Kind::Word(word) if word == wanted)).count()
    };
    tail.first() == Some(&"if") && (count("if") > 1 || count("otherwise") + count("else") > 0)
}

/// What the word before a number multiplies it by: "half of 36", "twice 9".
fn multiple(left: &[&str]) -> Option<(i64, i64)> {
    let mut rest = left;
    while let [before @ .., "the" | "of" | "a" | "an" | "those" | "these" | "his" | "her" | "their"] = rest {
        rest = before;
    }
    let factor = match rest {
        [.., "one" | "a", "third"] => (1, 3),
        [.., "one" | "a", "quarter" | "fourth"] | [.., "quarter"] => (1, 4),
        [.., "two", "thirds"] => (2, 3),
        [.., "three", "quarters" | "fourths"] => (3, 4),
        [.., "half" | "halving" | "halve"] => (1, 2),
        [.., "twice" | "double" | "doubling"] => (2, 1),
        [.., "thrice" | "triple" | "tripling" | "treble"] => (3, 1),
        [.., "quadruple"] => (4, 1),
        _ => return None,
    };
    // "the first half 7" is no product, "half the 7" is.
    let is_noun = matches!(rest, [.., "other" | "first" | "second" | "one" | "last", "half"])
        && left.last() != Some(&"of");
    (!is_noun).then_some(factor)
}

/// Whether what follows calls the value the answer.
fn named(tokens: &[Token], next: usize) -> bool {
    let mut at = next;
    let mut words: Vec<&str> = Vec::new();
    while words.len() < 9 {
        match tokens.get(at).map(|token| &token.kind) {
            Some(Kind::Word(word)) => words.push(word),
            Some(Kind::Comma | Kind::Sign('=') | Kind::Dash) if words.len() <= 2 => words.push("="),
            _ => break,
        }
        at += 1;
    }
    let Some(answer) = words.iter().position(|word| *word == "answer") else { return false };
    let before = &words[..answer];
    let links = before.iter().any(|word| COPULAS.contains(word) || matches!(*word, "be" | "as" | "="));
    links
        && !before.iter().any(|word| {
            about::is_made(word)
                || matches!(*word, "part" | "step")
                || NEGATIONS.contains(word)
                || matches!(*word, "wrong" | "incorrect" | "so" | "and" | "but" | "if")
        })
        && !words.get(answer + 1).is_some_and(|word| matches!(*word, "is" | "was" | "to"))
        || (links
            && matches!(words.get(answer + 1), Some(&"to"))
            && before.len() <= 4
            && before.first().is_some_and(|word| COPULAS.contains(word)))
}

/// An expression with variables to which no equation gives a value.
fn is_formula(value: &Value) -> bool {
    match value {
        Value::Quantity { expr, .. } => has_name(expr),
        Value::Tuple(items) | Value::List(items) | Value::Set(items) => items.iter().any(is_formula),
        _ => false,
    }
}

fn has_name(expr: &Expr) -> bool {
    matches!(expr, Expr::Symbol(_)) || expr.children().into_iter().any(has_name)
}
