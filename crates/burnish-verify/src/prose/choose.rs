//! Which claim of a sentence is the answer.

use super::claims::{Claim, Rank};
use super::{source, words};

/// What a sentence gives.
pub(super) enum Outcome {
    Claim(Claim),
    /// All its values are denied, asked for, or under a condition.
    Denied(String),
    Nothing,
}

/// The claim that a sentence makes. After a mark, that is the first one, if only a few words lead to it.
pub(super) fn chosen(found: &[Claim], mark: Option<usize>, text: &str) -> Outcome {
    let marked: Vec<&Claim> =
        found.iter().filter(|claim| mark.is_none_or(|mark| claim.start >= mark)).collect();
    let standing: Vec<&Claim> =
        marked.iter().copied().filter(|claim| !claim.is_negated && claim.rank > Rank::Condition).collect();
    if standing.iter().all(|claim| claim.is_reported && !claim.is_named) {
        return marked.last().map_or(Outcome::Nothing, |claim| Outcome::Denied(source(text, claim)));
    }
    if let Some(named) = standing.iter().rev().find(|claim| claim.is_named) {
        return Outcome::Claim((*named).clone());
    }
    let taken_back = standing.iter().rev().find(|claim| claim.takes_back && claim.rank > Rank::Aside);
    if let (Some(mark), first) = (mark, standing[0]) {
        let between = text[mark..first.start]
            .split(|c: char| !(c.is_alphabetic() || c == '\''))
            .filter(|word| !word.is_empty());
        // "Although her brother insists that the answer is 48, it is 54."
        let is_conceded = (first.rank == Rank::Aside || first.is_reported)
            && standing.iter().any(|later| {
                later.start > first.start
                    && later.rank == Rank::Main
                    && !later.is_reported
                    && !later.is_supposed
            });
        let led = between.filter(|word| !words::is_leading(&word.to_lowercase())).count();
        let is_first = marked.first().is_some_and(|claim| claim.start == first.start) || marked[0].is_negated;
        // "Answer: after 4 days he has 18": after a mere label, the sentence's own verb counts.
        let is_overruled = !first.has_verb
            && standing.iter().any(|later| {
                later.start > first.start
                    && later.has_verb
                    && later.clause == first.clause
                    && later.rank == Rank::Main
            });
        if led <= 1 && is_first && !first.is_supposed && !is_overruled && !is_conceded {
            return Outcome::Claim(taken_back.map_or(first, |back| back).clone());
        }
    }
    if let Some(back) = taken_back {
        return Outcome::Claim((*back).clone());
    }
    let best = standing.iter().map(|claim| (claim.rank, !is_doubted(claim))).max();
    let mut pick = standing.iter().rev().find(|claim| Some((claim.rank, !is_doubted(claim))) == best);
    // "There are 18 numbers between 2 and 5", "9 + 9 = 18 for 14 peaches": the number that a verb leads to counts, not
    // the one that a preposition leads to.
    for earlier in standing.iter().rev() {
        let Some(later) = pick else { break };
        if earlier.start < later.start
            && earlier.clause == later.clause
            && earlier.rank == later.rank
            && (earlier.is_led && later.is_behind || earlier.value.is_some() && later.is_attached)
        {
            pick = Some(earlier);
        }
    }
    // "18, maybe 20" gives two answers.
    let other = marked.last().filter(|last| {
        pick.is_some_and(|pick| last.start > pick.start) && last.is_tentative && last.rank != Rank::Adjunct
    });
    // "Could be 18, could be 20" as well.
    let other = other.or_else(|| {
        let is_other = |claim: &&&Claim| {
            pick.is_some_and(|pick| {
                pick.is_tentative && pick.clause != claim.clause && source(text, pick) != source(text, claim)
            }) && claim.is_tentative
                && claim.rank == Rank::Main
        };
        standing.iter().find(is_other)
    });
    match (pick, other) {
        (Some(pick), Some(other)) => Outcome::Claim(Claim {
            value: None,
            start: pick.start.min(other.start),
            end: pick.end.max(other.end),
            ..(*pick).clone()
        }),
        (Some(pick), None) => Outcome::Claim((*pick).clone()),
        (None, _) => Outcome::Nothing,
    }
}

/// Whether someone else states a claim, or someone who no longer holds it.
fn is_doubted(claim: &Claim) -> bool {
    claim.is_supposed || claim.is_reported
}
