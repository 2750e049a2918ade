//! The processors to compute on, by the names that users give them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::Var;
use crate::cuda::{Cuda, CudaError, pinned::Pinned};

/// A processor that computes.
#[derive(Clone, Debug, Default)]
pub struct Device(Kind);

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Cpu,
    Cuda(Arc<Cuda>),
}

/// A device is not available, or it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No device has this name.
    #[error(
        "there is no device `{0}`: there are \"cpu\", and NVIDIA GPUs as \"cuda:0\", \"cuda:1\" and so on"
    )]
    Unknown(String),
    /// Not implemented yet.
    #[error(
        "the device \"metal\" is not supported yet: there are \"cpu\", and NVIDIA GPUs as \"cuda:0\" and so on"
    )]
    Metal,
    /// A GPU failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

/// The meaning of a device's name.
enum Name {
    Cpu,
    Cuda(usize),
}

fn parse(name: &str) -> Result<Name, DeviceError> {
    match name {
        "cpu" => return Ok(Name::Cpu),
        "metal" => return Err(DeviceError::Metal),
        "cuda" => return Ok(Name::Cuda(0)),
        _ => {}
    }
    let ordinal = name.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok());
    ordinal.map(Name::Cuda).ok_or_else(|| DeviceError::Unknown(name.to_owned()))
}

/// The open GPUs, because a second handle would have its own memory and compiled kernels.
static OPEN: Mutex<Vec<(usize, Weak<Cuda>)>> = Mutex::new(Vec::new());

impl Device {
    /// The CPU.
    #[must_use]
    pub fn cpu() -> Self {
        Device::default()
    }

    /// Checks that this is the name of a device, whether or not the machine has it.
    ///
    /// # Errors
    /// If no device has this name.
    pub fn check_name(name: &str) -> Result<(), DeviceError> {
        parse(name).map(drop)
    }

    /// Opens `"cpu"`, or an NVIDIA GPU by its number, as in `"cuda:0"`. A GPU that is already open is shared.
    ///
    /// # Errors
    /// As [`Device::check_name`]; also if a library that the GPU needs is missing, there is no such GPU, or its driver
    /// refuses.
    pub fn open(name: &str) -> Result<Self, DeviceError> {
        match parse(name)? {
            Name::Cpu => Ok(Device::cpu()),
            Name::Cuda(ordinal) => {
                let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
                open.retain(|(_, cuda)| cuda.strong_count() > 0);
                let found = open.iter().find(|(other, _)| *other == ordinal);
                if let Some(cuda) = found.and_then(|(_, cuda)| cuda.upgrade()) {
                    return Ok(cuda.into());
                }
                let cuda = Cuda::open(ordinal)?;
                open.push((ordinal, Arc::downgrade(&cuda)));
                Ok(cuda.into())
            }
        }
    }

    /// Is it the CPU?
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        matches!(self.0, Kind::Cpu)
    }

    /// Its own name, for logs.
    #[must_use]
    pub fn description(&self) -> String {
        match &self.0 {
            Kind::Cpu => "the CPU".to_owned(),
            Kind::Cuda(cuda) => format!("{cuda:?}"),
        }
    }

    /// Checks whether anything has failed so far, as far as is known without waiting for the device.
    ///
    /// # Errors
    /// The first failure.
    pub fn check(&self) -> Result<(), DeviceError> {
        match &self.0 {
            Kind::Cpu => Ok(()),
            Kind::Cuda(cuda) => Ok(cuda.check()?),
        }
    }

    /// What a user should know about how a GPU works, once: why it does not use CUDA graphs.
    #[must_use]
    pub fn take_notice(&self) -> Option<String> {
        let error = self.gpu()?.take_refusal()?;
        Some(format!("decoding launches its kernels one by one, which is slower, because {error}"))
    }

    /// Waits until all queued work is done.
    ///
    /// # Errors
    /// The first failure.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        match &self.0 {
            Kind::Cpu => Ok(()),
            Kind::Cuda(cuda) => Ok(cuda.synchronize()?),
        }
    }

    /// Most bytes of a GPU's memory that were in use at once; `None` on the CPU, where it is not counted.
    #[must_use]
    pub fn memory_peak_bytes(&self) -> Option<usize> {
        match &self.0 {
            Kind::Cpu => None,
            Kind::Cuda(cuda) => Some(cuda.memory_peak_bytes()),
        }
    }

    /// Bytes of a GPU's memory that could still be taken, by this program as it is now; `None` on the CPU, where nobody
    /// asks.
    ///
    /// # Errors
    /// If the driver can't say.
    pub fn memory_free_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.0 {
            Kind::Cpu => Ok(None),
            Kind::Cuda(cuda) => Ok(Some(cuda.memory_free_bytes()?)),
        }
    }

    /// Bytes of a GPU's memory that are taken, by this program and by all others; `None` on the CPU.
    ///
    /// # Errors
    /// If the driver can't say.
    pub fn memory_taken_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.0 {
            Kind::Cpu => Ok(None),
            Kind::Cuda(cuda) => Ok(Some(cuda.memory_taken_bytes()?)),
        }
    }

    pub(crate) fn gpu(&self) -> Option<&Arc<Cuda>> {
        match &self.0 {
            Kind::Cpu => None,
            Kind::Cuda(cuda) => Some(cuda),
        }
    }
}

impl From<Arc<Cuda>> for Device {
    fn from(cuda: Arc<Cuda>) -> Self {
        Device(Kind::Cuda(cuda))
    }
}

/// Host memory for data that comes from a device at every step, reused each time.
#[derive(Debug, Default)]
pub struct HostReadback {
    pinned: Option<Pinned<f32>>,
}

impl HostReadback {
    /// The elements of a value, row-major. Waits for the device if they are not on the host.
    ///
    /// # Errors
    /// The first failure on the device so far.
    pub fn read<'a>(&'a mut self, var: &'a Var) -> Result<&'a [f32], DeviceError> {
        match &*var.data {
            crate::data::Data::Host(data) => Ok(data),
            crate::data::Data::Device(data) => {
                let pinned = self.pinned.get_or_insert_with(|| Pinned::new(data.cuda()));
                Ok(pinned.download(data.all().in_f32(data.cuda()).all())?)
            }
        }
    }

    /// Some rows of a value, one after the other; otherwise as [`HostReadback::read`].
    ///
    /// # Errors
    /// The first failure on the device so far.
    pub fn read_rows(
        &mut self,
        var: &Var,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<f32>, DeviceError> {
        let mut all = Vec::new();
        for row in rows {
            let range = row * var.cols..(row + 1) * var.cols;
            match &*var.data {
                crate::data::Data::Host(data) => all.extend_from_slice(&data[range]),
                crate::data::Data::Device(data) => {
                    let pinned = self.pinned.get_or_insert_with(|| Pinned::new(data.cuda()));
                    let own = data.all().slice(range).in_f32(data.cuda());
                    all.extend_from_slice(pinned.download(own.all())?);
                }
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_device_are_refused_with_those_that_are() {
        assert!(Device::open("cpu").unwrap().is_cpu());
        for name in ["gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", ""] {
            let error = Device::open(name).unwrap_err();
            assert_eq!(error, DeviceError::Unknown(name.to_owned()));
            assert!(error.to_string().contains("\"cuda:0\""), "{error}");
        }
        assert_eq!(Device::open("metal").map(drop), Err(DeviceError::Metal));
        assert_eq!(Device::check_name("cuda:3"), Ok(()));
    }
}
