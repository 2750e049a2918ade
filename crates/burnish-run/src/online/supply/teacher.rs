//! The teacher of a step: log-probs of the policy's samples under a model that may read more than the policy did.
//!
//! The teacher's prompt is built from the task here, and dropped here. Samples keep the ids that the policy read, so
//! nothing that only the teacher knows can reach a prompt or a loss.

use std::sync::Arc;

use burnish_core::{Message, Task, Trace};
use burnish_env::Generator;
use burnish_env::rollout::Opened;
use burnish_model::{Chat, Model};
use burnish_rl::distillation::HeadTarget;
use burnish_rl::fact::{Need, TEACHER};
use burnish_tensor::Device;
use burnish_train::{Sample, score, score_hidden, score_top};

use super::agreement::{self, agreement};
use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::policy::LoadedPolicy;
use burnish_recipe::TeacherContext;
use burnish_recipe::supply::OF_TEACHER;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_TEACHER, make: Teacher::make };

/// Who grades the tokens of the policy.
struct Teacher {
    /// `None`: the policy itself.
    model: Option<Arc<Model>>,
    context: TeacherContext,
}

impl Teacher {
    /// The teacher of a recipe that has one.
    ///
    /// # Errors
    /// If its model can't be loaded, or has another vocabulary than the policy.
    fn make(making: &Making<'_>) -> Result<Made, RunError> {
        let Making { recipe, learner, .. } = *making;
        let Some(section) = &recipe.teacher else { return Ok(None) };
        let model = match &section.path {
            None => None,
            Some(path) => {
                // It reads prompts written by the policy's template, so it needs no template of its own.
                let template = &learner.chat().template;
                let loaded = LoadedPolicy::load_with(path, template, &recipe.policy.sampling())?;
                let (own, theirs) = (&learner.chat().tokenizer, &loaded.chat.tokenizer);
                if !own.has_the_vocabulary_of(theirs) {
                    return Err(RunError::Refused(format!(
                        "teacher.path: {} has another tokenizer than the policy, and its log-probs would be of other \
                         tokens; train or take a teacher with the policy's tokenizer",
                        path.display()
                    )));
                }
                Some(loaded.on(&Device::open(&recipe.device)?).model)
            }
        };
        Ok(Some(Box::new(Teacher { model, context: section.context })))
    }

    /// Every sample in the form that the teacher reads.
    fn shown(&self, step: Step<'_>, groups: &Groups) -> Result<Vec<Shown>, RunError> {
        let Step { recipe, tasks, learner, .. } = step;
        let own = || learner.context_tokens_max();
        let tokens_max = self.model.as_ref().map_or_else(own, |model| model.context_tokens_max());
        let generator = tasks.generator()?;
        let mut shown = Vec::new();
        for (at, group) in groups.all.iter().enumerate().filter(|(_, group)| group.is_kept) {
            let samples = group.members.iter().flat_map(|member| &member.samples).map(|own| &own.sample);
            let mut opening: Option<(Vec<u32>, Vec<u32>)> = None;
            for sample in samples {
                if self.context == TeacherContext::None {
                    shown.push(Shown { sample: sample.clone(), own: 0, theirs: 0 });
                    continue;
                }
                let task = &group.task;
                let (own, theirs) = match &mut opening {
                    Some(known) => known,
                    none => {
                        let opened = groups.opened(recipe, generator, at, step.number)?;
                        none.insert(self.opening(generator, learner.chat(), opened, task)?)
                    }
                };
                let Some(rest) = sample.ids.strip_prefix(own.as_slice()) else {
                    return Err(RunError::Refused(format!(
                        "teacher.context: the prompt of task {} is not that of its environment (it was shortened, or a plan \
                         replaced it), so there is no place for what the teacher is told; set teacher.context = \"none\"",
                        task.id
                    )));
                };
                let tokens = theirs.len() + rest.len();
                if tokens > tokens_max {
                    return Err(RunError::Refused(format!(
                        "teacher.context: with what only the teacher reads, an episode of task {} has {tokens} tokens, and its \
                         model reads at most {tokens_max}; set rollout.turns_max or rollout.tokens_max lower, or take a model \
                         with a longer context",
                        task.id
                    )));
                }
                shown.push(Shown::of(sample, own.len(), theirs, rest));
            }
        }
        Ok(shown)
    }

    /// The prompt of a task as the policy reads it and as the teacher reads it.
    fn opening(
        &self,
        generator: &dyn Generator,
        chat: &Chat,
        opened: Opened,
        task: &Task,
    ) -> Result<(Vec<u32>, Vec<u32>), RunError> {
        let Opened { mut messages, tools } = opened;
        let render = |messages: &[Message]| -> Result<Vec<u32>, RunError> {
            let rendered = chat.extend(&mut Trace::new(), messages, &tools);
            rendered.map_err(|error| RunError::Refused(format!("teacher: task {}: {error}", task.id)))
        };
        let own = render(&messages)?;
        let told = self.told(generator, task).ok_or_else(|| {
            RunError::Refused(format!(
                "teacher.context: the environment {} has none for task {}; take another context",
                generator.id(),
                task.id
            ))
        })?;
        if let Some(last) = messages.last_mut() {
            last.content = format!("{}\n{told}", last.content);
        }
        Ok((own, render(&messages)?))
    }

    fn told(&self, generator: &dyn Generator, task: &Task) -> Option<String> {
        match self.context {
            TeacherContext::None => None,
            TeacherContext::Skill => generator.skills()?.skill(task),
            TeacherContext::Demonstration => Some(generator.demonstrations()?.demonstrate(task)?.content),
            TeacherContext::Reasoning => generator.hints()?.reasoning(task),
        }
    }
}

impl Provider for Teacher {
    /// Gives every sample the teacher's log-probs of its sampled tokens, or the teacher's distributions.
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let shown = self.shown(step, groups)?;
        let samples: Vec<&Sample> = shown.iter().map(|shown| &shown.sample).collect();
        let tokens_max = step.recipe.train.micro_batch_tokens;
        for need in needs {
            if *need.fact == TEACHER {
                let logprobs = match &self.model {
                    Some(model) => score(model, &samples, tokens_max)?,
                    None => step.learner.score(&samples, tokens_max)?,
                };
                for ((own, shown), logprobs) in groups.samples_mut().zip(&shown).zip(logprobs) {
                    own.sample.teacher = Some(shown.back(&logprobs, own.sample.ids.len()));
                }
                continue;
            }
            let model = match &self.model {
                Some(model) => model,
                None => &step.learner.here()?.policy.model,
            };
            // One row per scored token, in order; the prompt before them makes no difference.
            let targets = match HeadTarget::of(need) {
                HeadTarget::Top(top) => score_top(model, &samples, top, tokens_max)?,
                HeadTarget::Whole => score_hidden(model, &samples, tokens_max)?,
            };
            for (own, target) in groups.samples_mut().zip(targets) {
                own.sample.target = Some(target);
            }
        }
        if !step.recipe.metrics.teacher_agreement {
            return Ok(Values::new());
        }
        let policy = &step.learner.here()?.policy.model;
        let theirs = score_top(self.model.as_ref().unwrap_or(policy), &samples, 1, tokens_max)?;
        let own = groups.bare_samples();
        Ok(agreement(&theirs, &score_top(policy, &own, agreement::TOP, tokens_max)?))
    }
}

/// A sample in the form that the teacher reads.
struct Shown {
    sample: Sample,
    /// Number of tokens in the policy's prompt.
    own: usize,
    /// Number of tokens in the teacher's prompt, which replaces it.
    theirs: usize,
}

impl Shown {
    /// `sample` with the first `own` ids replaced by `theirs`; `rest` follows them.
    fn of(sample: &Sample, own: usize, theirs: &[u32], rest: &[u32]) -> Self {
        let moved = |stream: &[f32], filler: f32| {
            let mut moved = vec![filler; theirs.len()];
            moved.extend_from_slice(&stream[own..]);
            moved
        };
        let mut loss_mask = vec![false; theirs.len()];
        loss_mask.extend_from_slice(&sample.loss_mask[own..]);
        let shown = Sample {
            ids: [theirs, rest].concat(),
            loss_mask,
            model_logprobs: moved(&sample.model_logprobs, 0.0),
            sampled_logprobs: moved(&sample.sampled_logprobs, 0.0),
            temperatures: moved(&sample.temperatures, 1.0),
            advantages: moved(&sample.advantages, 0.0),
            ..Sample::default()
        };
        Shown { sample: shown, own, theirs: theirs.len() }
    }

    /// Moves a stream over the teacher's tokens to the policy's positions: `tokens` entries, 0 in the prompt.
    fn back(&self, stream: &[f32], tokens: usize) -> Vec<f32> {
        let mut back = vec![0.0; self.own];
        back.extend_from_slice(&stream[self.theirs..]);
        debug_assert_eq!(back.len(), tokens);
        back
    }
}
