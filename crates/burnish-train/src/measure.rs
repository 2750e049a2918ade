//! The value of an objective on samples that nothing is learned from.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Range;

use burnish_model::Model;
use burnish_rl::{Objective, Totals};
use burnish_tensor::{Tape, in_pool};

use crate::columns::{Columns, MetricSums, groups, widen};
use crate::gradient::{batch_constants_of, check_for, score_rows};
use crate::{Checkpointing, Pass, Sample, TrainError, pack, pack_groups};

/// The value and the named numbers of `objective` on each group of `samples` (neighbours of one [`Sample::group`]):
/// added up, the values are the loss of [`accumulate`](crate::accumulate), without a gradient and its memory.
///
/// # Errors
/// If a sample does not fit the model or the objective, or the objective compares whole distributions, which are only
/// there in a backward pass.
pub fn measure<S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    objective: &dyn Objective,
    totals: &Totals,
    tokens_max: usize,
) -> Result<Vec<Pass>, TrainError> {
    let samples: Vec<&Sample> = samples.iter().map(Borrow::borrow).collect();
    check_for(model, &samples, objective)?;
    if objective.needs().head.is_some() {
        let problem = "it compares whole distributions, which are only there where something is learned";
        return Err(TrainError::HeadLoss { problem });
    }
    in_pool(|| measure_checked(model, &samples, objective, totals, tokens_max))
}

fn measure_checked(
    model: &Model,
    samples: &[&Sample],
    objective: &dyn Objective,
    totals: &Totals,
    tokens_max: usize,
) -> Result<Vec<Pass>, TrainError> {
    let mut passes: BTreeMap<usize, (Pass, MetricSums)> =
        samples.iter().map(|sample| (sample.group, Default::default())).collect();
    let needs = objective.needs();
    let batches = if needs.groups { pack_groups(samples, tokens_max) } else { pack(samples, tokens_max) };
    let constants = match needs.batch_constants {
        true => batch_constants_of(model, samples, &batches, objective, totals)?,
        false => Vec::new(),
    };
    let mut before = 0;
    for batch in batches {
        let mut tape = Tape::inference(&model.params);
        let hidden = batch.forward(&mut tape, model, Checkpointing::Off);
        let scores = score_rows(&mut tape, model, &batch, &hidden)?;
        let (parts, numbers) = (batch.parts(samples), widen(scores.numbers()));
        let entropies = scores.entropies();
        for group in groups(&parts) {
            let sequences = &batch.sequences[group.clone()];
            let (Some(first), Some(last)) = (sequences.first(), sequences.last()) else { continue };
            let own = first.start..last.end;
            let parts = &parts[group];
            let columns =
                Columns::of(parts, numbers[own.clone()].to_vec(), entropies[own.clone()].to_vec(), objective);
            let sequences: Vec<Range<usize>> =
                sequences.iter().map(|one| one.start - own.start..one.end - own.start).collect();
            let constants = constants.get(before + own.start..before + own.end).unwrap_or_default();
            let whole = 0..sequences.len();
            let evaluation = objective
                .evaluate(&columns.streams(&sequences, std::slice::from_ref(&whole), constants), totals);
            let (pass, metrics) = passes.entry(parts[0].group).or_default();
            pass.loss += evaluation.loss;
            pass.tokens_scored += own.len();
            metrics.add(&evaluation.metrics);
        }
        before += batch.rows.len();
    }
    Ok(passes.into_values().map(|(pass, metrics)| Pass { metrics: metrics.means(), ..pass }).collect())
}
