//! Where the numbers of a value are stored.

use crate::Buffer;
use crate::cuda::values::Values;

/// The numbers of a value on a tape, on the device of the tape's parameters. No operation moves them.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Host(Buffer),
    Device(Values),
}

/// Selects one of two expressions by where the parameters are: `dispatch!(of, |gpu| on_a_gpu, on_the_host)`, where `of`
/// has a function `gpu`.
macro_rules! dispatch {
    ($of:expr, |$gpu:ident| $device:expr, $host:expr) => {
        match $of.gpu() {
            Some($gpu) => $device,
            None => $host,
        }
    };
}

pub(crate) use dispatch;

impl Data {
    pub(crate) fn len(&self) -> usize {
        match self {
            Data::Host(data) => data.len(),
            Data::Device(data) => data.len(),
        }
    }

    /// # Panics
    /// If they are on a GPU.
    #[expect(clippy::panic, reason = "a mistake of the program")]
    pub(crate) fn host(&self) -> &Buffer {
        match self {
            Data::Host(data) => data,
            Data::Device(_) => panic!("{ELSEWHERE} a GPU"),
        }
    }

    /// # Panics
    /// If they are on a GPU.
    #[expect(clippy::panic, reason = "a mistake of the program")]
    pub(crate) fn host_mut(&mut self) -> &mut Buffer {
        match self {
            Data::Host(data) => data,
            Data::Device(_) => panic!("{ELSEWHERE} a GPU"),
        }
    }
}

const ELSEWHERE: &str = "an operation met a value that lies on";

#[expect(clippy::panic, reason = "a mistake of the program")]
impl Data {
    /// # Panics
    /// If they are on the host.
    pub(crate) fn device(&self) -> &Values {
        match self {
            Data::Device(data) => data,
            Data::Host(_) => panic!("{ELSEWHERE} the host"),
        }
    }

    /// # Panics
    /// If they are on the host.
    pub(crate) fn into_device(self) -> Values {
        match self {
            Data::Device(data) => data,
            Data::Host(_) => panic!("{ELSEWHERE} the host"),
        }
    }

    /// # Panics
    /// If they are on the host.
    pub(crate) fn device_mut(&mut self) -> &mut Values {
        match self {
            Data::Device(data) => data,
            Data::Host(_) => panic!("{ELSEWHERE} the host"),
        }
    }
}

impl From<Buffer> for Data {
    fn from(data: Buffer) -> Self {
        Data::Host(data)
    }
}

impl From<Values> for Data {
    fn from(data: Values) -> Self {
        Data::Device(data)
    }
}
