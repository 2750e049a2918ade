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
    /// Its own settings, which come before those of all.
    pub settings: Settings,
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
        let sources = self.inputs.iter().map(|input| Checkpoint::open(&input.path));
        let sources = sources.collect::<Result<Vec<Checkpoint>, WeightsError>>()?;
        let donor = self.donor();
        let (aligned, mut notes) = align(&sources, donor)?;
        let of_inputs: Vec<Settings> = self.inputs.iter().map(|input| input.settings.clone()).collect();
        let job = Job {
            sources: &sources,
            base: self.base,
            of_inputs: &of_inputs,
            shared: &self.shared,
            keys: self.method.card().keys,
            seed: options.seed,
            recorded: options.recorded.as_ref(),
        };
        let names: Vec<&str> = aligned.iter().map(|one| one.name).collect();
        self.method.check(&job, &names)?;
        let planned: Vec<Planned> = aligned.iter().map(|one| self.planned(one)).collect();
        let sink = Sink::create(output, &planned, options.shard_bytes_max)?;
        self.carry_over(&sources[donor], &sink, options, &mut notes)?;
        let all = planned.iter().map(|tensor| tensor.bytes as u64).sum();
        let (mut done, mut computed) = (0, 0);
        for (at, (one, planned)) in aligned.iter().zip(&planned).enumerate() {
            computed += usize::from(self.make(&job, one, planned, at, &sink)?);
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

    fn planned(&self, one: &Aligned<'_>) -> Planned {
        let own = one.tensors[0];
        let donor_type = if one.is_copied { own.dtype } else { self.type_of(one) };
        let bytes = match Float::of(donor_type) {
            Some(float) => own.len() * float.width(),
            None => own.bytes.len(),
        };
        Planned { name: one.name.to_owned(), dtype: donor_type, shape: own.shape.to_vec(), bytes }
    }

    /// The type of a tensor that is made: the one that is asked for, or the donor's.
    fn type_of(&self, one: &Aligned<'_>) -> safetensors::Dtype {
        self.dtype.map_or(one.tensors[self.donor()].dtype, Float::dtype)
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
            name: one.name,
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
                if view.dtype == planned.dtype {
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
                match with_type(donor.config(), self.dtype) {
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

/// The configuration with another type of numbers; `None` if it stays as it is.
fn with_type(config: Option<&Value>, dtype: Option<Float>) -> Option<Value> {
    let mut config = config?.clone();
    let name = dtype?.torch_name();
    let key = if config.get("dtype").is_some() { "dtype" } else { "torch_dtype" };
    if config.get(key).and_then(Value::as_str) == Some(name) {
        return None;
    }
    config.as_object_mut()?.insert(key.to_owned(), name.into());
    Some(config)
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
