//! The value of an objective on samples that nothing is learned from.

use std::borrow::Borrow;

use burnish_model::Model;
use burnish_rl::{Objective, Totals};
use burnish_tensor::{Tape, in_pool};

use crate::columns::{Columns, MetricSums, groups, widen};
use crate::gradient::{batch_constants_of, check_for, score_rows};
use crate::{Checkpointing, Pass, Sample, TrainError, pack, pack_groups};

/// The value and the named numbers of `objective` on `samples`: those of [`accumulate`](crate::accumulate), without
/// a gradient and its memory.
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
) -> Result<Pass, TrainError> {
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
) -> Result<Pass, TrainError> {
    let (mut pass, mut metrics) = (Pass::default(), MetricSums::default());
    let needs = objective.needs();
    let batches = if needs.groups { pack_groups(samples, tokens_max) } else { pack(samples, tokens_max) };
    let constants = match needs.batch_constants {
        true => batch_constants_of(model, samples, &batches, objective, totals)?,
        false => Vec::new(),
    };
    for batch in batches {
        let mut tape = Tape::inference(&model.params);
        let hidden = batch.forward(&mut tape, model, Checkpointing::Off);
        let scores = score_rows(&mut tape, model, &batch, &hidden)?;
        let parts = batch.parts(samples);
        let columns = Columns::of(&parts, widen(scores.numbers()), scores.entropies(), needs.behavior);
        let own = pass.tokens_scored..pass.tokens_scored + batch.rows.len();
        let own = constants.get(own).unwrap_or_default();
        let groups = groups(&parts);
        let streams = columns.streams(&batch.sequences, &groups, own);
        let evaluation = objective.evaluate(&streams, totals);
        pass.loss += evaluation.loss;
        pass.entropy += columns.entropy.iter().sum::<f64>();
        pass.tokens += batch.ids.len();
        pass.tokens_scored += batch.rows.len();
        pass.micro_batches += 1;
        metrics.add(&evaluation.metrics);
    }
    pass.entropy /= pass.tokens_scored.max(1) as f64;
    pass.metrics = metrics.means();
    Ok(pass)
}
