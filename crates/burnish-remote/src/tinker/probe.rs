//! What a server does with a gradient, found out from outside.
//!
//! With an ε of Adam far above every gradient, the first update is proportional to it: `lr/ε · g`. So each question is one
//! small update of a model that is made for it, after which the log-prob of one token shows how long the step was:
//! whether four times the same sequence move it as far in a quarter of the step (then sequences are added up), whether the
//! same derivative moves it less where the sequence has more tokens (then they are divided by), whether a limit of the
//! norm is obeyed, and whether a clipped loss moves it just within its bounds and not just beyond them.

use super::error::Failure;
use super::{Adam, Bounds, Divides, Loss, Slope, Tinker, TinkerError, wire};

/// What a server does with a gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Habits {
    pub(super) divides: Divides,
    /// Does it limit the norm of gradients?
    pub(super) clips: bool,
    /// The bounds with which its clipped loss can be used.
    pub(super) clipped: Option<Bounds>,
}

impl Habits {
    /// Those of a server of which nothing else is known.
    pub(super) fn unknown(divides: Divides) -> Self {
        Habits { divides, clips: false, clipped: None }
    }
}

/// Far above every gradient.
const EPSILON: f64 = 1e6;
/// The first step that is tried, as a share of the gradient: a short one, since beyond a long one log-probs may do
/// anything. The next ones are longer, until one moves the log-prob enough.
const FIRST: f64 = 1e-3;
const TRIES: u32 = 24;
/// How often everything is asked anew.
const TRIES_OF_ALL: u32 = 3;
/// How far it is to move, in nats: enough for log-probs in bf16, and not so far that it can move no further.
const MOVED: std::ops::Range<f64> = 0.4..2.0;
/// The most that a quarter of the step may move it, as a share of that: the step is still one along a slope.
const STRAIGHT: f64 = 0.6;
/// How many times a sequence stands in an update, and how many times it is as long.
const TIMES: usize = 4;
/// How near to a bound a ratio is tried, on either side of it.
const NEAR: f64 = 1.02;
/// Bounds that can be tried: steps that would have to be much longer or shorter than others show nothing.
const TRIED: (f64, f64) = (0.01, 100.0);
/// What a step within the bounds may move the log-prob, as a share of what the same step moves it elsewhere: the slope
/// changes on the way, and otherwise on the way down.
const SAME: std::ops::Range<f64> = 0.4..2.5;

/// The text: any ids that every model has.
const TEXT: [u32; 4] = [11, 23, 5, 17];

/// An adapter that begins differently would move differently.
const SEED: u64 = 1;

/// A step of which it is known how far it moves the log-prob of a token.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The token.
    at: usize,
    step: f64,
    /// How far, in nats.
    moved: f64,
    /// How far half of the step would move it, or a quarter of it at most; less than that is a shorter step.
    half: f64,
}

#[derive(Debug, Clone)]
struct Question<'a> {
    sequences: Vec<&'a [u32]>,
    /// The token with the derivative.
    at: usize,
    loss: Loss,
    /// The ratio of the token.
    ratio: f64,
    /// Its advantage.
    advantage: f64,
    grad_norm_max: Option<f64>,
}

impl<'a> Question<'a> {
    fn plain(sequences: Vec<&'a [u32]>, at: usize) -> Self {
        let (ratio, advantage) = (1.0, 1.0);
        Question { sequences, at, loss: Loss::PolicyGradient, ratio, advantage, grad_norm_max: None }
    }
}

/// Asks a server. Recipes may have `told` by what it divides; `bounds` are those that a clipped loss should have.
///
/// # Errors
/// If it does not answer, or its answers make no sense and what it divides by is not told.
pub(super) async fn habits(
    tinker: &Tinker,
    told: Option<Divides>,
    bounds: Option<Bounds>,
) -> Result<Habits, TinkerError> {
    let mut tries = 1..=TRIES_OF_ALL;
    loop {
        match find(tinker, told, bounds).await {
            // It may have ended and come back.
            Err(Failure::Lost(_)) if tries.next().is_some() => {}
            found => return found.map_err(|failure| tinker.ended(failure)),
        }
    }
}

async fn find(tinker: &Tinker, told: Option<Divides>, bounds: Option<Bounds>) -> Result<Habits, Failure> {
    let Some(known) = known(tinker).await? else {
        let problem = "it can't be found out how it divides losses, because no step moves a log-prob as it should: say so \
                       in the recipe (`trainer.divides`)";
        return told.map(Habits::unknown).ok_or_else(|| tinker.client.unfit(problem).into());
    };
    let divides = match told {
        Some(told) => told,
        None => divides(tinker, known).await?,
    };
    let limited = Question { grad_norm_max: Some(1e-6), ..Question::plain(vec![&TEXT], known.at) };
    let clips = moved(tinker, &limited, known.step).await? < known.half;
    let clipped = match bounds {
        Some(bounds) if clips_at(tinker, known, bounds).await? => Some(bounds),
        _ => None,
    };
    Ok(Habits { divides, clips, clipped })
}

/// A step that moves the log-prob of a token enough, and along a slope; `None` if there is none.
async fn known(tinker: &Tinker) -> Result<Option<Known>, Failure> {
    let model = tinker.create(SEED).await?;
    let before = tinker.forward(&model.id, &[&TEXT]).await;
    tinker.unload(&model).await;
    let before = before?.remove(0);
    // The least likely token has the most room.
    let at = (1..TEXT.len()).min_by(|a, b| before[*a].total_cmp(&before[*b])).unwrap_or(1);
    let one = Question::plain(vec![&TEXT], at);
    let (mut step, mut short, mut long) = (FIRST, None, None);
    for _ in 0..TRIES {
        let alone = moved(tinker, &one, step).await?;
        if MOVED.contains(&alone) {
            let quarter = moved(tinker, &one, step / TIMES as f64).await?;
            if quarter < STRAIGHT * alone {
                return Ok(Some(Known { at, step, moved: alone, half: (alone + quarter) / 2.0 }));
            }
        }
        let is_short = (-0.1..MOVED.start).contains(&alone);
        *(if is_short { &mut short } else { &mut long }) = Some(step);
        step = match (short, long) {
            (Some(short), Some(long)) => f64::sqrt(short * long),
            (_, None) => step * TIMES as f64,
            (None, _) => step / TIMES as f64,
        };
    }
    Ok(None)
}

async fn divides(tinker: &Tinker, known: Known) -> Result<Divides, Failure> {
    let Known { at, step, half, .. } = known;
    // As many inputs as the short one has, times over.
    let long = TEXT.repeat(TIMES);
    let long = Question::plain(vec![&long[..TIMES * (TEXT.len() - 1) + 1]], at);
    let often = Question::plain(vec![&TEXT; TIMES], at);
    // No step is longer than the known one: each is as long, or a quarter of it.
    let together = moved(tinker, &often, step / TIMES as f64).await?;
    let longer = moved(tinker, &long, step).await?;
    Ok(Divides::of(longer < half, together < half))
}

/// Whether the server's clipped loss has these bounds.
async fn clips_at(tinker: &Tinker, known: Known, bounds: Bounds) -> Result<bool, Failure> {
    let Bounds { low, high } = bounds;
    if low < TRIED.0 || high > TRIED.1 {
        return Ok(false);
    }
    for (bound, advantage) in [(high, 1.0), (low, -1.0)] {
        for (ratio, is_within) in [(bound / NEAR, advantage > 0.0), (bound * NEAR, advantage < 0.0)] {
            let loss = Loss::Clipped(bounds);
            let question = Question { loss, ratio, advantage, ..Question::plain(vec![&TEXT], known.at) };
            // The ratio is a factor of the gradient.
            let share = match moved(tinker, &question, known.step / ratio).await {
                Ok(moved) => advantage * moved / known.moved,
                // It knows no such loss.
                Err(Failure::Fatal(TinkerError::Failed { .. } | TinkerError::Unfit { .. })) => {
                    return Ok(false);
                }
                Err(failure) => return Err(failure),
            };
            let holds = if is_within { SAME.contains(&share) } else { share.abs() < SAME.start / 2.0 };
            if !holds {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// How far one update moves the log-prob of the token, on a new model.
async fn moved(tinker: &Tinker, question: &Question<'_>, step: f64) -> Result<f64, Failure> {
    let model = tinker.create(SEED).await?;
    let moved = moved_on(tinker, &model.id, question, step).await;
    tinker.unload(&model).await;
    moved
}

async fn moved_on(tinker: &Tinker, model: &str, question: &Question<'_>, step: f64) -> Result<f64, Failure> {
    let at = question.at;
    let before = tinker.forward(model, &question.sequences).await?;
    let mut old = before.clone();
    old.iter_mut().for_each(|old| old[at] -= question.ratio.ln() as f32);
    let derivatives: Vec<Vec<f64>> = before
        .iter()
        .map(|logprobs| {
            (0..logprobs.len()).map(|token| -question.advantage * f64::from(token == at)).collect()
        })
        .collect();
    let parts = question.sequences.iter().zip(&old).zip(&derivatives);
    let slopes: Vec<Slope<'_>> =
        parts.map(|((ids, logprobs), d_logprobs)| Slope { ids, logprobs, d_logprobs }).collect();
    let adam = Adam {
        learning_rate: step * EPSILON,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: EPSILON,
        weight_decay: 0.0,
        grad_norm_max: question.grad_norm_max,
    };
    let answer = tinker.apply_raw(model, question.loss, &slopes, &adam).await?;
    if question.loss != Loss::PolicyGradient {
        // Only with these is it known what such an update did.
        wire::logprobs(&answer, &question.sequences).map_err(|problem| tinker.client.unfit(problem))?;
    }
    let after = tinker.forward(model, &question.sequences[..1]).await?;
    Ok(f64::from(after[0][at] - before[0][at]))
}
