//! `[weights.calibration]`: texts, and what the linear maps of models read on them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Task, Trace};
use burnish_env::Generator;
use burnish_model::{Loading, Packed, Tap, Trains};
use burnish_tensor::{Layout, Tape, Var};
use burnish_weights::{Gram, Merge, Recorded};
use serde_json::json;

use crate::RunError;
use crate::offline::{Solved, solved};
use crate::policy::{LoadedPolicy, named_template};
use crate::seeds::Draws;
use crate::tasks::{Tasks, tasks_of};
use crate::texts::packs;
use crate::watch::Stop;
use burnish_recipe::Recipe;
use burnish_rundir::files::file_digest;

/// Most tokens in one pass.
const PASS_TOKENS: usize = 4096;
/// Most bytes of sums at once. Where all maps need more, texts are read again for those that are left.
const SUMS_BYTES_MAX: usize = 1 << 30;

/// The texts of a recipe: tasks with right answers.
pub(super) struct Texts<'a> {
    recipe: &'a Recipe,
    episodes: Vec<Solved>,
    /// What they say, and how a model reads it.
    pub(super) digest: String,
}

/// Tasks with the environment that they are of.
pub(super) type Drawn = (Box<dyn Generator>, Vec<Task>);

/// The tasks of `[weights.calibration]`, of which none is held out, with their generator; `None` without that table.
///
/// # Errors
/// If the environment can't make them, or all are held out.
pub(super) fn tasks(recipe: &Recipe) -> Result<Option<Drawn>, RunError> {
    let calibration = recipe.weights.as_ref().and_then(|weights| weights.calibration.as_ref());
    let Some(calibration) = calibration else { return Ok(None) };
    let evaluations = Tasks::make(recipe, false)?;
    let held_out: BTreeSet<_> = evaluations.held_out_ids();
    let generator = burnish_env::build(&calibration.env, &calibration.config)?;
    let address =
        Address { stage: Draws::Calibration.stage(), ..Address::new(recipe.run.seed, Purpose::Task) };
    let table = "weights.calibration";
    let mut tasks = tasks_of(&*generator, address.seed(), calibration.tasks, &format!("{table}.config"))?;
    tasks.retain(|task| !held_out.contains(&task.id));
    if tasks.is_empty() {
        return Err(RunError::Refused(format!(
            "{table}: all of its tasks are held out for evaluation; hold out fewer, or take another environment"
        )));
    }
    Ok(Some((generator, tasks)))
}

impl<'a> Texts<'a> {
    /// The texts of a recipe; `None` if it has no `[weights.calibration]`.
    ///
    /// # Errors
    /// As [`tasks`]; if no answer is known.
    pub(super) fn of(recipe: &'a Recipe) -> Result<Option<Self>, RunError> {
        let Some((generator, tasks)) = tasks(recipe)? else { return Ok(None) };
        let solved = tasks.iter().filter_map(|task| solved(recipe, &*generator, task).transpose());
        let episodes = solved.collect::<Result<Vec<Solved>, RunError>>()?;
        if episodes.is_empty() {
            let problem = format!("weights.calibration: `{}` demonstrates none of its tasks", generator.id());
            return Err(RunError::Refused(problem));
        }
        let template = recipe.policy.chat_template.as_deref().map(file_digest).transpose()?;
        let digest = burnish_env::digest(json!([episodes, template]).to_string().as_bytes());
        Ok(Some(Texts { recipe, episodes, digest }))
    }

    /// What maps read at the last model of a merge, and at its base; `None` if the merge makes no use of that. Breaks off
    /// when it is stopped.
    ///
    /// # Errors
    /// If a model can't be loaded, or no text fits into its window.
    pub(super) fn record(
        &self,
        merge: &Merge,
        stop: &Stop,
    ) -> Result<ControlFlow<(), Option<[Recorded; 2]>>, RunError> {
        let Some(rank) = merge.directions().filter(|rank| *rank > 0) else {
            return Ok(ControlFlow::Continue(None));
        };
        let last = (0..merge.inputs.len()).rfind(|at| Some(*at) != merge.base);
        let (Some(last), Some(base)) = (last, merge.base) else { return Ok(ControlFlow::Continue(None)) };
        let mut both = Vec::new();
        for model in [last, base] {
            match self.read(&merge.inputs[model].path, rank, stop)? {
                ControlFlow::Continue(recorded) => both.push(recorded),
                ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
            }
        }
        let both: Option<[Recorded; 2]> = both.try_into().ok();
        Ok(ControlFlow::Continue(both))
    }

    /// What the maps of the model in `dir` read.
    fn read(&self, dir: &Path, rank: usize, stop: &Stop) -> Result<ControlFlow<(), Recorded>, RunError> {
        let loading = Loading { trains: Trains::Nothing, ..Loading::default() };
        let template = named_template(self.recipe.policy.chat_template.as_deref())?;
        let policy = LoadedPolicy::load(dir, &loading)?;
        let policy = policy.with_template(template, self.recipe.policy.text_tokens);
        let mut texts = Vec::new();
        for (messages, tools) in &self.episodes {
            let mut trace = Trace::new();
            policy.chat.demonstrate(&mut trace, messages, tools)?;
            texts.extend(trace.branches().iter().map(|branch| branch.ids.clone()));
        }
        texts.retain(|ids| !ids.is_empty() && ids.len() <= policy.model.context_tokens_max());
        if texts.is_empty() {
            return Err(RunError::Refused(format!(
                "weights.calibration: each text is longer than the {} tokens that {} reads",
                policy.model.context_tokens_max(),
                dir.display()
            )));
        }
        Ok(recorded(&policy, &texts, rank, SUMS_BYTES_MAX, stop))
    }
}

/// What the maps of a model read on `texts`, of which each has tokens.
fn recorded(
    policy: &LoadedPolicy,
    texts: &[Vec<u32>],
    rank: usize,
    bytes_max: usize,
    stop: &Stop,
) -> ControlFlow<(), Recorded> {
    let model = &policy.model;
    let mut sums =
        Sums { recorded: Recorded::new(), open: BTreeMap::new(), bytes_left: bytes_max, is_left: true };
    while sums.is_left {
        sums.is_left = false;
        for pack in packs(texts, Vec::len, PASS_TOKENS) {
            if stop.is_asked() {
                return ControlFlow::Break(());
            }
            let lens: Vec<usize> = pack.iter().map(Vec::len).collect();
            let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
            let layout = Arc::new(Layout::roots(&lens, model.visibility()));
            let mut mixer = Packed { layout, shape: model.head_shape() };
            let mut tape = Tape::inference(&model.params);
            model.forward_tapped(&mut tape, &pack.concat(), &positions, &mut mixer, &mut sums);
        }
        for (_, (maps, sum)) in std::mem::take(&mut sums.open) {
            let principal = sum.principal(rank);
            sums.recorded.extend(maps.into_iter().map(|map| (map, principal.clone())));
        }
        sums.bytes_left = bytes_max;
    }
    ControlFlow::Continue(sums.recorded)
}

/// A tap that sums up what maps read, as many at once as there is room for.
struct Sums {
    recorded: Recorded,
    /// By the first of the maps that read the same.
    open: BTreeMap<String, (Vec<String>, Gram)>,
    bytes_left: usize,
    /// Whether there was no room for some.
    is_left: bool,
}

impl Tap for Sums {
    fn wants_inputs(&self) -> bool {
        true
    }

    fn inputs(&mut self, maps: &[&str], x: &Var) {
        let Some(first) = maps.first().filter(|first| !self.recorded.contains_key(**first)) else { return };
        if let Some((_, sum)) = self.open.get_mut(*first) {
            return sum.add(x.data());
        }
        let bytes = Gram::bytes(x.cols());
        // One has to fit, or it would never come to an end.
        if bytes > self.bytes_left && !self.open.is_empty() {
            self.is_left = true;
            return;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        let mut sum = Gram::new(x.cols());
        sum.add(x.data());
        let maps = maps.iter().map(|map| (*map).to_owned()).collect();
        self.open.insert((*first).to_owned(), (maps, sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_recipe::Source;

    const STREAM: &str = r#"
[run]
dir = "x"
[weights]
method = "arm"
base_model = { path = "a" }
models = [{ path = "b" }, { path = "c" }]
parameters = { eta = 1.0 }
[weights.calibration]
env = "chains"
tasks = 40
config = { steps = { min = 1, max = 1 }, values = { min = 1, max = 3 } }
[env]
id = "chains"
config = { steps = { min = 1, max = 1 }, values = { min = 1, max = 3 } }
[train]
method = "none"
[rollout]
tokens_max = 8
[eval]
tasks = 4
"#;

    fn recipe(changes: &[&str]) -> Recipe {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        Recipe::resolve(&Source::parse("stream.toml", STREAM, &changes).unwrap()).unwrap()
    }

    #[test]
    fn no_text_is_held_out_and_each_seed_has_its_own() {
        let ids = |changes: &[&str]| -> BTreeSet<String> {
            let (_, tasks) = tasks(&recipe(changes)).unwrap().unwrap();
            tasks.into_iter().map(|task| task.id.to_string()).collect()
        };
        let plain = ids(&[]);
        assert_eq!(ids(&[]), plain);
        let few = |seed: &str| ids(&["weights.calibration.tasks=6", seed]);
        assert_ne!(few("run.seed=1"), few("run.seed=2"));
        // So few different tasks that sets which know nothing of each other would share some.
        let everything = ids(&["eval.tasks=0"]);
        let mut left_out = 0;
        for seed in 0..6 {
            let seed = format!("eval.seed={seed}");
            let held_out = Tasks::make(&recipe(&[&seed]), false).unwrap();
            let held_out: BTreeSet<String> =
                held_out.held_out_ids().into_iter().map(|id| id.to_string()).collect();
            assert_eq!(held_out.len(), 4);
            let texts = ids(&[&seed]);
            assert!(texts.is_disjoint(&held_out) && texts.is_subset(&everything));
            left_out += everything.len() - texts.len();
        }
        assert!(left_out > 0, "the sets would share tasks");
    }

    #[test]
    fn the_digest_is_that_of_the_texts() {
        let digest = |changes: &[&str]| Texts::of(&recipe(changes)).unwrap().unwrap().digest;
        let plain = digest(&[]);
        assert_eq!(digest(&["weights.parameters.eta=2", "run.dir=y"]), plain);
        for change in
            ["run.seed=1", "weights.calibration.tasks=39", "weights.calibration.config.values.max=2"]
        {
            assert_ne!(digest(&[change]), plain, "{change}");
        }
    }

    /// A policy of two layers without a file.
    fn policy() -> LoadedPolicy {
        let shape = serde_json::from_value(json!({
            "architecture": "qwen3", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
            "max_position_embeddings": 64, "rope_theta": 10000.0, "tie_word_embeddings": false, "dtype": "f32",
        }));
        LoadedPolicy::create(&shape.unwrap(), &["1 + 2 = 3".to_owned()], 1, &[]).unwrap()
    }

    #[test]
    fn how_many_sums_there_is_room_for_changes_no_bit() {
        let policy = policy();
        let texts: Vec<Vec<u32>> =
            (0..9_u32).map(|text| (0..=text).map(|at| (7 * at + text) % 200).collect()).collect();
        let of = |bytes| match recorded(&policy, &texts, 8, bytes, &Stop::default()) {
            ControlFlow::Continue(recorded) => recorded,
            ControlFlow::Break(()) => Recorded::new(),
        };
        let whole = of(SUMS_BYTES_MAX);
        assert_eq!(whole.len(), 2 * 7 + 1, "every map of the layers, and the head");
        let widths: BTreeSet<usize> = whole.values().map(burnish_weights::Principal::width).collect();
        assert_eq!(widths, BTreeSet::from([16, 24]));
        for bytes in [0, Gram::bytes(16), 3 * Gram::bytes(24)] {
            assert_eq!(of(bytes), whole);
        }
        let stop = Stop::default();
        stop.ask();
        assert!(recorded(&policy, &texts, 8, 0, &stop).is_break());
    }
}
