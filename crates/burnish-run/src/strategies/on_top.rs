//! A strategy with everybody whom it asks, ready to be put on top of a policy.

use std::path::Path;
use std::sync::Arc;

use burnish_core::{Policy, Sampling};
use burnish_model::Tokenizer;
use burnish_reason::{DELIBERATOR, JUDGE, REWARD_MODEL, SettingError, Strategist, Strategy};
use burnish_recipe::{InPlace, StrategySection};
use burnish_tensor::Device;

use crate::RunError;
use crate::others::asked_only;
use crate::reward_model::RewardReader;

/// A strategy, and who is asked besides the policy.
pub struct OnTop {
    strategy: Arc<dyn Strategy>,
    deliberator: Option<Box<dyn Policy>>,
    judge: Option<Box<dyn Policy>>,
    reward_model: Option<RewardReader>,
}

impl OnTop {
    /// A strategy for turns that are sampled as `sampling` says. Nothing is loaded.
    ///
    /// # Errors
    /// If the strategy makes no sense with such turns.
    pub fn new(section: &StrategySection, sampling: &Sampling) -> Result<Self, RunError> {
        let strategy = section.build().map_err(|(key, problem)| refused(&key, &problem))?;
        strategy.check_sampling(sampling).map_err(of_setting)?;
        Ok(OnTop { strategy, deliberator: None, judge: None, reward_model: None })
    }

    /// Loads those who are asked besides the policy; models run on `device`. `policy` is the policy's tokenizer, if that is
    /// known here.
    ///
    /// # Errors
    /// If a model can't be loaded or can't read the policy's tokens, or a server's key is missing.
    pub fn load(
        &mut self,
        section: &StrategySection,
        device: &str,
        policy: Option<&Tokenizer>,
    ) -> Result<(), RunError> {
        let device = Device::open(device)?;
        let open = |who: &Option<InPlace>| -> Result<Option<Box<dyn Policy>>, RunError> {
            let asked = match who {
                Some(InPlace::Model(path)) => asked_only(Some(path), None, &device),
                Some(InPlace::Endpoint(endpoint)) => asked_only(None, Some(endpoint), &device),
                None => Ok(None),
            };
            Ok(asked?.map(|(policy, _)| policy))
        };
        (self.deliberator, self.judge) = (open(&section.deliberator)?, open(&section.judge)?);
        self.reward_model = RewardReader::of_strategy(&*self.strategy, "--strategy: ", policy, &device)?;
        Ok(())
    }

    /// The reward model that the strategy asks, if it asks one.
    pub(super) fn reward_model(&self) -> Option<&Path> {
        self.strategy.reward_model()
    }

    /// The strategy on top of `policy`.
    pub fn over<'a>(&'a mut self, policy: &'a mut dyn Policy) -> Strategist<'a> {
        let mut strategist = Strategist::new(policy, Arc::clone(&self.strategy));
        if let Some(deliberator) = &mut self.deliberator {
            strategist = strategist.with(DELIBERATOR, &mut **deliberator);
        }
        if let Some(judge) = &mut self.judge {
            strategist = strategist.with(JUDGE, &mut **judge);
        }
        if let Some(model) = &mut self.reward_model {
            strategist = strategist.with(REWARD_MODEL, model);
        }
        strategist
    }

    /// Checks that the strategy can work with a policy.
    ///
    /// # Errors
    /// Names what the policy can't do.
    pub fn check(&mut self, policy: &mut dyn Policy, sampling: &Sampling) -> Result<(), RunError> {
        self.over(policy).check(sampling).map_err(of_setting)
    }
}

pub(super) fn refused(key: &str, problem: &str) -> RunError {
    RunError::Refused(format!("--strategy: {key}: {problem}"))
}

pub(super) fn of_setting(SettingError { key, problem }: SettingError) -> RunError {
    refused(&key, &problem)
}
