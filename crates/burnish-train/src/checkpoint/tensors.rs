//! `trainer.safetensors`: f32 masters and optimiser state, tensor by tensor.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use burnish_tensor::eight_bit::BLOCK;
use burnish_tensor::{Codes, Flat, Flat8, Mapped, ParamEntry, Params, map_file};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};

use super::{BoxError, CheckpointError};
use crate::adamw::{Adamw, Moments};

/// Something that is kept for every trained parameter.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    part: Part,
}

/// A parameter's part of a kind.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A number for each element.
    F32,
    /// A code for each element.
    Codes,
    /// A scale for each block.
    Scales,
}

const MASTER: Kind = Kind { name: "master", part: Part::F32 };
/// The moments, under their torch names.
const MOMENTS: [Kind; 2] =
    [Kind { name: "exp_avg", part: Part::F32 }, Kind { name: "exp_avg_sq", part: Part::F32 }];
/// The moments in 8 bits: codes and scales of each.
const MOMENTS_8BIT: [[Kind; 2]; 2] = [
    [Kind { name: "exp_avg", part: Part::Codes }, Kind { name: "exp_avg.absmax", part: Part::Scales }],
    [Kind { name: "exp_avg_sq", part: Part::Codes }, Kind { name: "exp_avg_sq.absmax", part: Part::Scales }],
];

impl Kind {
    /// The kinds of an optimiser's state.
    fn of(moments: &Moments) -> Vec<Kind> {
        let moments = match moments {
            Moments::F32(_) => MOMENTS.to_vec(),
            Moments::EightBit(_) => MOMENTS_8BIT.concat(),
        };
        [vec![MASTER], moments].concat()
    }

    fn name(self, entry: &ParamEntry) -> String {
        format!("{}.{}", self.name, entry.name)
    }

    /// The type and the shape of a parameter's part.
    fn tensor(self, entry: &ParamEntry) -> (Dtype, Vec<usize>) {
        match self.part {
            Part::F32 => (Dtype::F32, entry.shape.clone()),
            Part::Codes => (Dtype::U8, entry.shape.clone()),
            Part::Scales => (Dtype::F32, vec![entry.param.range().len().div_ceil(BLOCK)]),
        }
    }
}

/// Writes the master weights and the optimiser's state.
pub(super) fn write(path: &Path, params: &Params, adamw: &Adamw) -> Result<(), BoxError> {
    params.fetch()?;
    let mut buffers = vec![bytes(params.data())];
    match adamw.moments() {
        Moments::F32(moments) => {
            for moment in moments {
                buffers.push(match moment.to_host()? {
                    Cow::Borrowed(numbers) => bytes(numbers),
                    Cow::Owned(numbers) => Cow::Owned(bytemuck::cast_slice(&numbers).to_vec()),
                });
            }
        }
        Moments::EightBit(moments) => {
            for moment in moments {
                let Codes { codes, absmax } = moment.to_host()?;
                buffers.extend([codes, Cow::Owned(bytemuck::cast_slice(&absmax).to_vec())]);
            }
        }
    }
    write_kinds(path, params, &Kind::of(adamw.moments()), &buffers)
}

/// Writes the master weights alone.
pub(super) fn write_masters(path: &Path, params: &Params) -> Result<(), BoxError> {
    params.fetch()?;
    write_kinds(path, params, &[MASTER], &[bytes(params.data())])
}

fn bytes(numbers: &[f32]) -> Cow<'_, [u8]> {
    Cow::Borrowed(bytemuck::cast_slice(numbers))
}

fn write_kinds(
    path: &Path,
    params: &Params,
    kinds: &[Kind],
    buffers: &[Cow<'_, [u8]>],
) -> Result<(), BoxError> {
    let mut views = Vec::new();
    for (kind, buffer) in kinds.iter().zip(buffers) {
        let mut rest = &**buffer;
        for entry in params.trained_entries() {
            let (dtype, shape) = kind.tensor(entry);
            let size = if dtype == Dtype::U8 { 1 } else { size_of::<f32>() };
            let (own, others) = rest.split_at(size * shape.iter().product::<usize>());
            rest = others;
            views.push((kind.name(entry), TensorView::new(dtype, shape, own)?));
        }
    }
    // The library makes files that only their owner can read; this one should have the usual permissions.
    let permissions = File::create(path)?.metadata()?.permissions();
    safetensors::serialize_to_file(views, None, path)?;
    Ok(fs::set_permissions(path, permissions)?)
}

/// Reads everything back, or changes nothing.
pub(super) fn read(
    path: &Path,
    updates: u64,
    params: &mut Params,
    adamw: &mut Adamw,
) -> Result<(), CheckpointError> {
    let mapped = map(path)?;
    let tensors = Tensors::open(path, &mapped, params, &Kind::of(adamw.moments()))?;
    let masters = tensors.numbers(MASTER)?;
    let moments = match adamw.moments() {
        Moments::F32(_) => {
            let [m, v] = MOMENTS.map(|kind| tensors.numbers(kind));
            Moments::F32([Flat::of(params, m?), Flat::of(params, v?)])
        }
        Moments::EightBit(_) => {
            let of = |[codes, scales]: [Kind; 2]| {
                Ok(Flat8::of(params, tensors.bytes(codes)?, tensors.numbers(scales)?))
            };
            let [m, v] = MOMENTS_8BIT.map(of);
            Moments::EightBit([m?, v?])
        }
    };
    params.data_mut().copy_from_slice(&masters);
    adamw.restore(updates, moments);
    Ok(())
}

/// Reads the master weights back, or changes nothing.
pub(super) fn read_masters(path: &Path, params: &mut Params) -> Result<(), CheckpointError> {
    let mapped = map(path)?;
    let masters = Tensors::open(path, &mapped, params, &[MASTER])?.numbers(MASTER)?;
    params.data_mut().copy_from_slice(&masters);
    Ok(())
}

fn map(path: &Path) -> Result<Mapped, CheckpointError> {
    map_file(path).map_err(|source| CheckpointError::Io { action: "read", path: path.to_owned(), source })
}

/// A file that holds exactly the tensors of a model.
struct Tensors<'f> {
    path: PathBuf,
    file: SafeTensors<'f>,
    entries: Vec<ParamEntry>,
}

impl<'f> Tensors<'f> {
    fn open(
        path: &Path,
        mapped: &'f Mapped,
        params: &Params,
        kinds: &[Kind],
    ) -> Result<Self, CheckpointError> {
        let file = SafeTensors::deserialize(mapped).map_err(|error| damaged(path, &error))?;
        let entries: Vec<ParamEntry> = params.trained_entries().cloned().collect();
        check(&file, kinds, &entries).map_err(|problem| {
            let dir = path.parent().unwrap_or(path);
            CheckpointError::Mismatch { path: dir.to_owned(), problem }
        })?;
        Ok(Tensors { path: path.to_owned(), file, entries })
    }

    /// All parts of a kind, one after the other.
    fn bytes(&self, kind: Kind) -> Result<Vec<u8>, CheckpointError> {
        let mut bytes = Vec::new();
        for entry in &self.entries {
            let view = self.file.tensor(&kind.name(entry)).map_err(|error| damaged(&self.path, &error))?;
            bytes.extend_from_slice(view.data());
        }
        Ok(bytes)
    }

    /// The same, as numbers.
    fn numbers(&self, kind: Kind) -> Result<Vec<f32>, CheckpointError> {
        let mut numbers = Vec::new();
        for entry in &self.entries {
            let view = self.file.tensor(&kind.name(entry)).map_err(|error| damaged(&self.path, &error))?;
            numbers.extend(view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
        }
        Ok(numbers)
    }
}

fn damaged(path: &Path, error: &SafeTensorError) -> CheckpointError {
    CheckpointError::Incomplete {
        path: path.parent().unwrap_or(path).to_owned(),
        problem: format!("{} is damaged: {error}", path.file_name().unwrap_or_default().display()),
    }
}

/// Does the file hold exactly the tensors of the model?
fn check(file: &SafeTensors<'_>, kinds: &[Kind], entries: &[ParamEntry]) -> Result<(), String> {
    let mut unknown: BTreeSet<&str> = file.names().into_iter().collect();
    for kind in kinds {
        for entry in entries {
            let name = kind.name(entry);
            let (dtype, shape) = kind.tensor(entry);
            let view = file.tensor(&name).map_err(|_| format!("tensor {name} is missing"))?;
            if view.dtype() != dtype || view.shape() != shape {
                return Err(format!(
                    "tensor {name} is {:?} {:?}, but the model has {dtype:?} {shape:?}",
                    view.dtype(),
                    view.shape()
                ));
            }
            unknown.remove(name.as_str());
        }
    }
    match unknown.first() {
        Some(name) => Err(format!("tensor {name} is not a parameter of the model")),
        None => Ok(()),
    }
}
