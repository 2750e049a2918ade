//! The cache of keys and values on a GPU, as the sampler uses it.
//!
//! On the host the sampler has a cache of its own, in [`KvBlock`](crate::KvBlock)s. A GPU has one [`PagedCache`] for a
//! whole batch, and the sampler gives the numbers of the pages that a row is written to and that it sees.

#[cfg(any(test, feature = "cuda"))]
use std::sync::{Mutex, PoisonError};

use crate::{HeadShape, Params, Precision, Tape, Var};
#[cfg(any(test, feature = "cuda"))]
use crate::{
    cuda::ops::decode::{self, Cache, Seen, Slots},
    cuda::tape::Gpu,
    data::Data,
};

/// Pages of [`KV_ROWS`](crate::KV_ROWS) rows of keys and values at every layer, in the memory of the parameters' GPU.
#[derive(Debug)]
pub struct PagedCache {
    #[cfg(any(test, feature = "cuda"))]
    cache: Mutex<Cache>,
    #[cfg(not(any(test, feature = "cuda")))]
    never: std::convert::Infallible,
}

/// Where the rows of a batch are written. Every layer uses the same.
#[derive(Debug)]
pub struct PageSlots {
    #[cfg(any(test, feature = "cuda"))]
    slots: Slots,
}

/// What each row of a batch sees. Every layer uses the same.
#[derive(Debug)]
pub struct PagesSeen {
    #[cfg(any(test, feature = "cuda"))]
    seen: Seen,
}

impl PagedCache {
    /// Bytes of one number in a cache for these parameters: that of f32, or on a GPU that of bf16 if products are in
    /// bf16.
    #[must_use]
    pub fn element_bytes(params: &Params) -> usize {
        match params.precision() {
            Precision::Bf16 if !params.device().is_cpu() => size_of::<half::bf16>(),
            _ => size_of::<f32>(),
        }
    }

    /// `pages` pages beside `params`, for keys and values with `width` columns; `None` if the parameters are on the
    /// host.
    #[must_use]
    #[cfg_attr(not(any(test, feature = "cuda")), expect(unused_variables, reason = "a build without GPUs"))]
    pub fn beside(params: &Params, layers: usize, width: usize, pages: usize) -> Option<Self> {
        #[cfg(any(test, feature = "cuda"))]
        return params.device().gpu().map(|cuda| {
            let cache = Cache::new(cuda, params.precision(), layers, width, pages);
            PagedCache { cache: Mutex::new(cache) }
        });
        #[cfg(not(any(test, feature = "cuda")))]
        None
    }
}

#[cfg(any(test, feature = "cuda"))]
impl PagedCache {
    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(any(test, feature = "cuda"))]
impl<'p> Tape<'p> {
    #[expect(clippy::expect_used, reason = "a mistake of the program: it has a cache of other parameters")]
    fn beside_cache(&self) -> &Gpu<'p> {
        self.gpu().expect("a cache on a GPU beside parameters on the host")
    }

    /// Uploads where rows are written: row `i` goes to row `slots[i] % KV_ROWS` of page `slots[i] / KV_ROWS`.
    ///
    /// # Panics
    /// If the cache has no such page.
    #[must_use]
    pub fn page_slots(&self, cache: &PagedCache, slots: &[usize]) -> PageSlots {
        PageSlots { slots: Slots::upload(self.beside_cache().cuda, &cache.lock(), slots) }
    }

    /// Uploads what rows see: for each row its pages in order, with the number of rows in each.
    ///
    /// # Panics
    /// If the cache has no such page, or a row sees nothing.
    #[must_use]
    pub fn pages_seen(&self, cache: &PagedCache, rows: &[Vec<(usize, usize)>]) -> PagesSeen {
        PagesSeen { seen: Seen::upload(self.beside_cache().cuda, &cache.lock(), rows) }
    }

    /// Writes the rows of `k` and `v` `[slots, kv_heads · head_dim]` at `layer`.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn write_pages(&mut self, cache: &PagedCache, layer: usize, slots: &PageSlots, k: &Var, v: &Var) {
        let (k, v) = (k.data.device().all(), v.data.device().all());
        decode::write(self.beside_cache().cuda, &mut cache.lock(), layer, &slots.slots, k, v);
    }

    /// Attention of each row of `q` `[rows, heads · head_dim]` over the rows that it sees at `layer`, shaped like `q`.
    /// The result of a row does not depend on the other rows in the batch.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn paged_attention(
        &mut self,
        q: &Var,
        shape: HeadShape,
        cache: &PagedCache,
        layer: usize,
        seen: &PagesSeen,
    ) -> Var {
        let q_data = q.data.device().all();
        let out = decode::attend(self.beside_cache().cuda, q_data, shape, &cache.lock(), layer, &seen.seen);
        self.value(q.rows, q.cols, Data::Device(out))
    }
}

/// In a build without GPUs there is no cache with which these could be called.
#[cfg(not(any(test, feature = "cuda")))]
#[expect(missing_docs, clippy::must_use_candidate, reason = "documented above, for builds with GPUs")]
impl Tape<'_> {
    pub fn page_slots(&self, cache: &PagedCache, _slots: &[usize]) -> PageSlots {
        match cache.never {}
    }

    pub fn pages_seen(&self, cache: &PagedCache, _rows: &[Vec<(usize, usize)>]) -> PagesSeen {
        match cache.never {}
    }

    pub fn write_pages(&mut self, cache: &PagedCache, _: usize, _: &PageSlots, _: &Var, _: &Var) {
        match cache.never {}
    }

    pub fn paged_attention(
        &mut self,
        _q: &Var,
        _shape: HeadShape,
        cache: &PagedCache,
        _layer: usize,
        _seen: &PagesSeen,
    ) -> Var {
        match cache.never {}
    }
}
