//! Numbers in the memory of a GPU.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use cudarc::driver::{result, sys};
use half::bf16;

use super::{Cuda, CudaError, arguments::Scalar};

/// Types that buffers can hold.
///
/// # Safety
/// Any bytes must be a valid value of the type, and `SCALAR` must have its size in the kernels.
pub(crate) unsafe trait Element: Copy + 'static {
    /// Its type in the kernels.
    const SCALAR: Scalar;
}

// SAFETY: plain numbers, of the sizes that the kernels' `float`, `double`, `unsigned short`, `int`, `unsigned long long`
// and `unsigned char` have.
unsafe impl Element for f32 {
    const SCALAR: Scalar = Scalar::F32;
}
// SAFETY: as above.
unsafe impl Element for f64 {
    const SCALAR: Scalar = Scalar::F64;
}
// SAFETY: as above; `bf16` is a transparent `u16`.
unsafe impl Element for bf16 {
    const SCALAR: Scalar = Scalar::Bf16;
}
// SAFETY: as above.
unsafe impl Element for i32 {
    const SCALAR: Scalar = Scalar::I32;
}
// SAFETY: as above.
unsafe impl Element for u64 {
    const SCALAR: Scalar = Scalar::U64;
}
// SAFETY: as above.
unsafe impl Element for u8 {
    const SCALAR: Scalar = Scalar::U8;
}

/// An array in the memory of a GPU. It goes back to the GPU's free memory when dropped.
///
/// Work on buffers is queued and happens in the order of the calls. The GPU's handle keeps an error and returns it from
/// the next [`Buffer::download`]; until then, further work is dropped.
pub(crate) struct Buffer<T: Element> {
    cuda: Arc<Cuda>,
    pointer: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// `len` elements with arbitrary values.
    pub(crate) fn uninit(cuda: &Arc<Cuda>, len: usize) -> Self {
        let pointer = cuda.allocate(len * size_of::<T>());
        Buffer { cuda: Arc::clone(cuda), pointer, len, element: PhantomData }
    }

    /// `len` zeros.
    pub(crate) fn zeros(cuda: &Arc<Cuda>, len: usize) -> Self {
        let mut buffer = Buffer::uninit(cuda, len);
        buffer.all_mut().fill_zero(cuda);
        buffer
    }

    /// A copy of `data`.
    pub(crate) fn upload(cuda: &Arc<Cuda>, data: &[T]) -> Self {
        let mut buffer = Buffer::uninit(cuda, data.len());
        buffer.all_mut().upload(cuda, data);
        buffer
    }

    /// Uploads `data`, and `rest` into the elements behind it.
    ///
    /// # Panics
    /// If there are fewer elements.
    pub(crate) fn fill(&mut self, mut data: Vec<T>, rest: T) {
        assert!(data.len() <= self.len, "{} elements for {}", self.len, data.len());
        data.resize(self.len, rest);
        let cuda = Arc::clone(&self.cuda);
        self.all_mut().upload(&cuda, &data);
    }

    /// The elements, after all work queued before is done.
    ///
    /// # Errors
    /// The first failure on the GPU since it was opened.
    pub(crate) fn download(&self) -> Result<Vec<T>, CudaError> {
        self.all().download(&self.cuda)
    }

    /// The GPU that it is on.
    pub(crate) fn cuda(&self) -> &Arc<Cuda> {
        &self.cuda
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn all(&self) -> Slice<'_, T> {
        Slice { pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    pub(crate) fn all_mut(&mut self) -> SliceMut<'_, T> {
        SliceMut { pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> Slice<'_, T> {
        self.all().slice(range)
    }

    pub(crate) fn slice_mut(&mut self, range: Range<usize>) -> SliceMut<'_, T> {
        self.all_mut().into_slice(range)
    }
}

impl<T: Element> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        let mut copy = Buffer::uninit(&self.cuda, self.len);
        copy.all_mut().copy_from(&self.cuda, self.all());
        copy
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.cuda.give_back(self.len * size_of::<T>(), self.pointer);
    }
}

impl<T: Element> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer of {} {:?} on {}", self.len, T::SCALAR, self.cuda.name())
    }
}

/// Some elements of a buffer, to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'a, T: Element> {
    pointer: u64,
    len: usize,
    borrow: PhantomData<&'a [T]>,
}

/// Some elements of a buffer, to change.
#[derive(Debug)]
pub(crate) struct SliceMut<'a, T: Element> {
    pointer: u64,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

fn part(pointer: u64, len: usize, range: &Range<usize>, size: usize) -> u64 {
    assert!(range.start <= range.end && range.end <= len, "elements {range:?} of {len}");
    pointer + (range.start * size) as u64
}

impl<T: Element> Slice<'_, T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn address(&self) -> u64 {
        self.pointer
    }

    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        Slice { pointer: part(self.pointer, self.len, &range, size_of::<T>()), len: range.len(), ..self }
    }

    /// As [`Buffer::download`].
    pub(crate) fn download(self, cuda: &Cuda) -> Result<Vec<T>, CudaError> {
        cuda.check()?;
        let mut data: Vec<T> = Vec::with_capacity(self.len);
        if self.len > 0 {
            cuda.bind();
            let bytes = self.len * size_of::<T>();
            // SAFETY: the vector has room for `len` elements, any bytes are an element, and they have been written when
            // `synchronize` returns without an error.
            unsafe {
                sys::cuMemcpyDtoHAsync_v2(data.as_mut_ptr().cast(), self.pointer, bytes, cuda.stream())
                    .result()
                    .map_err(CudaError::driver("copying from the GPU"))?;
                cuda.synchronize()?;
                data.set_len(self.len);
            }
        }
        Ok(data)
    }
}

impl<'a, T: Element> SliceMut<'a, T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn address(&self) -> u64 {
        self.pointer
    }

    /// The same, borrowed for a shorter time.
    pub(crate) fn again(&mut self) -> SliceMut<'_, T> {
        SliceMut { pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    /// The same, to read.
    pub(crate) fn read(&self) -> Slice<'_, T> {
        Slice { pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    pub(crate) fn slice(&mut self, range: Range<usize>) -> SliceMut<'_, T> {
        self.again().into_slice(range)
    }

    pub(crate) fn into_slice(self, range: Range<usize>) -> SliceMut<'a, T> {
        SliceMut { pointer: part(self.pointer, self.len, &range, size_of::<T>()), len: range.len(), ..self }
    }

    pub(crate) fn fill_zero(self, cuda: &Cuda) {
        if self.len == 0 || !cuda.works() {
            return;
        }
        // SAFETY: the bytes belong to a live buffer.
        let filled =
            unsafe { result::memset_d8_async(self.pointer, 0, self.len * size_of::<T>(), cuda.stream()) };
        cuda.note(filled.map_err(CudaError::driver("clearing memory of the GPU")));
    }

    pub(crate) fn upload(self, cuda: &Cuda, data: &[T]) {
        assert_eq!(self.len, data.len(), "elements to upload");
        if self.len == 0 || !cuda.works() {
            return;
        }
        // SAFETY: an element is plain numbers without gaps.
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) };
        // SAFETY: lengths are equal, and the elements belong to a live buffer.
        unsafe { cuda.upload_bytes(self.pointer, bytes) };
    }

    pub(crate) fn copy_from(self, cuda: &Cuda, from: Slice<'_, T>) {
        assert_eq!(self.len, from.len, "elements to copy");
        if self.len == 0 || !cuda.works() {
            return;
        }
        let bytes = self.len * size_of::<T>();
        // SAFETY: lengths are equal, and a mutable slice overlaps no other.
        let copied = unsafe { result::memcpy_dtod_async(self.pointer, from.pointer, bytes, cuda.stream()) };
        cuda.note(copied.map_err(CudaError::driver("copying on the GPU")));
    }
}
