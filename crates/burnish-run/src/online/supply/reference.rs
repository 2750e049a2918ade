//! Log-probs of what was sampled under the policy before training.

use burnish_rl::fact::{Fact, Need, REFERENCE};
use burnish_train::Sample;

use super::{Groups, Kind, Made, Making, Provider, Step, with_all};
use crate::RunError;
use burnish_rundir::metrics::Values;
use crate::reference::Reference;

pub(super) const KIND: Kind = Kind { facts: FACTS, table: None, clash: with_all, make };

const FACTS: &[&Fact] = &[&REFERENCE];

fn make(making: &Making<'_>) -> Result<Made, RunError> {
    let made = Reference::new(making.recipe, &making.policy.chat)?;
    Ok(made.map(|reference| Box::new(reference) as Box<dyn Provider>))
}

impl Provider for Reference {
    fn facts(&self) -> &'static [&'static Fact] {
        FACTS
    }

    fn supply(&mut self, _: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let samples: Vec<&Sample> = groups.bare_samples();
        let logprobs = self.logprobs(&step.policy.model, &samples, step.recipe.train.micro_batch_tokens)?;
        for (own, logprobs) in groups.samples_mut().zip(logprobs) {
            own.sample.reference = Some(logprobs);
        }
        Ok(Values::new())
    }
}
