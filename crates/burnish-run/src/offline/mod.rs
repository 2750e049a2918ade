//! Learning from what is given: answers to imitate, and preferences between answers.

mod corpus;
mod held_out;
mod latent;
mod masks;
mod packing;
mod rows;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod tests;

use burnish_recipe::{Method, Recipe, TooLong};
use burnish_rl::masked_nll::MaskedNll;
use burnish_rl::nll::Nll;
use burnish_rl::{Objective, Totals};
use burnish_rundir::metrics::Values;
use burnish_train::{Pass, Sample, totals};

use crate::RunError;
use crate::learner::Learner;
use crate::reference::Reference;
use crate::summary::{Metrics, Updates};
use crate::tasks::of_step;
use latent::Curriculum;
use masks::{Masks, noise_seed};
use rows::{Learned, Making};

pub(crate) use corpus::{Corpus, Given, Solved, demonstrated, solved};
pub(crate) use held_out::{HELD_OUT_ROWS, Measured};

/// Learning from a corpus. Samples are made when their step comes: held is only where they come from.
pub(crate) struct OfflineLoop {
    rows: Sequences,
    /// What is evaluated; none where nothing is held out.
    held_out: Option<Sequences>,
    objective: Box<dyn Objective>,
    reference: Option<Reference>,
    curriculum: Option<Curriculum>,
}

/// What steps are made of: each sequence is one row, or several that are packed.
struct Sequences {
    corpus: Corpus,
    sequences: Vec<Vec<Place>>,
    /// Samples that are left out, because they are too long.
    left_out: usize,
}

/// Where a sample comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    row: usize,
    /// Of the samples of its row.
    sample: usize,
}

/// What a corpus is learned by.
struct Terms<'a> {
    recipe: &'a Recipe,
    objective: &'a dyn Objective,
    making: Making<'a>,
}

impl OfflineLoop {
    /// Tokenises the rows of `corpus`, and of `held_out`, once, to see which samples there are. One that does not fit
    /// is left out.
    ///
    /// # Errors
    /// If a row can't be read or rendered, has not what the objective learns from, or none fits.
    pub(crate) fn new(
        recipe: &Recipe,
        corpus: Corpus,
        held_out: Option<Corpus>,
        learner: &Learner,
    ) -> Result<Self, RunError> {
        let curriculum = Curriculum::of(recipe, learner.chat())?;
        let last = curriculum.as_ref().map(|curriculum| (curriculum, curriculum.last()));
        let making = making(recipe, learner, last);
        let objective = match (recipe.train.method, making.masks) {
            (Method::Sft, None) => Box::new(Nll) as Box<dyn Objective>,
            (Method::Sft, Some(_)) => Box::new(MaskedNll),
            _ => recipe.loss.build()?,
        };
        let terms = Terms { recipe, objective: &*objective, making };
        let rows = Sequences::new(&terms, corpus, recipe.data.packing)?;
        let held_out = held_out.map(|corpus| Sequences::new(&terms, corpus, false)).transpose()?;
        let compares = recipe.train.method == Method::Preference;
        let reference = if compares { Reference::new(recipe, learner.chat())? } else { None };
        Ok(OfflineLoop { rows, held_out, objective, reference, curriculum })
    }

    /// What a person should know about the rows.
    pub(crate) fn notes(&self, recipe: &Recipe, learner: &Learner) -> Vec<String> {
        let limit = making(recipe, learner, None).length_max;
        let left_out = self.rows.left_out + self.held_out.as_ref().map_or(0, |rows| rows.left_out);
        let mut notes = Vec::new();
        if left_out > 0 {
            let what =
                if recipe.train.method == Method::Preference { "preferences" } else { "conversations" };
            let canvas = Masks::of(recipe, learner).map(|masks| {
                format!(", or with an answer longer than {} (`rollout.tokens_max`)", masks.canvas)
            });
            let canvas = canvas.unwrap_or_default();
            notes.push(format!("{left_out} {what} are left out: longer than {limit} tokens{canvas}"));
        }
        if recipe.data.packing {
            let (rows, sequences) = (self.rows.places(), self.rows.sequences.len());
            notes.push(format!(
                "{rows} samples are packed into {sequences} sequences of {limit} tokens at most"
            ));
        }
        if let Some(held_out) = &self.held_out {
            let (own, all) = (held_out.corpus.len(), self.rows.corpus.len());
            notes.push(format!("{own} rows are held out for evaluation, {all} are trained on"));
        }
        notes
    }

    /// The steps of `epochs` passes over the rows.
    pub(crate) fn steps_of(&self, epochs: f64, recipe: &Recipe) -> u64 {
        let sequences = self.rows.sequences.len() as f64 * epochs;
        (sequences / recipe.train.sequences_per_step as f64).ceil().max(1.0) as u64
    }

    /// Step number `step`, counted from 0.
    pub(crate) fn step(
        &self,
        recipe: &Recipe,
        learner: &mut Learner,
        lr: &dyn Fn(u64) -> f64,
        step: u64,
    ) -> Result<Metrics, RunError> {
        let sequences = &self.rows.sequences;
        let count = recipe.train.sequences_per_step;
        let chosen = match recipe.data.shuffle {
            true => of_step(sequences.len(), recipe.run.seed, step, count),
            false => (0..count).map(|at| (step as usize * count + at) % sequences.len()).collect(),
        };
        let chosen: Vec<&[Place]> = chosen.into_iter().map(|at| &*sequences[at]).collect();
        let stage = |at| self.curriculum.as_ref().map_or(0, |curriculum| curriculum.stage(recipe, step, at));
        let samples = self.samples(&self.rows.corpus, recipe, learner, &chosen, |at| {
            (noise_seed(recipe, Some(step), at), stage(at))
        })?;
        let batch: Vec<&Sample> = samples.iter().collect();
        let totals = Totals {
            mismatched_log_ratio: self.mismatched(&self.rows.corpus, recipe, learner, &chosen)?,
            ..totals(&batch, &batch, 1, learner.context_tokens_max(), 0)
        };
        let lr = lr(learner.updates());
        let update = learner.update(&batch, &*self.objective, &totals, lr, None)?;
        let mut updates = Updates::default();
        updates.add(&update, lr, None);
        let tokens: usize = batch.iter().map(|sample| sample.ids.len()).sum();
        Ok(updates.finish(Values::from([("tokens/total".into(), tokens as f64)])))
    }

    /// The loss, and the objective's other numbers, on the rows that are held out: a mean over tokens of what is
    /// imitated from left to right, over rows of what is masked and of preferences. `None` where none is.
    ///
    /// # Errors
    /// If a row can't be read any more, or a number is not finite.
    pub(crate) fn evaluate(&self, recipe: &Recipe, learner: &Learner) -> Result<Option<Measured>, RunError> {
        let Some(held_out) = &self.held_out else { return Ok(None) };
        let is_per_token = recipe.train.method == Method::Sft && learner.mask_token_id().is_none();
        let (mut measured, mut done) = (Measured::default(), 0);
        for part in held_out.sequences.chunks(recipe.train.sequences_per_step) {
            let chosen: Vec<&[Place]> = part.iter().map(|places| &**places).collect();
            let stage = self.curriculum.as_ref().map_or(0, Curriculum::last);
            let samples = self.samples(&held_out.corpus, recipe, learner, &chosen, |at| {
                (noise_seed(recipe, None, done + at), stage)
            })?;
            done += samples.len() as u64;
            let totals = Totals {
                mismatched_log_ratio: self.mismatched(&held_out.corpus, recipe, learner, &chosen)?,
                ..totals(&samples, &samples, 1, learner.context_tokens_max(), 0)
            };
            let tokens_max = recipe.train.micro_batch_tokens;
            let passes = learner.measure(&samples, &*self.objective, &totals, tokens_max)?;
            // The objective divides by the weight of all these rows.
            let whole = if is_per_token { totals.tokens } else { part.len() } as f64;
            for (places, Pass { loss, metrics, tokens_scored, .. }) in chosen.iter().zip(passes) {
                let weight = if is_per_token { tokens_scored as f64 } else { 1.0 };
                if let Some(place) = places.first().filter(|_| weight > 0.0) {
                    let loss = ("loss".to_owned(), loss * whole / weight);
                    measured.add(place.row, weight, metrics.into_iter().chain([loss]));
                }
            }
        }
        Ok(Some(measured))
    }

    /// Number of rows that are learned from.
    pub(crate) fn rows(&self) -> usize {
        self.rows.corpus.len()
    }

    /// The samples of some sequences, with their log-probs under the reference where the objective needs one. Those of
    /// one row are a group. Of sample number so and so, `draws` are the seed of its masks and its stage, where it has any.
    fn samples(
        &self,
        corpus: &Corpus,
        recipe: &Recipe,
        learner: &Learner,
        chosen: &[&[Place]],
        draws: impl Fn(u64) -> (u64, usize),
    ) -> Result<Vec<Sample>, RunError> {
        let last = self.curriculum.as_ref().map_or(0, Curriculum::last);
        let mut samples = Vec::new();
        for (group, places) in chosen.iter().enumerate() {
            for place in *places {
                let (noise, stage) = draws(samples.len() as u64);
                let of = |stage| -> Result<Option<Sample>, RunError> {
                    let latent = self.curriculum.as_ref().map(|curriculum| (curriculum, stage));
                    let made = making(recipe, learner, latent).samples(corpus, place.row)?;
                    Ok(made.into_iter().nth(place.sample).flatten())
                };
                // Stages between the first and the last may be longer than both.
                let found = match of(stage)? {
                    None if stage != last => of(last)?,
                    found => found,
                };
                let changed = || RunError::Refused("a data file has changed while it was trained on".into());
                let sample = Sample { group, ..found.ok_or_else(changed)? };
                samples.push(match Masks::of(recipe, learner) {
                    Some(masks) => sample.with_noise(masks.mask, noise),
                    None => sample,
                });
            }
        }
        if let Some(reference) = &self.reference {
            let logprobs = reference.logprobs(learner, &samples, recipe.train.micro_batch_tokens)?;
            for (sample, logprobs) in samples.iter_mut().zip(logprobs) {
                sample.reference = Some(logprobs);
            }
        }
        Ok(samples)
    }

    /// The mean log-ratio of policy and reference on each chosen row's prompt with the answer of the row before it, if
    /// the objective needs it.
    fn mismatched(
        &self,
        corpus: &Corpus,
        recipe: &Recipe,
        learner: &Learner,
        chosen: &[&[Place]],
    ) -> Result<Option<f64>, RunError> {
        let Some(reference) = self.reference.as_ref().filter(|_| self.objective.needs().mismatched) else {
            return Ok(None);
        };
        let making = making(recipe, learner, None);
        let rows: Vec<usize> = chosen.iter().filter_map(|places| Some(places.first()?.row)).collect();
        let mut samples = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let before = (at + rows.len() - 1) % rows.len();
            samples.extend(making.mismatched(corpus, *row, rows[before])?);
        }
        let tokens_max = recipe.train.micro_batch_tokens;
        let under_policy = learner.score(&samples, tokens_max)?;
        let under_reference = reference.logprobs(learner, &samples, tokens_max)?;
        let mut sum = 0.0;
        for (sample, (own, reference)) in samples.iter().zip(under_policy.iter().zip(&under_reference)) {
            sum += sample.scored().map(|at| f64::from(own[at]) - f64::from(reference[at])).sum::<f64>();
        }
        Ok(Some(sum / samples.len() as f64))
    }
}

/// What is made of rows, and how answers become latent, if they do.
fn making<'a>(recipe: &Recipe, learner: &'a Learner, latent: Option<(&'a Curriculum, usize)>) -> Making<'a> {
    let context = learner.context_tokens_max();
    Making {
        chat: learner.chat(),
        learned: match recipe.train.method {
            Method::Reward => Learned::Rewards,
            Method::Preference => Learned::Preferences,
            Method::Grpo | Method::Sft | Method::None => Learned::Answers,
        },
        masks: Masks::of(recipe, learner),
        latent,
        length_max: recipe.data.max_length.map_or(context, |length| length.min(context)),
        too_long: recipe.data.overlong,
    }
}

impl Sequences {
    fn new(terms: &Terms<'_>, corpus: Corpus, is_packed: bool) -> Result<Self, RunError> {
        let Terms { recipe, objective, making } = terms;
        let (mut places, mut left_out) = (Vec::new(), 0);
        let mut lengths = Vec::new();
        for row in 0..corpus.len() {
            if making.learned != Learned::Answers {
                check_pair(recipe, *objective, &corpus, row)?;
            }
            let mut samples = making.samples(&corpus, row)?;
            if let Some((curriculum, _)) = making.latent {
                // One that is too long in the first stage is left out too.
                let first = Making { latent: Some((curriculum, curriculum.first())), ..*making };
                for (sample, first) in samples.iter_mut().zip(first.samples(&corpus, row)?) {
                    *sample = sample.take().filter(|_| first.is_some());
                }
            }
            left_out += samples.iter().filter(|sample| sample.is_none()).count();
            let kept = samples.iter().enumerate().filter_map(|(at, sample)| Some((at, sample.as_ref()?)));
            let own = kept.map(|(sample, made)| (Place { row, sample }, made.ids.len()));
            if making.learned != Learned::Answers {
                let pair: Vec<Place> = own.map(|(place, _)| place).collect();
                places.extend((!pair.is_empty()).then_some(pair));
            } else {
                for (place, length) in own {
                    places.push(vec![place]);
                    lengths.push(length);
                }
            }
        }
        if places.is_empty() {
            let advice = match making.too_long {
                TooLong::Truncate => {
                    "nothing that is learned is left of them when they are cut; raise `data.max_length`"
                }
                _ => "raise `data.max_length`, or set `data.overlong = \"truncate\"`",
            };
            return Err(RunError::Refused(format!(
                "nothing can be learned: all {left_out} samples are longer than {} tokens; {advice}",
                making.length_max
            )));
        }
        if is_packed {
            let packed = packing::packed(&lengths, making.length_max).into_iter();
            places = packed.map(|items| items.into_iter().map(|at| places[at][0]).collect()).collect();
        }
        Ok(Sequences { corpus, sequences: places, left_out })
    }

    fn places(&self) -> usize {
        self.sequences.iter().map(Vec::len).sum()
    }
}

/// Refuses a row with a label where the objective compares two answers.
fn check_pair(
    recipe: &Recipe,
    objective: &dyn Objective,
    corpus: &Corpus,
    row: usize,
) -> Result<(), RunError> {
    if objective.needs().groups && corpus.row(row)?.chosen.is_none() {
        let problem = format!(
            "has a label instead of `chosen` and `rejected`, and `{}` learns from pairs; take \
             `loss.objective = \"{}\"`",
            recipe.loss.objective,
            if recipe.train.method == Method::Reward { "outcome" } else { "kto" }
        );
        return Err(corpus.error(row, problem));
    }
    Ok(())
}
