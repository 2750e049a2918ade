//! The merge itself: inputs are opened and aligned, then one tensor after the other is made and written.
//!
//! Threads share the work on one tensor, piece by piece from the mapped inputs to the mapped place in the output, so
//! memory beside the maps is a few pieces per thread, whatever the size of the tensors.

use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::Value;

use crate::align::{Aligned, align};
use crate::checkpoint::{CONFIG, Checkpoint, View, place};
use crate::inputs::Recorded;
use crate::method::{Base, Donor, Job, Kernel, Method, Part, Site};
use crate::settings::{self, Settings};
use crate::sink::{Planned, SHARD_BYTES_MAX, Sink};
use crate::stack::{Layers, configured, is_whole, stack};
use crate::sweep::{pieces, tasks};
use crate::{Float, WeightsError};

/// What to merge, and how.
pub struct Merge {
    /// What is done to each tensor.
    pub method: &'static dyn Method,
    /// The inputs in their order.
    pub inputs: Vec<Input>,
    /// Which input is the base.
    pub base: Option<usize>,
    /// Settings that hold for all inputs.
    pub shared: Settings,
    /// The type of the result; that of the donor's tensors if `None`.
    pub dtype: Option<Float>,
}

/// A model that is merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Its directory.
    pub path: PathBuf,
    /// The adapter that it is taken with.
    pub adapter: Option<PathBuf>,
    /// The layers that a slice takes of it; `None` where it is taken whole.
    pub layers: Option<Layers>,
    /// Its own settings, which come before those of all.
    pub settings: Settings,
}

impl Input {
    /// The model that `name` says: a path, or `BASE+ADAPTER` where there is no such path, as mergekit writes it.
    pub fn named(name: PathBuf, settings: Settings) -> Self {
        let parts = name.to_str().filter(|_| !name.exists()).and_then(|name| name.split_once('+'));
        let parts = parts.map(|(base, adapter)| (PathBuf::from(base), PathBuf::from(adapter)));
        let (path, adapter) = match parts {
            Some((base, adapter)) => (base, Some(adapter)),
            None => (name, None),
        };
        Input { path, adapter, layers: None, settings }
    }

    /// Are both the same model?
    pub(crate) fn is_model(&self, other: &Input) -> bool {
        (&self.path, &self.adapter) == (&other.path, &other.adapter)
    }

    fn open(&self) -> Result<Checkpoint, WeightsError> {
        match &self.adapter {
            Some(adapter) => Checkpoint::open_with(&self.path, adapter),
            None => Checkpoint::open(&self.path),
        }
    }
}

/// How the result is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What random choices depend on.
    pub seed: u64,
    /// Largest file, in bytes of tensors.
    pub shard_bytes_max: u64,
    /// The configuration's text, which is stored beside the result.
    pub recipe: Option<String>,
    /// What maps read at the last model, and at the base; for methods that take that ([`Merge::directions`]).
    pub recorded: Option<[Recorded; 2]>,
}

impl std::default::Default for Options {
    fn default() -> Self {
        Options { seed: 0, shard_bytes_max: SHARD_BYTES_MAX, recipe: None, recorded: None }
    }
}

/// How far a merge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of tensors that are written.
    pub done: u64,
    /// Bytes of all tensors.
    pub all: u64,
    /// Tensors that are written.
    pub tensors_done: usize,
    /// All tensors.
    pub tensors: usize,
}

/// Told after every tensor; stops the merge by breaking.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Number of tensors.
    pub tensors: usize,
    /// How many of them were computed; the others are copies.
    pub computed: usize,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Whose tensors, configuration and tokenizer the result has.
    pub donor: PathBuf,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// The file that holds the configuration of a merge, beside the result.
const RECIPE: &str = "mergekit_config.yml";

impl Merge {
    /// Checks what can be checked without opening a file.
    ///
    /// # Errors
    /// Names the parameter or the number of models that is wrong.
    pub fn check(&self) -> Result<(), WeightsError> {
        let card = self.method.card();
        let all = self.inputs.iter().map(|input| &input.settings).chain([&self.shared]);
        for settings in all {
            settings::check(settings, card.keys, card.id)?;
        }
        for (name, setting) in self.inputs.iter().flat_map(|input| &input.settings) {
            if card.keys.iter().any(|key| key.name == name && !key.is_per_input) {
                let problem =
                    format!("`{name}` of {} holds for all models; move it to `parameters`", card.id);
                return Err(WeightsError::config(&setting.place, problem));
            }
        }
        if self.base.is_some_and(|base| base >= self.inputs.len()) {
            return Err(WeightsError::Refused("the base is none of the inputs".to_owned()));
        }
        if card.base == Base::Needed && self.base.is_none() {
            return Err(WeightsError::Refused(format!("{} needs a `base_model`", card.id)));
        }
        // Of a stack, each slice has one model.
        if !self.inputs.is_empty() && self.is_stack() {
            return Ok(());
        }
        let beside = usize::from(card.base == Base::Needed);
        let models = self.inputs.len() - beside;
        let (min, max) = card.models;
        if models < min || models > max {
            let wanted = match (min, max) {
                (min, usize::MAX) => format!("{min} or more models"),
                (min, max) if min == max => format!("{min} model{}", if min == 1 { "" } else { "s" }),
                (min, max) => format!("{min} to {max} models"),
            };
            let beside = if beside == 1 { " besides its base" } else { "" };
            let problem = format!("{} takes {wanted}{beside}, and {models} are given", card.id);
            return Err(WeightsError::Refused(problem));
        }
        Ok(())
    }

    /// The most directions of a map's inputs that the method makes use of, by its settings; `None` if it takes no
    /// recorded inputs.
    pub fn directions(&self) -> Option<usize> {
        self.method.directions(&self.shared)
    }

    /// Are the models slices, which follow each other?
    fn is_stack(&self) -> bool {
        self.method.stacks() && self.inputs.iter().all(|input| input.layers.is_some())
    }

    /// Merges, and writes a model directory to `output`, which appears only when it is complete.
    ///
    /// # Errors
    /// If something can't be read, combined or written, or `watch` breaks. Then nothing is left.
    pub fn run(
        &self,
        output: &Path,
        options: &Options,
        watch: &mut Watch<'_>,
    ) -> Result<Report, WeightsError> {
        self.check()?;
        let sources = self.inputs.iter().map(Input::open);
        let sources = sources.collect::<Result<Vec<Checkpoint>, WeightsError>>()?;
        let donor = self.donor();
        let slices: Vec<&Layers> = self.inputs.iter().filter_map(|input| input.layers.as_ref()).collect();
        let is_stack = self.is_stack();
        let (aligned, mut notes) = match is_stack {
            true => stack(&sources, &slices, donor)?,
            false => {
                self.check_whole(&sources)?;
                align(&sources, donor)?
            }
        };
        let config = match sources[donor].config().cloned() {
            Some(config) if is_stack => Some(configured(config, &sources, &slices)?),
            config => config,
        };
        let of_inputs: Vec<Settings> = self.inputs.iter().map(|input| input.settings.clone()).collect();
        let job = |inputs: Range<usize>| Job {
            sources: &sources[inputs.clone()],
            base: self.base.filter(|_| !is_stack),
            of_inputs: &of_inputs[inputs],
            shared: &self.shared,
            keys: self.method.card().keys,
            seed: options.seed,
            recorded: options.recorded.as_ref(),
        };
        // A method sees the model of one slice at a time, or all models.
        let jobs: Vec<Job<'_>> = match is_stack {
            true => (0..sources.len()).map(|at| job(at..at + 1)).collect(),
            false => vec![job(0..sources.len())],
        };
        let names: Vec<&str> = aligned.iter().map(|one| &*one.name).collect();
        jobs.iter().try_for_each(|job| self.method.check(job, &names))?;
        let planned: Vec<Planned> = aligned.iter().map(|one| self.planned(one)).collect();
        let sink = Sink::create(output, &planned, options.shard_bytes_max)?;
        self.carry_over(&sources[donor], config, &sink, options, &mut notes)?;
        let all = planned.iter().map(|tensor| tensor.bytes as u64).sum();
        let (mut done, mut computed) = (0, 0);
        for (at, (one, planned)) in aligned.iter().zip(&planned).enumerate() {
            computed += usize::from(self.make(&jobs[one.slice], one, planned, at, &sink)?);
            done += planned.bytes as u64;
            let progress = Progress { done, all, tensors_done: at + 1, tensors: aligned.len() };
            if watch(progress).is_break() {
                return Err(WeightsError::Stopped { path: output.to_owned() });
            }
        }
        sink.finish()?;
        let donor = sources[donor].path().to_owned();
        Ok(Report { tensors: aligned.len(), computed, bytes: all, donor, notes })
    }

    /// Layers can be left out only of a stack.
    fn check_whole(&self, sources: &[Checkpoint]) -> Result<(), WeightsError> {
        for (input, source) in self.inputs.iter().zip(sources) {
            let Some(layers) = input.layers.as_ref().filter(|layers| !is_whole(source, &layers.range)) else {
                continue;
            };
            let has =
                source.layers().map_or("no number of layers".to_owned(), |count| format!("{count} layers"));
            let problem = format!(
                "{} takes all layers of every model, and {} has {has}; only `merge_method: passthrough` stacks slices",
                self.method.card().id,
                source.path().display()
            );
            return Err(WeightsError::config(&layers.place, problem));
        }
        Ok(())
    }

    fn planned(&self, one: &Aligned<'_>) -> Planned {
        let own = one.tensors[0];
        let asked = self.dtype.filter(|_| !one.is_copied);
        let dtype = asked.map_or(one.dtype, Float::dtype);
        let bytes = match Float::of(dtype) {
            Some(float) => own.len() * float.width(),
            None => own.bytes.len(),
        };
        Planned { name: one.name.to_string(), dtype, shape: own.shape.to_vec(), bytes }
    }

    /// The input that the result takes after.
    fn donor(&self) -> usize {
        match self.method.card().donor {
            Donor::Base => self.base.unwrap_or(0),
            Donor::LastModel => (0..self.inputs.len()).rfind(|at| Some(*at) != self.base).unwrap_or(0),
        }
    }

    /// Makes one tensor; returns whether any of it was computed.
    fn make(
        &self,
        job: &Job<'_>,
        one: &Aligned<'_>,
        planned: &Planned,
        at: usize,
        sink: &Sink,
    ) -> Result<bool, WeightsError> {
        let Some(float) = Float::of(planned.dtype).filter(|_| !one.is_copied) else {
            copy_bytes(one.tensors[0].bytes, sink, at, 0)?;
            return Ok(false);
        };
        let site = Site {
            job,
            name: &one.name,
            shape: one.tensors[0].shape,
            tensors: &one.tensors,
            depth: one.depth,
        };
        let spans = self.method.merge(&site)?;
        let mut work: Vec<(Range<usize>, &Part<'_>)> = Vec::new();
        let mut start = 0;
        for span in &spans {
            let unit = if let Part::Compute { unit, .. } = span.part { unit } else { 1 };
            let ranges: Vec<Range<usize>> = tasks(start..start + span.elements, unit).collect();
            work.extend(ranges.into_iter().map(|range| (range, &span.part)));
            start += span.elements;
        }
        debug_assert_eq!(start, site.len(), "{}", one.name);
        work.into_par_iter().try_for_each(|(range, part)| match part {
            Part::Copy(input) => {
                let view = one.tensors[*input];
                if view.dtype == planned.dtype && !view.is_adapted() {
                    // A copy is read as well: what is not finite ends a merge wherever it is.
                    pieces(&[view], range.clone(), 1, |_| Ok(()))?;
                    let bytes = range.start * float.width()..range.end * float.width();
                    return sink.write(at, bytes.start, &view.bytes[bytes]);
                }
                let kernel: Kernel<'_> = Box::new(|_, inputs, out| out.copy_from_slice(inputs[0]));
                compute(&[view], range, 1, &kernel, float, (sink, at))
            }
            Part::Compute { unit, kernel } => compute(&one.tensors, range, *unit, kernel, float, (sink, at)),
        })?;
        Ok(spans.iter().any(|span| matches!(span.part, Part::Compute { .. })))
    }

    /// Copies the donor's other files, and stores the configuration of the merge.
    fn carry_over(
        &self,
        donor: &Checkpoint,
        config: Option<Value>,
        sink: &Sink,
        options: &Options,
        notes: &mut Vec<String>,
    ) -> Result<(), WeightsError> {
        if let Some(recipe) = &options.recipe {
            sink.text(RECIPE, recipe)?;
        }
        let dir = donor.path();
        if !dir.is_dir() {
            return Ok(());
        }
        let failed = |source| WeightsError::read(dir, source);
        let mut folders = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.is_dir() {
                folders.extend((!name.starts_with('.')).then(|| name.to_owned()));
            } else if name == CONFIG {
                let config = config.clone().map(|config| with_type(config, self.dtype));
                match config.filter(|config| Some(config) != donor.config()) {
                    Some(config) => sink.text(CONFIG, &format!("{config:#}\n"))?,
                    None => sink.copy(&path, Path::new(name))?,
                }
            } else if is_carried(name) && (path.is_file() || !path.exists()) {
                sink.copy(&path, Path::new(name))?;
            }
        }
        folders.sort();
        if !folders.is_empty() {
            notes.push(format!("{}: its folders are not copied: {}", dir.display(), folders.join(", ")));
        }
        Ok(())
    }
}

/// Whether a file of the donor describes the result as well. Weights and what is said about the donor do not.
fn is_carried(name: &str) -> bool {
    const WEIGHTS: [&str; 9] =
        [".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json"];
    let is_weights = WEIGHTS.iter().any(|end| name.ends_with(end));
    !is_weights && !name.starts_with('.') && name != "README.md" && name != RECIPE
}

/// The configuration with another type of numbers, if one is asked for.
fn with_type(mut config: Value, dtype: Option<Float>) -> Value {
    if let (Some(dtype), Some(map)) = (dtype, config.as_object_mut()) {
        let key = if map.contains_key("dtype") { "dtype" } else { "torch_dtype" };
        map.insert(key.to_owned(), dtype.torch_name().into());
    }
    config
}

fn copy_bytes(bytes: &[u8], sink: &Sink, tensor: usize, from: usize) -> Result<(), WeightsError> {
    const CHUNK: usize = 1 << 20;
    bytes
        .par_chunks(CHUNK)
        .enumerate()
        .try_for_each(|(at, chunk)| sink.write(tensor, from + at * CHUNK, chunk))
}

/// Computes a range of elements, and writes them at once.
fn compute(
    tensors: &[View<'_>],
    range: Range<usize>,
    unit: usize,
    kernel: &Kernel<'_>,
    float: Float,
    (sink, tensor): (&Sink, usize),
) -> Result<(), WeightsError> {
    let width = float.width();
    let begin = range.start;
    let mut bytes = vec![0; range.len() * width];
    let mut out = Vec::new();
    pieces(tensors, range, unit, |piece| {
        let count = piece.inputs.first().map_or(0, |input| input.len());
        out.resize(count, 0.0);
        kernel(piece.start, piece.inputs, &mut out);
        let place_in = (piece.start - begin) * width;
        if float.encode(&out, &mut bytes[place_in..place_in + count * width]) {
            return Ok(());
        }
        Err(too_large(&tensors[0], piece.start, &out, float))
    })?;
    sink.write(tensor, begin * width, &bytes)
}

fn too_large(view: &View<'_>, start: usize, out: &[f32], float: Float) -> WeightsError {
    let fits = |value: &f32| float.encode(&[*value], &mut [0; 4][..float.width()]);
    let at = out.iter().position(|value| !fits(value)).unwrap_or_default();
    let value = out.get(at).copied().unwrap_or_default();
    let problem = format!(
        "becomes {value:e} at element {}, which {} can't hold; choose another `dtype`, or smaller weights",
        place(start + at, view.shape),
        float.torch_name()
    );
    WeightsError::Refused(format!("tensor {} {problem}", view.name))
}
