//! What a server does with a gradient, found out from outside.
//!
//! With an ε of Adam far above every gradient, the first update is proportional to it: `lr/ε · g`. So each question is one
//! small update of a model that is made for it, after which the log-prob of one token shows how long the step was:
//! whether four times the same sequence move it as far in a quarter of the step (then sequences are added up), whether the
//! same derivative moves it less where the sequence has more tokens (then they are divided by), and whether a limit of
//! the norm is obeyed.

use super::error::Failure;
use super::{Adam, Divides, Slope, Tinker, TinkerError};

/// What a server does with a gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Habits {
    pub(super) divides: Divides,
    /// Does it limit the norm of gradients?
    pub(super) clips: bool,
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

/// The text: any ids that every model has.
const TEXT: [u32; 4] = [11, 23, 5, 17];

/// An adapter that begins differently would move differently.
const SEED: u64 = 1;

struct Question<'a> {
    sequences: Vec<&'a [u32]>,
    /// The token with the derivative.
    at: usize,
    grad_norm_max: Option<f64>,
}

/// Asks a server.
///
/// # Errors
/// If it does not answer, or its answers make no sense.
pub(super) async fn habits(tinker: &Tinker) -> Result<Habits, TinkerError> {
    let mut tries = 1..=TRIES_OF_ALL;
    loop {
        match find(tinker).await {
            // It may have ended and come back.
            Err(Failure::Lost(_)) if tries.next().is_some() => {}
            found => return found.map_err(|failure| tinker.ended(failure)),
        }
    }
}

async fn find(tinker: &Tinker) -> Result<Habits, Failure> {
    let long: Vec<u32> = TEXT.repeat(TIMES);
    // As many inputs as the short one has, times over.
    let long = &long[..TIMES * (TEXT.len() - 1) + 1];
    let (once, often) = (vec![&TEXT[..]], vec![&TEXT[..]; TIMES]);
    let model = tinker.create(SEED).await?;
    let before = tinker.forward(&model.id, &once).await;
    tinker.unload(&model).await;
    let before = before?.remove(0);
    // The least likely token has the most room.
    let at = (1..TEXT.len()).min_by(|a, b| before[*a].total_cmp(&before[*b])).unwrap_or(1);
    let plain = |sequences| Question { sequences, at, grad_norm_max: None };
    let one = plain(once.clone());
    let (mut step, mut short, mut long_step) = (FIRST, None, None);
    let mut found = None;
    for _ in 0..TRIES {
        let alone = moved(tinker, &one, step).await?;
        if MOVED.contains(&alone) {
            let quarter = moved(tinker, &one, step / TIMES as f64).await?;
            if quarter < STRAIGHT * alone {
                found = Some((step, (alone + quarter) / 2.0));
                break;
            }
        }
        let is_short = (-0.1..MOVED.start).contains(&alone);
        *(if is_short { &mut short } else { &mut long_step }) = Some(step);
        step = match (short, long_step) {
            (Some(short), Some(long)) => f64::sqrt(short * long),
            (_, None) => step * TIMES as f64,
            (None, _) => step / TIMES as f64,
        };
    }
    let Some((step, half)) = found else {
        let problem = "it can't be found out how it divides losses, because no step moves a log-prob as it should: say so \
                       in the recipe (`trainer.divides`)";
        return Err(tinker.client.unfit(problem).into());
    };
    // No step is longer than that one: each is as long, or a quarter of it.
    let together = moved(tinker, &plain(often), step / TIMES as f64).await?;
    let longer = moved(tinker, &plain(vec![long]), step).await?;
    let clipped = Question { sequences: once, at, grad_norm_max: Some(1e-6) };
    let clipped = moved(tinker, &clipped, step).await?;
    Ok(Habits { divides: Divides::of(longer < half, together < half), clips: clipped < half })
}

/// How far one update moves the log-prob of the token, on a new model.
async fn moved(tinker: &Tinker, question: &Question<'_>, step: f64) -> Result<f64, Failure> {
    let model = tinker.create(SEED).await?;
    let moved = moved_on(tinker, &model.id, question, step).await;
    tinker.unload(&model).await;
    moved
}

async fn moved_on(tinker: &Tinker, model: &str, question: &Question<'_>, step: f64) -> Result<f64, Failure> {
    let before = tinker.forward(model, &question.sequences).await?;
    let derivatives: Vec<Vec<f64>> = before
        .iter()
        .map(|logprobs| (0..logprobs.len()).map(|at| -f64::from(at == question.at)).collect())
        .collect();
    let slopes: Vec<Slope<'_>> = question
        .sequences
        .iter()
        .zip(&before)
        .zip(&derivatives)
        .map(|((ids, logprobs), d_logprobs)| Slope { ids, logprobs, d_logprobs })
        .collect();
    let adam = Adam {
        learning_rate: step * EPSILON,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: EPSILON,
        weight_decay: 0.0,
        grad_norm_max: question.grad_norm_max,
    };
    tinker.apply_raw(model, &slopes, &adam).await?;
    let after = tinker.forward(model, &question.sequences[..1]).await?;
    Ok(f64::from(after[0][question.at] - before[0][question.at]))
}
