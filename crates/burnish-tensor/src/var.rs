//! Values on a tape.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{DeviceError, data::Data};

/// A matrix `[rows, cols]`, the result of an operation of a [`Tape`](crate::Tape). Cheap to clone; the memory is freed
/// with the last clone, or on a recording tape once its gradient has been passed on.
#[derive(Clone, Debug)]
pub struct Var {
    pub(crate) data: Arc<Data>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// The slot in which the tape collects its gradient.
    pub(crate) slot: usize,
}

impl Var {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The elements, row-major.
    ///
    /// # Panics
    /// If they are on a GPU: [`HostReadback::read`](crate::HostReadback::read) copies them from there.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        self.data.host()
    }

    /// The elements, copied from a GPU if they are there. Waits for it.
    ///
    /// # Errors
    /// The first failure on the GPU so far.
    pub fn on_host(&self) -> Result<Cow<'_, [f32]>, DeviceError> {
        match &*self.data {
            Data::Host(data) => Ok(Cow::Borrowed(data)),
            Data::Device(data) => {
                let cuda = data.all();
                Ok(Cow::Owned(cuda.in_f32(data.cuda()).all().download(data.cuda())?))
            }
        }
    }
}
