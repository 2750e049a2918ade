//! Memory of the cache: pages of one size from one bounded pool.

pub(crate) use burnish_tensor::KV_ROWS as PAGE_ROWS;
use burnish_tensor::{Buffer, KvBlock, KvBlockMut, PagedCache, Params, RecurrentState};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::state::{LayerState, State, StateShape};

/// Number of pages that `rows` tokens take.
pub(crate) fn pages_of(rows: usize) -> usize {
    rows.div_ceil(PAGE_ROWS)
}

/// The size of a page, and of what a sequence has beside its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageShape {
    /// Layers of attention.
    pub(crate) layers: usize,
    /// Columns of the keys, and of the values, at one layer.
    pub(crate) width: usize,
    /// Columns of one of their heads.
    pub(crate) head_dim: usize,
    /// Bytes of one number.
    pub(crate) element_bytes: usize,
    /// What the other layers remember of each sequence.
    pub(crate) state: StateShape,
}

impl PageShape {
    /// Numbers in a page: at each layer the keys, then the values.
    fn elements(self) -> usize {
        2 * self.layers * PAGE_ROWS * self.width
    }

    pub(crate) fn bytes(self) -> usize {
        (self.elements() * self.element_bytes).max(1)
    }

    /// Number of pages that take as much memory as the state of a sequence.
    pub(crate) fn state_pages(self) -> usize {
        self.state.bytes().div_ceil(self.bytes())
    }
}

/// All pages that may exist at once. Pages that are given back are used again.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) shape: PageShape,
    pages_max: usize,
    made: Mutex<Made>,
    /// The cache on the GPU, if the pages are there.
    paged: Option<PagedCache>,
    /// The state before the first token, if states are there too.
    first_state: Option<RecurrentState>,
}

/// The memory of a page.
#[derive(Debug)]
enum Memory {
    Host(Buffer),
    /// The page's number on the GPU.
    Gpu(usize),
}

/// Pages that have been made.
#[derive(Debug, Default)]
struct Made {
    count: usize,
    /// Pages that can't be made while states take their memory.
    lent: usize,
    /// Most pages, and pages' worth of states, that there were at once.
    most: usize,
    /// Those that are not in use.
    free: Vec<Memory>,
}

impl Pool {
    /// A pool of as many pages as fit into `bytes`.
    pub(crate) fn new(shape: PageShape, bytes: usize) -> Self {
        Pool {
            shape,
            pages_max: bytes / shape.bytes(),
            made: Mutex::default(),
            paged: None,
            first_state: None,
        }
    }

    /// The same, on the GPU that holds `params`, if there is one. There all pages are made at once, at most `needed`.
    pub(crate) fn beside(self, params: &Params, needed: usize) -> Self {
        let pages = self.pages_max.min(needed);
        match PagedCache::beside(params, self.shape.layers, self.shape.width, pages) {
            Some(paged) => {
                let first_state = self.shape.state.beside(params);
                Pool { pages_max: pages, paged: Some(paged), first_state, ..self }
            }
            None => self,
        }
    }

    /// Number of pages' worth of memory that the state of a sequence takes. On a GPU states are beside the pages, which are
    /// made at once and leave room for them.
    pub(crate) fn state_pages(&self) -> usize {
        if self.is_paged() { 0 } else { self.shape.state_pages() }
    }

    /// Are its pages on a GPU?
    pub(crate) fn is_paged(&self) -> bool {
        self.paged.is_some()
    }

    /// Most pages that may exist.
    pub(crate) fn pages_max(&self) -> usize {
        self.pages_max
    }

    /// Number of pages that could be taken now.
    pub(crate) fn free(&self) -> usize {
        let made = self.made();
        self.pages_max - made.count - made.lent + made.free.len()
    }

    /// Most bytes that were ever in use at once. Pages stay allocated until the pool is dropped.
    pub(crate) fn bytes_made(&self) -> usize {
        self.made().most * self.shape.bytes()
    }

    /// Room for something else of the size of some pages. `None` if there is too little.
    fn lend(self: &Arc<Self>, pages: usize) -> Option<Room> {
        let mut made = self.made();
        if pages > self.pages_max - made.count - made.lent + made.free.len() {
            return None;
        }
        while made.count + made.lent + pages > self.pages_max {
            made.free.pop();
            made.count -= 1;
        }
        made.lent += pages;
        made.most = made.most.max(made.count + made.lent);
        drop(made);
        Some(Room { pages, pool: Arc::clone(self) })
    }

    fn take(self: &Arc<Self>) -> Option<Page> {
        let mut made = self.made();
        let memory = match made.free.pop() {
            Some(memory) => memory,
            None if made.count + made.lent == self.pages_max => return None,
            None => {
                made.count += 1;
                made.most = made.most.max(made.count + made.lent);
                match self.paged {
                    Some(_) => Memory::Gpu(made.count - 1),
                    None => Memory::Host(Buffer::part(self.shape.elements())),
                }
            }
        };
        drop(made);
        Some(Page { memory, pool: Arc::clone(self) })
    }

    /// The list of pages stays valid even if a thread panicked.
    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for [`PAGE_ROWS`] tokens at every layer. A dropped page goes back to its pool.
#[derive(Debug)]
pub(crate) struct Page {
    memory: Memory,
    pool: Arc<Pool>,
}

impl Page {
    /// Its numbers on the host; empty if they are on a GPU.
    fn data(&self) -> &[f32] {
        match &self.memory {
            Memory::Host(data) => data,
            Memory::Gpu(_) => &[],
        }
    }

    /// The same, mutable.
    fn data_mut(&mut self) -> &mut [f32] {
        match &mut self.memory {
            Memory::Host(data) => data,
            Memory::Gpu(_) => &mut [],
        }
    }

    /// Bytes of its buffer on the host.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.data())
    }

    /// Its number on the GPU; 0 if it is on the host.
    fn number(&self) -> usize {
        match self.memory {
            Memory::Host(_) => 0,
            Memory::Gpu(number) => number,
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, Memory::Gpu(0));
        self.pool.made().free.push(memory);
    }
}

/// A part of the pool's memory that is used for something else until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    pages: usize,
    pool: Arc<Pool>,
}

impl Room {
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.pool.made().lent -= self.pages;
    }
}

/// Keys (after norm and rotation) and values of a run of tokens at every layer of attention, and the state of the other
/// layers after them. Its first pages may be shared with other blocks.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Full pages, which are never written again.
    shared: Vec<Arc<Page>>,
    /// The pages after them.
    own: Vec<Page>,
    /// Present from the first [`Block::reserve`], if the model has such layers.
    pub(crate) state: Option<State>,
    /// Number of tokens whose keys and values are present at every layer.
    pub(crate) rows: usize,
}

impl Block {
    /// A block that begins with these full pages.
    pub(crate) fn after(shared: Vec<Arc<Page>>) -> Self {
        Block { rows: shared.len() * PAGE_ROWS, shared, ..Block::default() }
    }

    /// Makes its full pages shareable: `keep` takes each with its index and returns the page that the block holds from
    /// then on.
    pub(crate) fn share(&mut self, mut keep: impl FnMut(usize, Arc<Page>) -> Arc<Page>) {
        let full = self.rows / PAGE_ROWS - self.shared.len();
        for page in self.own.drain(..full) {
            let page = keep(self.shared.len(), Arc::new(page));
            self.shared.push(page);
        }
    }

    /// The pages that may be shared.
    pub(crate) fn shared(&self) -> &[Arc<Page>] {
        &self.shared
    }

    /// Its pages, first to last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Page> {
        self.shared.iter().map(Arc::as_ref).chain(&self.own)
    }

    /// Makes room for `rows` tokens in total. `false` if the pool has too few pages; those that were taken stay.
    pub(crate) fn reserve(&mut self, rows: usize, pool: &Arc<Pool>) -> bool {
        if self.state.is_none() && pool.shape.state.layers > 0 {
            let Some(room) = pool.lend(pool.state_pages()) else { return false };
            self.state = Some(State::new(pool.shape.state, pool.first_state.as_ref(), room));
        }
        while self.pages() < pages_of(rows) {
            let Some(page) = pool.take() else { return false };
            self.own.push(page);
        }
        true
    }

    pub(crate) fn pages(&self) -> usize {
        self.shared.len() + self.own.len()
    }

    /// Its state, if that is on a GPU.
    pub(crate) fn recurrent(&self) -> Option<&RecurrentState> {
        self.state.as_ref()?.on_gpu.as_ref()
    }

    /// The state of one layer on the host.
    ///
    /// # Panics
    /// If nothing was reserved, or the model has no such layer.
    pub(crate) fn layer_state(&mut self, layer: usize) -> &mut LayerState {
        let state = self.state.as_mut().map(|state| &mut state.layers[layer]);
        state.unwrap_or_else(|| no_state())
    }

    /// Number of pages' worth of memory that its state takes.
    pub(crate) fn state_pages(&self) -> usize {
        self.state.as_ref().map_or(0, State::pages)
    }

    /// The cache on the GPU that holds its pages, if they are on one.
    pub(crate) fn paged(&self) -> Option<&PagedCache> {
        self.all().next()?.pool.paged.as_ref()
    }

    /// Where these rows are in that cache.
    pub(crate) fn slots(&self, rows: Range<usize>) -> impl Iterator<Item = usize> {
        let number = |index: usize| match index.checked_sub(self.shared.len()) {
            None => self.shared[index].number(),
            Some(index) => self.own[index].number(),
        };
        rows.map(move |row| number(row / PAGE_ROWS) * PAGE_ROWS + row % PAGE_ROWS)
    }

    /// The numbers of the pages with the first `rows` rows in that cache, each with its number of rows.
    pub(crate) fn numbers(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> {
        let used = move |index: usize| (rows - index * PAGE_ROWS).min(PAGE_ROWS);
        let pages = self.all().take(pages_of(rows)).enumerate();
        pages.map(move |(index, page)| (page.number(), used(index)))
    }

    /// Writes keys and values `[rows, width]` of `layer`, from row `start` on. These rows must lie on pages of its own.
    pub(crate) fn write(&mut self, layer: usize, start: usize, k: &[f32], v: &[f32]) {
        let Some(page) = self.own.first() else { return };
        let PageShape { width, head_dim, .. } = page.pool.shape;
        let half = PAGE_ROWS * width;
        for (row, (key, value)) in
            (start - self.shared.len() * PAGE_ROWS..).zip(k.chunks_exact(width).zip(v.chunks_exact(width)))
        {
            let layers = self.own[row / PAGE_ROWS].data_mut();
            let (k, v) = layers[2 * layer * half..2 * (layer + 1) * half].split_at_mut(half);
            KvBlockMut { k, v }.write(row % PAGE_ROWS, head_dim, key, value);
        }
    }

    /// The first `rows` rows at `layer`.
    pub(crate) fn at(&self, layer: usize, rows: usize) -> impl Iterator<Item = KvBlock<'_>> {
        self.all().take(pages_of(rows)).enumerate().map(move |(index, page)| {
            let half = PAGE_ROWS * page.pool.shape.width;
            let (k, v) = page.data()[2 * layer * half..2 * (layer + 1) * half].split_at(half);
            KvBlock { k, v, rows: (rows - index * PAGE_ROWS).min(PAGE_ROWS) }
        })
    }

    /// Copies the rows of `other` if they are on the host; does nothing for a GPU. Both must have only pages of their
    /// own.
    pub(crate) fn copy(&mut self, other: &Block) {
        if other.paged().is_some() {
            return;
        }
        for (page, other) in self.own.iter_mut().zip(&other.own) {
            page.data_mut().copy_from_slice(other.data());
        }
        if let (Some(state), Some(other)) = (&mut self.state, &other.state) {
            state.copy(other);
        }
        self.rows = other.rows;
    }

    /// Copies the keys and values `[rows, width]` of the first rows of `layer` into `k` and `v`.
    pub(crate) fn read(&self, layer: usize, k: &mut [f32], v: &mut [f32]) {
        let Some(page) = self.all().next() else { return };
        let PageShape { width, head_dim, .. } = page.pool.shape;
        let rows = k.len() / width;
        let (k, v) = (k.chunks_mut(PAGE_ROWS * width), v.chunks_mut(PAGE_ROWS * width));
        for (block, (k, v)) in self.at(layer, rows).zip(k.zip(v)) {
            block.read(head_dim, k, v);
        }
    }
}

#[expect(clippy::panic, reason = "a mistake of the program")]
fn no_state() -> ! {
    panic!("a block whose state nobody made room for")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: PageShape = PageShape {
        layers: 2,
        width: 3,
        head_dim: 3,
        element_bytes: 4,
        state: StateShape { layers: 0, inputs: 0, matrices: 0 },
    };

    #[test]
    fn states_take_their_room_from_the_pages() {
        let state = StateShape { layers: 1, inputs: 100, matrices: 200 };
        let shape = PageShape { state, ..SHAPE };
        assert_eq!((shape.bytes(), shape.state_pages()), (768, 2));
        let pool = Arc::new(Pool::new(shape, 5 * shape.bytes()));
        let (mut a, mut b, mut c) = (Block::default(), Block::default(), Block::default());
        assert!(a.reserve(PAGE_ROWS, &pool) && !b.reserve(1, &pool));
        assert_eq!((a.state_pages(), b.state_pages(), pool.free()), (2, 2, 0));
        drop(b);
        // Two pages more, which then make room for a state.
        assert!(a.reserve(3 * PAGE_ROWS, &pool) && !c.reserve(1, &pool));
        drop(a);
        assert_eq!(pool.free(), 5);
        assert!(c.reserve(2 * PAGE_ROWS, &pool));
        assert!(
            Block::default().reserve(0, &pool) == (pool.free() >= 2),
            "one free page is no room for a state"
        );
        assert_eq!(pool.bytes_made(), 5 * shape.bytes());
    }

    #[test]
    fn a_pool_never_holds_more_than_its_bytes() {
        let pool = Arc::new(Pool::new(SHAPE, 3 * SHAPE.bytes() + 1));
        assert_eq!((pool.free(), pool.bytes_made()), (3, 0));
        let (mut a, mut b) = (Block::default(), Block::default());
        assert!(a.reserve(PAGE_ROWS + 1, &pool));
        assert!(!b.reserve(2 * PAGE_ROWS, &pool));
        assert_eq!((a.pages(), b.pages(), pool.free()), (2, 1, 0));
        let held: usize = [&a, &b].iter().flat_map(|block| block.all()).map(Page::bytes).sum();
        assert_eq!((pool.bytes_made(), held), (3 * SHAPE.bytes(), 3 * SHAPE.bytes()));
        drop(a);
        assert_eq!(pool.free(), 2);
        assert!(b.reserve(3 * PAGE_ROWS, &pool));
        assert_eq!((pool.free(), pool.bytes_made()), (0, 3 * SHAPE.bytes()));
    }

    #[test]
    fn rows_are_read_back_at_their_layer() {
        let pool = Arc::new(Pool::new(SHAPE, 10 * SHAPE.bytes()));
        let rows = 2 * PAGE_ROWS + 5;
        let k = |layer: usize, row: usize| [layer as f32, row as f32, 1.0];
        let v = |layer: usize, row: usize| [layer as f32, row as f32, 2.0];
        let mut block = Block::default();
        assert!(block.reserve(rows, &pool));
        for layer in 0..2 {
            for (start, end) in [(0, 20), (20, rows)] {
                let all = |f: &dyn Fn(usize, usize) -> [f32; 3]| -> Vec<f32> {
                    (start..end).flat_map(|row| f(layer, row)).collect()
                };
                block.write(layer, start, &all(&k), &all(&v));
            }
        }
        for (layer, rows) in [(0, rows), (1, rows), (1, PAGE_ROWS), (0, 3)] {
            let blocks: Vec<KvBlock<'_>> = block.at(layer, rows).collect();
            assert_eq!(blocks.iter().map(|block| block.rows).sum::<usize>(), rows);
            let read =
                |f: &dyn Fn(&KvBlock<'_>) -> Vec<f32>| -> Vec<f32> { blocks.iter().flat_map(f).collect() };
            let turned = |block: &KvBlock<'_>| -> Vec<f32> {
                (0..3 * block.rows).map(|at| block.k[at % 3 * PAGE_ROWS + at / 3]).collect()
            };
            let expected: Vec<f32> = (0..rows).flat_map(|row| k(layer, row)).collect();
            assert_eq!(read(&turned), expected);
            let expected: Vec<f32> = (0..rows).flat_map(|row| v(layer, row)).collect();
            assert_eq!(read(&|block| block.v[..block.rows * 3].to_vec()), expected);
        }
    }
}
