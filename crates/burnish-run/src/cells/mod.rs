//! Whether a policy looks at the cells that its plan names, on held-out tasks whose answers name some: agreement of
//! attention with the right cells by layer, how much of that changes when rows change places, and a verifier that is
//! fitted on half of the tasks and picks plans on the other half ([`burnish_eval::cells`]).
//!
//! In the paper a reasoner executes steps in words, and its attention is judged. Here the executor is fixed and has no
//! attention, so it is the planner's own while it writes a step.

mod attention;
mod choose;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use burnish_core::rng::{self, Address, Purpose};
use burnish_core::{Sampling, Task, Trace, Turn, answer_all};
use burnish_env::Cells;
use burnish_eval::cells::{Seen, Verifier, auroc, overlap};
use serde::Serialize;

use crate::RunError;
use crate::inspect::Target;
use crate::policy::LoadedPolicy;
use crate::seeds::Draws;
use crate::tasks::Tasks;
use attention::Written;
pub use choose::Choices;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct CellProbe {
    /// Most tasks; versions of a task in other orders count.
    pub tasks: usize,
    /// Plans that are drawn for each task of which the verifier picks one; 0 draws none.
    pub samples: usize,
    /// Temperature of these draws.
    pub temperature: f32,
}

/// How well attention agrees with the right cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Agreement {
    /// Area under the ROC curve, mean over steps; 0.5 is chance.
    pub auroc: f64,
    /// Standard deviation over versions of the same task in other orders, mean over tasks and steps. `None` if no task
    /// has other versions.
    pub spread: Option<f64>,
}

/// A policy on the cells of tables.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CellProfile {
    /// Tasks that were looked at.
    pub tasks: usize,
    /// Whether the right cells are proxies by weak supervision.
    pub is_proxy: bool,
    /// Answers that are no plan, or no answer to a table.
    pub malformed: usize,
    /// Steps that were compared.
    pub steps: usize,
    /// The layers with attention, the first one first: mean over heads.
    pub layers: Vec<Agreement>,
    /// The verifier; `None` if there were too few steps.
    pub verifier: Option<VerifierReport>,
}

/// A verifier, fitted on about half of the tasks and measured on the others.
#[derive(Debug, Clone, Serialize)]
pub struct VerifierReport {
    /// Steps that it was fitted on.
    pub fitted_on: usize,
    /// What it says of the other tasks.
    pub agreement: Agreement,
    /// The same for the layer that agrees best on the tasks that it was fitted on.
    pub best_layer: Agreement,
    /// Steps with the right cells have this overlap with what the verifier sees; mean. `None` without any.
    pub overlap_right: Option<f64>,
    /// The same of steps with wrong cells.
    pub overlap_wrong: Option<f64>,
    /// How often a right step has the larger overlap of a right and a wrong one.
    pub told_apart: Option<f64>,
    /// What picking plans by it brings, if plans were drawn.
    pub choices: Option<Choices>,
}

/// A step that was written, with what was looked at meanwhile.
struct Step {
    /// Of the tasks in the order of their first version.
    original: usize,
    /// Its number in the plan.
    at: usize,
    seen: Seen,
    /// The mask that was written.
    own: Vec<bool>,
}

impl Target {
    /// Measures the policy on held-out tasks.
    ///
    /// # Errors
    /// If answers in the environment name no cells, nothing is held out, or the policy is on a server or a GPU, or can't be
    /// loaded.
    pub fn cells(&self, probe: CellProbe) -> Result<CellProfile, RunError> {
        self.refuse_nothing_held_out()?;
        let tasks = Tasks::make(self.recipe(), false)?;
        let Some(set) = tasks.main() else {
            return self.refuse_nothing_held_out().map(|()| CellProfile::default());
        };
        let Some(cells) = set.generator.cells() else {
            let problem = format!(
                "env.id: answers in `{}` name no cells that attention could be compared with; those in `tables` do",
                set.generator.id()
            );
            return Err(RunError::Refused(problem));
        };
        let policy = self.load()?;
        if !policy.model.params.device().is_cpu() {
            return Err(RunError::Refused(
                "device: attention is looked at on the CPU; say `device=\"cpu\"`".into(),
            ));
        }
        let limits = self.recipe().rollout.limits();
        let mut sampler = policy.sampler(0, limits);
        let seed = self.recipe().eval.seed;
        let tasks = &set.tasks[..probe.tasks.min(set.tasks.len())];
        let mut numbers = BTreeMap::new();
        let originals: Vec<usize> = tasks
            .iter()
            .map(|task| {
                let next = numbers.len();
                *numbers.entry(cells.original(task)).or_insert(next)
            })
            .collect();
        let turns = tasks.iter().enumerate().map(|(at, task)| turn(task, &set.sampling, seed, at, 0));
        let answers = answer_all(&mut sampler, turns);
        let mut profile = CellProfile {
            tasks: tasks.len(),
            is_proxy: tasks.iter().any(|task| cells.right_outcome(task).is_none()),
            ..CellProfile::default()
        };
        let mut steps = Vec::new();
        for ((task, original), (trace, answer)) in tasks.iter().zip(&originals).zip(&answers) {
            let answer = answer.as_ref().ok().map(|answer| answer.message.content.as_str());
            match written(&policy, cells, task, trace, answer, *original) {
                Some(of_answer) => steps.extend(of_answer),
                None => profile.malformed += 1,
            }
        }
        let heads = policy.model.head_shape().heads;
        let layers = steps.first().map_or(0, |step: &Step| step.seen.heads.len() / heads);
        profile.steps = steps.len();
        profile.layers =
            (0..layers).map(|layer| agreement(steps.iter(), |step| mean(step, layer, heads))).collect();
        let fits = |step: &&Step| is_fitted_on(step.original);
        let fitted: Vec<Seen> = steps.iter().filter(fits).map(|step| step.seen.clone()).collect();
        let Some(verifier) = Verifier::fit(&fitted) else { return Ok(profile) };
        let mut report = report(&verifier, fitted.len(), &steps, layers, heads);
        if probe.samples > 0 && !profile.is_proxy {
            // Of each task the first version.
            let mut seen = BTreeSet::new();
            let kept =
                (0..tasks.len()).filter(|&at| !is_fitted_on(originals[at]) && seen.insert(originals[at]));
            let kept: Vec<usize> = kept.collect();
            let sampling = Sampling { temperature: probe.temperature, ..set.sampling.clone() };
            let draws =
                kept.iter().flat_map(|&at| (1..=probe.samples as u64).map(move |sample| (at, sample)));
            let turns: Vec<Turn> =
                draws.map(|(at, sample)| turn(&tasks[at], &sampling, seed, at, sample)).collect();
            let drawn = answer_all(&mut sampler, turns);
            let kept: Vec<&Task> = kept.into_iter().map(|at| &tasks[at]).collect();
            report.choices = Some(choose::choices(&policy, &verifier, cells, &kept, &drawn, probe.samples));
        }
        profile.verifier = Some(report);
        Ok(profile)
    }
}

/// A task's turn; number `sample` of it draws its own numbers.
fn turn(task: &Task, sampling: &Sampling, seed: u64, at: usize, sample: u64) -> Turn {
    let address = Address {
        stage: Draws::Probe.stage(),
        task: at as u64,
        rollout: sample,
        ..Address::new(seed, Purpose::Sample)
    };
    Turn {
        trace: Trace::new(),
        messages: Arc::new(task.prompt.clone()),
        tools: Arc::default(),
        prefix: Vec::new(),
        sampling: Arc::new(sampling.clone()),
        seed: address.seed(),
    }
}

/// The steps of an answer that the right one has as well. `None` if it can't be read.
fn written(
    policy: &LoadedPolicy,
    cells: &dyn Cells,
    task: &Task,
    trace: &Trace,
    answer: Option<&str>,
    original: usize,
) -> Option<Vec<Step>> {
    let answer = answer?;
    let named = cells.steps(task, answer)?;
    let model = &policy.model;
    let written = Written::of(trace, answer, &named, cells, &policy.chat.tokenizer, model.visibility())?;
    if named.iter().any(|step| step.own.len() != written.cells()) {
        return None;
    }
    let mut steps = Vec::new();
    for (at, (heads, step)) in written.attention(model).into_iter().zip(named).enumerate() {
        let Some(mask) = step.right else { continue };
        steps.push(Step { original, at, seen: Seen { heads, mask }, own: step.own });
    }
    Some(steps)
}

/// Is the verifier fitted on this task? Environments deal out kinds of tasks in turn, so a coin decides.
fn is_fitted_on(original: usize) -> bool {
    rng::bits(SPLIT, original as u64).is_multiple_of(2)
}

/// Seed of the coin.
const SPLIT: u64 = 0x7461_626c_6573;

/// The attention of a layer, mean over its heads.
fn mean(step: &Step, layer: usize, heads: usize) -> Vec<f64> {
    let cells = step.seen.mask.len();
    let of_layer = &step.seen.heads[layer * heads..][..heads];
    (0..cells).map(|cell| of_layer.iter().map(|head| head[cell]).sum::<f64>() / heads as f64).collect()
}

fn agreement<'a>(steps: impl Iterator<Item = &'a Step>, cells: impl Fn(&Step) -> Vec<f64>) -> Agreement {
    let (mut sum, mut count) = (0.0, 0);
    let mut versions: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for step in steps {
        if let Some(area) = auroc(&cells(step), &step.seen.mask) {
            sum += area;
            count += 1;
            versions.entry((step.original, step.at)).or_default().push(area);
        }
    }
    let spreads: Vec<f64> =
        versions.values().filter(|areas| areas.len() > 1).map(|areas| spread(areas)).collect();
    let spread = spreads.iter().sum::<f64>() / spreads.len().max(1) as f64;
    Agreement { auroc: sum / f64::from(count.max(1)), spread: (!spreads.is_empty()).then_some(spread) }
}

/// Sample standard deviation.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

fn report(
    verifier: &Verifier,
    fitted_on: usize,
    steps: &[Step],
    layers: usize,
    heads: usize,
) -> VerifierReport {
    let of_half = |fitted: bool| steps.iter().filter(move |step| is_fitted_on(step.original) == fitted);
    let seen = |step: &Step| verifier.cells(&step.seen.heads).unwrap_or_default();
    let best = (0..layers).max_by(|&a, &b| {
        let area = |layer| agreement(of_half(true), |step| mean(step, layer, heads)).auroc;
        area(a).total_cmp(&area(b))
    });
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for step in of_half(false) {
        let part = overlap(&seen(step), &step.own);
        if step.own == step.seen.mask { right.push(part) } else { wrong.push(part) }
    }
    let mean_of =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let labels: Vec<bool> = right.iter().map(|_| true).chain(wrong.iter().map(|_| false)).collect();
    VerifierReport {
        fitted_on,
        agreement: agreement(of_half(false), seen),
        best_layer: best.map_or_else(Agreement::default, |layer| {
            agreement(of_half(false), |step| mean(step, layer, heads))
        }),
        overlap_right: mean_of(&right),
        overlap_wrong: mean_of(&wrong),
        told_apart: auroc(&[&right[..], &wrong[..]].concat(), &labels),
        choices: None,
    }
}
