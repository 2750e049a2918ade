//! The models of a recipe that have to do with episodes besides the trained one: the simulated user, who takes part, and
//! those that help to judge: the extractor of answers, the reward model and the model of goals; and the notes that programs read.

use std::cell::OnceCell;
use std::sync::Arc;

use burnish_core::{Episode, Memory, Policy, Task};
use burnish_env::Generator;
use burnish_env::rollout::{self, Partners, RolloutSpec};
use burnish_model::Tokenizer;
use burnish_reason::Strategy;
use burnish_tensor::Device;

use crate::RunError;
use crate::asked::Asked;
use crate::extractor::Remembering;
use crate::goal::GoalReader;
use crate::notes;
use crate::reward_model::RewardModel;
use burnish_recipe::Recipe;

/// The name under which environments ask for it.
const USER: &str = "user";
/// The name under which environments ask for who copies final answers.
const EXTRACTOR: &str = "extractor";

/// Who has to do with episodes besides the trained policy.
#[derive(Default)]
pub(crate) struct Others {
    partners: Option<Partners>,
    reward_model: Option<RewardModel>,
    goal: Option<GoalReader>,
    /// The recipe, if it has notes, which are read when somebody asks for them.
    remembers: Option<Recipe>,
    memory: OnceCell<Arc<dyn Memory>>,
}

impl Others {
    /// Those that a recipe names.
    ///
    /// # Errors
    /// If a model can't be loaded, or a server's key is missing.
    pub(crate) fn of_recipe(recipe: &Recipe) -> Result<Self, RunError> {
        Ok(Others {
            partners: partners(recipe)?,
            reward_model: RewardModel::of_recipe(recipe)?,
            goal: GoalReader::of_recipe(recipe)?,
            remembers: recipe.memory.is_some().then(|| recipe.clone()),
            memory: OnceCell::new(),
        })
    }

    /// Only notes.
    #[cfg(test)]
    pub(crate) fn remembering(memory: Arc<dyn Memory>) -> Self {
        Others { memory: OnceCell::from(memory), ..Others::default() }
    }

    /// Checks that they can read the tokens of a policy with this tokenizer.
    ///
    /// # Errors
    /// If one can't.
    pub(crate) fn check(&self, policy: &Tokenizer) -> Result<(), RunError> {
        self.reward_model.as_ref().map_or(Ok(()), |model| model.check(policy))
    }

    /// Those who take part in episodes.
    pub(crate) fn partners(&self) -> Option<&Partners> {
        self.partners.as_ref()
    }

    /// The notes that programs read, if there are any.
    ///
    /// # Errors
    /// If they can't be read, or are not made yet.
    pub(crate) fn memory(&self) -> Result<Option<Arc<dyn Memory>>, RunError> {
        if let (Some(recipe), None) = (&self.remembers, self.memory.get()) {
            let notes = notes::of_recipe(recipe)?;
            return Ok(notes.map(|notes| Arc::clone(self.memory.get_or_init(|| notes))));
        }
        Ok(self.memory.get().cloned())
    }

    /// The notes that a strategy reads; none if it reads none.
    ///
    /// # Errors
    /// If it reads notes, and there are none.
    pub(crate) fn memory_for(&self, strategy: &dyn Strategy) -> Result<Option<Arc<dyn Memory>>, RunError> {
        if !strategy.recalls() {
            return Ok(None);
        }
        let missing = || {
            let rule = "reads notes: say where they are, `memory = { path = \"notes.jsonl\" }`";
            RunError::Refused(format!("strategy: {rule}"))
        };
        self.memory()?.ok_or_else(missing).map(Some)
    }

    /// A digest of the file of notes. Where it can't be read, whoever reads notes says why.
    pub(crate) fn notes_digest(&self) -> Option<String> {
        notes::digest_of(self.remembers.as_ref()?).ok()
    }

    /// Does somebody judge episodes when they are over, besides their environment?
    pub(crate) fn judge_afterwards(&self) -> bool {
        self.reward_model.is_some() || self.goal.is_some()
    }

    /// Plays `spec` with the partners, and has its episodes judged ([`Others::judge`]).
    ///
    /// # Errors
    /// If a policy fails, a prompt does not fit, a server does not answer, or two judges give the same reward.
    pub(crate) fn play(
        &self,
        policy: &mut dyn Policy,
        spec: &RolloutSpec<'_>,
    ) -> Result<Vec<Episode>, RunError> {
        let mut episodes = rollout::play(policy, &RolloutSpec { partners: self.partners.as_ref(), ..*spec })?;
        let tasks: Vec<&Task> = spec.spawns.iter().map(|spawn| spawn.task).collect();
        self.judge(spec.generator, &tasks, &mut episodes)?;
        Ok(episodes)
    }

    /// Has the reward model, and the model of goals, judge episodes of these tasks.
    ///
    /// # Errors
    /// If a server does not answer, or two judges give the same reward.
    pub(crate) fn judge(
        &self,
        generator: &dyn Generator,
        tasks: &[&Task],
        episodes: &mut [Episode],
    ) -> Result<(), RunError> {
        if let Some(model) = &self.reward_model {
            model.judge(episodes)?;
        }
        if let Some(reader) = &self.goal {
            reader.judge(generator, tasks, episodes)?;
        }
        Ok(())
    }
}

/// The partners of a recipe's episodes, for replays: nothing is loaded.
pub(crate) fn recorded(recipe: &Recipe) -> Partners {
    let user = recipe.user.as_ref().map(|user| (USER, user.sampling()));
    let extractor = recipe.extractor.as_ref().map(|extractor| (EXTRACTOR, extractor.sampling()));
    let all = user.into_iter().chain(extractor);
    all.fold(Partners::default(), |partners, (name, sampling)| partners.with_recorded(name, sampling))
}

fn partners(recipe: &Recipe) -> Result<Option<Partners>, RunError> {
    let device = Device::open(&recipe.device)?;
    let extractor = recipe.extractor.as_ref().map(|extractor| -> Result<_, RunError> {
        let (path, endpoint) = (extractor.path.as_deref(), extractor.endpoint.as_ref());
        let Asked { policy, .. } = Asked::named("extractor", path, endpoint, &device)?;
        let policy = Box::new(Remembering::new(policy));
        Ok(Partners::default().with(EXTRACTOR, policy, extractor.sampling()))
    });
    let extractor = extractor.transpose()?;
    let Some(user) = &recipe.user else { return Ok(extractor) };
    let asked = Asked::named("user", user.path.as_deref(), user.endpoint.as_ref(), &device)?;
    let Asked { policy, .. } = asked.by(user.strategy.as_ref(), "user", &device)?;
    Ok(Some(extractor.unwrap_or_default().with(USER, policy, user.sampling())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use burnish_core::{Sampling, Script, StopReason, Told};
    use burnish_env::rollout::{Overlong, SeedPlace, Spawn};
    use burnish_recipe::Source;
    use serde_json::json;

    use super::*;
    use crate::test_server::{said, serve};

    #[test]
    fn a_user_plays_by_a_strategy() {
        // Of three answers to a turn, one differs.
        let (url, sent) = serve(|at, _| said(if at % 3 == 0 { "no" } else { "yes" }));
        let text = format!(
            "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[env]\nid = \"orders\"\n\
             [user]\nendpoint = {{ url = \"{url}\", model = \"m\", retries = 0 }}\n\
             strategy = {{ strategy = \"majority\", config = {{ samples = 3, equality = \"exact\" }} }}\n"
        );
        let recipe = Recipe::resolve(&Source::parse("r.toml", &text, &[]).unwrap()).unwrap();
        let others = Others::of_recipe(&recipe).unwrap();
        let generator = burnish_env::build("orders", &json!({})).unwrap();
        let tasks = generator.tasks(1, 1).unwrap().tasks;
        let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
        let spawns = Spawn::of_tasks(&tasks, 1, &Sampling::at(1.0, 8), seeds);
        let (turns_max, overlong) = (2, Overlong::Drop);
        let spec = RolloutSpec::new(&*generator, &spawns, turns_max, overlong);
        let mut policy = Script::new(|_| Ok(("Which one?".to_owned(), StopReason::EndToken)));
        let episode = others.play(&mut policy, &spec).unwrap().remove(0);
        let user: Vec<&str> = episode
            .record
            .contacts
            .iter()
            .filter_map(|contact| match &contact.answer {
                Some(Told::Turn(turn)) => Some(turn.message.content.as_str()),
                _ => None,
            })
            .filter(|content| *content != "Which one?")
            .collect();
        assert!(!user.is_empty() && user.iter().all(|said| *said == "yes"), "{user:?}");
        assert_eq!(sent.lock().unwrap().len(), 3 * user.len());
    }
}
