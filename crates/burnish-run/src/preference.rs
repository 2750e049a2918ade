//! Learning from given preferences: pairs of a better and a worse answer, or answers with a label.

use burnish_core::{Message, Trace};
use burnish_data::Row;
use burnish_model::Chat;
use burnish_rl::Objective;
use burnish_train::{Sample, Trainer, totals};

use crate::RunError;
use crate::corpus::Corpus;
use crate::policy::LoadedPolicy;
use crate::reference::Reference;
use crate::summary::{Metrics, Updates};
use crate::tasks::of_step;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;

/// Learns from given preferences. Samples are created when their step comes; only the list of rows is held in memory.
pub(crate) struct PreferenceLoop {
    corpus: Corpus,
    /// Indices into the corpus.
    rows: Vec<usize>,
    objective: Box<dyn Objective>,
    reference: Option<Reference>,
}

impl PreferenceLoop {
    /// Tokenises the rows once, to see which fit. Leaves out rows with an answer that does not fit the context
    /// window, and returns their number.
    ///
    /// # Errors
    /// If a row can't be read or rendered, lacks what the objective learns from, or none fits.
    pub(crate) fn new(
        recipe: &Recipe,
        corpus: Corpus,
        chat: &Chat,
        context_tokens_max: usize,
    ) -> Result<(Self, usize), RunError> {
        let objective = recipe.loss.build()?;
        let mut rows = Vec::new();
        let mut overlong = 0;
        for index in 0..corpus.len() {
            let row = corpus.row(index)?;
            if objective.needs().groups && row.chosen.is_none() {
                let problem = format!(
                    "has a label instead of `chosen` and `rejected`, and `{}` learns from pairs; take \
                     `loss.objective = \"kto\"`",
                    recipe.loss.objective
                );
                return Err(corpus.error(index, problem));
            }
            let samples = samples_of(&corpus, chat, index)?;
            if samples.iter().any(|sample| sample.ids.len() > context_tokens_max) {
                overlong += 1;
            } else {
                rows.push(index);
            }
        }
        if rows.is_empty() {
            return Err(RunError::Refused(format!(
                "no preference can be learnt: {overlong} rows are longer than the context window of \
                 {context_tokens_max} tokens"
            )));
        }
        let reference = Reference::new(recipe, chat)?;
        Ok((PreferenceLoop { corpus, rows, objective, reference }, overlong))
    }

    /// Performs step number `step`, counted from 0.
    pub(crate) fn step(
        &self,
        recipe: &Recipe,
        policy: &mut LoadedPolicy,
        trainer: &mut Trainer,
        lr: &dyn Fn(u64) -> f64,
        step: u64,
    ) -> Result<Metrics, RunError> {
        let chosen = of_step(self.rows.len(), recipe.run.seed, step, recipe.train.sequences_per_step);
        let mut samples = Vec::new();
        for (group, at) in chosen.into_iter().enumerate() {
            let row = samples_of(&self.corpus, &policy.chat, self.rows[at])?;
            samples.extend(row.into_iter().map(|sample| Sample { group, ..sample }));
        }
        if let Some(reference) = &self.reference {
            let logprobs = reference.logprobs(&policy.model, &samples, recipe.train.micro_batch_tokens)?;
            for (sample, logprobs) in samples.iter_mut().zip(logprobs) {
                sample.reference = Some(logprobs);
            }
        }
        let batch: Vec<&Sample> = samples.iter().collect();
        let totals = totals(&batch, &batch, 1, policy.model.context_tokens_max(), 0);
        let lr = lr(trainer.updates());
        let update = trainer.update(policy.model_mut(), &batch, &*self.objective, &totals, lr)?;
        let mut updates = Updates::default();
        updates.add(&update, lr, None);
        let tokens: usize = batch.iter().map(|sample| sample.ids.len()).sum();
        Ok(updates.finish(Values::from([("tokens/total".into(), tokens as f64)])))
    }
}

/// The answers of a row, with an advantage of 1 for a good one and -1 for a bad one. For a pair, the better one comes
/// first.
///
/// # Errors
/// If the row has neither a pair nor a label.
fn answers(row: &Row) -> Result<Vec<(&[Message], f32)>, String> {
    match (&row.chosen, &row.rejected, &row.completion, row.label) {
        (Some(chosen), Some(rejected), ..) => Ok(vec![(chosen, 1.0), (rejected, -1.0)]),
        (_, _, Some(completion), Some(label)) => Ok(vec![(completion, if label { 1.0 } else { -1.0 })]),
        _ => Err("has no preference: it needs `chosen` with `rejected`, or `completion` with a `label` of true or false"
            .to_owned()),
    }
}

/// Checks that a preference can be learnt from a row.
///
/// # Errors
/// Says what is missing.
pub(crate) fn comparable(row: &Row) -> Result<(), String> {
    let answers = answers(row)?;
    if answers.iter().any(|(messages, _)| messages.is_empty()) {
        return Err("has an empty answer".to_owned());
    }
    Ok(())
}

/// One sample per answer of a row.
fn samples_of(corpus: &Corpus, chat: &Chat, index: usize) -> Result<Vec<Sample>, RunError> {
    let row = corpus.row(index)?;
    let answers = answers(&row).map_err(|problem| corpus.error(index, problem))?;
    let sample = |(answer, advantage): (&[Message], f32)| {
        let messages: Vec<Message> = row.prompt.iter().chain(answer).cloned().collect();
        let mut trace = Trace::new();
        chat.demonstrate_from(&mut trace, &messages, row.prompt.len(), &row.tools)?;
        let mut samples: Vec<Sample> = trace.branches().iter().map(Sample::from_demonstration).collect();
        match (samples.pop(), samples.is_empty()) {
            (Some(sample), true) if sample.scored_tokens() > 0 => {
                Ok(Sample { advantages: vec![advantage; sample.ids.len()], ..sample })
            }
            _ => Err(corpus.error(
                index,
                "is not one sequence of tokens with an answer in it: the chat template rewrites its history, so the answer \
                 has no single log-probability"
                    .to_owned(),
            )),
        }
    };
    answers.into_iter().map(sample).collect()
}
