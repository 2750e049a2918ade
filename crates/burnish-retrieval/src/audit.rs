//! The auditor: four dimensions and two checks per turn.

use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_eval::{Interval, bootstrap};
use serde::{Deserialize, Serialize};

use crate::corrupt::{Corruption, corrupt};
use crate::data::{Benchmark, Chunk, Dialogue};
use crate::index::{Index, highest, query_terms};
use crate::judge::{Dimension, Item, Judge};
use crate::retrieve::View;
use crate::score::dialogue_means;
use crate::{Result, wrong};

/// How turns are audited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditOptions {
    /// Hard negatives among which a judge has to find the evidence.
    pub negatives: usize,
    /// How often a judge picks per chunk of evidence, each time in another order.
    pub picks: usize,
    /// Most dialogues that are audited, drawn at random; `None` audits all.
    pub dialogues: Option<usize>,
    /// How far a dimension has to fall, as a share of its range, before a corruption has lowered it.
    pub margin: f64,
    /// Seed.
    pub seed: u64,
}

impl Default for AuditOptions {
    fn default() -> Self {
        AuditOptions { negatives: 4, picks: 1, dialogues: None, margin: 0.02, seed: 0 }
    }
}

/// What judges said of one turn: the mean over those that could judge it; for a check, of their verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rated {
    /// The dialogue's id.
    pub dialogue: String,
    /// The turn's number, from 1.
    pub turn: usize,
    /// Its value in each dimension that a judge could judge.
    pub values: BTreeMap<Dimension, f64>,
}

/// What judges said of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditReport {
    /// The judges.
    pub judges: Vec<String>,
    /// The number of dialogues that were audited.
    pub dialogues: usize,
    /// The number of turns that were, those with evidence.
    pub turns: usize,
    /// The mean of each dimension over dialogues: 1 to 5 for scores, 0 to 1 for checks.
    pub means: BTreeMap<Dimension, Interval>,
    /// How often a judge could not judge.
    pub failures: usize,
    /// What it said the first time.
    pub first_failure: Option<String>,
    /// Every turn, in order.
    pub rated: Vec<Rated>,
}

/// Audits the turns of `benchmark` that have evidence, with each of `judges`.
pub fn audit(benchmark: &Benchmark, judges: &[&dyn Judge], options: &AuditOptions) -> Result<AuditReport> {
    if judges.is_empty() {
        return wrong("there is no judge; name at least one");
    }
    if options.negatives == 0 || options.picks == 0 {
        return wrong("`negatives` and `picks`: give at least 1 of each");
    }
    let mut chosen: Vec<usize> = (0..benchmark.dialogues.len()).collect();
    if let Some(most) = options.dialogues {
        Stream::new(Address::new(options.seed, Purpose::Shuffle).seed()).shuffle(&mut chosen);
        chosen.truncate(most);
        chosen.sort_unstable();
    }
    let places = benchmark.places();
    let index = Index::new(benchmark.chunks.iter().map(|chunk| chunk.text.as_str()));
    let mut report = AuditReport {
        judges: judges.iter().map(|judge| judge.name().to_owned()).collect(),
        dialogues: 0,
        turns: 0,
        means: BTreeMap::new(),
        failures: 0,
        first_failure: None,
        rated: Vec::new(),
    };
    let mut values: BTreeMap<Dimension, Vec<(usize, f64)>> = BTreeMap::new();
    for number in chosen {
        let dialogue = &benchmark.dialogues[number];
        let before = report.turns;
        for (turn_number, turn) in dialogue.turns.iter().enumerate() {
            if turn.evidence.is_empty() {
                continue;
            }
            let gold = benchmark.gold(&places, turn)?;
            let test = Test {
                item: Item {
                    history: &dialogue.turns[..turn_number],
                    turn,
                    evidence: gold.iter().map(|place| benchmark.chunks[*place].text.as_str()).collect(),
                },
                negatives: hard_negatives(&index, dialogue, turn_number, &gold, options.negatives)?,
                gold,
                picks: options.picks,
                address: Address {
                    task: number as u64,
                    turn: turn_number as u64,
                    ..Address::new(options.seed, Purpose::Environment)
                },
            };
            let mut rated = BTreeMap::new();
            for dimension in Dimension::ALL {
                let mut said = Vec::new();
                for judge in judges {
                    match test.value(*judge, dimension, &benchmark.chunks) {
                        Ok(value) => said.push(value),
                        Err(error) => {
                            report.failures += 1;
                            report.first_failure.get_or_insert_with(|| {
                                let place = format!("dialogue {:?}, turn {}", dialogue.id, turn_number + 1);
                                format!("{}: {place}, {}: {error}", judge.name(), dimension.name())
                            });
                        }
                    }
                }
                if !said.is_empty() {
                    let value = said.iter().sum::<f64>() / said.len() as f64;
                    values.entry(dimension).or_default().push((number, value));
                    rated.insert(dimension, value);
                }
            }
            report.turns += 1;
            report.rated.push(Rated { dialogue: dialogue.id.clone(), turn: turn_number + 1, values: rated });
        }
        report.dialogues += usize::from(report.turns > before);
    }
    if report.turns == 0 {
        return wrong("no turn has evidence, so there is nothing to audit");
    }
    let seed = Address::new(options.seed, Purpose::Bootstrap).seed();
    report.means = values
        .into_iter()
        .filter_map(|(dimension, values)| Some((dimension, bootstrap::mean(&dialogue_means(values), seed)?)))
        .collect();
    Ok(report)
}

/// The chunks that BM25 takes for the evidence and that are not.
fn hard_negatives(
    index: &Index,
    dialogue: &Dialogue,
    turn: usize,
    gold: &[usize],
    count: usize,
) -> Result<Vec<usize>> {
    let view = if dialogue.turns[turn].rewrite.is_some() { View::Rewrite } else { View::Questions };
    let scores = index.bm25(&query_terms(&view.query(dialogue, turn)?), 1.2, 0.75);
    let nearest = highest(&scores, count + gold.len()).into_iter();
    Ok(nearest.filter(|place| !gold.contains(place)).take(count).collect())
}

/// A turn, and what its evidence has to be told apart from.
struct Test<'a> {
    item: Item<'a>,
    gold: Vec<usize>,
    negatives: Vec<usize>,
    picks: usize,
    /// Where the orders of options are drawn.
    address: Address,
}

impl Test<'_> {
    /// What `judge` says of the turn in `dimension`.
    fn value(
        &self,
        judge: &dyn Judge,
        dimension: Dimension,
        chunks: &[Chunk],
    ) -> std::result::Result<f64, String> {
        if dimension != Dimension::Completeness {
            return judge.rate(dimension, &self.item);
        }
        let mut found = 0;
        for (number, gold) in self.gold.iter().enumerate() {
            for pick in 0..self.picks {
                let seed = Address { step: pick as u64, rollout: number as u64, ..self.address }.seed();
                let (shown, right) = options_with_gold(*gold, &self.negatives, seed);
                let texts: Vec<&str> = shown.iter().map(|place| chunks[*place].text.as_str()).collect();
                found += usize::from(judge.pick(&self.item, &texts)? == right);
            }
        }
        Ok(1.0 + 4.0 * found as f64 / (self.gold.len() * self.picks) as f64)
    }
}

/// `gold` among `negatives`, in an order that `seed` draws, with the place where it came to stand.
pub fn options_with_gold(gold: usize, negatives: &[usize], seed: u64) -> (Vec<usize>, usize) {
    let mut shown = negatives.to_vec();
    let place = Stream::new(seed).index(negatives.len() + 1);
    Stream::new(!seed).shuffle(&mut shown);
    shown.insert(place, gold);
    (shown, place)
}

/// What a corruption did to the dimensions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorruptionEffect {
    /// The corruption.
    pub corruption: Corruption,
    /// The dimensions that were named beforehand.
    pub named: Vec<Dimension>,
    /// How each dimension changed, corrupted less intact, paired by turn and averaged over dialogues.
    pub changes: BTreeMap<Dimension, Interval>,
    /// The dimensions that fell: by more than [`AuditOptions::margin`] of their range, with an interval below 0.
    pub lowered: Vec<Dimension>,
    /// Did those that were named fall, and no others?
    pub as_named: bool,
}

/// Audits `benchmark` intact and with each of `corruptions`: does each lower the dimensions that it should, and no
/// others?
pub fn corruption_study(
    benchmark: &Benchmark,
    judges: &[&dyn Judge],
    corruptions: &[Corruption],
    options: &AuditOptions,
) -> Result<(AuditReport, Vec<CorruptionEffect>)> {
    let intact = audit(benchmark, judges, options)?;
    let seed = Address::new(options.seed, Purpose::Bootstrap).seed();
    let mut effects = Vec::with_capacity(corruptions.len());
    for corruption in corruptions {
        let wrong = audit(&corrupt(benchmark, *corruption, options.seed)?, judges, options)?;
        let numbers: BTreeMap<&str, usize> = benchmark
            .dialogues
            .iter()
            .enumerate()
            .map(|(number, dialogue)| (dialogue.id.as_str(), number))
            .collect();
        let mut changes = BTreeMap::new();
        for dimension in Dimension::ALL {
            let pairs = intact.rated.iter().zip(&wrong.rated).filter_map(|(before, after)| {
                let number = *numbers.get(before.dialogue.as_str())?;
                Some((number, after.values.get(&dimension)? - before.values.get(&dimension)?))
            });
            if let Some(interval) = bootstrap::mean(&dialogue_means(pairs), seed) {
                changes.insert(dimension, interval);
            }
        }
        let fell = |(dimension, change): (&Dimension, &Interval)| {
            (change.high < 0.0 && -change.mean > options.margin * dimension.range()).then_some(*dimension)
        };
        let lowered: Vec<Dimension> = changes.iter().filter_map(fell).collect();
        let named = corruption.lowers().to_vec();
        effects.push(CorruptionEffect {
            corruption: *corruption,
            as_named: named == lowered,
            named,
            changes,
            lowered,
        });
    }
    Ok((intact, effects))
}
