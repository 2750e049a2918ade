//! The parameters of a model: named matrices in flat buffers.
//!
//! Trained parameters are in one f32 buffer, so that the optimiser is a single pass, the gradient norm a single sum,
//! and a gradient buffer just another `Vec` of the same length. Frozen ones (the base under an adapter) are kept apart,
//! so that they need neither gradient nor optimiser state; their matrices may be kept in bf16.

use std::ops::Range;
use std::sync::OnceLock;

use half::bf16;

use crate::cuda::params::OnGpu;
use crate::{Device, DeviceError, Elements, ElementsMut, Precision};

/// The buffer that holds a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// f32, with a gradient.
    Trained,
    /// f32, never changed by training.
    Frozen,
    /// bf16, never changed by training: matrices only.
    FrozenBf16,
}

/// A matrix inside a flat parameter buffer, row-major. A vector has one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Which buffer.
    pub store: Store,
    /// Index of the first element in the buffer.
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

    /// The range of its elements in their buffer; for a trained parameter also that of its gradient.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len()
    }

    /// Has it a gradient?
    #[must_use]
    pub fn is_trained(&self) -> bool {
        self.store == Store::Trained
    }

    /// Its part of a gradient buffer; `None` for a frozen one.
    pub(crate) fn gradient<'g>(&self, grads: &'g mut [f32]) -> Option<&'g mut [f32]> {
        self.is_trained().then(|| &mut grads[self.range()])
    }
}

/// Information about one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamEntry {
    /// Its name in checkpoints.
    pub name: String,
    /// Where its elements are.
    pub param: Param,
    /// Its shape in checkpoints; more than two dimensions are flattened into the columns of `param`.
    pub shape: Vec<usize>,
    /// Whether weight decay applies to it.
    pub decays: bool,
}

/// All parameters of a model, in the order in which they were added.
///
/// On a GPU ([`Params::on`]) they are copied there when first used, and trained there. The trained ones are copied back
/// when the host asks for them ([`Params::fetch`]).
#[derive(Clone, Debug, Default)]
pub struct Params {
    precision: Precision,
    device: Device,
    /// Empty while the GPU has newer values that nobody has asked for.
    trained: OnceLock<Vec<f32>>,
    trained_len: usize,
    on_gpu: OnceLock<OnGpu>,
    frozen: Vec<f32>,
    frozen_bf16: Vec<bf16>,
    entries: Vec<ParamEntry>,
}

impl Params {
    /// No parameters yet; products are computed in f32.
    #[must_use]
    pub fn new() -> Self {
        Params::default()
    }

    /// The same parameters, stored as they are, with products computed in `precision`.
    #[must_use]
    pub fn in_precision(mut self, precision: Precision) -> Self {
        self.change();
        Params { precision, ..self }
    }

    /// The same parameters, computed with on `device`.
    #[must_use]
    pub fn on(mut self, device: &Device) -> Self {
        self.change();
        Params { device: device.clone(), ..self }
    }

    /// The device that computes with them.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies the trained parameters back from a GPU that has changed them, so that [`Params::data`] and similar
    /// functions have them.
    ///
    /// # Errors
    /// The first failure on the GPU so far.
    pub fn fetch(&self) -> Result<(), DeviceError> {
        if self.trained.get().is_none()
            && let Some(on_gpu) = self.on_gpu.get()
        {
            let data = on_gpu.download()?;
            self.trained.get_or_init(|| data);
        }
        Ok(())
    }

    /// The trained parameters, on the host.
    #[expect(clippy::panic, reason = "documented: callers that can fail fetch first")]
    fn trained(&self) -> &Vec<f32> {
        if let Err(error) = self.fetch() {
            panic!("parameters were read that can't be fetched: {error}");
        }
        self.trained.get_or_init(Vec::new)
    }

    /// Makes the host's copy the only one, in order to change it.
    fn change(&mut self) -> &mut Vec<f32> {
        self.trained();
        self.on_gpu.take();
        let data = self.trained.take().unwrap_or_default();
        self.trained = OnceLock::from(data);
        #[expect(clippy::expect_used, reason = "the line above sets it")]
        self.trained.get_mut().expect("numbers on the host")
    }

    /// The copy on a GPU, if there is one.
    pub(crate) fn on_gpu(&self) -> Option<&OnGpu> {
        let cuda = self.device.gpu()?;
        Some(self.on_gpu.get_or_init(|| {
            OnGpu::upload(cuda, self.precision, self.trained(), &self.frozen, &self.frozen_bf16)
        }))
    }

    /// The same, to change the trained parameters: the host's copy is given up.
    pub(crate) fn on_gpu_mut(&mut self) -> Option<&mut OnGpu> {
        self.on_gpu()?;
        self.trained.take();
        self.on_gpu.get_mut()
    }

    /// Number of elements that are trained.
    #[must_use]
    pub fn trained_len(&self) -> usize {
        self.trained_len
    }

    /// The precision in which products with these parameters are computed.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Allocates memory for `len` more elements of a buffer at once, so that it does not grow by copying.
    pub fn reserve(&mut self, store: Store, len: usize) {
        match store {
            Store::Trained => self.change().reserve_exact(len),
            Store::Frozen => self.frozen.reserve_exact(len),
            Store::FrozenBf16 => self.frozen_bf16.reserve_exact(len),
        }
    }

    /// Appends a trained parameter, filled with zeros.
    pub fn add(&mut self, name: &str, shape: &[usize], decays: bool) -> Param {
        self.add_to(Store::Trained, name, shape, decays)
    }

    /// Appends a parameter filled with zeros to one of the buffers.
    pub fn add_to(&mut self, store: Store, name: &str, shape: &[usize], decays: bool) -> Param {
        let (rows, cols) = match shape {
            [] => (1, 1),
            [len] => (1, *len),
            [rows, rest @ ..] => (*rows, rest.iter().product()),
        };
        let offset = match store {
            Store::Trained => self.trained_len,
            Store::Frozen => self.frozen.len(),
            Store::FrozenBf16 => self.frozen_bf16.len(),
        };
        let param = Param { store, offset, rows, cols };
        let len = param.range().end;
        self.change();
        match store {
            Store::Trained => {
                self.trained_len = len;
                self.change().resize(len, 0.0);
            }
            Store::Frozen => self.frozen.resize(len, 0.0),
            Store::FrozenBf16 => self.frozen_bf16.resize(len, bf16::ZERO),
        }
        self.entries.push(ParamEntry { name: name.to_owned(), param, shape: shape.to_vec(), decays });
        param
    }

    /// The flat buffer of the trained parameters.
    ///
    /// # Panics
    /// If a GPU has changed them and they can't be fetched: [`Params::fetch`] returns the error.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        self.trained()
    }

    /// The flat buffer of the trained parameters, mutable.
    pub fn data_mut(&mut self) -> &mut [f32] {
        self.change()
    }

    /// The elements of one parameter, row-major, whatever their type.
    #[must_use]
    pub fn elements(&self, param: Param) -> Elements<'_> {
        match param.store {
            Store::Trained => Elements::F32(&self.trained()[param.range()]),
            Store::Frozen => Elements::F32(&self.frozen[param.range()]),
            Store::FrozenBf16 => Elements::Bf16(&self.frozen_bf16[param.range()]),
        }
    }

    /// The elements of one parameter, row-major, mutable.
    pub fn elements_mut(&mut self, param: Param) -> ElementsMut<'_> {
        self.change();
        match param.store {
            Store::Trained => ElementsMut::F32(&mut self.change()[param.range()]),
            Store::Frozen => ElementsMut::F32(&mut self.frozen[param.range()]),
            Store::FrozenBf16 => ElementsMut::Bf16(&mut self.frozen_bf16[param.range()]),
        }
    }

    /// The elements of one parameter, row-major.
    ///
    /// # Panics
    /// If they are kept in bf16: use [`Params::elements`] for those.
    #[must_use]
    #[expect(clippy::panic, reason = "documented: a mistake of the program")]
    pub fn get(&self, param: Param) -> &[f32] {
        match self.elements(param) {
            Elements::F32(values) => values,
            Elements::Bf16(_) => panic!("a parameter in bf16 is read as f32"),
        }
    }

    /// The elements of one parameter, mutable.
    ///
    /// # Panics
    /// If they are kept in bf16: use [`Params::elements_mut`] for those.
    #[expect(clippy::panic, reason = "documented: a mistake of the program")]
    pub fn get_mut(&mut self, param: Param) -> &mut [f32] {
        match self.elements_mut(param) {
            ElementsMut::F32(values) => values,
            ElementsMut::Bf16(_) => panic!("a parameter in bf16 is written as f32"),
        }
    }

    /// All parameters, in the order in which they were added.
    #[must_use]
    pub fn entries(&self) -> &[ParamEntry] {
        &self.entries
    }

    /// The trained parameters, in the order of their flat buffer.
    pub fn trained_entries(&self) -> impl Iterator<Item = &ParamEntry> {
        self.entries.iter().filter(|entry| entry.param.is_trained())
    }

    /// The parameter with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&ParamEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// A buffer of zeros laid out like the trained parameters, e.g. for gradients.
    #[must_use]
    pub fn zeros_like(&self) -> Vec<f32> {
        vec![0.0; self.trained_len]
    }
}
