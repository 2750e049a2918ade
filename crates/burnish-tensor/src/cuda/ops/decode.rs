//! Attention of single query rows over keys and values in pages: the step of autoregressive decoding.

pub(crate) mod heads;

use std::sync::{Arc, Mutex};

use half::bf16;

use crate::{
    HeadShape, Precision,
    cuda::{
        Buffer, Cuda, int,
        launch_shape::LaunchShape,
        lock, long,
        modules::Program::{AttentionMma, Decode},
        ops::{attention::method_of, forest::AttentionKernel},
        values::{Elements, ElementsMut, Values},
    },
};

/// Rows in a page; the kernels use the same number.
const PAGE_ROWS: usize = 16;
/// The sampler counts pages in its own blocks.
const _: () = assert!(PAGE_ROWS == crate::KV_ROWS);
/// Number of entries of a row's list that one block handles.
const SPLIT_PAGES: usize = 16;
/// Threads of a block.
const THREADS: usize = 128;

/// Pages of keys and values of all layers on the GPU: per layer `PAGE_ROWS` rows of keys `[kv_heads · head_dim]`, then
/// as many rows of values, in the type that the precision has for values.
#[derive(Debug)]
pub(crate) struct Cache {
    data: Values,
    layers: usize,
    width: usize,
    pages: usize,
}

impl Cache {
    /// `pages` pages for `layers` layers, of keys and values with `width` columns.
    pub(crate) fn new(
        cuda: &Arc<Cuda>,
        precision: Precision,
        layers: usize,
        width: usize,
        pages: usize,
    ) -> Self {
        // A slot is an `int` in the kernels.
        assert!(i32::try_from(pages * PAGE_ROWS).is_ok(), "{pages} pages");
        let len = pages * Cache::page_len(layers, width);
        let data = Values::uninit(cuda, precision, len);
        Cache { data, layers, width, pages }
    }

    /// Elements of one page.
    pub(crate) fn page_len(layers: usize, width: usize) -> usize {
        2 * layers * PAGE_ROWS * width
    }

    /// The part from this layer of the first page on, writable.
    fn at_mut(&mut self, layer: usize) -> ElementsMut<'_> {
        let first = self.first(layer);
        self.data.slice_mut(first..self.data.len())
    }

    /// The same, read-only.
    fn at(&self, layer: usize) -> Elements<'_> {
        self.data.all().slice(self.first(layer)..self.data.len())
    }

    fn first(&self, layer: usize) -> usize {
        assert!(layer < self.layers, "layer {layer} of {}", self.layers);
        2 * layer * PAGE_ROWS * self.width
    }
}

/// Where rows are written: `page · PAGE_ROWS + row` for each; -1 for rows that are written nowhere.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Buffer<i32>,
}

impl Slots {
    /// # Panics
    /// If a slot is not in the cache.
    pub(crate) fn upload(cuda: &Arc<Cuda>, cache: &Cache, slots: &[usize]) -> Self {
        let mut uploaded = Slots::with_room(cuda, slots.len());
        uploaded.fill(cache, slots);
        uploaded
    }

    /// Room for this many rows.
    pub(crate) fn with_room(cuda: &Arc<Cuda>, rows: usize) -> Self {
        Slots { slots: Buffer::uninit(cuda, rows) }
    }

    /// Uploads the slots of the first rows; the others are written nowhere.
    ///
    /// # Panics
    /// If a slot is not in the cache, or there is no room.
    pub(crate) fn fill(&mut self, cache: &Cache, slots: &[usize]) {
        assert!(slots.iter().all(|&slot| slot < cache.pages * PAGE_ROWS), "a slot beyond the cache");
        let slots = slots.iter().map(|&slot| slot as i32).collect();
        self.slots.fill(slots, -1);
    }
}

/// Writes row `i` of `k` and `v` `[slots, width]` into slot `i`, at `layer`.
pub(crate) fn write(
    cuda: &Arc<Cuda>,
    cache: &mut Cache,
    layer: usize,
    slots: &Slots,
    k: Elements<'_>,
    v: Elements<'_>,
) {
    let (width, rows) = (cache.width, slots.slots.len());
    assert_eq!((k.len(), v.len()), (rows * width, rows * width), "one row for each slot");
    let page_len = Cache::page_len(cache.layers, width);
    let name = k.kernel(["write_pages_f32", "write_pages_bf16"]);
    let data = cache.at_mut(layer).into();
    let arguments = &mut [data, k.into(), v.into(), slots.slots.all().into(), long(page_len), int(width)];
    cuda.launch(Decode, name, LaunchShape::rows(rows, width), arguments);
}

/// The reverse: row `i` of keys and values `[slots, width]` from slot `i`, at `layer`.
pub(crate) fn read(cuda: &Arc<Cuda>, cache: &Cache, layer: usize, slots: &Slots) -> [Values; 2] {
    let (width, rows) = (cache.width, slots.slots.len());
    let data = cache.at(layer);
    let mut both = [(); 2].map(|()| Values::uninit(cuda, data.precision(), rows * width));
    let [k, v] = &mut both;
    let name = data.kernel(["read_pages_f32", "read_pages_bf16"]);
    let (page_len, slots) = (long(Cache::page_len(cache.layers, width)), slots.slots.all());
    let arguments =
        &mut [k.all_mut().into(), v.all_mut().into(), data.into(), slots.into(), page_len, int(width)];
    cuda.launch(Decode, name, LaunchShape::rows(rows, width), arguments);
    both
}

/// The pages that each query row sees, and their split over blocks. Every layer of a step uses the same.
#[derive(Debug)]
pub(crate) struct Seen {
    tasks: Buffer<i32>,
    pages: Buffer<i32>,
    firsts: Buffer<i32>,
    /// For each row and heads that share a block, how many of its tasks have ended: zeros between kernels.
    ended: Mutex<Option<Buffer<i32>>>,
}

/// [`Seen`] on the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    /// (query row, entries).
    tasks: Vec<i32>,
    /// (page, rows used), with room for `SPLIT_PAGES` entries of each task.
    pages: Vec<i32>,
    /// For each query row its first task, and at the end the number of tasks.
    firsts: Vec<i32>,
}

impl Lists {
    /// For each query row its pages in order, each with the number of its rows that are seen. A row's list is split by
    /// its own length only, so that its result does not depend on its batch.
    ///
    /// # Panics
    /// If a page is not in the cache, or a row sees nothing.
    pub(crate) fn new<R: IntoIterator<Item = (usize, usize)>>(
        cache: &Cache,
        rows: impl IntoIterator<Item = R>,
    ) -> Lists {
        let mut lists = Lists { tasks: Vec::new(), pages: Vec::new(), firsts: vec![0] };
        for (row, entries) in rows.into_iter().enumerate() {
            let mut count = 0;
            for (page, used) in entries.into_iter().filter(|(_, used)| *used > 0) {
                assert!(page < cache.pages && used <= PAGE_ROWS, "a page beyond the cache");
                if count % SPLIT_PAGES == 0 {
                    lists.pages.resize(2 * lists.tasks() * SPLIT_PAGES, 0);
                    lists.tasks.extend([row as i32, 0]);
                }
                count += 1;
                let last = lists.tasks.len() - 1;
                lists.tasks[last] += 1;
                lists.pages.extend([page as i32, used as i32]);
            }
            assert!(count > 0, "query row {row} sees nothing");
            lists.firsts.push(lists.tasks() as i32);
        }
        lists
    }

    /// Number of query rows.
    pub(crate) fn rows(&self) -> usize {
        self.firsts.len() - 1
    }

    /// Number of tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len() / 2
    }
}

impl Seen {
    pub(crate) fn upload(cuda: &Arc<Cuda>, lists: Lists) -> Self {
        let [tasks, pages, firsts] =
            [&lists.tasks, &lists.pages, &lists.firsts].map(|list| Buffer::upload(cuda, list));
        Seen { tasks, pages, firsts, ended: Mutex::default() }
    }

    /// Room for this many query rows and tasks.
    pub(crate) fn with_room(cuda: &Arc<Cuda>, rows: usize, tasks: usize) -> Self {
        let [tasks, pages, firsts] =
            [2 * tasks, 2 * tasks * SPLIT_PAGES, rows + 1].map(|len| Buffer::uninit(cuda, len));
        Seen { tasks, pages, firsts, ended: Mutex::default() }
    }

    /// Uploads the lists of the first query rows; the others see nothing, and their attention is 0.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn fill(&mut self, lists: Lists) {
        let end = lists.tasks() as i32;
        self.tasks.fill(lists.tasks, 0);
        // Nobody reads pages beyond those of the tasks.
        let cuda = Arc::clone(self.pages.cuda());
        self.pages.slice_mut(0..lists.pages.len()).upload(&cuda, &lists.pages);
        self.firsts.fill(lists.firsts, end);
    }
}

/// Bytes of shared memory of `attention_mma_decode`: the queries, and two pages of keys and of values for each warp.
pub(crate) fn mma_decode_bytes(head_dim: usize) -> usize {
    size_of::<bf16>() * PAGE_ROWS * (head_dim + 8) * (1 + 4 * THREADS / 32)
}

/// Attention of each row of `q` `[rows, heads · head_dim]` over the rows that it sees at `layer`; shaped like `q`.
pub(crate) fn attend(
    cuda: &Arc<Cuda>,
    q: Elements<'_>,
    shape: HeadShape,
    cache: &Cache,
    layer: usize,
    seen: &Seen,
) -> Values {
    let HeadShape { heads, kv_heads, head_dim } = shape;
    let (rows, tasks) = (seen.firsts.len() - 1, seen.tasks.len() / 2);
    assert_eq!(q.len(), rows * shape.width(), "queries are not [rows, heads * head_dim]");
    assert_eq!(cache.width, shape.kv_width(), "columns of the cache");
    let mut out = Values::uninit(cuda, q.precision(), q.len());
    let mut outs = Buffer::<f32>::uninit(cuda, tasks * shape.width());
    let mut sums = Buffer::<f32>::uninit(cuda, tasks * heads * 2);
    let page_len = long(Cache::page_len(cache.layers, cache.width));
    let [tasks_list, pages, firsts] = [&seen.tasks, &seen.pages, &seen.firsts].map(|list| list.all().into());
    match method_of(head_dim, q.precision(), cuda.capability(), cuda.shared_bytes_max()) {
        AttentionKernel::Mma(tiles) => {
            assert!(tasks >= rows, "{tasks} tasks of {rows} rows");
            let blocks = kv_heads * shape.group().div_ceil(16);
            let mut ended = lock(&seen.ended);
            let ended = ended.get_or_insert_with(|| Buffer::zeros(cuda, rows * blocks));
            assert_eq!(ended.len(), rows * blocks, "heads of all layers");
            let arguments = &mut [
                out.all_mut().into(),
                outs.all_mut().into(),
                sums.all_mut().into(),
                ended.all_mut().into(),
                q.into(),
                cache.at(layer).into(),
                tasks_list,
                pages,
                firsts,
                page_len,
                int(rows),
                int(heads),
                int(kv_heads),
                shape.scale().into(),
            ];
            let plan =
                LaunchShape::blocks(tasks * blocks, 1, THREADS).with_shared(mma_decode_bytes(head_dim));
            cuda.launch(AttentionMma { head_dim, tiles }, "attention_mma_decode", plan, arguments);
        }
        // `Wgmma` is for whole batches.
        AttentionKernel::Fma { .. } | AttentionKernel::Wgmma => {
            // Scores in units of ln 2.
            let scale = shape.scale() * std::f32::consts::LOG2_E;
            let arguments = &mut [
                outs.all_mut().into(),
                sums.all_mut().into(),
                q.into(),
                cache.at(layer).into(),
                tasks_list,
                pages,
                page_len,
                int(heads),
                int(kv_heads),
                int(head_dim),
                scale.into(),
            ];
            let (heads_max, name) = match shape.group() {
                0..=2 => (2, q.kernel(["decode_pairs_f32", "decode_pairs_bf16"])),
                _ => (8, q.kernel(["decode_eights_f32", "decode_eights_bf16"])),
            };
            // For each head that a block takes at a time: weights, its query, and each warp's part of the output.
            let of_head = SPLIT_PAGES * PAGE_ROWS + head_dim + THREADS / 32 * head_dim;
            let plan = LaunchShape::blocks(tasks, kv_heads, THREADS);
            let plan = plan.with_shared(size_of::<f32>() * heads_max * of_head);
            cuda.launch(Decode, name, plan, arguments);
            let arguments = &mut [
                out.all_mut().into(),
                outs.all().into(),
                sums.all().into(),
                firsts,
                int(heads),
                int(head_dim),
            ];
            let name = q.kernel(["decode_combine_f32", "decode_combine_bf16"]);
            cuda.launch(Decode, name, LaunchShape::blocks(rows, heads, THREADS), arguments);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        KvBlock, KvBlockMut, Workers, cached_attention,
        cuda::testing::{PRECISIONS, device, is_real, rounded},
        testing::{assert_close, random, wide},
    };

    #[test]
    fn lists_are_split_by_their_own_length() {
        let long: Vec<(usize, usize)> = (0..SPLIT_PAGES + 1).map(|page| (page, PAGE_ROWS)).collect();
        let Some(cuda) = device() else { return };
        let cache = Cache::new(&cuda, Precision::F32, 1, 1, SPLIT_PAGES + 1);
        let lists = Lists::new(&cache, [vec![(7, 3), (8, 0)], long, vec![(2, 1)]]);
        assert_eq!(lists.tasks, [0, 1, 1, 16, 1, 1, 2, 1]);
        assert_eq!(lists.firsts, [0, 1, 3, 4]);
        let of_task = |task: usize, entries: usize| &lists.pages[2 * SPLIT_PAGES * task..][..2 * entries];
        assert_eq!((of_task(0, 1), of_task(1, 2)), (&[7, 3][..], &[0, 16, 1, 16][..]));
        assert_eq!((of_task(2, 1), of_task(3, 1)), (&[16, 16][..], &[2, 1][..]));
    }

    const LAYERS: usize = 2;

    /// Sequences that share a prompt: its pages, then their own. Each entry of `lens` is (rows of the prompt, rows of
    /// the answer); the neighbours `2 i` and `2 i + 1` share a prompt.
    struct Case {
        cuda: Arc<Cuda>,
        shape: HeadShape,
        cache: Cache,
        seen: Vec<Vec<(usize, usize)>>,
        k: Vec<f32>,
        v: Vec<f32>,
        q: Vec<f32>,
    }

    impl Case {
        fn new(
            cuda: &Arc<Cuda>,
            precision: Precision,
            shape: HeadShape,
            prompts: &[usize],
            answers: &[usize],
        ) -> Self {
            let width = shape.kv_width();
            let mut next = 0;
            let mut pages = |rows: usize| -> Vec<(usize, usize)> {
                let used = |index: usize| (rows - index * PAGE_ROWS).min(PAGE_ROWS);
                let first = next;
                next += rows.div_ceil(PAGE_ROWS);
                (0..rows.div_ceil(PAGE_ROWS)).map(|index| (first + index, used(index))).collect()
            };
            let prompts: Vec<_> = prompts.iter().map(|&rows| pages(rows)).collect();
            let answers: Vec<_> = answers.iter().map(|&rows| pages(rows)).collect();
            let total = next + if (next + 3).is_multiple_of(5) { 4 } else { 3 };
            // Not in memory order; 5 does not divide the number of pages, so all places differ.
            let place = |(page, used): &(usize, usize)| ((page * 5 + 1) % total, *used);
            let seen: Vec<Vec<_>> = answers
                .iter()
                .enumerate()
                .map(|(row, own)| prompts[row / 2].iter().chain(own).map(place).collect())
                .collect();
            let mut cache = Cache::new(cuda, precision, LAYERS, width, total);
            let slots = total * PAGE_ROWS;
            let (k, v) = (random(1, slots * width), random(2, slots * width));
            let [gk, gv] = [&k, &v].map(|x| Values::upload(cuda, precision, x));
            let all: Vec<usize> = (0..slots).collect();
            let all = Slots::upload(cuda, &cache, &all);
            write(cuda, &mut cache, 1, &all, gk.all(), gv.all());
            let q: Vec<f32> = random(3, seen.len() * shape.width()).iter().map(|q| 3.0 * q).collect();
            let [k, v, q] = [k, v, q].map(|x| rounded(precision, x));
            Case { cuda: Arc::clone(cuda), shape, cache, seen, k, v, q }
        }

        fn run(&self, rows: std::ops::Range<usize>) -> Vec<f32> {
            let width = self.shape.width();
            let precision = self.cache.data.all().precision();
            let q = Values::upload(&self.cuda, precision, &self.q[rows.start * width..rows.end * width]);
            let lists = Lists::new(&self.cache, self.seen[rows].iter().cloned());
            let seen = Seen::upload(&self.cuda, lists);
            attend(&self.cuda, q.all(), self.shape, &self.cache, 1, &seen).download().unwrap()
        }

        fn expected(&self) -> Vec<f32> {
            let width = self.shape.kv_width();
            // All pages in the layout of the CPU.
            let size = PAGE_ROWS * width;
            let (mut k, mut v) = (vec![0.0; self.k.len()], vec![0.0; self.v.len()]);
            for (page, (k, v)) in k.chunks_exact_mut(size).zip(v.chunks_exact_mut(size)).enumerate() {
                let mut block = KvBlockMut { k, v };
                for row in 0..PAGE_ROWS {
                    let at = (page * PAGE_ROWS + row) * width;
                    let (k, v) = (&self.k[at..at + width], &self.v[at..at + width]);
                    block.write(row, self.shape.head_dim, k, v);
                }
            }
            let block = |&(page, rows): &(usize, usize)| KvBlock {
                k: &k[page * size..][..size],
                v: &v[page * size..][..size],
                rows,
            };
            let caches: Vec<Vec<_>> = self.seen.iter().map(|list| list.iter().map(block).collect()).collect();
            let mut out = vec![0.0; self.q.len()];
            cached_attention(&self.q, self.shape, &caches, &mut out, Workers::Pool);
            out
        }
    }

    #[test]
    fn a_step_over_pages_is_that_of_the_cpu() {
        let Some(cuda) = device() else { return };
        let cases = [(1, 1, 5), (2, 2, 48), (1, 7, 40), (1, 9, 136), (2, 3, 14), (1, 17, 16), (1, 3, 160)];
        // Heads of large models have kernels of their own, which take the emulation too long.
        let large = [(2, 8, 128), (2, 4, 256)].into_iter().filter(|_| is_real());
        for (kv_heads, group, head_dim) in cases.into_iter().chain(large) {
            let shape = HeadShape { heads: kv_heads * group, kv_heads, head_dim };
            let long = 2 * SPLIT_PAGES * PAGE_ROWS + 5;
            for (precision, tolerance) in PRECISIONS {
                let case = Case::new(&cuda, precision, shape, &[37, long], &[1, 16, 17, long]);
                assert_close(&case.run(0..4), &wide(&case.expected()), 2.0 * tolerance);
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_batch() {
        let Some(cuda) = device() else { return };
        let shape = HeadShape { heads: 4, kv_heads: 2, head_dim: 8 };
        let case = Case::new(&cuda, Precision::F32, shape, &[300, 2], &[20, 280, 3, 9]);
        let together = case.run(0..4);
        for row in 0..4 {
            let own = row * shape.width()..(row + 1) * shape.width();
            assert_eq!(case.run(row..row + 1), together[own]);
        }
    }

    #[test]
    fn rows_are_written_to_their_slot_and_layer_alone() {
        let Some(cuda) = device() else { return };
        for (precision, _) in PRECISIONS {
            let mut cache = Cache::new(&cuda, precision, LAYERS, 3, 2);
            cache.data.all_mut().fill_zero(&cuda);
            let [k, v] = [&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]].map(|x| Values::upload(&cuda, precision, x));
            let slots = Slots::upload(&cuda, &cache, &[PAGE_ROWS + 2]);
            write(&cuda, &mut cache, 1, &slots, k.all(), v.all());
            let data = cache.data.download().unwrap();
            let back = read(&cuda, &cache, 1, &Slots::upload(&cuda, &cache, &[0, PAGE_ROWS + 2, 5]));
            let [k, v] = back.map(|x| x.download().unwrap());
            assert_eq!(k, [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);
            assert_eq!(v, [0.0, 0.0, 0.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0]);
            let at = Cache::page_len(LAYERS, 3) + 2 * PAGE_ROWS * 3 + 2 * 3;
            assert_eq!(data[at..at + 3], [1.0, 2.0, 3.0]);
            assert_eq!(data[at + PAGE_ROWS * 3..][..3], [4.0, 5.0, 6.0]);
            assert_eq!(data.iter().filter(|x| **x != 0.0).count(), 6);
        }
    }
}
