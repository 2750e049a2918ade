//! The clause that is being read: its words so far, and how much its numbers count.

use super::claims::{Claim, Rank};
use super::lexicon::{CLAUSES, CONDITIONS, COPULAS, NEGATIONS, OPERATIONS, REASONS};
use super::words;

/// The clause that is being read.
pub(super) struct Clause<'a> {
    pub(super) left: Vec<&'a str>,
    pub(super) rank: Rank,
    /// It opened the sentence, and ends at the next comma.
    pub(super) is_leading: bool,
    /// Whether a value has been read in it.
    pub(super) has_value: bool,
    /// "which", "who": it belongs to another claim.
    pub(super) is_relative: bool,
    /// It gives way only because it is after a dash.
    pub(super) after_dash: bool,
    /// The number of the clause.
    pub(super) number: usize,
    /// After "had she", "were it": it says what would be, not what is.
    pub(super) is_unreal: bool,
    /// A value has been read that says how much more is needed: "she needs 4 to reach 48".
    pub(super) is_need: bool,
    /// A verb of change has been read in it: "marked down 52 from 100 to 48".
    pub(super) is_change: bool,
    /// After "unless".
    pub(super) is_unless: bool,
    /// It opened with what is to be done: "adding four to", "subtract the cost from".
    pub(super) is_work: bool,
    /// The sentence supposes something wrongly: "assuming wrongly that they are red".
    pub(super) is_wrongly: bool,
    /// The sentence has a reservation: "if", "without", "according to".
    pub(super) is_provisional: bool,
    /// After "I can't work this out;"
    pub(super) is_helpless: bool,
    /// A phrase that only describes an earlier number has begun: "27 pupils, 13 boys and"
    pub(super) is_remark: bool,
}

impl<'a> Clause<'a> {
    pub(super) fn word(&mut self, word: &'a str, after_stop: bool, found: &[Claim], following: &[&str]) {
        self.is_provisional |= CONDITIONS.contains(&word) && word != "let" || is_reserving(word);
        self.is_wrongly |= self.rank == Rank::Condition
            && matches!(word, "wrongly" | "mistakenly" | "incorrectly" | "falsely" | "erroneously");
        if !self.has_value && self.left.iter().all(|before| is_bidding(before)) && OPERATIONS.contains(&word)
        {
            self.is_work = true;
        }
        let is_first = self.left.is_empty() && !self.has_value;
        let is_directly_behind = self.left.is_empty() && self.has_value;
        let opens = is_first || after_stop;
        let is_all_but = word == "but"
            && (matches!(
                self.left.last(),
                Some(&("anything" | "everything" | "all" | "nothing" | "none" | "any" | "no" | "cannot"))
            ) || matches!(self.left[..], [.., "any" | "every" | "each", _]));
        if is_all_but {
            self.left.push(word);
            return;
        }
        // "Nobody who checks the numbers would get 36."
        if matches!(word, "who" | "that" | "which")
            && matches!(self.left[..], ["nobody" | "none" | "nothing"] | ["no", _])
        {
            self.left.push(word);
            return;
        }
        // "not yet 36"
        if word == "yet" && self.left.last().is_some_and(|last| NEGATIONS.contains(last) || *last == "as") {
            self.left.push(word);
            return;
        }
        // "18 ounces after 6 were poured out", "18 marbles, of which 11 are Ivo's"
        if (matches!(word, "after" | "before" | "once") || word == "when" && !after_stop)
            && self.has_value
            && (!after_stop
                || !following.first().is_some_and(|next| matches!(*next, "which" | "that" | "this")))
            && !found.is_empty()
            && self.rank == Rank::Main
        {
            self.open(Rank::Adjunct, true);
            return;
        }
        if matches!(word, "which" | "whom") && self.left.last() == Some(&"of") && !found.is_empty() {
            self.open(Rank::Aside, false);
            return;
        }
        // "in case it is 36"
        if word == "case" && self.left.last() == Some(&"in") && !following.is_empty() && following[0] != "of"
        {
            self.open(Rank::Condition, found.is_empty());
            return;
        }
        let is_tail = matches!(self.left.last(), Some(&("or" | "and"))) && word == "so";
        if is_tail
            || (word == "so"
                && following.first().is_some_and(|next| matches!(*next, "far" | "many" | "much" | "called")))
        {
            self.left.push(word);
            return;
        }
        // "believe it or not": no negation.
        if word == "not" && self.left.last() == Some(&"or") {
            self.left.pop();
            return;
        }
        // "If we count 20 on each side we get 40": a second subject opens the main clause.
        let is_subject =
            matches!(word, "we" | "you" | "i" | "she" | "he" | "they" | "it" | "there" | "that" | "this");
        if is_subject
            && matches!(self.rank, Rank::Condition | Rank::Adjunct)
            && self.is_leading
            && self.has_value
            && !self.left.last().is_some_and(|last| {
                matches!(
                    *last,
                    "than"
                        | "that"
                        | "which"
                        | "as"
                        | "what"
                        | "who"
                        | "when"
                        | "and"
                        | "of"
                        | "to"
                        | "with"
                        | "for"
                        | "in"
                        | "from"
                        | "or"
                        | "before"
                        | "after"
                )
            })
        {
            self.open(Rank::Main, false);
            self.left.push(word);
            return;
        }
        // "12 tables so that 48 can sit"
        if word == "so"
            && !after_stop
            && self.has_value
            && following.first() == Some(&"that")
            && following.get(1) != Some(&"means")
        {
            self.open(Rank::Aside, false);
            return;
        }
        // ", for there are 21 plants in 7 rows"
        if word == "for"
            && after_stop
            && !found.is_empty()
            && self.rank == Rank::Main
            && following.iter().take(6).any(|next| {
                matches!(
                    *next,
                    "there"
                        | "he"
                        | "she"
                        | "they"
                        | "it"
                        | "we"
                        | "is"
                        | "are"
                        | "was"
                        | "were"
                        | "make"
                        | "makes"
                )
            })
        {
            self.open(Rank::Aside, true);
            return;
        }
        let starts = |list: &[&str]| list.contains(&word);
        let is_inverted = !matches!(word, "should" | "had" | "were")
            || following.first().is_some_and(|next| {
                matches!(
                    *next,
                    "it" | "the"
                        | "he"
                        | "she"
                        | "they"
                        | "we"
                        | "i"
                        | "you"
                        | "this"
                        | "that"
                        | "there"
                        | "one"
                )
            });
        let is_said = word == "say"
            && opens
            && found.is_empty()
            && following.first().is_some_and(|next| {
                matches!(*next, "there" | "it" | "she" | "he" | "that" | "we" | "they" | "it's" | "there's")
            });
        if (starts(CONDITIONS) || is_said)
            && is_inverted
            && (opens || matches!(word, "if" | "unless" | "assuming" | "whether" | "supposing" | "pretend"))
            && !is_polite(word, following)
        {
            self.open(Rank::Condition, found.is_empty());
            self.is_unreal |= matches!(word, "had" | "were")
                || (word == "if" && following.iter().take(5).any(|next| matches!(*next, "were" | "had")));
            self.is_unless = word == "unless";
        } else if starts(CLAUSES) || (opens && (starts(REASONS) || word == "and")) {
            let is_adverb = matches!(word, "thus" | "therefore" | "then" | "hence") && !opens;
            if is_adverb {
                // "If she sold 9 then she has 18": the condition ends without a comma.
                if self.rank == Rank::Condition && self.is_leading {
                    self.open(Rank::Main, false);
                }
                return;
            }
            // "the given points", "is provided by": no clause.
            let is_participle = matches!(
                word,
                "given" | "provided" | "using" | "considering" | "making" | "giving" | "leaving" | "meaning"
            ) && self.left.last().is_some_and(|last| is_determiner(last));
            // "after giving away 12", "without leaving 12"
            let is_participle = is_participle
                || matches!(word, "giving" | "making" | "leaving" | "using")
                    && (self.left.is_empty() && self.rank == Rank::Adjunct && !self.has_value
                        || matches!(
                            self.left.last(),
                            Some(
                                &("after"
                                    | "before"
                                    | "by"
                                    | "of"
                                    | "for"
                                    | "without"
                                    | "when"
                                    | "while"
                                    | "from")
                            )
                        ));
            // "18 given away"
            let is_participle = is_participle
                || word == "given"
                    && is_directly_behind
                    && following
                        .first()
                        .is_some_and(|next| matches!(*next, "away" | "to" | "out" | "back" | "up"));
            if is_participle {
                self.left.push(word);
                return;
            }
            // "They quoted 40, whereas the real cost is 48."
            let is_contrast = matches!(word, "whereas" | "while" | "though" | "although")
                && !found.is_empty()
                && following
                    .iter()
                    .take(3)
                    .any(|next| matches!(*next, "real" | "actual" | "true" | "correct"));
            let is_reason = (starts(REASONS) || matches!(word, "provided")) && !is_contrast;
            // A leading preposition is no clause of its own: "With 9 eggs she makes 18."
            if word == "as" && found.is_empty() {
                self.left.push(word);
                return;
            }
            if is_reason {
                self.open(Rank::Aside, found.is_empty() || is_first);
            } else {
                // After a reason or a condition that opened the sentence, the main clause goes on.
                let rank = match word {
                    "which" | "who" | "whom" | "whose" | "when" | "except" => self.rank,
                    _ => Rank::Main,
                };
                self.open(rank, false);
                self.is_relative = matches!(word, "which" | "who" | "whose");
            }
            if matches!(word, "making" | "giving" | "leaving" | "meaning") {
                self.left.push("gives");
            }
            if matches!(word, "except") {
                self.left.push(word);
            }
        } else {
            self.left.push(word);
        }
    }

    fn open(&mut self, rank: Rank, is_leading: bool) {
        self.left.clear();
        self.rank = rank;
        self.is_leading = is_leading;
        self.has_value = false;
        self.is_relative = false;
        self.after_dash = false;
        self.is_unless = false;
        self.is_need = false;
        self.is_change = false;
        self.is_work = false;
        self.is_remark = false;
        self.number += 1;
    }

    pub(super) fn comma(&mut self) {
        self.number += 1;
        self.is_work = false;
        self.is_remark = false;
        // "The count doubles, from 9 to 18."
        self.is_change = !self.has_value && words::is_change(&self.left);
        if self.is_leading {
            self.rank = Rank::Main;
            self.is_leading = false;
            self.left.clear();
            self.has_value = false;
            return;
        }
        // "is, therefore, 18", "is not, as some say, 7"
        let is_held = self.left.last().is_some_and(|word| {
            COPULAS.contains(word)
                || NEGATIONS.contains(word)
                || matches!(*word, "be" | "therefore" | "answer")
        }) || (self.left.len() <= 4 && words::is_bound(&self.left))
            || self.left.iter().rev().take(5).any(|word| *word == ",");
        if is_held && !self.has_value {
            self.left.push(",");
        } else {
            self.left.clear();
        }
    }
}

/// Words that say that something holds only with a reservation.
fn is_reserving(word: &str) -> bool {
    matches!(
        word,
        "without"
            | "ignoring"
            | "disregarding"
            | "neglecting"
            | "theoretically"
            | "normally"
            | "ideally"
            | "possible"
            | "according"
            | "seems"
            | "seem"
            | "appears"
            | "seemingly"
            | "allegedly"
            | "supposedly"
            | "reportedly"
            | "officially"
            | "wanted"
            | "hoped"
            | "planned"
            | "tried"
            | "intended"
            | "aimed"
    )
}

/// Words before a verb that asks for something to be done: "now we just have to divide".
pub(super) fn is_bidding(word: &str) -> bool {
    matches!(
        word,
        "then"
            | "now"
            | "next"
            | "finally"
            | "just"
            | "simply"
            | "we"
            | "you"
            | "must"
            | "to"
            | "need"
            | "have"
            | "still"
            | "let's"
            | "by"
            | "and"
            | "first"
            | "so"
            | "can"
            | "should"
            | "let"
            | "us"
            | "i"
    )
}

fn is_determiner(word: &str) -> bool {
    COPULAS.contains(&word)
        || matches!(
            word,
            "the"
                | "a"
                | "an"
                | "this"
                | "these"
                | "those"
                | "its"
                | "their"
                | "his"
                | "her"
                | "our"
                | "any"
                | "each"
                | "every"
                | "no"
                | "some"
                | "be"
                | "been"
                | "had"
                | "has"
                | "have"
        )
}

/// "if I am not mistaken", "if you count them": the first leaves its number as it is.
pub(super) fn is_polite(word: &str, following: &[&str]) -> bool {
    word == "if"
        && matches!(
            following.first(),
            Some(&("i" | "i'm" | "my" | "anything" | "memory" | "we've" | "you" | "correct" | "rounded"))
        )
        && following.iter().take(5).any(|word| {
            matches!(
                *word,
                "mistaken"
                    | "right"
                    | "correct"
                    | "correctly"
                    | "rounded"
                    | "round"
                    | "serves"
                    | "check"
                    | "prefer"
                    | "counted"
                    | "will"
                    | "wrong"
                    | "like"
            )
        })
}
