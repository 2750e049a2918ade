//! The cache of keys and values on a GPU, as the sampler uses it.
//!
//! On the host the sampler has a cache of its own, in [`KvBlock`](crate::KvBlock)s. A GPU has one [`PagedCache`] for a
//! whole batch, and the sampler gives the numbers of the pages that a row is written to and that it sees.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{HeadShape, Layout, Map, Norm, Params, Precision, Rope, Tape, Var};
use crate::{
    cuda::ops::attention::{self, Inputs},
    cuda::ops::decode::{self, Cache, Lists, Seen, Slots, heads},
    cuda::ops::embed::{self, Ids},
    cuda::ops::forest::Forest,
    cuda::tape::Gpu,
    data::Data,
};

/// Pages of [`KV_ROWS`](crate::KV_ROWS) rows of keys and values at every layer, in the memory of the parameters' GPU.
#[derive(Debug)]
pub struct PagedCache {
    cache: Mutex<Cache>,
}

/// Where the rows of a batch are written. Every layer uses the same.
#[derive(Debug)]
pub struct PageSlots {
    pub(crate) slots: Slots,
}

/// What each row of a batch sees. Every layer uses the same.
#[derive(Debug)]
pub struct PagesSeen {
    pub(crate) seen: Seen,
}

/// Sequences whose beginnings are in the cache, and that go on from there. Every layer uses the same.
#[derive(Debug)]
pub struct PagesContinued {
    continued: Continued,
}

/// The projections of attention.
#[derive(Clone, Debug)]
pub struct HeadMaps {
    /// Of queries, keys and values.
    pub maps: [Map; 3],
    /// The norms of the heads of queries and keys.
    pub norms: Option<[Norm; 2]>,
    /// Added to a norm's mean square.
    pub eps: f32,
    /// The rotation of the heads of queries and keys.
    pub rope: Arc<Rope>,
    /// Number and width of the heads.
    pub shape: HeadShape,
}

#[derive(Debug)]
struct Continued {
    /// Where the keys and values of all rows are.
    slots: Slots,
    forest: Forest,
    unread: Option<Unread>,
}

/// Which rows have queries, where not all have.
#[derive(Debug)]
struct Unread {
    /// For each row of the sequences its query; an arbitrary one for those that were read before, which nobody reads.
    queries: Ids,
    /// The rows that have queries, among all.
    rows: Ids,
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
    pub fn beside(params: &Params, layers: usize, width: usize, pages: usize) -> Option<Self> {
        params.device().gpu().map(|cuda| {
            let cache = Cache::new(cuda, params.precision(), layers, width, pages);
            PagedCache { cache: Mutex::new(cache) }
        })
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    pub fn pages_seen<R: IntoIterator<Item = (usize, usize)>>(
        &self,
        cache: &PagedCache,
        rows: impl IntoIterator<Item = R>,
    ) -> PagesSeen {
        let lists = Lists::new(&cache.lock(), rows);
        PagesSeen { seen: Seen::upload(self.beside_cache().cuda, lists) }
    }

    /// Prepares attention of sequences whose first rows, `pasts[i]` of segment `i` of `layout` and often none, were read
    /// before: `slots` says where the keys and values of all their rows are ([`Tape::page_slots`]).
    ///
    /// # Panics
    /// If the cache has no such page, there is not one slot for each row, or a past is longer than its segment.
    #[must_use]
    pub fn pages_continued(
        &self,
        cache: &PagedCache,
        slots: &[usize],
        layout: &Layout,
        pasts: &[usize],
        shape: HeadShape,
    ) -> PagesContinued {
        let gpu = self.beside_cache();
        let segments = layout.segments();
        assert_eq!(
            (slots.len(), pasts.len()),
            (layout.rows(), segments.len()),
            "slots and pasts of a layout"
        );
        let (mut queries, mut unread) = (vec![0; slots.len()], Vec::new());
        for (segment, past) in segments.iter().zip(pasts) {
            let rest = segment.start + past..segment.start + segment.len;
            for (query, row) in queries[rest.clone()].iter_mut().zip(rest) {
                *query = unread.len() as u32;
                unread.push(row as u32);
            }
        }
        let precision = self.params().precision();
        let some_were_read = unread.len() < slots.len();
        let unread = some_were_read.then(|| Unread {
            queries: Ids::upload(gpu.cuda, &queries, unread.len()),
            rows: Ids::upload(gpu.cuda, &unread, slots.len()),
        });
        let continued = Continued {
            slots: Slots::upload(gpu.cuda, &cache.lock(), slots),
            forest: attention::forest(gpu.cuda, layout, pasts, shape.head_dim, precision),
            unread,
        };
        PagesContinued { continued }
    }

    /// Attention of the unread rows of sequences, `q` `[unread, heads · head_dim]`, over all of their rows at `layer`, whose
    /// keys and values are in the cache; shaped like `q`. To the bit what attention over the whole sequences gives.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn continued_paged_attention(
        &mut self,
        q: &Var,
        shape: HeadShape,
        cache: &PagedCache,
        layer: usize,
        continued: &PagesContinued,
    ) -> Var {
        let Continued { slots, forest, unread } = &continued.continued;
        let cuda = self.beside_cache().cuda;
        let [k, v] = decode::read(cuda, &cache.lock(), layer, slots);
        let q_data = q.data.device().all();
        let precision = q_data.precision();
        let attend = |q| attention::forward(cuda, Inputs { q, k: k.all(), v: v.all(), shape, forest }).0;
        let out = match unread {
            None => attend(q_data),
            Some(Unread { queries, rows }) => {
                let out = attend(embed::forward(cuda, precision, q_data, q.cols, queries).all());
                embed::forward(cuda, precision, out.all(), q.cols, rows)
            }
        };
        self.value(q.rows, q.cols, Data::Device(out))
    }

    /// Writes the rows of `k` and `v` `[slots, kv_heads · head_dim]` at `layer`.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn write_pages(&mut self, cache: &PagedCache, layer: usize, slots: &PageSlots, k: &Var, v: &Var) {
        let (k, v) = (k.data.device().all(), v.data.device().all());
        decode::write(self.beside_cache().cuda, &mut cache.lock(), layer, &slots.slots, k, v);
    }

    /// Queries `[rows, heads · head_dim]`, after norm and rotation, of rows `x`, whose keys and values are written at `layer`:
    /// [`Tape::linear`], [`Tape::rms_norm`], [`Tape::rope`] and [`Tape::write_pages`] in one or three products and one
    /// kernel. Nothing is recorded.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn project_to_pages(
        &mut self,
        x: &Var,
        maps: &HeadMaps,
        positions: &Arc<[u32]>,
        (cache, layer, slots): (&PagedCache, usize, &PageSlots),
    ) -> Var {
        let projected = match self.joined(&maps.maps) {
            Some((_, weight)) => vec![self.linear(x, weight, None)],
            None => maps.maps.iter().map(|map| self.linear(x, map.weight, map.bias)).collect(),
        };
        let of = |at: usize| match &projected[..] {
            [joined] => {
                let before: usize = maps.maps[..at].iter().map(|map| map.weight.base.rows).sum();
                let all = joined.data.device().all();
                (all.slice(before..all.len()), joined.cols)
            }
            each => (each[at].data.device().all(), each[at].cols),
        };
        let gpu = self.beside_cache();
        let inputs = heads::Heads {
            projected: [of(0), of(1), of(2)],
            norms: maps.norms.map(|norms| norms.map(|norm| gpu.norm(norm))),
            eps: maps.eps,
            angles: &gpu.angles(&maps.rope, positions),
            shape: maps.shape,
        };
        let q = heads::place(gpu.cuda, &mut cache.lock(), layer, &slots.slots, inputs);
        self.value(x.rows, maps.shape.width(), Data::Device(q))
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
