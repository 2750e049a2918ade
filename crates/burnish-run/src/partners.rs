//! The policies that take part in episodes besides the trained one: the simulated user.

use std::rc::Rc;

use burnish_core::Policy;
use burnish_engine::Limits;
use burnish_engine::endpoint::EndpointPolicy;
use burnish_env::rollout::Partners;
use burnish_model::{Loading, Trains};
use burnish_tensor::{Device, Precision};

use crate::RunError;
use crate::policy::LoadedPolicy;
use burnish_recipe::Recipe;

const LOADING: Loading = Loading { precision: Precision::F32, trains: Trains::Nothing };

/// The name under which environments ask for it.
const USER: &str = "user";

/// The partners of a recipe; `None` if it names none.
///
/// # Errors
/// If a model can't be loaded, or a server's key is missing.
pub(crate) fn of_recipe(recipe: &Recipe) -> Result<Option<Rc<Partners>>, RunError> {
    let Some(user) = &recipe.user else { return Ok(None) };
    let policy: Box<dyn Policy> = match (&user.path, &user.endpoint) {
        (Some(path), _) => {
            let device = Device::open(&recipe.device)?;
            Box::new(LoadedPolicy::load(path, &LOADING)?.on(&device).sampler(0, Limits::default()))
        }
        (None, Some(endpoint)) => Box::new(EndpointPolicy::new(endpoint.clone())?),
        (None, None) => return Err(RunError::Refused("user: needs `path` or `endpoint`".into())),
    };
    Ok(Some(Rc::new(Partners::default().with(USER, policy, user.sampling()))))
}
