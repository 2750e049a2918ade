//! Log-probs, values and distributions of given tokens under a model, without a gradient.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use burnish_model::Model;
use burnish_tensor::{DeviceError, HostReadback, Tape, Var, Vocab};

use crate::gradient::{check, score_rows_over};
use crate::target::{self, Target, TeacherHead};
use crate::{Checkpointing, MicroBatch, Sample, TrainError, pack};

/// Log-probabilities of the scored tokens of each sample under `model`, one entry per token (0 where the token
/// is not scored), at the samples' temperatures. Under a value model, the value of the state before each of those
/// tokens. This is what [`Sample::reference`] and [`Proximal::Known`](crate::Proximal) hold.
///
/// # Errors
/// If a sample does not fit the model.
pub fn score<S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    tokens_max: usize,
) -> Result<Vec<Vec<f32>>, TrainError> {
    score_on(&|| Tape::inference(&model.params), model, samples, tokens_max, model.vocab())
}

/// As [`score`], over all rows of the head, also those of ids that do not exist: what an engine computes that does not
/// know which ids the tokenizer has.
///
/// # Errors
/// If a sample does not fit the model.
pub fn score_whole_head<S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    tokens_max: usize,
) -> Result<Vec<Vec<f32>>, TrainError> {
    let all = Arc::new(Vocab::all(model.vocab().len()));
    score_on(&|| Tape::inference(&model.params), model, samples, tokens_max, &all)
}

/// As [`score`], under the model without its adapters: the policy before training, without extra memory.
///
/// # Errors
/// If a sample does not fit the model.
pub fn score_base<S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    tokens_max: usize,
) -> Result<Vec<Vec<f32>>, TrainError> {
    score_on(&|| Tape::inference(&model.params).without_adapters(), model, samples, tokens_max, model.vocab())
}

fn score_on<'m, S: Borrow<Sample>>(
    tape: &dyn Fn() -> Tape<'m>,
    model: &'m Model,
    samples: &[S],
    tokens_max: usize,
    vocab: &Arc<Vocab>,
) -> Result<Vec<Vec<f32>>, TrainError> {
    let samples: Vec<&Sample> = samples.iter().map(Borrow::borrow).collect();
    check(model, &samples)?;
    let mut logprobs: Vec<Vec<f32>> = samples.iter().map(|sample| vec![0.0; sample.ids.len()]).collect();
    for batch in pack(&samples, tokens_max) {
        let mut tape = tape();
        let hidden = batch.forward(&mut tape, model, Checkpointing::Off);
        let scores = score_rows_over(&mut tape, model, &batch, &hidden, vocab)?;
        for (&index, range) in batch.samples.iter().zip(&batch.sequences) {
            for (token, at) in samples[index].scored().zip(range.clone()) {
                logprobs[index][token] = scores.numbers()[at];
            }
        }
    }
    Ok(logprobs)
}

/// The `top` likeliest tokens at each scored position of each sample under `model` (all tokens of a smaller
/// vocabulary), likeliest first, with their log-probs over the whole vocabulary, at the samples' temperatures. This is
/// what [`Sample::target`] holds for an objective that needs [`burnish_rl::distillation::HeadTarget::Top`]. A teacher
/// that reads another context scores samples of its own with the same scored tokens.
///
/// # Errors
/// If a sample does not fit the model, the model is a value model, or a GPU failed.
pub fn score_top<S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    top: usize,
    tokens_max: usize,
) -> Result<Vec<Target>, TrainError> {
    let vocab = model.vocab();
    let top = top.min(vocab.len() - vocab.excluded().len());
    if top == 0 {
        return Err(TrainError::HeadLoss {
            problem: "it is compared with no token: `top` must be 1 or more",
        });
    }
    let empty = || Target::Top { top, ids: Vec::new(), logprobs: Vec::new() };
    target::check_head(model)?;
    read_rows(
        model,
        samples,
        tokens_max,
        empty,
        |tape, batch, hidden| Ok(tape.top_scores(hidden, model.head(), &batch.temperatures, vocab, top)),
        |target, (ids, logprobs): &(Vec<u32>, Vec<f32>), range| {
            let range = range.start * top..range.end * top;
            if let Target::Top { ids: own, logprobs: known, .. } = target {
                own.extend_from_slice(&ids[range.clone()]);
                known.extend_from_slice(&logprobs[range]);
            }
        },
    )
}

/// The hidden states of `model` at each scored position of each sample, with a copy of its head. This is what
/// [`Sample::target`] holds for an objective that needs [`burnish_rl::distillation::HeadTarget::Whole`].
///
/// # Errors
/// As [`score_top`].
pub fn score_hidden<S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    tokens_max: usize,
) -> Result<Vec<Target>, TrainError> {
    let head = Arc::new(TeacherHead::of(model)?);
    let width = head.width();
    let mut readback = HostReadback::default();
    let empty = || Target::Hidden { head: Arc::clone(&head), hidden: Vec::new() };
    read_rows(
        model,
        samples,
        tokens_max,
        empty,
        |_, _, hidden| Ok(readback.read(hidden)?.to_vec()),
        |target, rows: &Vec<f32>, range| {
            if let Target::Hidden { hidden, .. } = target {
                hidden.extend_from_slice(&rows[range.start * width..range.end * width]);
            }
        },
    )
}

/// The sum of the squared probabilities of the distribution that each scored token of each sample was drawn from, under
/// `model` at the samples' temperatures; one entry per scored token, in order.
///
/// # Errors
/// As [`score_top`].
pub fn score_squares<S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    tokens_max: usize,
) -> Result<Vec<Vec<f32>>, TrainError> {
    target::check_head(model)?;
    let vocab = model.vocab();
    read_rows(
        model,
        samples,
        tokens_max,
        Vec::new,
        |tape, batch, hidden| {
            Ok(tape.squared_probabilities(hidden, model.head(), &batch.temperatures, vocab))
        },
        |own: &mut Vec<f32>, squares: &Vec<f32>, range| own.extend_from_slice(&squares[range]),
    )
}

/// Computes something for each sample: `read` turns the gathered hidden states of a micro-batch into a result, `add`
/// appends some rows of that result to a sample's own.
fn read_rows<S: Borrow<Sample>, T, R>(
    model: &Model,
    samples: &[S],
    tokens_max: usize,
    empty: impl Fn() -> T,
    mut read: impl FnMut(&Tape<'_>, &MicroBatch, &Var) -> Result<R, DeviceError>,
    add: impl Fn(&mut T, &R, Range<usize>),
) -> Result<Vec<T>, TrainError> {
    let samples: Vec<&Sample> = samples.iter().map(Borrow::borrow).collect();
    check(model, &samples)?;
    let mut targets: Vec<T> = samples.iter().map(|_| empty()).collect();
    for batch in pack(&samples, tokens_max) {
        let mut tape = Tape::inference(&model.params);
        let hidden = batch.forward(&mut tape, model, Checkpointing::Off);
        let hidden = tape.gather(&hidden, &batch.rows);
        let found = read(&tape, &batch, &hidden)?;
        model.params.device().check()?;
        for (&index, range) in batch.samples.iter().zip(&batch.sequences) {
            add(&mut targets[index], &found, range.clone());
        }
    }
    Ok(targets)
}
