//! The device for tests: an emulated one, or the machine's first GPU with `BURNISH_TEST_GPU=1`.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, OnceLock},
};

use super::{Cuda, Options};
use crate::Precision;

/// Sizes of heads and tiles for which there are attention kernels: too short for a vector of four, not a multiple of
/// 16, and every size of tile. The last is the tile that is chosen in the tests of whole models.
pub(crate) const ATTENTION: [(usize, usize); 5] = [(6, 16), (20, 32), (32, 64), (64, 32), (16, 64)];

/// Sizes of heads for which there are attention kernels on tensor cores.
pub(crate) const ATTENTION_MMA: [usize; 2] = [16, 48];

/// How values are kept, and the tolerance for the results of an operation.
pub(crate) const PRECISIONS: [(Precision, f64); 2] = [(Precision::F32, 1e-6), (Precision::Bf16, 1.0 / 256.0)];

/// Numbers that are exact in this precision.
pub(crate) fn rounded(precision: Precision, x: Vec<f32>) -> Vec<f32> {
    match precision {
        Precision::F32 => x,
        Precision::Bf16 => x.iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect(),
    }
}

/// The shared objects, loaded for the lifetime of the process, or the reason why there are none.
static LIBRARIES: OnceLock<Result<tempfile::TempDir, String>> = OnceLock::new();

/// A device for a test; if there is none, prints the reason and returns `None`.
pub(crate) fn device() -> Option<Arc<Cuda>> {
    let cache = if is_real() { super::modules::cache_folder() } else { None };
    device_with(Options { cache, reuses_memory: false })
}

/// A device with options chosen by the test.
pub(crate) fn device_with(options: Options) -> Option<Arc<Cuda>> {
    if !is_real()
        && let Err(why) = LIBRARIES.get_or_init(build)
    {
        println!("skipped: no emulated GPU: {why}");
        return None;
    }
    Some(Cuda::open_with(0, options).unwrap())
}

fn is_real() -> bool {
    std::env::var_os("BURNISH_TEST_GPU").is_some()
}

/// Compiles the emulation and loads it under the names that the bindings look for.
fn build() -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/emulate");
    if !cfg!(target_os = "linux") {
        return Err("it is made for Linux".to_owned());
    }
    if Command::new("g++").arg("--version").output().is_err() {
        return Err("no C++ compiler (g++) on this machine".to_owned());
    }
    let in_f32 = ATTENTION.iter().map(|(head_dim, tile)| format!("{head_dim}:{tile}"));
    let kernels = in_f32.chain(ATTENTION_MMA.iter().map(ToString::to_string));
    let mut command = Command::new("bash");
    let output = command.arg(sources.join("build.sh")).arg(folder.path()).args(kernels).output();
    let output = output.map_err(|error| format!("bash: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["cuda", "cublas", "nvrtc"] {
        let path = folder.path().join(format!("lib{name}.so"));
        // SAFETY: its initialisers fill a table. The loader finds it again under its soname.
        let library = unsafe { libloading::Library::new(&path) }.map_err(|error| error.to_string())?;
        std::mem::forget(library);
    }
    Ok(folder)
}
