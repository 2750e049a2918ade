//! Values on a tape.

use std::sync::Arc;

use crate::data::Data;

/// A matrix `[rows, cols]` that an operation of a [`Tape`](crate::Tape) gave. Cheap to clone; the memory is freed
/// with the last clone, or on a recording tape once its gradient has been passed on.
#[derive(Clone, Debug)]
pub struct Var {
    pub(crate) data: Arc<Data>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Where the tape gathers its gradient.
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
    /// If they lie on a GPU: [`HostReadback::read`](crate::HostReadback::read) brings them from there.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        self.data.host()
    }
}
