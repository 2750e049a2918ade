//! `trainer.safetensors`: f32 masters and optimiser state, tensor by tensor.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use burnish_tensor::{Flat, ParamEntry, Params, map_file};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};

use super::{BoxError, CheckpointError};
use crate::adamw::Adamw;

/// What is kept for every trained parameter: the master weight, and the two moments under their torch names.
const KINDS: [&str; 3] = ["master", "exp_avg", "exp_avg_sq"];

/// Writes the master weights and the optimiser's state.
pub(super) fn write(path: &Path, params: &Params, adamw: &Adamw) -> Result<(), BoxError> {
    let (exp_avg, exp_avg_sq) = (adamw.exp_avg().to_host()?, adamw.exp_avg_sq().to_host()?);
    params.fetch()?;
    write_kinds(path, params, &KINDS, &[params.data(), &*exp_avg, &*exp_avg_sq])
}

/// Writes the master weights alone.
pub(super) fn write_masters(path: &Path, params: &Params) -> Result<(), BoxError> {
    params.fetch()?;
    write_kinds(path, params, &KINDS[..1], &[params.data()])
}

fn write_kinds(path: &Path, params: &Params, kinds: &[&str], buffers: &[&[f32]]) -> Result<(), BoxError> {
    let mut views = Vec::new();
    for (kind, buffer) in kinds.iter().zip(buffers) {
        for entry in params.trained_entries() {
            let bytes = bytemuck::cast_slice(&buffer[entry.param.range()]);
            let view = TensorView::new(Dtype::F32, entry.shape.clone(), bytes)?;
            views.push((name(kind, entry), view));
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
    let [masters, exp_avg, exp_avg_sq] = read_kinds(path, params, KINDS)?;
    params.data_mut().copy_from_slice(&masters);
    let [exp_avg, exp_avg_sq] = [exp_avg, exp_avg_sq].map(|moment| Flat::of(params, moment));
    adamw.restore(updates, exp_avg, exp_avg_sq);
    Ok(())
}

/// Reads the master weights back, or changes nothing.
pub(super) fn read_masters(path: &Path, params: &mut Params) -> Result<(), CheckpointError> {
    let [masters] = read_kinds(path, params, ["master"])?;
    params.data_mut().copy_from_slice(&masters);
    Ok(())
}

/// One buffer per kind, in order, each as long as the trained parameters.
fn read_kinds<const N: usize>(
    path: &Path,
    params: &Params,
    kinds: [&str; N],
) -> Result<[Vec<f32>; N], CheckpointError> {
    let dir = path.parent().unwrap_or(path);
    let mapped = map_file(path).map_err(|source| CheckpointError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let damaged = |error: SafeTensorError| CheckpointError::Incomplete {
        path: dir.to_owned(),
        problem: format!("{} is damaged: {error}", path.file_name().unwrap_or_default().display()),
    };
    let file = SafeTensors::deserialize(&mapped).map_err(damaged)?;
    let entries: Vec<ParamEntry> = params.trained_entries().cloned().collect();
    let checked = check(&file, &kinds, &entries);
    checked.map_err(|problem| CheckpointError::Mismatch { path: dir.to_owned(), problem })?;
    let mut buffers = kinds.map(|_| params.zeros_like());
    for (kind, buffer) in kinds.iter().zip(&mut buffers) {
        for entry in &entries {
            let view = file.tensor(&name(kind, entry)).map_err(damaged)?;
            bytemuck::cast_slice_mut(&mut buffer[entry.param.range()]).copy_from_slice(view.data());
        }
    }
    Ok(buffers)
}

/// Does the file hold exactly the tensors of the model?
fn check(file: &SafeTensors<'_>, kinds: &[&str], entries: &[ParamEntry]) -> Result<(), String> {
    let mut unknown: BTreeSet<&str> = file.names().into_iter().collect();
    for kind in kinds {
        for entry in entries {
            let name = name(kind, entry);
            let view = file.tensor(&name).map_err(|_| format!("tensor {name} is missing"))?;
            if view.dtype() != Dtype::F32 || view.shape() != entry.shape {
                return Err(format!(
                    "tensor {name} is {:?} {:?}, but the model has F32 {:?}",
                    view.dtype(),
                    view.shape(),
                    entry.shape
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

fn name(kind: &str, entry: &ParamEntry) -> String {
    format!("{kind}.{}", entry.name)
}
