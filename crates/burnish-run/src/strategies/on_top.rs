//! A strategy with everybody whom it asks, ready to be put on top of a policy.

use std::path::Path;
use std::sync::Arc;

use burnish_core::{Memory, Policy, Sampling};
use burnish_env::rollout::Partners;
use burnish_model::Tokenizer;
use burnish_reason::{DELIBERATOR, JUDGE, Player, REWARD_MODEL, SettingError, Strategist, Strategy};
use burnish_recipe::StrategySection;
use burnish_tensor::Device;

use crate::RunError;
use crate::asked::Asked;
use crate::others::Others;
use crate::reward_model::RewardReader;

/// A strategy, and who is asked besides the policy.
pub struct OnTop {
    strategy: Arc<dyn Strategy>,
    others: Vec<(&'static str, Box<dyn Policy>)>,
    memory: Option<Arc<dyn Memory>>,
}

impl OnTop {
    /// A strategy for turns that are sampled as `sampling` says. Nothing is loaded.
    ///
    /// # Errors
    /// If the strategy makes no sense with such turns.
    pub fn new(section: &StrategySection, sampling: &Sampling) -> Result<Self, RunError> {
        let strategy = section.build().map_err(|(key, problem)| refused(&key, &problem))?;
        strategy.check_sampling(sampling).map_err(of_setting)?;
        Ok(OnTop { strategy, others: Vec::new(), memory: None })
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
        for (name, who) in [(DELIBERATOR, &section.deliberator), (JUDGE, &section.judge)] {
            let asked = Asked::in_place(who.as_ref(), &device)?;
            self.others.extend(asked.map(|asked| (name, asked.policy)));
        }
        let model = RewardReader::of_strategy(&*self.strategy, "--strategy: ", policy, &device)?;
        self.others.extend(model.map(|model| (REWARD_MODEL, Box::new(model) as Box<dyn Policy>)));
        Ok(())
    }

    /// Gives it the notes that it reads.
    pub(super) fn remember(&mut self, others: &Others) -> Result<(), RunError> {
        self.memory = others.memory_for(&*self.strategy)?;
        Ok(())
    }

    /// The reward model that the strategy asks, if it asks one.
    pub(super) fn reward_model(&self) -> Option<&Path> {
        self.strategy.reward_model()
    }

    /// The strategy on top of `policy`.
    pub fn over<'a>(&'a mut self, policy: &'a mut dyn Policy) -> Strategist<'a> {
        let mut strategist = Strategist::new(policy, Arc::clone(&self.strategy));
        for (name, other) in &mut self.others {
            strategist = strategist.with(name, &mut **other);
        }
        strategist
    }

    /// The strategy as a program, and those who are asked besides the policy.
    pub(super) fn program(&mut self) -> (Player, Partners) {
        let names = self.others.iter().map(|(name, _)| *name).collect();
        let others = std::mem::take(&mut self.others).into_iter();
        // A strategy says how each of its questions is answered.
        let unused = Sampling::greedy(1);
        let others =
            others.fold(Partners::default(), |others, (name, who)| others.with(name, who, unused.clone()));
        (Player::new(Arc::clone(&self.strategy), names).with_memory(self.memory.clone()), others)
    }

    /// Checks that the strategy can work with a policy.
    ///
    /// # Errors
    /// Names what the policy can't do.
    pub fn check(&mut self, policy: &mut dyn Policy, sampling: &Sampling) -> Result<(), RunError> {
        if self.strategy.recalls() && self.memory.is_none() {
            return Err(refused(
                "strategy",
                "reads notes, which only an evaluation with a recipe has (`memory.path`)",
            ));
        }
        self.over(policy).check(sampling).map_err(of_setting)
    }
}

pub(super) fn refused(key: &str, problem: &str) -> RunError {
    RunError::Refused(format!("--strategy: {key}: {problem}"))
}

pub(super) fn of_setting(SettingError { key, problem }: SettingError) -> RunError {
    refused(&key, &problem)
}
