//! What changed between two checkpoints, tensor by tensor.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::checkpoint::{Checkpoint, View};
use crate::spectrum::Change;
use crate::sweep::{dot, fold};
use crate::{Float, WeightsError};

/// Most singular values that are looked for.
pub const RANK_MAX: usize = 256;

/// What to compute besides norms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DiffOptions {
    /// Also the rank of changes of matrices: how many singular values exceed this share of the largest.
    pub rank_tolerance: Option<f64>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The first checkpoint.
    pub from: PathBuf,
    /// The second checkpoint.
    pub to: PathBuf,
    /// Tensors of both, in the order of the first.
    pub tensors: Vec<TensorDiff>,
    /// Tensors of the first alone.
    pub only_from: Vec<String>,
    /// Tensors of the second alone.
    pub only_to: Vec<String>,
    /// Frobenius norm of the change of all tensors that could be compared.
    pub norm: f64,
    /// The same, divided by the norm of the first checkpoint's numbers.
    pub relative: f64,
}

/// What changed in one tensor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorDiff {
    /// Its name.
    pub name: String,
    /// Its shape in the first checkpoint.
    pub shape: Vec<usize>,
    /// How the two are related.
    pub kind: Kind,
    /// Frobenius norm of the change; `None` if it can't be computed.
    pub norm: Option<f64>,
    /// The same, divided by the norm of the first; `None` if that is 0.
    pub relative: Option<f64>,
    /// Size of the largest change of an element.
    pub largest: Option<f64>,
    /// Share of elements that changed.
    pub changed: Option<f64>,
    /// Rank of the change, if asked for.
    pub rank: Option<Rank>,
    /// What a person should know.
    pub note: Option<String>,
}

/// How two tensors of one name are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The same values; their types may differ.
    Same,
    /// Some elements differ.
    Changed,
    /// The shapes differ.
    Reshaped,
    /// Numbers that are only copied differ, or some are not finite.
    Incomparable,
}

/// How many directions a change has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rank {
    /// How many singular values exceed the tolerance.
    pub rank: usize,
    /// Whether there may be more, because not all were looked for.
    pub is_at_least: bool,
    /// Stable rank: squared Frobenius norm divided by the square of the largest singular value.
    pub stable: f64,
}

/// Sums over a tensor.
#[derive(Default)]
struct Sums {
    change: f64,
    first: f64,
    largest: f32,
    changed: u64,
}

/// Compares two checkpoints. `watch` is told the number of tensors that are done, and of all.
///
/// # Errors
/// If a checkpoint can't be read.
pub fn diff(
    from: &Path,
    to: &Path,
    options: DiffOptions,
    watch: &mut dyn FnMut(usize, usize),
) -> Result<Diff, WeightsError> {
    let (first, second) = (Checkpoint::open(from)?, Checkpoint::open(to)?);
    let only = |of: &Checkpoint, other: &Checkpoint| -> Vec<String> {
        of.names().filter(|name| other.get(name).is_none()).map(str::to_owned).collect()
    };
    let mut tensors = Vec::new();
    let (mut change, mut size) = (0.0, 0.0);
    let all = first.len();
    for (done, own) in first.tensors().enumerate() {
        if let Some(other) = second.get(own.name) {
            let (tensor, sums) = compare(own, other, options)?;
            change += sums.change;
            size += sums.first;
            tensors.push(tensor);
        }
        watch(done + 1, all);
    }
    Ok(Diff {
        from: from.to_owned(),
        to: to.to_owned(),
        tensors,
        only_from: only(&first, &second),
        only_to: only(&second, &first),
        norm: change.sqrt(),
        relative: if size > 0.0 { (change / size).sqrt() } else { 0.0 },
    })
}

fn compare(own: View<'_>, other: View<'_>, options: DiffOptions) -> Result<(TensorDiff, Sums), WeightsError> {
    let mut tensor = TensorDiff {
        name: own.name.to_owned(),
        shape: own.shape.to_vec(),
        kind: Kind::Same,
        norm: None,
        relative: None,
        largest: None,
        changed: None,
        rank: None,
        note: (own.dtype != other.dtype).then(|| format!("{} became {}", own.dtype, other.dtype)),
    };
    if own.shape != other.shape {
        tensor.kind = Kind::Reshaped;
        tensor.note = Some(format!("{:?} became {:?}", own.shape, other.shape));
        return Ok((tensor, Sums::default()));
    }
    if Float::of(own.dtype).is_none() || Float::of(other.dtype).is_none() {
        let is_same = own.dtype == other.dtype && own.is_same(&other);
        tensor.kind = if is_same { Kind::Same } else { Kind::Incomparable };
        if !is_same && own.dtype == other.dtype {
            tensor.note = Some(format!("numbers of type {} differ", own.dtype));
        }
        return Ok((tensor, Sums::default()));
    }
    let parts = fold::<Sums>(&[own, other], |sums, piece| {
        let [first, second] = [piece.inputs[0], piece.inputs[1]];
        let change: Vec<f32> = second.iter().zip(first).map(|(second, first)| second - first).collect();
        sums.change += dot(&change, &change);
        sums.first += dot(first, first);
        sums.largest = change.iter().fold(sums.largest, |largest, change| largest.max(change.abs()));
        sums.changed += change.iter().filter(|change| **change != 0.0).count() as u64;
    });
    let parts = match parts {
        Ok(parts) => parts,
        // What is not finite has no norm; everything else is still worth comparing.
        Err(error) => {
            tensor.kind = if own.is_same(&other) { Kind::Same } else { Kind::Incomparable };
            tensor.note = Some(error.to_string());
            return Ok((tensor, Sums::default()));
        }
    };
    let sums = parts.into_iter().fold(Sums::default(), |sums, part| Sums {
        change: sums.change + part.change,
        first: sums.first + part.first,
        largest: sums.largest.max(part.largest),
        changed: sums.changed + part.changed,
    });
    tensor.norm = Some(sums.change.sqrt());
    tensor.relative = (sums.first > 0.0).then(|| (sums.change / sums.first).sqrt());
    tensor.largest = Some(f64::from(sums.largest));
    tensor.changed = Some(sums.changed as f64 / own.len().max(1) as f64);
    if sums.changed > 0 {
        tensor.kind = Kind::Changed;
        if let (Some(tolerance), Some(change)) = (options.rank_tolerance, Change::of(own, other)) {
            tensor.rank = Some(rank(&change, own.shape, tolerance, sums.change)?);
        }
    }
    Ok((tensor, sums))
}

fn rank(change: &Change<'_>, shape: &[usize], tolerance: f64, square: f64) -> Result<Rank, WeightsError> {
    let values = change.spectrum(RANK_MAX)?.values;
    let largest = values.first().copied().unwrap_or_default();
    let rank = values.iter().filter(|value| **value > tolerance * largest).count();
    let smaller = shape.iter().copied().min().unwrap_or_default();
    Ok(Rank {
        rank,
        is_at_least: rank == values.len() && rank < smaller,
        stable: if largest > 0.0 { square / (largest * largest) } else { 0.0 },
    })
}
