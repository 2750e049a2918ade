//! A strategy on the held-out tasks of a recipe, task by task.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use burnish_core::Policy;
use burnish_env::rollout::Playing;
use burnish_recipe::StrategySection;

use super::arms::{Arms, Field};
use super::comparison::Comparison;
use super::records::{StrategyRecord, success_rate};
use crate::RunError;
use crate::asked::Asked;
use crate::evaluate::{bootstrap_seed, play_by};
use crate::inspect::{Player, Target};
use crate::items::{BATCHES, settings};
use crate::records::{Finished, Records};
use crate::seeds::Draws;
use crate::tasks::Tasks;
use crate::watch::{Event, Stop, Watch};

/// How a comparison ended.
pub type Compared = Finished<Comparison>;

impl Target {
    /// Sets a strategy beside the plain policy and beside majority, on the held-out tasks of the main evaluation or of the
    /// one in `[[eval.extra]]` called `name`. With `out`, a record of every task is stored there, and what an earlier process
    /// stored is not played again.
    ///
    /// # Errors
    /// If the strategy makes no sense with the recipe, the policy or the tasks can't be used, no evaluation has this name,
    /// or `out` holds something else.
    pub fn compare(
        &self,
        strategy: &StrategySection,
        name: Option<&str>,
        out: Option<&Path>,
        watch: &mut dyn Watch,
        stop: &Stop,
    ) -> Result<Compared, RunError> {
        let recipe = self.recipe();
        self.refuse_nothing_held_out()?;
        let beside = [("eval.draft", recipe.eval.draft), ("eval.cycle", recipe.eval.cycle)];
        if let Some((key, _)) = beside.into_iter().find(|(_, is_set)| *is_set) {
            return Err(RunError::Refused(format!(
                "{key}: is no plain way to answer, beside which --strategy could stand; set {key}=false"
            )));
        }
        watch.event(Event::Doing("making tasks"));
        let tasks = Tasks::make(recipe, false)?;
        let mut arms = Arms::new(strategy, &tasks.evaluation(name)?.sampling)?;
        let tasks = tasks.with_others(recipe)?;
        tasks.check_ready()?;
        let set = tasks.evaluation(name)?;
        let size = (BATCHES * recipe.rollout.batch_max / set.rollouts).max(1);
        let ids: Vec<&str> = set.tasks.iter().map(|task| task.id.0.as_str()).collect();
        let chunks: Vec<Range<usize>> =
            (0..ids.len()).step_by(size).map(|from| from..ids.len().min(from + size)).collect();
        let ends: Vec<usize> = chunks.iter().map(|chunk| chunk.end).collect();
        let Asked { mut policy, chat } = self.opened(&tasks, set, watch)?;
        arms.own().remember(&set.others)?;
        arms.own().check(&mut *policy, &set.sampling)?;
        arms.own().load(strategy, &recipe.device, chat.as_deref().map(|chat| &*chat.tokenizer))?;
        let settings = || settings(self, set, size, Some(arms.named().clone()));
        let (mut file, mut kept) = Records::open::<StrategyRecord, _>(out, settings, &ids, &ends)?;
        let begin = kept.len();
        if begin > 0 {
            watch.event(Event::Note(format!("{begin} of {} tasks are there already", ids.len())));
        }
        let weights = &recipe.reward.weights;
        let has_tokens = matches!(self.player(), Player::Model { .. });
        let (start, mut sampled) = (Instant::now(), 0);
        for chunk in chunks.into_iter().filter(|chunk| chunk.end > begin) {
            if stop.is_asked() {
                return Ok(Compared::Interrupted { done: chunk.start, items: ids.len() });
            }
            let (from, end) = (chunk.start as u64, chunk.end);
            let seeds = Draws::Evaluation.place(recipe.eval.seed, set.place(), from);
            let field = Field {
                generator: &*set.generator,
                tasks: &set.tasks[chunk.clone()],
                place: &|task: usize| seeds.address(task),
                weights,
                has_tokens,
            };
            let mut playing = |policy: &mut dyn Policy, program: Playing<'_>| {
                play_by(recipe, policy, set, chunk.clone(), Some(program))
            };
            let records = arms.records(&mut *policy, &mut playing, &field)?;
            sampled += records.iter().map(StrategyRecord::generated).sum::<usize>();
            if let Some(file) = &mut file {
                file.append(&records)?;
            }
            kept.extend(records);
            watch.event(Event::Items {
                done: end,
                items: ids.len(),
                success: success_rate(&kept),
                tokens_per_second: sampled as f64 / start.elapsed().as_secs_f64().max(1e-9),
            });
        }
        let seed = bootstrap_seed(recipe);
        let comparison = Comparison::of(strategy, &set.tasks, &kept, weights, seed);
        if let Some(file) = &file {
            file.finish(&comparison)?;
        }
        Ok(Compared::Done(Box::new(comparison)))
    }
}
