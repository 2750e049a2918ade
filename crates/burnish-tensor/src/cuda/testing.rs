//! The device for tests: an emulated one, or the machine's first GPU with `BURNISH_TEST_GPU=1`.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    thread::{self, ThreadId},
};

use cudarc::driver::sys::CUstream;

use super::{
    Cuda, Options, lock,
    ops::{
        attention::{LARGE_MMA_TILES, MMA_TILES},
        forest::MmaTiles,
    },
};
use crate::Precision;

/// Sizes of heads and tiles for which there are attention kernels: too short for a vector of four, not a multiple of
/// 16, and every size of tile. The last is the tile that is chosen in the tests of whole models.
pub(crate) const ATTENTION: [(usize, usize); 5] = [(6, 16), (20, 32), (32, 64), (64, 32), (16, 64)];

/// Sizes of heads and tiles for which there are attention kernels on tensor cores.
pub(crate) const ATTENTION_MMA: [(usize, MmaTiles); 4] =
    [(16, MMA_TILES[0]), (48, MMA_TILES[0]), (48, MMA_TILES[1]), (160, LARGE_MMA_TILES[0])];

/// [`ATTENTION_MMA`], and on a real card also the heads of large models, which take the emulation too long.
pub(crate) fn attention_mma() -> Vec<(usize, MmaTiles)> {
    let large = [(64, MMA_TILES[0]), (128, MMA_TILES[0]), (128, MMA_TILES[1])];
    let large = large.into_iter().chain(LARGE_MMA_TILES.map(|tiles| (256, tiles)));
    ATTENTION_MMA.into_iter().chain(large.filter(|_| is_real())).collect()
}

/// Sizes of heads for which there are kernels by the instructions of 9.0; none if the device has others.
pub(crate) fn attention_wgmma(cuda: &Cuda) -> Vec<usize> {
    let dims = if is_real() { &[64, 128][..] } else { &ATTENTION_WGMMA };
    dims.iter().copied().filter(|_| cuda.capability() == (9, 0)).collect()
}
const ATTENTION_WGMMA: [usize; 1] = [64];

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

/// A device for a test.
pub(crate) struct TestDevice {
    cuda: Arc<Cuda>,
    _turn: Option<Turn>,
}

impl std::ops::Deref for TestDevice {
    type Target = Arc<Cuda>;

    fn deref(&self) -> &Arc<Cuda> {
        &self.cuda
    }
}

/// The thread whose test has the card, and how many devices it has open. All tests of a card share its memory, and some
/// take most of it, so one test at a time has it.
static HOLDER: Mutex<Option<(ThreadId, usize)>> = Mutex::new(None);
static PASSED_ON: Condvar = Condvar::new();

/// Counts one device of the thread that holds the card.
struct Turn;

impl Turn {
    fn wait() -> Turn {
        let own = thread::current().id();
        let is_others =
            |holder: &mut Option<(ThreadId, usize)>| holder.is_some_and(|(other, _)| other != own);
        let mut holder =
            PASSED_ON.wait_while(lock(&HOLDER), is_others).unwrap_or_else(PoisonError::into_inner);
        holder.get_or_insert((own, 0)).1 += 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut holder = lock(&HOLDER);
        *holder = holder.filter(|(_, open)| *open > 1).map(|(thread, open)| (thread, open - 1));
        PASSED_ON.notify_all();
    }
}

/// A device for a test; if there is none, prints the reason and returns `None`.
pub(crate) fn device() -> Option<TestDevice> {
    let cache = if is_real() { super::modules::cache_folder() } else { None };
    device_with(Options { cache, ..OPTIONS })
}

/// Exact sizes; uploads in many parts.
pub(super) const OPTIONS: Options =
    Options { capability: None, cache: None, reuses_memory: false, staging_bytes: 1 << 10 };

/// A device with options chosen by the test.
pub(super) fn device_with(options: Options) -> Option<TestDevice> {
    if !is_real()
        && let Err(why) = LIBRARIES.get_or_init(build)
    {
        println!("skipped: no emulated GPU: {why}");
        return None;
    }
    let turn = is_real().then(Turn::wait);
    Some(TestDevice { cuda: Cuda::open_with(0, options).unwrap(), _turn: turn })
}

/// From now on, the emulated driver refuses launches that overlap with earlier work: 1 those that are captured, 2 all.
pub(crate) fn refuse_overlaps(cuda: &Cuda, refused: i32) {
    // SAFETY: the library is loaded already and stays so; the function is that of `emulate/driver.cpp`.
    unsafe {
        let library = libloading::Library::new("libcuda.so").unwrap();
        let refuse: libloading::Symbol<'_, unsafe extern "C" fn(CUstream, i32)> =
            library.get(b"emulated_refuse_overlaps").unwrap();
        refuse(cuda.stream(), refused);
    }
}

pub(crate) fn is_real() -> bool {
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
    let kernels = in_f32.chain(
        ATTENTION_MMA.iter().map(|(head_dim, tiles)| format!("{head_dim}:{}:{}", tiles.rows, tiles.columns)),
    );
    let kernels = kernels.chain(ATTENTION_WGMMA.iter().map(usize::to_string));
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

#[test]
fn one_thread_at_a_time_has_the_card() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let turn = (Turn::wait(), Turn::wait());
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    drop(turn.0);
                    thread::yield_now();
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                    drop(turn.1);
                }
            });
        }
    });
    assert_eq!(*lock(&HOLDER), None);
}
