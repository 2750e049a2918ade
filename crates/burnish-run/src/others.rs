//! The models of a recipe that have to do with episodes besides the trained one: the simulated user, who takes part, and
//! the reward model, which judges.

use std::path::Path;

use burnish_core::{Episode, Policy};
use burnish_engine::Limits;
use burnish_env::rollout::{self, Partners, RolloutSpec};
use burnish_model::{Loading, Tokenizer, Trains};
use burnish_reason::Strategist;
use burnish_remote::endpoint::{EndpointConfig, EndpointPolicy};
use burnish_tensor::{Device, Precision};

use crate::RunError;
use crate::policy::LoadedPolicy;
use crate::reward_model::RewardModel;
use burnish_recipe::Recipe;

const LOADING: Loading = Loading { precision: Precision::F32, trains: Trains::Nothing };

/// The name under which environments ask for it.
const USER: &str = "user";

/// Who has to do with episodes besides the trained policy.
#[derive(Default)]
pub(crate) struct Others {
    partners: Option<Partners>,
    reward_model: Option<RewardModel>,
}

impl Others {
    /// Those that a recipe names.
    ///
    /// # Errors
    /// If a model can't be loaded, or a server's key is missing.
    pub(crate) fn of_recipe(recipe: &Recipe) -> Result<Self, RunError> {
        Ok(Others { partners: partners(recipe)?, reward_model: RewardModel::of_recipe(recipe)? })
    }

    /// Checks that they can read the tokens of a policy with this tokenizer.
    ///
    /// # Errors
    /// If one can't.
    pub(crate) fn check(&self, policy: &Tokenizer) -> Result<(), RunError> {
        self.reward_model.as_ref().map_or(Ok(()), |model| model.check(policy))
    }

    /// Plays `spec` with the partners, and has the reward model judge its episodes. Everything that a run plays is
    /// played here.
    ///
    /// # Errors
    /// If a policy fails, a prompt does not fit, or two judges give the same reward.
    pub(crate) fn play(
        &self,
        policy: &mut dyn Policy,
        spec: &RolloutSpec<'_>,
    ) -> Result<Vec<Episode>, RunError> {
        let mut episodes = rollout::play(policy, &RolloutSpec { partners: self.partners.as_ref(), ..*spec })?;
        if let Some(model) = &self.reward_model {
            model.judge(&mut episodes)?;
        }
        Ok(episodes)
    }
}

fn partners(recipe: &Recipe) -> Result<Option<Partners>, RunError> {
    let Some(user) = &recipe.user else { return Ok(None) };
    let device = Device::open(&recipe.device)?;
    let policy = asked_only(user.path.as_deref(), user.endpoint.as_ref(), &device)?;
    let policy = policy.ok_or_else(|| RunError::Refused("user: needs `path` or `endpoint`".into()))?;
    let policy: Box<dyn Policy> = match &user.strategy {
        Some(strategy) => {
            let built =
                strategy.build().map_err(|error| RunError::Refused(format!("user.strategy.{error}")))?;
            Box::new(Strategist::over(policy, built))
        }
        None => policy,
    };
    Ok(Some(Partners::default().with(USER, policy, user.sampling())))
}

/// A policy that is only asked, from `path` or `endpoint`, whichever is given; a model runs on `device`.
///
/// # Errors
/// If the model can't be loaded, or the server's key is missing.
pub(crate) fn asked_only(
    path: Option<&Path>,
    endpoint: Option<&EndpointConfig>,
    device: &Device,
) -> Result<Option<Box<dyn Policy>>, RunError> {
    Ok(match (path, endpoint) {
        (Some(path), _) => {
            Some(Box::new(LoadedPolicy::load(path, &LOADING)?.on(device).sampler(0, Limits::default())))
        }
        (None, Some(endpoint)) => Some(Box::new(EndpointPolicy::new(endpoint.clone())?)),
        (None, None) => None,
    })
}
