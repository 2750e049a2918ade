//! The optimiser updates of a step.

use burnish_core::rng::{Address, Purpose};
use burnish_rl::Objective;
use burnish_rl::gate::{Gate, Proposal, Ruling};
use burnish_train::{Sample, minibatches, minibatches_of_groups, totals};

use super::samples::Batch;
use crate::RunError;
use crate::learner::Learner;
use crate::summary::Updates;
use burnish_recipe::Recipe;

/// Updates the policy on the samples of step number `step`: pass by pass, minibatch by minibatch, until a gate
/// closes.
///
/// # Errors
/// If a sample does not fit the model, or a number is not finite.
pub(super) fn update(
    recipe: &Recipe,
    step: u64,
    batch: &Batch,
    objective: &dyn Objective,
    learner: &mut Learner,
    lr: &dyn Fn(u64) -> f64,
    mut gate: Option<&mut (dyn Gate + 'static)>,
    updates: &mut Updates,
) -> Result<(), RunError> {
    let (train, samples) = (&recipe.train, &batch.samples);
    let split = if objective.needs().groups { minibatches_of_groups } else { minibatches };
    let seed = |purpose, at| Address { step: at, ..Address::new(recipe.run.seed, purpose) }.seed();
    let order = seed(Purpose::Shuffle, step);
    for epoch in 0..train.epochs as u64 {
        let parts = split(&batch.group_sizes, train.minibatches, order, epoch);
        for indices in &parts {
            let minibatch: Vec<&Sample> = indices.iter().map(|at| &samples[*at]).collect();
            let chance = seed(Purpose::Objective, learner.updates());
            let totals = totals(&minibatch, samples, parts.len(), recipe.rollout.tokens_max, chance);
            let lr = lr(learner.updates());
            let Some(gate) = gate.as_deref_mut() else {
                let update = learner.update(&minibatch, objective, &totals, lr, None)?;
                updates.add(&update, lr, None);
                continue;
            };
            let mut ruling = Ruling::default();
            let mut rule = |proposal: &Proposal| {
                ruling = gate.rule(epoch as usize + 1, proposal);
                ruling.is_open
            };
            let update = learner.update(&minibatch, objective, &totals, lr, Some(&mut rule))?;
            updates.add(&update, lr, Some(&ruling));
            if !update.is_made {
                return Ok(());
            }
        }
    }
    Ok(())
}
