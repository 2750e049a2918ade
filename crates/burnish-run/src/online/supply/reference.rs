//! Log-probs of the samples under the policy before training.

use burnish_rl::fact::Need;
use burnish_train::Sample;

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::reference::Reference;
use burnish_recipe::supply::OF_REFERENCE;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_REFERENCE, make };

fn make(making: &Making<'_>) -> Result<Made, RunError> {
    let made = Reference::new(making.recipe, making.learner.chat())?;
    Ok(made.map(|reference| Box::new(reference) as Box<dyn Provider>))
}

impl Provider for Reference {
    fn supply(&mut self, _: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let samples: Vec<&Sample> = groups.bare_samples();
        let logprobs = self.logprobs(step.learner, &samples, step.recipe.train.micro_batch_tokens)?;
        for (own, logprobs) in groups.samples_mut().zip(logprobs) {
            own.sample.reference = Some(logprobs);
        }
        Ok(Values::new())
    }
}
