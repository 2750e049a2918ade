//! The kernels: compiled for the card by NVRTC when first needed, and cached on disk.

use std::{
    collections::HashMap,
    ffi::CString,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use cudarc::{
    driver::{DriverError, result, sys},
    nvrtc::{result as nvrtc, sys as nvrtc_sys},
};

use super::{
    CudaError,
    arguments::{self, Declared, Parameter},
    ops::forest::MmaTiles,
    target::{self, Target},
};

/// The common beginning of every kernel file.
const COMMON: &str = include_str!("kernels/common.cuh");

/// The kernel files.
pub(crate) const FILES: [(&str, &str); 16] = [
    ("elementwise.cu", include_str!("kernels/elementwise.cu")),
    ("gather.cu", include_str!("kernels/gather.cu")),
    ("norm.cu", include_str!("kernels/norm.cu")),
    ("rope.cu", include_str!("kernels/rope.cu")),
    ("scores.cu", include_str!("kernels/scores.cu")),
    ("optim.cu", include_str!("kernels/optim.cu")),
    ("decode.cu", include_str!("kernels/decode.cu")),
    ("draw.cu", include_str!("kernels/draw.cu")),
    ("attention.cu", include_str!("kernels/attention.cu")),
    (
        "attention_mma.cu",
        concat!(
            include_str!("kernels/mma.cuh"),
            include_str!("kernels/walk.cuh"),
            include_str!("kernels/attention_mma.cu")
        ),
    ),
    (
        "attention_wgmma.cu",
        concat!(
            include_str!("kernels/mma.cuh"),
            include_str!("kernels/hopper.cuh"),
            include_str!("kernels/walk.cuh"),
            include_str!("kernels/attention_wgmma.cu")
        ),
    ),
    ("linear_attention.cu", include_str!("kernels/linear_attention.cu")),
    (
        "delta.cu",
        concat!(
            include_str!("kernels/mma.cuh"),
            "\n",
            include_str!("kernels/delta.cuh"),
            "\n",
            include_str!("kernels/delta.cu")
        ),
    ),
    (
        "delta_backward.cu",
        concat!(
            include_str!("kernels/mma.cuh"),
            "\n",
            include_str!("kernels/delta.cuh"),
            "\n",
            include_str!("kernels/delta_backward.cu")
        ),
    ),
    ("recurrent.cu", include_str!("kernels/recurrent.cu")),
    ("few_rows.cu", concat!(include_str!("kernels/mma.cuh"), "\n", include_str!("kernels/few_rows.cu"))),
];

/// A kernel file, with its macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    Elementwise,
    Gather,
    Norm,
    Rope,
    Scores,
    Optim,
    Decode,
    Draw,
    Attention { head_dim: usize, tile: usize },
    AttentionMma { head_dim: usize, tiles: MmaTiles },
    AttentionWgmma { head_dim: usize },
    LinearAttention,
    Delta(DeltaKernel),
    DeltaBackward(DeltaKernel),
    Recurrent,
    FewRows,
}

/// How `kernels/delta.cuh` is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeltaKernel {
    /// Are values bf16, and products on tensor cores?
    pub(crate) is_tensor: bool,
    /// Has each channel of a key its decays?
    pub(crate) is_by_channel: bool,
}

impl Program {
    fn file(self) -> (&'static str, &'static str) {
        FILES[match self {
            Program::Elementwise => 0,
            Program::Gather => 1,
            Program::Norm => 2,
            Program::Rope => 3,
            Program::Scores => 4,
            Program::Optim => 5,
            Program::Decode => 6,
            Program::Draw => 7,
            Program::Attention { .. } => 8,
            Program::AttentionMma { .. } => 9,
            Program::AttentionWgmma { .. } => 10,
            Program::LinearAttention => 11,
            Program::Delta(_) => 12,
            Program::DeltaBackward(_) => 13,
            Program::Recurrent => 14,
            Program::FewRows => 15,
        }]
    }

    fn macros(self) -> Vec<String> {
        match self {
            Program::Attention { head_dim, tile } => {
                vec![format!("HEAD_DIM={head_dim}"), format!("TILE={tile}")]
            }
            Program::AttentionMma { head_dim, tiles: MmaTiles { rows, columns } } => {
                vec![format!("HEAD_DIM={head_dim}"), format!("ROWS={rows}"), format!("COLUMNS={columns}")]
            }
            Program::AttentionWgmma { head_dim } => vec![format!("HEAD_DIM={head_dim}")],
            Program::Delta(kernel) | Program::DeltaBackward(kernel) => {
                let DeltaKernel { is_tensor, is_by_channel } = kernel;
                let (tensor, by_channel) = (u8::from(is_tensor), u8::from(is_by_channel));
                vec![format!("TENSOR={tensor}"), format!("BY_CHANNEL={by_channel}")]
            }
            _ => Vec::new(),
        }
    }

    /// NVRTC's name for the cards that it is compiled for. Instructions that no later cards have need a name of their own.
    fn architecture(self, target: Target) -> String {
        let suffix = if matches!(self, Program::AttentionWgmma { .. }) { "a" } else { "" };
        target.architecture() + suffix
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let macros = self.macros().into_iter().fold(String::new(), |all, one| all + " " + &one);
        write!(f, "{}{macros}", self.file().0)
    }
}

/// A kernel ready to be launched.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) function: sys::CUfunction,
    pub(crate) parameters: Vec<Parameter>,
    /// Bytes of dynamic shared memory that it may currently use.
    pub(crate) shared_bytes_max: u32,
    /// May it be launched before earlier work is done?
    pub(crate) overlaps: bool,
}

/// All kernels used so far.
#[derive(Debug)]
pub(crate) struct Modules {
    /// The card's compute capability.
    capability: (i32, i32),
    /// What programs are compiled for, once NVRTC has been asked.
    target: Option<Target>,
    /// The folder for compiled programs; `None` if there is none.
    cache: Option<PathBuf>,
    loaded: HashMap<Program, HashMap<&'static str, Kernel>>,
    handles: Vec<sys::CUmodule>,
}

/// Bytes of dynamic shared memory that a kernel may use without a request: 48 KiB, less what it may have beside them.
const SHARED_BYTES_DEFAULT: u32 = 32 << 10;

impl Modules {
    pub(crate) fn new(capability: (i32, i32), cache: Option<PathBuf>) -> Self {
        Modules { capability, target: None, cache, loaded: HashMap::new(), handles: Vec::new() }
    }

    /// A kernel of a program. The card's context must be current. `release` frees memory of the card, where there is none
    /// for the program: it is outside the pool that buffers are from.
    ///
    /// # Panics
    /// If the program has no such kernel.
    #[expect(clippy::panic, reason = "documented: a mistake of the program")]
    pub(crate) fn kernel(
        &mut self,
        program: Program,
        name: &str,
        release: &dyn Fn(),
    ) -> Result<&mut Kernel, CudaError> {
        if !self.loaded.contains_key(&program) {
            let kernels = self.load(program, release)?;
            self.loaded.insert(program, kernels);
        }
        match self.loaded.get_mut(&program).and_then(|kernels| kernels.get_mut(name)) {
            Some(kernel) => Ok(kernel),
            None => panic!("{program} has no kernel {name}"),
        }
    }

    fn load(
        &mut self,
        program: Program,
        release: &dyn Fn(),
    ) -> Result<HashMap<&'static str, Kernel>, CudaError> {
        let target = self.target()?;
        let (source, path) = self.source(program, target)?;
        let kept = path.as_ref().and_then(|path| std::fs::read(path).ok());
        // A file that the driver refuses is compiled again.
        let module = match kept.filter(|image| !image.is_empty()).map(|image| load_image(&image, release)) {
            Some(Ok(module)) => module,
            _ => {
                let image = compile(program, source, target)?;
                let module = load_image(&image, release).map_err(CudaError::driver(format!(
                    "loading {program} (the driver must be as new as the NVRTC that compiled it)"
                )))?;
                if let Some(path) = path {
                    // If this fails, the next start compiles again; nothing else depends on it.
                    let _ = keep(&path, &image);
                }
                module
            }
        };
        self.handles.push(module);
        let kernel = |Declared { name, parameters, waits }: Declared<'static>| {
            let c_name = CString::new(name).unwrap_or_default();
            // SAFETY: the module has just been loaded.
            let function = unsafe { result::module::get_function(module, c_name) }
                .map_err(CudaError::driver(format!("looking for kernel {name} in {program}")))?;
            // What was compiled for an older card does not wait, whatever the card.
            let overlaps = waits && target.can_wait();
            Ok((name, Kernel { function, parameters, shared_bytes_max: SHARED_BYTES_DEFAULT, overlaps }))
        };
        arguments::kernels(program.file().1).into_iter().map(kernel).collect()
    }

    fn target(&mut self) -> Result<Target, CudaError> {
        match self.target {
            Some(target) => Ok(target),
            None => Ok(*self.target.insert(Target::of(self.capability, &target::supported()?)?)),
        }
    }

    /// The source text of a program, and the file with the compiled program.
    fn source(&self, program: Program, target: Target) -> Result<(String, Option<PathBuf>), CudaError> {
        let source = format!("{COMMON}\n{}", program.file().1);
        let mut hasher = DefaultHasher::new();
        (&source, program.macros(), target, nvrtc_version()?).hash(&mut hasher);
        let stem = program.file().0.trim_end_matches(".cu");
        let (architecture, hash) = (program.architecture(target), hasher.finish());
        let name = format!("{stem}-{architecture}-{hash:016x}.{}", target.suffix());
        Ok((source, self.cache.as_ref().map(|folder| folder.join(name))))
    }

    /// Frees all programs.
    pub(crate) fn unload(&mut self) {
        self.loaded.clear();
        for module in self.handles.drain(..) {
            // SAFETY: it was loaded and not unloaded, and nothing is launched any more.
            let _ = unsafe { result::module::unload(module) };
        }
    }
}

fn load_image(image: &[u8], release: &dyn Fn()) -> Result<sys::CUmodule, DriverError> {
    // SAFETY: the image comes from NVRTC or from its file; the driver checks and copies it.
    let load = || unsafe { result::module::load_data(image.as_ptr().cast()) };
    match load() {
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            release();
            load()
        }
        loaded => loaded,
    }
}

/// Other processes see the whole file or none.
fn keep(path: &Path, image: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&unfinished, image)?;
    std::fs::rename(&unfinished, path)
}

/// `$XDG_CACHE_HOME/burnish/cuda`, or `~/.cache/burnish/cuda`.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(base.join("burnish").join("cuda"))
}

fn nvrtc_version() -> Result<(i32, i32), CudaError> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are valid.
    let status = unsafe { nvrtc_sys::nvrtcVersion(&mut major, &mut minor) };
    status.result().map_err(CudaError::nvrtc("asking NVRTC for its version"))?;
    Ok((major, minor))
}

fn compile(program: Program, source: String, target: Target) -> Result<Vec<u8>, CudaError> {
    let source = CString::new(source).unwrap_or_default();
    let name = CString::new(program.file().0).unwrap_or_default();
    let handle = nvrtc::create_program(&source, Some(&name))
        .map_err(CudaError::nvrtc("handing a kernel source to NVRTC"))?;
    let architecture = program.architecture(target);
    let mut options = vec![format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
    options.extend(program.macros().iter().map(|one| format!("-D{one}")));
    // SAFETY: the program was created above, is destroyed below and nowhere else, and lives while its texts are used.
    unsafe {
        let compiled = nvrtc::compile_program(handle, &options).map_err(|error| {
            let log = nvrtc::get_program_log(handle).unwrap_or_default();
            let log = log.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect::<Vec<_>>();
            CudaError::Compile {
                program: program.to_string(),
                architecture,
                status: format!("{:?}", error.0),
                log: String::from_utf8_lossy(&log).into_owned(),
            }
        });
        let image = compiled.and_then(|()| image(handle, target));
        let _ = nvrtc::destroy_program(handle);
        image
    }
}

/// # Safety
/// The program must have been compiled for the target.
unsafe fn image(handle: nvrtc_sys::nvrtcProgram, target: Target) -> Result<Vec<u8>, CudaError> {
    let failed = || CudaError::nvrtc("taking a compiled program from NVRTC");
    let mut size = 0;
    // SAFETY: the caller guarantees a compiled program; the buffer has the size that NVRTC asks for. PTX ends with a 0,
    // as the driver needs it.
    unsafe {
        match target {
            Target::Cubin(_) => nvrtc_sys::nvrtcGetCUBINSize(handle, &mut size),
            Target::Ptx(_) => nvrtc_sys::nvrtcGetPTXSize(handle, &mut size),
        }
        .result()
        .map_err(failed())?;
        let mut image = vec![0_u8; size];
        let to = image.as_mut_ptr().cast();
        match target {
            Target::Cubin(_) => nvrtc_sys::nvrtcGetCUBIN(handle, to),
            Target::Ptx(_) => nvrtc_sys::nvrtcGetPTX(handle, to),
        }
        .result()
        .map_err(failed())?;
        Ok(image)
    }
}
