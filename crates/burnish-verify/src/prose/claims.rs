//! What a sentence claims about each value in it.

use super::claim::claim;

use super::about::is_other_label;
use super::clause::{Clause, is_bidding};
use super::lexicon::{COPULAS, LABELS};
use super::mathematics::is_unsolved;
use super::retraction::{BACK, gives_up, is_corrected, is_taking_back};

use super::sentence::{approves, is_past, words_of};

use super::term::{self, Lead, words_from};

use super::tokens::{Kind, Token};

use super::words;

use crate::syntax::Value;

/// How much a value looks like the point of its sentence, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// In a clause with "if".
    Condition,
    /// In brackets, or in a clause with "because".
    Aside,
    /// "in 5 days", "of the 20".
    Adjunct,
    Main,
}

/// A value and what is said about it.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    /// `None` if it is a bound, a range, or not a single value.
    pub(super) value: Option<Value>,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rank: Rank,
    /// Said not to be the answer.
    pub(super) is_negated: bool,
    /// Only supposed: "I first thought 7".
    pub(super) is_supposed: bool,
    /// One of several that may be the answer: "18, maybe 20".
    pub(super) is_tentative: bool,
    /// Stated by someone else: "her brother says 7".
    pub(super) is_reported: bool,
    /// Called the answer by what follows: "18 is the answer".
    pub(super) is_named: bool,
    /// It takes back what was said before: "no, 8".
    pub(super) takes_back: bool,
    /// The clause of its sentence that it is in.
    pub(super) clause: usize,
    /// After a verb such as "is", or an equation.
    pub(super) is_led: bool,
    /// After a preposition.
    pub(super) is_behind: bool,
    /// After a verb such as "is" or "has".
    pub(super) has_verb: bool,
    /// Right after "with", "for" or "against", with a number before that: "48 bottles with 24 litres".
    pub(super) is_attached: bool,
    /// After any word of its clause.
    pub(super) has_lead: bool,
    /// Said with a reservation that a "but" takes up: "if we ignore the tax it is 7, but".
    pub(super) is_provisional: bool,
}

/// The claims of one sentence.
pub(super) fn claims(tokens: &[Token], text: &str, wants_number: bool) -> Vec<Claim> {
    let mut found: Vec<Claim> = Vec::new();
    let mut clause = Clause {
        left: Vec::new(),
        rank: Rank::Main,
        is_leading: false,
        has_value: false,
        is_relative: false,
        after_dash: false,
        number: 0,
        is_unreal: false,
        is_unless: false,
        is_work: false,
        is_wrongly: false,
        is_provisional: false,
        is_helpless: false,
        is_need: false,
        is_change: false,
        is_remark: false,
    };
    if opens_with_participle(tokens) {
        clause.rank = Rank::Aside;
        clause.is_leading = true;
    }
    let mut brackets: Vec<Rank> = Vec::new();
    let mut takes_back = false;
    // After "according to Tom".
    let mut is_attributed = false;
    let mut after_stop = true;
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        match &token.kind {
            Kind::Word(word) => {
                if after_stop && BACK.contains(&word.as_str()) && is_taking_back(&words_from(tokens, index)) {
                    takes_back = true;
                }
                if matches!(word.as_str(), "but" | "however" | "yet")
                    && is_corrected(&words_from(tokens, index + 1))
                {
                    takes_back = true;
                }
                if word == "rather" && clause.left.last() == Some(&"or") {
                    takes_back = true;
                }
                is_attributed |= word == "according"
                    && matches!(words_from(tokens, index + 1)[..], ["to", who, ..]
                        if !matches!(who, "the" | "this" | "our" | "my" | "these" | "what" | "that"));
                is_attributed &= word != "but";
                clause.is_helpless &= word != "but";
                let was_stop = after_stop;
                after_stop = false;
                clause.word(word, was_stop, &found, &words_from(tokens, index + 1));
            }
            Kind::Comma => {
                after_stop = true;
                clause.is_helpless |= found.is_empty() && gives_up(&words_of(&tokens[..index]));
                clause.comma();
            }
            // A `-` between spaces that is left here is a dash; `term` has taken those that are minus signs.
            Kind::Colon | Kind::Semicolon | Kind::Dash | Kind::Sign('-') => {
                after_stop = true;
                let is_arrow = text[token.start..token.end].contains(['→', '⇒', '>']);
                let is_breakdown = token.kind == Kind::Colon
                    && found
                        .iter()
                        .any(|claim| claim.has_lead && claim.rank == Rank::Main && claim.value.is_some())
                    && is_breakdown(&tokens[index..]);
                // "It's 27: adding 9 gives 36."
                let is_explained = token.kind == Kind::Colon
                    && found.last().is_some_and(|claim| {
                        claim.is_led && claim.value.is_some() && !claim.is_negated && claim.rank == Rank::Main
                    })
                    && index > 0
                    && matches!(&tokens[index - 1].kind, Kind::Found(found) if found.is_plain);
                let is_mark = clause
                    .left
                    .last()
                    .is_some_and(|word| matches!(*word, "answer" | "ans" | "result" | "total"));
                // "Previous result: 18", "Upper bound: 18"
                clause.is_helpless |= token.kind == Kind::Colon
                    && found.is_empty()
                    && is_other_label(&words_of(&tokens[..index]));
                clause.is_helpless |= found.is_empty() && gives_up(&words_of(&tokens[..index]));
                clause.left.clear();
                clause.has_value = false;
                clause.is_relative = false;
                clause.is_remark = false;
                // An explanation, if something has been said before: "18 - nine eggs at $2".
                let explains = matches!(token.kind, Kind::Dash | Kind::Sign('-'))
                    && !found.is_empty()
                    && !is_mark
                    && !words_from(tokens, index + 1).first().is_some_and(|word| {
                        matches!(
                            *word,
                            "so" | "thus"
                                | "therefore"
                                | "hence"
                                | "or"
                                | "that"
                                | "which"
                                | "the"
                                | "giving"
                                | "making"
                                | "leaving"
                                | "i"
                                | "but"
                                | "no"
                                | "wait"
                                | "actually"
                                | "not"
                                | "it"
                                | "it's"
                                | "that's"
                        )
                    });
                // "42: the product of 6 and 7"
                let glosses = found.len() == 1
                    && found[0].value.is_some()
                    && tokens[..index].len() <= 3
                    && matches!(tokens[0].kind, Kind::Found(_))
                    && !words_from(tokens, index + 1).first().is_some_and(|word| {
                        matches!(
                            *word,
                            "no" | "not"
                                | "wait"
                                | "so"
                                | "or"
                                | "but"
                                | "sorry"
                                | "actually"
                                | "thus"
                                | "therefore"
                        )
                    });
                clause.rank = if (explains || glosses || is_breakdown || is_explained) && !is_arrow {
                    Rank::Aside
                } else {
                    Rank::Main
                };
                // "It's 18 this year; last year it was 99."
                if found.iter().any(|claim| claim.rank == Rank::Main && claim.value.is_some())
                    && is_past(&words_from(tokens, index + 1))
                {
                    clause.rank = Rank::Aside;
                }
                clause.after_dash = clause.rank == Rank::Aside;
                clause.is_leading = false;
                clause.number += 1;
            }
            Kind::Open => {
                after_stop = true;
                // "48 (should be 50)"
                takes_back |= !found.is_empty()
                    && matches!(
                        words_from(tokens, index + 1)[..],
                        ["should" | "must" | "ought" | "actually" | "rather" | "edit" | "correction", ..]
                    );
                brackets.push(clause.rank);
                clause.rank = clause.rank.min(Rank::Aside);
            }
            Kind::Close => {
                if let Some(rank) = brackets.pop() {
                    clause.rank = rank;
                }
            }
            Kind::Sign(sign) => {
                match sign {
                    '=' => {
                        clause.left.push("equals");
                        // `142 – 130 = 12`: the dash was a minus.
                        // "150 - 60 pounds when she started = 90"
                        if clause.after_dash || clause.rank == Rank::Adjunct {
                            clause.rank = Rank::Main;
                        }
                    }
                    '<' => clause.left.extend(["more", "than"]),
                    '+' => clause.left.push("plus"),
                    '*' => clause.left.extend(["two", "times"]),
                    '/' | '÷' | '^' => clause.left.extend(["two", "of"]),
                    '±' => clause.left.extend(["plus", "or", "minus"]),
                    _ => {}
                }
                after_stop = false;
            }
            Kind::Stop(_) => {}
            Kind::Found(_) => {
                // "Two were wrong and 48 were right."
                if clause.left.len() > 1
                    && clause.left.last() == Some(&"and")
                    && clause.left.iter().any(|word| words::is_verb(word))
                    && words_from(tokens, index + 1).iter().take(2).any(|word| words::is_verb(word))
                {
                    clause.left.clear();
                }
                let is_adjunct = words::is_adjunct(&clause.left);
                let is_led = clause.left.last().is_some_and(|word| words::is_preposition(word))
                    && !matches!(clause.left[..], [.., "one" | "any" | "either" | "some", "of"]);
                let lead = Lead {
                    is_adjunct,
                    is_led,
                    is_change: clause.is_change || words::is_change(&clause.left),
                    wants_number,
                    is_labelled: clause.left.last().is_some_and(|word| {
                        LABELS.contains(word) || matches!(*word, "day" | "week" | "month" | "year" | "round")
                    }),
                    is_pair: clause.left.iter().rev().take(3).any(|word| {
                        matches!(
                            *word,
                            "between"
                                | "sum"
                                | "difference"
                                | "product"
                                | "average"
                                | "mean"
                                | "ratio"
                                | "quotient"
                        )
                    }),
                    has_words: clause.left.iter().any(|word| !words::is_article(word)),
                };
                let Some(term) = term::term(tokens, index, lead, text) else {
                    index += 1;
                    continue;
                };
                let mut claim = claim(tokens, index, &term, &clause, wants_number);
                claim.takes_back = takes_back;
                if takes_back && claim.rank == Rank::Aside {
                    claim.rank = Rank::Main;
                }
                claim.is_reported |= is_attributed;
                claim.clause = clause.number;
                let is_chain = matches!(claim.value, Some(Value::Chain(..)));
                claim.is_led = is_chain || clause.left.iter().any(|word| COPULAS.contains(word));
                claim.has_verb = claim.is_led || clause.left.iter().any(|word| words::is_verb(word));
                // "The maximum of 18 is reached at x = 3."
                if is_chain
                    && wants_number
                    && !found.is_empty()
                    && matches!(clause.left[..], [.., "at" | "when" | "for" | "where"])
                {
                    claim.rank = claim.rank.min(Rank::Adjunct);
                }
                // "She uses 4x = 18 ounces" names what is 18; "we get 4x = 18" does not.
                let is_plain_lead = clause.left.iter().all(|word| {
                    is_bidding(word)
                        || words::is_glue(word)
                        || matches!(
                            *word,
                            "get"
                                | "obtain"
                                | "find"
                                | "gives"
                                | "equation"
                                | "is"
                                | "write"
                                | "yields"
                                | "means"
                        )
                });
                if is_chain
                    && wants_number
                    && is_plain_lead
                    && is_unsolved(&text[claim.start..tokens[term.next - 1].end])
                {
                    claim.value = None;
                    claim.rank = claim.rank.min(Rank::Aside);
                }
                claim.is_supposed &= !is_chain;
                claim.is_reported &= !is_chain;
                if clause.after_dash && claim.rank == Rank::Aside && (takes_back || is_chain) {
                    claim.rank = Rank::Main;
                }
                let is_time = matches!(
                    words_from(tokens, term.next).first().and_then(|word| crate::units::find(word)),
                    Some("second" | "minute" | "hour" | "day" | "week" | "month" | "year")
                );
                claim.is_behind = !is_chain
                    && !term.is_change
                    && clause
                        .left
                        .iter()
                        .rev()
                        .find(|word| !words::is_light(word))
                        .is_some_and(|word| words::is_behind(word));
                if is_time
                    && claim.is_behind
                    && clause.has_value
                    && claim.rank == Rank::Main
                    && found.last().is_some_and(|last| last.is_led || last.has_lead)
                {
                    claim.rank = Rank::Adjunct;
                }
                claim.is_attached = clause.has_value
                    && !term.is_change
                    && matches!(
                        clause.left.iter().rev().find(|word| !words::is_light(word) || **word == "of"),
                        Some(&("with" | "for" | "against" | "of" | "on" | "from" | "at"))
                    )
                    && (clause.left.last() != Some(&"of") || clause.left.len() <= 2)
                    && !clause.left.contains(&"and")
                    && !clause.left.iter().any(|word| words::is_verb(word) || words::is_change(&[word]))
                    && (matches!(clause.left[..], [.., "on" | "from" | "at"])
                        || !matches!(&claim.value, Some(Value::Quantity { unit: Some(unit), .. }) if unit.name == "dollar"));
                claim.has_lead = !clause.left.is_empty();
                claim.end = tokens[term.next.saturating_sub(1).max(index)].end;
                claim.end = claim.end.max(token.end);
                takes_back = false;
                after_stop = false;
                // "18, which is less than 20", "which is divisible by 6": a statement about a value leaves it as it is.
                let is_said_of = claim.value.is_none()
                    || (claim.is_behind
                        && !is_chain
                        && clause.left.first().is_some_and(|word| COPULAS.contains(word)));
                // "36 is divisible by 4"
                let is_predicate = clause.has_value
                    && !term.is_change
                    && !clause.left.iter().any(|word| {
                        matches!(
                            *word,
                            "total"
                                | "sum"
                                | "result"
                                | "about"
                                | "equal"
                                | "gives"
                                | "and"
                                | "or"
                                | "equals"
                        )
                    })
                    && clause.left.first().is_some_and(|word| matches!(*word, "is" | "are" | "was" | "were"))
                    && clause.left.len() > 1
                    && words::is_behind(clause.left[clause.left.len() - 1])
                    && found.last().is_some_and(|last| last.value.is_some() && !last.is_negated);
                // "48 is what the 3 magazines cost"
                let is_description = clause.has_value
                    && matches!(
                        clause.left[..],
                        ["is" | "are" | "was" | "were", "what" | "how" | "where" | "who", _, ..]
                    )
                    && found.last().is_some_and(|last| last.value.is_some() && !last.is_negated);
                let is_outdone = clause.has_value
                    && matches!(
                        clause.left[..],
                        ["beats" | "exceeds" | "tops" | "surpasses" | "outnumbers" | "beat", ..]
                    );
                if is_predicate || is_description || is_outdone {
                    claim.rank = claim.rank.min(Rank::Aside);
                }
                // "The price is 48, which saves her 12"; "48, which you get by adding 6 and 42"
                let is_own_verb = !is_chain
                    && clause.is_relative
                    && (found
                        .last()
                        .is_some_and(|last| last.is_led && last.value.is_some() && !last.is_negated)
                        && clause.left.first().is_some_and(|word| is_telling_more(word))
                        || clause
                            .left
                            .windows(2)
                            .any(|pair| pair[0] == "by" && pair[1].len() > 5 && pair[1].ends_with("ing")));
                let is_said_of = is_own_verb || is_said_of;
                let is_said_of =
                    is_said_of || (!is_chain && term::is_compared(&words_from(tokens, term.next)));
                if clause.is_relative && is_said_of && !found.is_empty() {
                    claim.rank = claim.rank.min(Rank::Aside);
                }
                // "36 points over 4 games", "36 students, 5 more than last year": not bounds of what was said.
                let is_span = clause.left.len() <= 3
                    && clause.left.last().is_some_and(|word| {
                        matches!(
                            *word,
                            "over" | "in" | "under" | "within" | "between" | "above" | "below" | "until"
                        )
                    })
                    && !clause.left.iter().any(|word| {
                        words::is_verb(word)
                            || matches!(
                                *word,
                                "and"
                                    | "or"
                                    | "result"
                                    | "results"
                                    | "end"
                                    | "ends"
                                    | "resulting"
                                    | "to"
                                    | ","
                                    | "now"
                            )
                    });
                let is_comparison = clause.left.is_empty() && clause.number > 0 && claim.value.is_none();
                let behind = words_from(tokens, term.next);
                let is_apposed = clause.has_value
                    && index > 1
                    && matches!(tokens[index - 1].kind, Kind::Comma)
                    // "0.25, i.e., 25%"
                    && !matches!(&tokens[index - 2].kind, Kind::Word(word) if matches!(word.as_str(), "i.e" | "ie" | "is"))
                    && !is_chain
                    && !claim.takes_back
                    && !claim.is_named
                    && !term::is_statement(&behind)
                    && !words::is_summing_up(&behind)
                    // "Eight friends, 16 strawberries, 2 each."
                    && (!matches!(behind[..], ["each" | "apiece"]) || found.iter().any(|claim| claim.has_lead));
                let is_remark = clause.number > 0
                    && found.iter().any(|earlier| {
                        (earlier.rank == Rank::Main || earlier.rank == Rank::Adjunct && earlier.is_led)
                            && !earlier.is_negated
                            && earlier.value.is_some()
                    })
                    && (is_apposed
                        || clause.is_remark
                            && (claim.is_behind
                                || clause.left.iter().any(|word| matches!(*word, "and" | "plus")))
                            && !term::is_statement(&behind)
                            && !clause.left.iter().any(|word| words::is_verb(word))
                        || words::is_comparing(&clause.left)
                        || is_circumstance(&clause.left, &behind)
                        || clause.left == ["namely"] && is_breakdown(&tokens[index..])
                        || term::is_compared(&words_from(tokens, term.next))
                            && matches!(
                                clause.left[..],
                                [] | ["that" | "that's" | "which" | "this" | "and", ..]
                            ));
                clause.is_remark |= is_remark;
                let is_set_back = is_remark
                    || (clause.has_value && (is_span || words::is_purpose(&clause.left, clause.is_need)))
                    || (is_comparison
                        && found.last().is_some_and(|last| last.has_verb && last.value.is_some()));
                // "18 of the integers from 1 to 100", "18 such integers between 1 and 100"
                let is_stretch = clause.has_value
                    && !term.is_change
                    && claim.value.is_none()
                    && matches!(clause.left[..], [.., "from" | "between"])
                    && !clause.left.iter().any(|word| words::is_verb(word) || *word == "and");
                let is_set_back = is_set_back || is_stretch;
                let is_result = clause.left.contains(&"equals") || term.is_change;
                // "18 on day 5", "18 posts 5 feet apart"
                let is_placed = clause.has_value
                    // "48 paintings at 20 dollars each"
                    && (clause.left.last() == Some(&"at")
                        && matches!(behind[..], ["each" | "apiece" | "a" | "per", ..] | [_, "each" | "apiece" | "a" | "per", ..])
                        || matches!(
                        clause.left[..],
                        [
                            ..,
                            "on" | "in" | "by" | "at",
                            "day" | "week" | "month" | "year" | "hour" | "step" | "round" | "level"
                        ]
                    ) || matches!(behind[..], [_, "apart" | "away", ..])
                        || (clause.left == ["from"] && found.last().is_some_and(|last| last.has_verb)));
                let is_adjunct = (is_adjunct || is_set_back || is_placed) && !is_result;
                // "18 for Tom, 99 for Ann", "18 : 5"
                if is_apposed
                    && claim.value.is_some()
                    && let Some(last) = found.last_mut()
                    && behind.first().is_some_and(|word| matches!(*word, "for" | "in" | "on" | "by"))
                    && text[last.end..token.start].split_whitespace().next() == behind.first().copied()
                {
                    last.value = None;
                    claim.value = None;
                }
                if is_adjunct && !is_chain && clause.rank == Rank::Main && claim.rank == Rank::Main {
                    let is_below = is_remark && found.iter().all(|earlier| earlier.rank < Rank::Main);
                    claim.rank = if is_below { Rank::Aside } else { Rank::Adjunct };
                }
                clause.is_change |= words::is_change(&clause.left);
                clause.is_need |= words::is_need(&clause.left, &words_from(tokens, term.next));
                found.push(claim);
                clause.left.clear();
                clause.has_value = true;
                index = term.next.max(index + 1);
                continue;
            }
        }
        index += 1;
    }
    for index in 1..found.len() {
        if is_check(&found[..index], &found[index], tokens, text) {
            found[index].rank = found[index].rank.min(Rank::Aside);
        }
    }
    found
}

/// "Working 6 hours a day, she finishes": a phrase without a verb of its own, before the clause that it belongs to.
fn opens_with_participle(tokens: &[Token]) -> bool {
    let word = |token: &Token| match &token.kind {
        Kind::Word(word) => Some(word.clone()),
        _ => None,
    };
    let is_participle = tokens.first().and_then(word).is_some_and(|word| {
        word.len() > 5
            && word.ends_with("ing")
            && !matches!(
                word.as_str(),
                "nothing" | "something" | "anything" | "everything" | "according" | "during" | "morning"
            )
    });
    let Some(comma) = tokens.iter().position(|token| token.kind == Kind::Comma) else { return false };
    let (phrase, rest) = (&tokens[..comma], &tokens[comma + 1..]);
    let is_finite = phrase.iter().any(|token| match &token.kind {
        Kind::Word(word) => words::is_verb(word),
        Kind::Sign('=') => true,
        Kind::Found(found) => matches!(found.value, Some(Value::Chain(..))),
        _ => false,
    });
    let is_continued = rest.first().and_then(word).is_some_and(|word| {
        !matches!(
            word.as_str(),
            "and" | "or" | "which" | "so" | "but" | "then" | "giving" | "leaving" | "making"
        )
    }) && rest.iter().any(|token| matches!(token.kind, Kind::Found(_)));
    is_participle && !is_finite && is_continued
}

/// Whether a verb says something else of a thing than how much it is: "which saves", "which fill".
fn is_telling_more(verb: &str) -> bool {
    let is_link = COPULAS.contains(&verb)
        || words::is_verb(verb)
        || words::is_glue(verb)
        || matches!(
            verb,
            "we" | "i"
                | "you"
                | "she"
                | "he"
                | "they"
                | "it"
                | "one"
                | "left"
                | "leave"
                | "equal"
                | "add"
                | "adds"
                | "amount"
                | "come"
                | "total"
                | "sum"
                | "sums"
                | "bring"
                | "brings"
                | "works"
                | "turns"
                | "results"
                | "must"
                | "should"
                | "will"
                | "would"
                | "can"
                | "may"
                | "in"
                | "when"
                | "after"
                | "then"
                | "simplifies"
                | "reduces"
                | "evaluates"
                | "rounds"
                | "translates"
                | "corresponds"
                | "puts"
                | "takes"
                | "equates"
                | "represents"
                | "to"
                | "with"
                | "at"
                | "for"
                | "each"
                | "of"
        );
    !is_link
}

/// ", at $3 apiece", ", from 6 hours at $8": a phrase behind a comma that says how, and not "for a total of 48".
fn is_circumstance(left: &[&str], behind: &[&str]) -> bool {
    let is_result = |word: &&str| {
        matches!(
            *word,
            "total" | "sum" | "result" | "remainder" | "average" | "profit" | "cost" | "all" | "end"
        )
    };
    matches!(left.first(), Some(&("at" | "against")))
        && left.len() <= 7
        && !left.iter().any(|word| words::is_verb(word) || is_result(word))
        && !words::is_summing_up(behind)
}

/// Whether an equation only checks a number given before it: "48 it is, and indeed 48 × 4 = 192".
pub(super) fn is_check(before: &[Claim], claim: &Claim, tokens: &[Token], text: &str) -> bool {
    if !matches!(claim.value, Some(Value::Chain(..))) {
        return false;
    }
    let is_approved =
        approves(&words_of(&tokens[tokens.partition_point(|token| token.start < claim.start)..]))
            || tokens.iter().any(|token| {
                token.end <= claim.start && matches!(&token.kind, Kind::Word(word) if word == "indeed")
            });
    is_approved
        && before.iter().any(|earlier| {
            earlier.value.is_some()
                && !earlier.is_negated
                && earlier.rank == Rank::Main
                && is_restated(&text[earlier.start..earlier.end], &text[claim.start..claim.end])
        })
}

/// Whether the number that `source` ends with is one of the operands of an equation, and not its result.
pub(super) fn is_restated(source: &str, equation: &str) -> bool {
    let number = |text: &str| text.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let said = number(source.rsplit('=').next().unwrap_or(source));
    let Some((operands, result)) = equation.rsplit_once('=') else { return false };
    let mut operands = operands.split(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',')));
    !said.is_empty() && number(result) != said && operands.any(|operand| number(operand) == said)
}

/// Whether what follows a colon only gives the parts of what was said: "48 in total: 40 for the meal and 8 for the
/// tip".
fn is_breakdown(rest: &[Token]) -> bool {
    let count = rest.iter().filter(|token| matches!(token.kind, Kind::Found(_))).count();
    count >= 2
        && !rest.iter().any(|token| match &token.kind {
            Kind::Word(word) => COPULAS.contains(&word.as_str()) || word == "so",
            Kind::Sign('=') => true,
            Kind::Found(found) => matches!(found.value, Some(Value::Chain(..))),
            _ => false,
        })
}
