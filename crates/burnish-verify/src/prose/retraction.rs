//! What takes back something said before: "no, 8", "scratch that", "there is no such number".

use super::about::has_others;
use super::lexicon::{COPULAS, FAULTS, NEGATIONS, OPERATIONS, Pattern};
use super::negation::is_rejected;
use super::sentence::uncontracted;
use super::tokens::{Kind, Token};
use super::words::starts_with;

/// Words that take back what was said, after a stop or a comma.
pub(super) const BACK: &[&str] = &[
    "no",
    "nope",
    "wait",
    "actually",
    "oops",
    "correction",
    "sorry",
    "scratch",
    "scrap",
    "hmm",
    "hm",
    "hold",
    "rather",
    "instead",
    "i",
    "make",
    "nevermind",
    "in",
    "ah",
    "oh",
    "well",
    "whoops",
    "strike",
    "my",
    "on",
    "let",
    "edit",
    "update",
    "erratum",
    "apologies",
    "typo",
];

/// Words that open a sentence and leave its meaning as it is.
const INTERJECTIONS: &[&str] = &[
    "no",
    "nope",
    "wait",
    "actually",
    "oops",
    "sorry",
    "hmm",
    "hm",
    "ah",
    "oh",
    "well",
    "whoops",
    "but",
    "and",
    "however",
    "yet",
    "so",
    "ok",
    "okay",
    "right",
    "now",
    "then",
    "though",
    "unfortunately",
    "alas",
    "still",
    "please",
    "apologies",
    "also",
    "again",
    "let's",
    "just",
    "only",
    "hold",
    "on",
    "stop",
    "argh",
    "ugh",
    "damn",
    "sadly",
];

/// What leads to a judgement: "I see that this is too high".
const NOTICING: &[Pattern] = &[
    "i|we see|notice|realize|realise|think|find|believe|realized|realised|noticed|suspect that",
    "i|we see|notice|realize|realise|think|find|believe|realized|realised|noticed|suspect now",
    "i|we now|just|also see|notice|realize|realise|think|find|believe|realized|realised|noticed|suspect",
    "i|we see|notice|realize|realise|think|find|believe|realized|realised|noticed|suspect",
    "it turns out that",
    "it turns out",
    "turns out",
    "on second thought",
];

/// Words that discard what was said, at the start of a clause.
const DISCARDS: &[Pattern] = &[
    "scratch|ignore|forget|disregard|strike|scrap|discard|delete|dismiss that|this|it|these|what|my|all|everything",
    "scratch|ignore|forget|disregard|strike|scrap|discard|delete|dismiss the above|answer|previous|last",
    "never mind",
    "nevermind",
    "forget",
    "i|we take|took that|it|this back",
    "i|we take|took back",
    "i|we retract|withdraw",
    "i|we stand corrected",
    "i|we disagree|object",
    "i|we need|have|must|should|want to redo|restart|recompute|recalculate|rethink|revise|correct",
    "let me|us redo|restart|recompute|recalculate|rethink|revise|start|begin|retry",
    "let me|us try|do it|this|that again",
    "let me|us try again",
    "or so i|we thought",
    "kidding",
    "do not|don't use|trust|count|quote|believe that|this|it|me|him|her|them",
    "i|we don't|cannot|can't know",
    "i|we do not know",
    "not|wrong|incorrect so|quite|again|answer",
];

/// Words for an error that the speaker admits.
pub(super) const ERRORS: &[&str] = &[
    "wrong",
    "wrongly",
    "mistake",
    "mistakes",
    "mistaken",
    "error",
    "erred",
    "miscounted",
    "miscalculated",
    "misread",
    "misremembered",
    "misunderstood",
    "misinterpreted",
    "overlooked",
    "forgot",
    "forgotten",
    "missed",
    "messed",
    "slipped",
    "botched",
    "neglected",
    "confused",
    "incorrectly",
    "slip",
    "mixed",
    "goofed",
    "swapped",
    "misplaced",
    "typo",
];

/// Phrases that say that there is no answer, anywhere in a sentence.
const GIVING_UP: &[Pattern] = &[
    "no such number|value|integer|x|n|thing|answer|solution|pair|digit|prime|price|amount",
    "no valid|real|integer|possible|consistent solution|solutions|answer|value",
    "is|are|has|have|exists|there's no solution|solutions|answer",
    "not|without|isn't|aren't enough|sufficient information|data|facts",
    "insufficient information|data",
    "too little information|data",
    "cannot|can't|couldn't be determined|known|solved|answered|calculated|computed|settled|decided|deduced|inferred",
    "can|could not|never be determined|known|solved|answered|calculated|computed|settled|decided|deduced|inferred",
    "impossible|unable to determine|know|tell|solve|answer|calculate|compute|decide|find|work|figure|say",
    "nobody|no-one knows|knew",
    "no one knows|knew",
    "isn't|aren't|not known|specified",
    "i|we can't|cannot say|tell|solve|decide|determine|find|answer|work",
    "i|we have no idea|clue",
    "on reflection|inspection no|not",
    "comes|come on top",
    "need more information|data|details",
    "the real|actual|true figure|value|number|count|total|amount|cost|price|one is|was|lies|must",
    "no way to determine|know|tell|solve|answer|calculate|compute|decide|say",
    "is|are|remains|stays|remain|left unknown|undetermined|indeterminate|unsolvable|unanswerable|undefined|ambiguous",
    "something|somewhere|anything else entirely",
    "it's|is|be something else|different",
    "should|must|has|ought be|to higher|lower|larger|smaller|bigger|less|more|fewer|greater|different|something",
    "doesn't|don't say|tell|state|mention which|whether",
];

/// Words with which a clause calls wrong what was said before it.
const JUDGEMENTS: &[&str] = &[
    "wrong",
    "incorrect",
    "mistaken",
    "mistake",
    "false",
    "nonsense",
    "off",
    "right",
    "correct",
    "true",
    "it",
    "work",
    "works",
    "too",
    "match",
    "matches",
    "satisfy",
    "satisfies",
    "fit",
    "fits",
    "impossible",
    "possible",
    "hold",
    "holds",
    "sense",
    "joke",
    "guess",
    "lie",
    "absurd",
    "answer",
    "error",
    "solution",
    "contradicts",
    "contradiction",
    "add",
];

/// "That is wrong.", "Scratch that.", "I made a mistake.", "There is no such number."
pub(super) fn is_retraction(sentence: &[Token]) -> bool {
    let words: Vec<&str> = sentence
        .iter()
        .map(|token| match &token.kind {
            Kind::Word(word) => word.as_str(),
            _ => ",",
        })
        .collect();
    let plain: Vec<&str> = words.iter().copied().filter(|word| *word != ",").collect();
    if plain.len() > 22 {
        return false;
    }
    // "How many pears are there?"
    let is_asked = matches!(sentence.last().map(|token| &token.kind), Some(Kind::Stop('?')))
        && matches!(
            plain[..],
            ["how", "many" | "much" | "long" | "far" | "old" | "often", ..] | ["what", "is" | "are", ..]
        );
    is_asked
        || asks_for_other(&plain)
        || has_others(&plain)
        || gives_up(&plain)
        || is_unfinished(&plain)
        || words.split(|word| *word == ",").any(|clause| !clause.is_empty() && is_retracting(clause))
}

/// "The question asks for the others.", "and we want the older one"
pub(super) fn asks_for_other(words: &[&str]) -> bool {
    const ASKING: &[Pattern] = &[
        "question|problem asks|wants|is for|about|us",
        "we want|need|seek the|their|its|his|her",
        "we only|just want|need|seek the|their|its|his|her",
        "we're|are|were asked for|about",
    ];
    (0..words.len()).any(|at| {
        ASKING.iter().any(|pattern| starts_with(&words[at..], pattern))
            && !words[..at].iter().any(|word| matches!(*word, "what" | "as" | "that"))
    })
        // "We need Ann's.", "What about Ann?"
        || matches!(words, ["we", "want" | "need", whose] if whose.ends_with("'s"))
        || matches!(words, ["what" | "how", "about", ..])
}

/// "There is no such number", "I can't work it out"
pub(super) fn gives_up(words: &[&str]) -> bool {
    is_at_a_loss(words)
        || GIVING_UP.iter().any(|pattern| (0..words.len()).any(|at| starts_with(&words[at..], pattern)))
}

/// "I don't know the answer", "I failed to find the rest", "we're stuck": the speaker has no answer.
fn is_at_a_loss(words: &[&str]) -> bool {
    let words = uncontracted(words);
    let Some(at) = words.iter().position(|word| matches!(*word, "i" | "we" | "i'm" | "i've")) else {
        return false;
    };
    let said = &words[at + 1..];
    let is_stuck =
        said.iter().take(3).any(|word| matches!(*word, "stuck" | "clueless")) && !said.contains(&"not");
    let denial = said
        .iter()
        .take(3)
        .position(|word| NEGATIONS.contains(word) || matches!(*word, "failed" | "unable" | "struggled"));
    let is_unsolved = denial.is_some_and(|at| {
        let done = &said[at + 1..];
        let verb = done.iter().take(4).position(|word| {
            matches!(
                *word,
                "know"
                    | "solve"
                    | "find"
                    | "answer"
                    | "work"
                    | "figure"
                    | "determine"
                    | "finish"
                    | "understand"
            )
        });
        verb.is_some_and(|verb| {
            matches!(
                done.get(verb + 1),
                None | Some(
                    &("the"
                        | "it"
                        | "this"
                        | "that"
                        | "how"
                        | "out"
                        | "what"
                        | "an"
                        | ","
                        | "enough"
                        | "more")
                )
            ) && !done.iter().any(|word| {
                matches!(
                    *word,
                    "mistake" | "error" | "why" | "another" | "other" | "any" | "wrong" | "flaw" | "if"
                )
            })
        })
    });
    is_stuck || is_unsolved
}

pub(super) fn is_retracting(clause: &[&str]) -> bool {
    let clause = &uncontracted(clause)[..];
    let opening = clause.iter().take_while(|word| INTERJECTIONS.contains(word)).count();
    let mut said = &clause[opening..];
    if let Some(pattern) = NOTICING.iter().find(|pattern| starts_with(said, pattern)) {
        said = &said[pattern.split(' ').count()..];
    }
    if DISCARDS.iter().any(|pattern| starts_with(said, pattern)) {
        return true;
    }
    is_own_error(said) || is_judged_wrong(said) || is_elliptic(said)
}

/// "It doesn't.", "and I don't": a denial that leaves its verb out.
fn is_elliptic(said: &[&str]) -> bool {
    let said = match said {
        ["perhaps" | "maybe" | "or" | "possibly", rest @ ..] => rest,
        rest => rest,
    };
    if said == ["not"] {
        return true;
    }
    let said = match said {
        [rest @ .., "so" | "though" | "either" | "really" | "actually" | "anymore"] => rest,
        rest => rest,
    };
    matches!(said, ["it" | "that" | "this" | "they" | "he" | "she" | "i" | "we", word] if NEGATIONS.contains(word))
        || matches!(
            said,
            [
                "it" | "that" | "this" | "they" | "he" | "she" | "i" | "we",
                "is" | "did" | "does" | "do" | "was" | "will" | "would",
                "not"
            ]
        )
}

/// "I made a mistake", "we forgot the tax"
fn is_own_error(said: &[&str]) -> bool {
    let is_own = matches!(said.first(), Some(&("i" | "we" | "i've" | "we've" | "i'd" | "my")));
    let is_error = said.iter().take(7).any(|word| ERRORS.contains(word));
    let is_undone = said.iter().any(|word| {
        NEGATIONS.contains(word)
            || matches!(*word, "no" | "if" | "unless" | "whether" | "without" | "hope" | "any")
    });
    is_own && is_error && !is_undone
}

/// Verbs for what a wrong answer does to a part of the question.
pub(super) const OVERLOOKING: &[&str] =
    &["ignores", "misses", "forgets", "overlooks", "neglects", "omits", "violates", "disregards"];

/// "That can't be right", "this result is too high"
fn is_judged_wrong(said: &[&str]) -> bool {
    let subject = match said {
        ["isn't", ..] => 0,
        // "The last one isn't full."
        ["the", "former" | "last" | "previous" | "first", thing, ..]
            if !(COPULAS.contains(thing)
                || NEGATIONS.contains(thing)
                || matches!(
                    *thing,
                    "answer"
                        | "result"
                        | "value"
                        | "number"
                        | "figure"
                        | "total"
                        | "step"
                        | "line"
                        | "calculation"
                        | "equation"
                        | "sum"
                        | "statement"
                        | "part"
                        | "would"
                        | "can"
                        | "must"
                        | "does"
                )) =>
        {
            return false;
        }
        [
            "that" | "this" | "it" | "which" | "they" | "these" | "those",
            "result" | "answer" | "value" | "number" | "figure" | "total",
            ..,
        ]
        | ["my", _, ..]
        | ["the", "above" | "result" | "answer" | "value" | "former" | "last" | "previous" | "first", ..] => {
            2
        }
        ["that" | "this" | "it" | "which" | "they" | "these" | "those" | "he" | "she" | "you", ..] => 1,
        _ => return false,
    };
    let rest = &said[subject..];
    // "It is easy to go wrong here."
    if rest.windows(2).any(|pair| {
        pair[1] == "to"
            && matches!(pair[0], "easy" | "hard" | "difficult" | "tempting" | "common" | "possible")
    }) {
        return false;
    }
    if rest.iter().any(|word| matches!(*word, "else" | "other" | "another" | "anything")) {
        return false;
    }
    if rest.first().is_some_and(|word| OVERLOOKING.contains(word)) {
        return true;
    }
    let is_about_it = rest.iter().any(|word| JUDGEMENTS.contains(word) || FAULTS.contains(word))
        || rest.last() == Some(&"be");
    said.len() <= 12 && is_about_it && is_rejected(rest)
}

/// "Now we only have to multiply by the number of weeks": what was said is no result yet.
pub(super) fn is_unfinished(words: &[&str]) -> bool {
    let is_owed = |at: usize| {
        words[at.saturating_sub(5)..at].iter().any(|word| {
            matches!(
                *word,
                "need" | "needs" | "have" | "has" | "must" | "remains" | "left" | "still" | "let's"
            )
        }) || words[..at].ends_with(&["to", "be"])
    };
    let is_operation = |word: &&str| {
        OPERATIONS.contains(word)
            || matches!(
                *word,
                "added"
                    | "subtracted"
                    | "deducted"
                    | "multiplied"
                    | "divided"
                    | "included"
                    | "counted"
                    | "doubled"
                    | "halved"
                    | "tripled"
                    | "squared"
            )
    };
    let at = words.iter().position(is_operation);
    let is_next = matches!(words.first(), Some(&("then" | "next" | "now" | "afterwards" | "finally")));
    // "18 gets multiplied by five"
    let is_passive = matches!(
        words,
        [
            "gets" | "is" | "are" | "was",
            "multiplied" | "divided" | "doubled" | "halved" | "tripled" | "squared",
            ..
        ]
    );
    // "The tip is still missing."
    let is_missing = words
        .windows(2)
        .any(|pair| matches!(pair, ["still", "missing" | "needed" | "outstanding" | "lacking"]));
    is_passive
        || is_missing
        || at.is_some_and(|at| {
            (is_owed(at) || (is_next && at <= 3 && OPERATIONS.contains(&words[at])))
                && !words[at..].iter().any(|word| COPULAS.contains(word) || *word == "get")
        })
}

/// Whether a sentence is only "No."
pub(super) fn is_no(sentence: &[Token]) -> bool {
    matches!(sentence, [Token { kind: Kind::Word(word), .. }, ..] if matches!(word.as_str(), "no" | "nope" | "nah"))
        && sentence.iter().filter(|token| matches!(token.kind, Kind::Word(_))).count() == 1
        && !sentence.iter().any(|token| matches!(token.kind, Kind::Found(_)))
}

/// Whether these words, of which the first is one of [`BACK`], take back what was said before.
pub(super) fn is_taking_back(words: &[&str]) -> bool {
    match words {
        ["no" | "well" | "oh" | "ah", rest @ ..] => {
            rest.is_empty()
                || matches!(
                    rest[0],
                    "wait"
                        | "no"
                        | "it"
                        | "it's"
                        | "that's"
                        | "that"
                        | "the"
                        | "sorry"
                        | "actually"
                        | "make"
                        | "i"
                        | "rather"
                )
        }
        ["i", rest @ ..] => matches!(
            rest,
            ["mean" | "meant", ..] | ["should", "have", ..] | ["take", "that" | "it" | "this", "back", ..]
        ),
        ["let", rest @ ..] => {
            matches!(rest, ["me" | "us", "correct" | "fix" | "revise" | "amend" | "rephrase" | "redo", ..])
        }
        ["my", rest @ ..] => matches!(rest, ["mistake" | "bad" | "apologies", ..]),
        ["make", rest @ ..] => matches!(rest, ["that", ..] | ["it", ..]),
        ["in", rest @ ..] => matches!(rest, ["truth" | "reality" | "actuality", ..]),
        ["on", rest @ ..] => matches!(
            rest,
            ["second" | "further" | "closer" | "reflection" | "reconsideration" | "review", ..]
                | ["a", "second" | "closer", ..]
        ),
        ["update" | "edit", rest @ ..] => rest.is_empty(),
        _ => true,
    }
}

/// "but the correct answer is", "but it should be", "but in fact it is"
pub(super) fn is_corrected(words: &[&str]) -> bool {
    words.iter().take(5).any(|word| {
        matches!(
            *word,
            "correct"
                | "right"
                | "actual"
                | "actually"
                | "real"
                | "really"
                | "true"
                | "truth"
                | "should"
                | "must"
                | "it's"
                | "fact"
                | "proper"
        )
    }) || matches!(words, ["it" | "that", "is" | "was", ..] | ["the", "answer", ..] | ["that's", ..])
}

/// "Wait, let me look at this again.": another answer may follow, and what was said stands until then.
pub(super) fn is_doubting(sentence: &[Token]) -> bool {
    matches!(sentence, [Token { kind: Kind::Word(word), .. }, ..]
        if matches!(word.as_str(), "wait" | "hmm" | "hm" | "oops" | "hold" | "no" | "sorry" | "actually" | "whoops"))
}

/// "but add one for the end post", "then multiply by the number of sides"
pub(super) fn is_order(clause: &[&str]) -> bool {
    // "which we then halve", "from which we subtract the cost"
    let is_relative = matches!(
        clause,
        ["which", "we" | "you" | "must" | "has" | "have", ..] | ["from" | "to", "which", ..]
    );
    if is_relative && clause.iter().any(|word| OPERATIONS.contains(word)) {
        return true;
    }
    let opening = clause
        .iter()
        .take_while(|word| {
            matches!(
                **word,
                "but" | "then" | "and" | "now" | "next" | "we" | "you" | "just" | "don't" | "forget" | "to"
            )
        })
        .count();
    let said = &clause[opening..];
    said.first().is_some_and(|word| OPERATIONS.contains(word) && !word.ends_with("ing"))
        && said.len() > 1
        && !said
            .iter()
            .any(|word| COPULAS.contains(word) || matches!(*word, "get" | "verify" | "check" | "see"))
}
