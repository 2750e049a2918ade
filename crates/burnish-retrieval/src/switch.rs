//! Hard topic switches: two conversations spliced without a word of transition; and dialogues without polish.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::rng::{Address, Purpose, Stream};

use crate::data::{Chunk, Dialogue};

/// The first `at` turns of `left`, then turns of `right` from its first on, as many as `left` had left or fewer if
/// `right` is shorter. The first of `right`'s turns is the switch: it needs no history, as it had none.
pub fn splice(left: &Dialogue, right: &Dialogue, at: usize) -> Dialogue {
    let at = at.min(left.turns.len());
    let mut turns = left.turns[..at].to_vec();
    turns.extend(right.turns.iter().take(left.turns.len() - at).cloned());
    if at > 0
        && let Some(first) = turns.get_mut(at)
    {
        first.switched = true;
    }
    Dialogue { id: format!("{}+{}", left.id, right.id), turns }
}

/// Splices pairs of `dialogues` into one each, at a turn K that is uniform in 2 ... T - 1, until `share` of the
/// dialogues are in a pair. Only dialogues of three turns or more are paired, with one that shares no document; where
/// there is none left, with one that shares no chunk. The others stay as they are; the second of a pair is gone, so
/// that no turn is there twice.
pub fn switch_topics<'a>(
    dialogues: &'a [Dialogue],
    chunks: &'a [Chunk],
    share: f64,
    seed: u64,
) -> Vec<Dialogue> {
    let document: BTreeMap<&'a str, &'a str> =
        chunks.iter().map(|chunk| (chunk.id.as_str(), chunk.document.as_str())).collect();
    let used = |name: &dyn Fn(&'a str) -> Option<&'a str>| -> Vec<BTreeSet<&'a str>> {
        let evidence = |dialogue: &'a Dialogue| {
            dialogue.turns.iter().flat_map(|turn| &turn.evidence).filter_map(|id| name(id)).collect()
        };
        dialogues.iter().map(evidence).collect()
    };
    let (ids, documents) = (used(&Some), used(&|id| document.get(id).copied()));
    let mut order: Vec<usize> =
        (0..dialogues.len()).filter(|place| dialogues[*place].turns.len() >= 3).collect();
    Stream::new(Address { step: 1, ..Address::new(seed, Purpose::Shuffle) }.seed()).shuffle(&mut order);
    let wanted = (share.clamp(0.0, 1.0) * dialogues.len() as f64 / 2.0).floor() as usize;
    let mut partner: BTreeMap<usize, usize> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (number, left) in order.iter().enumerate() {
        if partner.len() == wanted {
            break;
        }
        if taken.contains(left) {
            continue;
        }
        let free = |sets: &[BTreeSet<&str>]| {
            let apart = |right: &&usize| !taken.contains(*right) && sets[*left].is_disjoint(&sets[**right]);
            order[number + 1..].iter().find(apart)
        };
        if let Some(right) = free(&documents).or_else(|| free(&ids)) {
            partner.insert(*left, *right);
            taken.extend([*left, *right]);
        }
    }
    let second: BTreeSet<usize> = partner.values().copied().collect();
    let mut switched = Vec::with_capacity(dialogues.len() - second.len());
    for (place, dialogue) in dialogues.iter().enumerate().filter(|(place, _)| !second.contains(place)) {
        match partner.get(&place) {
            Some(right) => {
                let address = Address { task: place as u64, ..Address::new(seed, Purpose::Perturb) };
                let at = 2 + Stream::new(address.seed()).index(dialogue.turns.len() - 2);
                switched.push(splice(dialogue, &dialogues[*right], at));
            }
            None => switched.push(dialogue.clone()),
        }
    }
    switched
}

/// The same dialogues with each question as it was before polishing; a turn whose rewriting nobody knows stays.
pub fn unpolished(dialogues: &[Dialogue]) -> Vec<Dialogue> {
    let mut plain = dialogues.to_vec();
    for turn in plain.iter_mut().flat_map(|dialogue| &mut dialogue.turns) {
        if let Some(rewrite) = &turn.rewrite {
            turn.user.clone_from(rewrite);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Turn;
    use proptest::prelude::*;

    fn dialogue(id: &str, document: &str, turns: usize) -> Dialogue {
        let turn = |number| Turn {
            user: format!("{id} {number}"),
            rewrite: Some(format!("{id} plain {number}")),
            answer: String::new(),
            evidence: vec![document.to_owned()],
            switched: false,
        };
        Dialogue { id: id.to_owned(), turns: (0..turns).map(turn).collect() }
    }

    fn chunk(id: &str) -> Chunk {
        Chunk { id: id.to_owned(), document: id.to_owned(), span: None, text: String::new() }
    }

    #[test]
    fn nothing_is_spliced_with_its_own_document_or_too_short() {
        let chunks = [chunk("a"), chunk("b")];
        let same = [dialogue("x", "a", 4), dialogue("y", "a", 4)];
        assert_eq!(switch_topics(&same, &chunks, 1.0, 1), same);
        let short = [dialogue("x", "a", 2), dialogue("y", "b", 4)];
        assert_eq!(switch_topics(&short, &chunks, 1.0, 1), short);
        let other = [dialogue("x", "a", 4), dialogue("y", "b", 4)];
        assert_eq!(switch_topics(&other, &chunks, 1.0, 1).len(), 1);
        assert_eq!(switch_topics(&other, &chunks, 0.9, 1), other);
        assert_eq!(unpolished(&other)[0].turns[1].user, "x plain 1");
    }

    #[test]
    fn the_place_of_the_switch_is_uniform() {
        let chunks = [chunk("a"), chunk("b")];
        let mut counts = [0; 8];
        for seed in 0..6000 {
            let spliced = switch_topics(&[dialogue("x", "a", 8), dialogue("y", "b", 8)], &chunks, 1.0, seed);
            counts[spliced[0].turns.iter().position(|turn| turn.switched).unwrap()] += 1;
        }
        // K is 2 ... 7, each with 1000 expected; four standard deviations are 116.
        assert_eq!(counts[..2], [0, 0]);
        assert!(counts[2..].iter().all(|count: &i32| (count - 1000).abs() < 116), "{counts:?}");
    }

    proptest! {
        #[test]
        fn a_spliced_dialogue_has_one_switch_and_its_turns_in_order(
            left in 2usize..9, right in 1usize..9, at in 1usize..9,
        ) {
            prop_assume!(at < left);
            let spliced = splice(&dialogue("l", "a", left), &dialogue("r", "b", right), at);
            let said: Vec<&str> = spliced.turns.iter().map(|turn| turn.user.as_str()).collect();
            let mut expected: Vec<String> = (0..at).map(|number| format!("l {number}")).collect();
            expected.extend((0..right.min(left - at)).map(|number| format!("r {number}")));
            prop_assert_eq!(said, expected);
            let switches: Vec<usize> =
                (0..spliced.turns.len()).filter(|turn| spliced.turns[*turn].switched).collect();
            prop_assert_eq!(switches, [at]);
        }
    }
}
