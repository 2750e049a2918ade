//! What a model does layer by layer on held-out tasks: how much of its attention each layer pays to marked tokens of
//! the prompt, whether it would begin the right answer if it ended there, and how far back its routing would learn to
//! look.

mod lags;
mod latent;

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{PolicyError, Sampling, Span, Task, Trace, Turn};
use burnish_model::{Marked, Packed, Tap};
use burnish_tensor::{Layout, Tape, Var, Visibility};
use serde::Serialize;

use crate::RunError;
use crate::inspect::Target;
use crate::policy::LoadedPolicy;
use crate::tasks::Tasks;
use crate::texts::packs;

pub use lags::LagProfile;
pub use latent::{Intervened, LatentProfile, Leaving, Opening};

/// Most tokens of prompts in one pass.
const PASS_TOKENS: usize = 8192;

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    /// The part of the prompt whose share of the attention is measured.
    pub marked: Option<Span>,
    /// The label by which tasks are grouped.
    pub label: Option<String>,
    /// Most tasks.
    pub tasks: usize,
    /// Whether to differentiate by attention logits.
    pub lags: bool,
}

/// A model, layer by layer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Profile {
    /// Tasks that were looked at.
    pub tasks: usize,
    /// Tasks that were left out: without a known answer, or with a prompt beyond the context window.
    pub left_out: usize,
    /// Tasks with marked tokens.
    pub marked_tasks: usize,
    /// The layers, the first one first.
    pub layers: Vec<LayerProfile>,
    /// The gradient of attention logits by lag, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lags: Vec<LagProfile>,
}

/// One layer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LayerProfile {
    /// The share of its attention that the prompt's last token pays to marked ones, mean over heads and tasks that have
    /// some. `None` for a layer without attention, or where nothing is marked.
    pub attention: Option<f64>,
    /// The share of tasks in which the likeliest next token, if the model ended after this layer, is the first of the
    /// known answer.
    pub right: f64,
    /// The same for each value of the label.
    pub right_by_label: BTreeMap<String, f64>,
}

/// A prompt with what is known of it.
struct Question {
    ids: Vec<u32>,
    marked: Arc<[bool]>,
    /// The first token of the answer.
    first: u32,
    label: Option<String>,
}

impl Target {
    /// Looks at the policy on held-out tasks whose answers the environment knows.
    ///
    /// # Errors
    /// If the policy is on a server or a GPU, or can't be loaded; if nothing is held out, or no answer is known.
    pub fn probe(&self, probe: &Probe) -> Result<Profile, RunError> {
        self.refuse_nothing_held_out()?;
        let tasks = Tasks::make(self.recipe(), false)?;
        let Some(set) = tasks.main() else {
            return self.refuse_nothing_held_out().map(|()| Profile::default());
        };
        let Some(demonstrations) = set.generator.demonstrations() else {
            let problem = format!(
                "env.id: `{}` knows no answers to its tasks, so there is nothing to compare layers with",
                set.generator.id()
            );
            return Err(RunError::Refused(problem));
        };
        let policy = self.load()?;
        if policy.model.visibility() == Visibility::Bidirectional {
            let problem = "the policy is a model of masked diffusion: no token of its prompt is the last one before its \
                           answer, so layers have nothing to be compared by";
            return Err(RunError::Refused(problem.into()));
        }
        if !policy.model.params.device().is_cpu() {
            return Err(RunError::Refused(
                "device: layers are looked at on the CPU; say `device=\"cpu\"`".into(),
            ));
        }
        let mut profile = Profile::default();
        let mut questions = Vec::new();
        for task in set.tasks.iter().take(probe.tasks) {
            let answer = demonstrations.demonstrate(task).map(|message| message.content);
            match answer.map(|answer| question(&policy, task, &answer, probe)).transpose()?.flatten() {
                Some(question) => questions.push(question),
                None => profile.left_out += 1,
            }
        }
        if questions.is_empty() {
            let problem = format!("none of {} held-out tasks has a known answer and fits", profile.left_out);
            return Err(RunError::Refused(problem));
        }
        if let Some(label) = probe.label.as_ref().filter(|_| questions.iter().all(|one| one.label.is_none()))
        {
            let labels: Vec<&str> =
                set.tasks.iter().take(1).flat_map(|task| task.labels.keys()).map(String::as_str).collect();
            let problem = format!("--by {label}: tasks have the labels {}", labels.join(", "));
            return Err(RunError::Refused(problem));
        }
        profile.tasks = questions.len();
        profile.marked_tasks = questions.iter().filter(|question| question.marked.contains(&true)).count();
        profile.layers = layers(&policy, &questions, profile.marked_tasks);
        if probe.lags {
            let tasks = &set.tasks[..set.tasks.len().min(probe.tasks)];
            profile.lags = lags::profile(&policy, tasks, &|task| demonstrations.demonstrate_episode(task))?;
        }
        Ok(profile)
    }
}

/// A task as the policy reads it; `None` if it does not fit, or the answer is empty.
fn question(
    policy: &LoadedPolicy,
    task: &Task,
    answer: &str,
    probe: &Probe,
) -> Result<Option<Question>, RunError> {
    let turn = Turn {
        trace: Trace::new(),
        messages: Arc::new(task.prompt.clone()),
        tools: Arc::default(),
        prefix: Vec::new(),
        sampling: Arc::new(Sampling::greedy(1)),
        seed: 0,
    };
    let ids = match policy.chat.pose(&turn, policy.model.context_tokens_max().saturating_sub(1)) {
        Ok((_, ids)) => ids,
        Err(PolicyError::PromptTooLong { .. }) => return Ok(None),
        Err(error) => return Err(RunError::Refused(format!("task {}: {error}", task.id))),
    };
    let tokenizer = &policy.chat.tokenizer;
    let failed = |error: String| RunError::Refused(format!("task {}: {error}", task.id));
    let answer = tokenizer.encode(answer).map_err(|error| failed(error.to_string()))?;
    let marked = match &probe.marked {
        Some(span) => burnish_engine::marked_tokens(span, &ids, tokenizer).map_err(failed)?,
        None => Arc::from([]),
    };
    let label = probe.label.as_ref().and_then(|label| task.labels.get(label)).cloned();
    Ok(answer.first().map(|&first| Question { ids, marked, first, label }))
}

/// A tap that keeps what each layer makes of the last token of every prompt.
struct Last {
    marked: Marked,
    rows: Vec<u32>,
    hidden: Vec<Var>,
    /// By layer, for each prompt.
    attention: BTreeMap<usize, Vec<f32>>,
}

impl Tap for Last {
    fn hidden(&mut self, tape: &mut Tape<'_>, layer: usize, hidden: Var) -> Var {
        if layer > 0 {
            self.hidden.push(tape.gather(&hidden, &self.rows));
        }
        hidden
    }

    fn marked(&self) -> &[Marked] {
        std::slice::from_ref(&self.marked)
    }

    fn attention(&mut self, _tape: &mut Tape<'_>, layer: usize, _set: usize, share: Var) {
        let heads = share.cols();
        let mean =
            |&row: &u32| share.data()[row as usize * heads..][..heads].iter().sum::<f32>() / heads as f32;
        self.attention.insert(layer, self.rows.iter().map(mean).collect());
    }
}

fn layers(policy: &LoadedPolicy, questions: &[Question], marked_tasks: usize) -> Vec<LayerProfile> {
    let model = &policy.model;
    let mut of_label: BTreeMap<&str, usize> = BTreeMap::new();
    questions.iter().filter_map(|question| question.label.as_deref()).for_each(|label| {
        *of_label.entry(label).or_default() += 1;
    });
    let mut layers = vec![LayerProfile::default(); model.config.num_hidden_layers];
    for pack in packs(questions, |question| question.ids.len(), PASS_TOKENS) {
        let lens: Vec<usize> = pack.iter().map(|question| question.ids.len()).collect();
        let ids: Vec<u32> = pack.iter().flat_map(|question| &question.ids).copied().collect();
        let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
        let ends = lens.iter().scan(0, |end, &len| {
            *end += len as u32;
            Some(*end - 1)
        });
        let mut last = Last {
            marked: Marked(pack.iter().map(|question| Arc::clone(&question.marked)).collect()),
            rows: ends.collect(),
            hidden: Vec::new(),
            attention: BTreeMap::new(),
        };
        let mut mixer = Packed { layout: Arc::new(Layout::causal(&lens)), shape: model.head_shape() };
        let mut tape = Tape::inference(&model.params);
        model.forward_tapped(&mut tape, &ids, &positions, &mut mixer, &mut last);
        for (at, (layer, hidden)) in layers.iter_mut().zip(&last.hidden).enumerate() {
            let logits = model.exit_logits(&mut tape, hidden);
            for (question, logits) in pack.iter().zip(logits.data().chunks_exact(logits.cols())) {
                let is_right = f64::from(likeliest(policy, logits) == Some(question.first));
                layer.right += is_right / questions.len() as f64;
                if let Some(label) = &question.label {
                    let share = is_right / of_label[label.as_str()] as f64;
                    *layer.right_by_label.entry(label.clone()).or_default() += share;
                }
            }
            let Some(shares) = last.attention.get(&at).filter(|_| marked_tasks > 0) else { continue };
            let marked = pack.iter().zip(shares).filter(|(question, _)| question.marked.contains(&true));
            let sum: f64 = marked.map(|(_, share)| f64::from(*share)).sum();
            *layer.attention.get_or_insert(0.0) += sum / marked_tasks as f64;
        }
    }
    layers
}

/// The likeliest of the ids that exist, the lowest of equal ones.
fn likeliest(policy: &LoadedPolicy, logits: &[f32]) -> Option<u32> {
    let ids = (0..logits.len() as u32).filter(|&id| policy.model.vocab().contains(id));
    ids.fold(None, |best: Option<u32>, id| match best {
        Some(best) if logits[best as usize] >= logits[id as usize] => Some(best),
        _ => Some(id),
    })
}
