//! The optimiser updates of a step.

use burnish_core::rng::{Address, Purpose};
use burnish_rl::Objective;
use burnish_rl::gate::{Gate, Proposal, Ruling};
use burnish_train::{Sample, Trainer, minibatches, minibatches_of_groups, totals};

use super::samples::Batch;
use crate::RunError;
use crate::policy::LoadedPolicy;
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
    policy: &mut LoadedPolicy,
    trainer: &mut Trainer,
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
            let chance = seed(Purpose::Objective, trainer.updates());
            let totals = totals(&minibatch, samples, parts.len(), recipe.rollout.tokens_max, chance);
            let lr = lr(trainer.updates());
            let Some(gate) = gate.as_deref_mut() else {
                let update = trainer.update(policy.model_mut(), &minibatch, objective, &totals, lr)?;
                updates.add(&update, lr, None);
                continue;
            };
            let mut ruling = Ruling::default();
            let mut rule = |proposal: &Proposal| {
                ruling = gate.rule(epoch as usize + 1, proposal);
                ruling.is_open
            };
            let update =
                trainer.update_gated(policy.model_mut(), &minibatch, objective, &totals, lr, &mut rule)?;
            updates.add(&update, lr, Some(&ruling));
            if !update.is_made {
                return Ok(());
            }
        }
    }
    Ok(())
}
