//! The parameters of a model: named matrices in one flat buffer.
//!
//! One buffer makes the optimiser a single pass, the gradient norm a single sum, and a gradient buffer just
//! another `Vec` of the same length.

use std::ops::Range;

/// A matrix inside the flat parameter buffer, row-major. A vector has one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Index of the first element.
    pub offset: usize,
    /// Rows; 1 for a vector.
    pub rows: usize,
    /// Columns; the length of a vector.
    pub cols: usize,
}

impl Param {
    /// Number of elements.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no parameter is empty")]
    pub fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Where the elements lie in the flat buffer.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// What is known of one parameter beside its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamEntry {
    /// Its name in checkpoints.
    pub name: String,
    /// Where it lies.
    pub param: Param,
    /// Its shape in checkpoints; more than two dimensions are flattened into the columns of `param`.
    pub shape: Vec<usize>,
    /// Whether weight decay applies to it.
    pub decays: bool,
}

/// All parameters of a model, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Params {
    data: Vec<f32>,
    entries: Vec<ParamEntry>,
}

impl Params {
    /// No parameters yet.
    #[must_use]
    pub fn new() -> Self {
        Params::default()
    }

    /// Appends a parameter filled with zeros.
    pub fn add(&mut self, name: &str, shape: &[usize], decays: bool) -> Param {
        let (rows, cols) = match shape {
            [] => (1, 1),
            [len] => (1, *len),
            [rows, rest @ ..] => (*rows, rest.iter().product()),
        };
        let param = Param { offset: self.data.len(), rows, cols };
        self.data.resize(param.range().end, 0.0);
        self.entries.push(ParamEntry { name: name.to_owned(), param, shape: shape.to_vec(), decays });
        param
    }

    /// The flat buffer.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// The flat buffer, to change it.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// The elements of one parameter, row-major.
    #[must_use]
    pub fn get(&self, param: Param) -> &[f32] {
        &self.data[param.range()]
    }

    /// The elements of one parameter, to change them.
    pub fn get_mut(&mut self, param: Param) -> &mut [f32] {
        &mut self.data[param.range()]
    }

    /// All parameters, in the order of the flat buffer.
    #[must_use]
    pub fn entries(&self) -> &[ParamEntry] {
        &self.entries
    }

    /// The parameter of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&ParamEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// A buffer of zeros of the same layout, e.g. for gradients.
    #[must_use]
    pub fn zeros_like(&self) -> Vec<f32> {
        vec![0.0; self.data.len()]
    }
}
