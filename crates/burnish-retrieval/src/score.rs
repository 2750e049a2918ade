//! Retrievers scored on a benchmark.

use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose};
use burnish_eval::{Interval, bootstrap};
use serde::{Deserialize, Serialize};

use crate::data::Benchmark;
use crate::metrics::{ndcg, recall, reciprocal_rank};
use crate::retrieve::Arm;
use crate::{Result, wrong};

/// How retrievers are scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScoreOptions {
    /// The numbers of chunks that count as found, each at least 1.
    pub k: Vec<usize>,
    /// Seed of the intervals.
    pub seed: u64,
}

impl Default for ScoreOptions {
    fn default() -> Self {
        ScoreOptions { k: vec![1, 5, 20], seed: 0 }
    }
}

/// What one arm found, as means over dialogues of means over their turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmScore {
    /// The arm: `bm25/last_turn`.
    pub arm: String,
    /// Recall at each k.
    pub recall: BTreeMap<usize, Interval>,
    /// Mean reciprocal rank at the largest k.
    pub mrr: Interval,
    /// nDCG at the largest k.
    pub ndcg: Interval,
    /// The same recall for some of the turns: `first` of a dialogue, `follow_up`, `switch` of the topic, and
    /// `after_switch`. Those without a turn are left out.
    pub slices: BTreeMap<String, Slice>,
}

/// What one arm found in some of the turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The number of these turns.
    pub turns: usize,
    /// Recall at each k.
    pub recall: BTreeMap<usize, Interval>,
}

/// How retrievers scored on a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreReport {
    /// The number of chunks that were searched.
    pub chunks: usize,
    /// The number of dialogues with a turn that was scored.
    pub dialogues: usize,
    /// The number of turns that were scored.
    pub turns: usize,
    /// The number of turns without evidence, which were not.
    pub without_evidence: usize,
    /// The largest k, which is that of MRR and nDCG.
    pub depth: usize,
    /// What each arm found, in the order in which they were given.
    pub arms: Vec<ArmScore>,
}

/// A turn that was scored: its dialogue and its number there, what kind of turn it is, and what should be found.
pub(crate) struct Scored {
    pub(crate) dialogue: usize,
    pub(crate) turn: usize,
    kind: &'static str,
    gold: Vec<usize>,
}

/// The turns with evidence, in order.
pub(crate) fn scored_turns(benchmark: &Benchmark) -> Result<Vec<Scored>> {
    let places = benchmark.places();
    let mut scored = Vec::new();
    for (number, dialogue) in benchmark.dialogues.iter().enumerate() {
        let mut switched = false;
        for (turn_number, turn) in dialogue.turns.iter().enumerate() {
            let kind = match (turn_number, turn.switched, switched) {
                (0, _, _) => "first",
                (_, true, _) => "switch",
                (_, _, true) => "after_switch",
                _ => "follow_up",
            };
            switched |= turn.switched;
            if !turn.evidence.is_empty() {
                let gold = benchmark.gold(&places, turn)?;
                scored.push(Scored { dialogue: number, turn: turn_number, kind, gold });
            }
        }
    }
    if scored.is_empty() {
        return wrong("no turn has evidence, so there is nothing that a retriever could find");
    }
    Ok(scored)
}

/// What `arm` ranks first for each of `turns`.
pub(crate) fn rankings(
    benchmark: &Benchmark,
    turns: &[Scored],
    arm: &Arm<'_>,
    depth: usize,
) -> Result<Vec<Vec<usize>>> {
    let queries: Vec<String> = turns
        .iter()
        .map(|scored| arm.view.query(&benchmark.dialogues[scored.dialogue], scored.turn))
        .collect::<Result<_>>()?;
    let ranked = arm.ranker.rank(&queries.iter().map(String::as_str).collect::<Vec<_>>(), depth)?;
    if ranked.len() != turns.len() {
        return wrong(format!("{}: {} queries got {} rankings", arm.name(), turns.len(), ranked.len()));
    }
    Ok(ranked)
}

/// The mean of each dialogue's values, in the order of dialogues.
pub(crate) fn dialogue_means(values: impl IntoIterator<Item = (usize, f64)>) -> Vec<f64> {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (dialogue, value) in values {
        let (sum, count) = sums.entry(dialogue).or_default();
        *sum += value;
        *count += 1.0;
    }
    sums.into_values().map(|(sum, count)| sum / count).collect()
}

/// The recall of `ranked` per dialogue.
pub(crate) fn recalls(turns: &[Scored], ranked: &[Vec<usize>], k: usize) -> Vec<f64> {
    let of = |(scored, ranked): (&Scored, &Vec<usize>)| (scored.dialogue, recall(ranked, &scored.gold, k));
    dialogue_means(turns.iter().zip(ranked).map(of))
}

/// Scores `arms` on the turns of `benchmark` that have evidence.
pub fn score(benchmark: &Benchmark, arms: &[Arm<'_>], options: &ScoreOptions) -> Result<ScoreReport> {
    if arms.is_empty() {
        return wrong("there is no retriever to score; name at least one");
    }
    let depth = options.k.iter().copied().max().unwrap_or(0);
    if options.k.contains(&0) || depth == 0 {
        return wrong("`k`: give at least one number, each at least 1");
    }
    let turns = scored_turns(benchmark)?;
    let all: Vec<usize> = (0..turns.len()).collect();
    let seed = Address::new(options.seed, Purpose::Bootstrap).seed();
    let interval = |places: &[usize], value: &dyn Fn(usize) -> f64| -> Interval {
        let means = dialogue_means(places.iter().map(|place| (turns[*place].dialogue, value(*place))));
        bootstrap::mean(&means, seed).unwrap_or(Interval { mean: 0.0, low: 0.0, high: 0.0 })
    };
    let mut scores = Vec::with_capacity(arms.len());
    for arm in arms {
        let ranked = rankings(benchmark, &turns, arm, depth)?;
        let recall_at = |places: &[usize]| -> BTreeMap<usize, Interval> {
            let at = |k: usize| interval(places, &|place| recall(&ranked[place], &turns[place].gold, k));
            options.k.iter().map(|k| (*k, at(*k))).collect()
        };
        let mut slices = BTreeMap::new();
        for kind in ["first", "follow_up", "switch", "after_switch"] {
            let some: Vec<usize> = all.iter().copied().filter(|place| turns[*place].kind == kind).collect();
            if !some.is_empty() {
                slices.insert(kind.to_owned(), Slice { turns: some.len(), recall: recall_at(&some) });
            }
        }
        scores.push(ArmScore {
            arm: arm.name(),
            recall: recall_at(&all),
            mrr: interval(&all, &|place| reciprocal_rank(&ranked[place], &turns[place].gold, depth)),
            ndcg: interval(&all, &|place| ndcg(&ranked[place], &turns[place].gold, depth)),
            slices,
        });
    }
    let asked: usize = benchmark.dialogues.iter().map(|dialogue| dialogue.turns.len()).sum();
    let mut dialogues: Vec<usize> = turns.iter().map(|scored| scored.dialogue).collect();
    dialogues.dedup();
    Ok(ScoreReport {
        chunks: benchmark.chunks.len(),
        dialogues: dialogues.len(),
        turns: turns.len(),
        without_evidence: asked - turns.len(),
        depth,
        arms: scores,
    })
}
