//! Statistics of the sampled tokens: their log-probs at the start of the update, and how concentrated their
//! distributions were.

use burnish_rl::correction::ProximalSource;
use burnish_rl::fact::{LOGPROBS, Need, SQUARES};
use burnish_train::score_squares;

use super::{Groups, Kind, Provider, Step};
use crate::RunError;
use crate::online::credit::refuse_branches;
use burnish_recipe::supply::OF_TOKENS;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_TOKENS, make: |_| Ok(Some(Box::new(Tokens))) };

struct Tokens;

impl Provider for Tokens {
    /// Under the model that the log-probs at the start of the update are of.
    fn supply(&mut self, _: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let is_of_update = step.recipe.loss.correction.proximal == ProximalSource::Recompute;
        let model =
            if is_of_update { &step.learner.here()?.policy.model } else { step.behavior.weights.model()? };
        let tokens_max = step.recipe.train.micro_batch_tokens;
        let mut squares = score_squares(model, &groups.bare_samples(), tokens_max)?.into_iter();
        for member in groups.kept_mut().flat_map(|group| &mut group.members) {
            for (own, squares) in member.samples.iter().zip(squares.by_ref()) {
                refuse_branches(step.recipe, &member.episode)?;
                let logprobs: Vec<f64> =
                    own.sample.scored().map(|at| f64::from(own.sample.old(at))).collect();
                member.facts.set(&LOGPROBS, logprobs);
                member.facts.set(&SQUARES, squares.into_iter().map(f64::from).collect::<Vec<f64>>());
            }
        }
        Ok(Values::new())
    }
}
