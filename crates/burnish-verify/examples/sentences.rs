//! Measures the reader of `number` and `math` on a batch of sentences that were judged by hand.
//!
//! `cargo run --release -p burnish-verify --example sentences -- FILE.jsonl`: each line is an object with `gold`,
//! `response`, `right` (whether a person accepts the response as the gold answer) and optionally `kind`. Prints the
//! sentences that were judged otherwise, how they were read, and the two shares. A gold answer that is not a single
//! number is judged by `math`.
#![allow(clippy::print_stdout, reason = "a command")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;

use burnish_verify::Verifier;
use serde::Deserialize;

#[derive(Deserialize)]
struct Sentence {
    gold: String,
    response: String,
    right: bool,
    #[serde(default)]
    kind: String,
}

/// The number of sentences with one verdict, and of those that were judged otherwise.
#[derive(Default)]
struct Count {
    all: usize,
    missed: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: sentences FILE.jsonl")?;
    let mut counts = [Count::default(), Count::default()];
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for (index, line) in fs::read_to_string(path)?.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let sentence: Sentence =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        let gold = Verifier::Number.gold(&sentence.gold).or_else(|_| Verifier::Math.gold(&sentence.gold))?;
        let explained = gold.explain(&sentence.response);
        let count = &mut counts[usize::from(sentence.right)];
        count.all += 1;
        if explained.judgement.is_correct == sentence.right {
            continue;
        }
        count.missed += 1;
        let verdict = if sentence.right { "rejected" } else { "accepted" };
        let place = explained.place.map_or("nowhere", |place| place.description());
        let read = explained.answer.as_deref().unwrap_or("unreadable");
        println!(
            "{verdict} [{}] {} | {:?} | {read}, in {place}",
            sentence.kind, sentence.gold, sentence.response
        );
        *kinds.entry(sentence.kind).or_default() += 1;
    }
    for (kind, missed) in kinds.iter().filter(|(kind, _)| !kind.is_empty()) {
        println!("{missed} of {kind}");
    }
    for (what, count) in ["wrong, accepted", "right, rejected"].into_iter().zip(&counts) {
        let share = 100.0 * count.missed as f64 / count.all.max(1) as f64;
        println!("{what}: {} of {} ({share:.2} %)", count.missed, count.all);
    }
    Ok(())
}
