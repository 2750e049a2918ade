//! Keys and values of tokens that were already read, in the form that attention needs.

use burnish_model::{Marked, Mix, Packed};
use burnish_tensor::{
    Buffer, ConvWeight, DeltaInputs, DeltaRows, DeltaShape, HeadMaps, HeadShape, KV_ROWS, KvBlock, Layout,
    PageSlots, PagedCache, PagesContinued, PagesSeen, Param, RecurrentRows, RecurrentState, Step, Tape, Var,
    cached_attention, continued_attention, delta_scan, delta_step, short_conv_continued, short_conv_step,
};
use rayon::prelude::*;
use std::sync::Arc;

use crate::pages::{Block, Pool};
use crate::waves::Waves;

/// What one sequence has read: a prompt, which it may share with others, and its own answer.
#[derive(Debug)]
pub(crate) struct Cache {
    prompt: Arc<Block>,
    answer: Block,
}

impl Cache {
    /// The cache of a sequence that has read `prompt`.
    pub(crate) fn after(prompt: Arc<Block>) -> Self {
        Cache { prompt, answer: Block::default() }
    }

    /// Tokens of the answer that have been read.
    pub(crate) fn answer_rows(&self) -> usize {
        self.answer.rows
    }

    /// Number of pages of the answer.
    pub(crate) fn answer_pages(&self) -> usize {
        self.answer.pages()
    }

    /// Number of pages' worth of memory that the answer takes: its pages, and its state.
    pub(crate) fn answer_room(&self) -> usize {
        self.answer.pages() + self.answer.state_pages()
    }

    /// Number of pages of the prompt.
    pub(crate) fn prompt_pages(&self) -> usize {
        self.prompt.pages()
    }

    /// Does it share its prompt with `other`?
    pub(crate) fn shares_prompt(&self, other: &Cache) -> bool {
        Arc::ptr_eq(&self.prompt, &other.prompt)
    }

    /// Makes room for `rows` tokens of the answer in total; `false` if the pool has too few pages.
    pub(crate) fn reserve(&mut self, rows: usize, pool: &Arc<Pool>) -> bool {
        let is_new = self.answer.state.is_none();
        let has_room = self.answer.reserve(rows, pool);
        // An answer begins in the state in which its prompt ends.
        if is_new && let (Some(state), Some(prompt)) = (&mut self.answer.state, &self.prompt.state) {
            state.copy(prompt);
        }
        has_room
    }

    /// The cached prompt.
    pub(crate) fn prompt(&self) -> &Arc<Block> {
        &self.prompt
    }

    /// The cached prompt.
    pub(crate) fn into_prompt(self) -> Arc<Block> {
        self.prompt
    }

    /// A cache that continues from the same prompt, with an empty answer.
    pub(crate) fn fork(&self) -> Self {
        Cache::after(Arc::clone(&self.prompt))
    }

    /// Copies the answer that `other` has read, if its keys and values are on the host. There must be room.
    pub(crate) fn copy(&mut self, other: &Cache) {
        self.answer.copy(&other.answer);
    }

    /// The prompt and the first `rows` tokens of the answer.
    fn blocks(&self, layer: usize, rows: usize) -> Vec<KvBlock<'_>> {
        self.prompt.at(layer, self.prompt.rows).chain(self.answer.at(layer, rows)).collect()
    }
}

/// Attention of a prefill: prompts packed one after the other. Each attends to itself only, and its keys and values are
/// kept. If the beginning of a prompt was read before, only the rest is in the pack.
pub(crate) struct Prefill {
    /// The whole prompts, each from its first token on.
    whole: Packed,
    /// How many tokens of each prompt were read before.
    pasts: Vec<usize>,
    prompts: Vec<Block>,
    /// Where keys and values go on a GPU, and how prompts go on from there; the same at every layer.
    places: Option<(PageSlots, PagesContinued)>,
    /// The states that the prompts end in, on a GPU; the same at every layer.
    recurrent: Option<Arc<RecurrentRows>>,
}

impl Prefill {
    /// For `prompts` of these lengths, which hold what was read before and have room for the rest.
    pub(crate) fn new(lens: &[usize], shape: HeadShape, prompts: Vec<Block>) -> Self {
        let pasts = prompts.iter().map(|prompt| prompt.rows).collect();
        let whole = Packed { layout: Arc::new(Layout::causal(lens)), shape };
        Prefill { whole, pasts, prompts, places: None, recurrent: None }
    }

    /// Where the prompts' states are, if they are on a GPU.
    fn recurrent(&mut self, tape: &Tape<'_>) -> Option<Arc<RecurrentRows>> {
        let lens = self.whole.layout.segments().iter().map(|segment| segment.len);
        let states = self.prompts.iter().map(Block::recurrent);
        recurrent_rows(&mut self.recurrent, tape, states, lens)
    }

    /// The cache on the GPU that holds the prompts' pages, if they are on one, and [`Prefill::places`].
    fn places(&mut self, tape: &Tape<'_>) -> Option<(&PagedCache, &PageSlots, &PagesContinued)> {
        let Prefill { whole, pasts, prompts, places, .. } = self;
        let cache = prompts.iter().find_map(Block::paged)?;
        let slots = |from: &dyn Fn(usize) -> usize| -> Vec<usize> {
            let blocks = whole.layout.segments().iter().zip(&*prompts).enumerate();
            blocks.flat_map(|(at, (segment, block))| block.slots(from(at)..segment.len)).collect()
        };
        let (slots, continued) = places.get_or_insert_with(|| {
            let continued = tape.pages_continued(cache, &slots(&|_| 0), &whole.layout, pasts, whole.shape);
            (tape.page_slots(cache, &slots(&|at| pasts[at])), continued)
        });
        Some((cache, slots, continued))
    }

    /// The prompts that were read, in the order of the pack.
    pub(crate) fn into_blocks(mut self) -> Vec<Block> {
        for (segment, block) in self.whole.layout.segments().iter().zip(&mut self.prompts) {
            block.rows = segment.len;
        }
        self.prompts
    }
}

impl Mix for Prefill {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        let shape = self.whole.shape;
        if let Some((cache, slots, continued)) = self.places(tape) {
            tape.write_pages(cache, layer, slots, &k, &v);
            return tape.continued_paged_attention(&q, shape, cache, layer, continued);
        }
        let Prefill { whole, pasts, prompts, .. } = self;
        let segments = whole.layout.segments();
        let width = k.cols();
        let mut start = 0;
        let unread: Vec<_> = segments
            .iter()
            .zip(&*pasts)
            .map(|(segment, past)| {
                let rows = start * width..(start + segment.len - past) * width;
                start += segment.len - past;
                rows
            })
            .collect();
        prompts.par_iter_mut().zip(&*pasts).zip(unread).for_each(|((block, &past), rows)| {
            block.write(layer, past, &k.data()[rows.clone()], &v.data()[rows]);
        });
        if pasts.iter().all(|&past| past == 0) {
            return whole.attend(tape, layer, q, k, v);
        }
        let elements = whole.layout.rows() * width;
        let (mut keys, mut values) = (Buffer::part(elements), Buffer::part(elements));
        let (mut rest_k, mut rest_v) = (&mut *keys, &mut *values);
        let mut parts = Vec::with_capacity(segments.len());
        for (segment, block) in segments.iter().zip(&*prompts) {
            let (own_k, k) = rest_k.split_at_mut(segment.len * width);
            let (own_v, v) = rest_v.split_at_mut(segment.len * width);
            parts.push((block, own_k, own_v));
            (rest_k, rest_v) = (k, v);
        }
        parts.into_par_iter().for_each(|(block, k, v)| block.read(layer, k, v));
        let mixed = continued_attention(q.data(), &keys, &values, whole.shape, &whole.layout, pasts);
        tape.external(q.rows(), q.cols(), mixed)
    }

    fn attend_projected(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        x: &Var,
        maps: &HeadMaps,
        positions: &Arc<[u32]>,
    ) -> Option<Var> {
        let (cache, slots, continued) = self.places(tape)?;
        let q = tape.project_to_pages(x, maps, positions, (cache, layer, slots));
        Some(tape.continued_paged_attention(&q, maps.shape, cache, layer, continued))
    }

    // Prompts of recurrent models are read from their beginning, so the layout is that of the rows here.
    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var {
        if let Some(rows) = self.recurrent(tape) {
            return tape.short_conv_kept(x, weight, &self.whole.layout, &rows, layer);
        }
        let mut ends = Vec::new();
        let weight = ConvWeight::of(tape.params(), weight);
        let mixed = short_conv_continued(x.data(), weight, &self.whole.layout, &[], &mut ends);
        let states = self.prompts.iter_mut().map(|block| block.layer_state(layer));
        states.zip(ends).for_each(|(state, end)| state.inputs = end);
        tape.external(x.rows(), x.cols(), mixed)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        if let Some(rows) = self.recurrent(tape) {
            return tape.delta_rule_kept(inputs, shape, &self.whole.layout, &rows, layer);
        }
        let mut ends = Vec::new();
        let mixed = delta_scan(rows_of(inputs), shape, &self.whole.layout, &[], &mut ends);
        let states = self.prompts.iter_mut().map(|block| block.layer_state(layer));
        states.zip(ends).for_each(|(state, end)| state.matrices = end);
        tape.external(inputs.v.rows(), inputs.v.cols(), mixed)
    }
}

/// The states and numbers of rows of a batch's sequences, uploaded once; `None` if states are on the host.
fn recurrent_rows<'s>(
    kept: &mut Option<Arc<RecurrentRows>>,
    tape: &Tape<'_>,
    states: impl Iterator<Item = Option<&'s RecurrentState>>,
    lens: impl Iterator<Item = usize>,
) -> Option<Arc<RecurrentRows>> {
    if kept.is_none() {
        let states = states.collect::<Option<Vec<_>>>().filter(|states| !states.is_empty())?;
        *kept = Some(Arc::new(tape.recurrent_rows(&states, &lens.collect::<Vec<_>>())));
    }
    kept.clone()
}

/// The numbers of values on the host.
fn rows_of(inputs: DeltaInputs<'_>) -> DeltaRows<'_> {
    let DeltaInputs { q, k, v, log_decay, beta } = inputs;
    let [q, k, v, log_decay, beta] = [q, k, v, log_decay, beta].map(Var::data);
    DeltaRows { q, k, v, log_decay, beta }
}

/// Attention of one decoding step: each sequence reads its next tokens, in most steps one.
pub(crate) struct Decode<'a> {
    shape: HeadShape,
    runs: Vec<Run<'a>>,
    /// Where rows go on a GPU, and which rows they see there; the same at every layer.
    places: Option<(PageSlots, PagesSeen)>,
    /// The states of the sequences, on a GPU; the same at every layer.
    recurrent: Option<Arc<RecurrentRows>>,
}

/// The next tokens of an answer that a sequence reads; its cache has room for them.
pub(crate) struct Run<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) rows: usize,
}

impl<'a> Decode<'a> {
    /// The runs lie one after the other in the batch.
    pub(crate) fn new(shape: HeadShape, runs: Vec<Run<'a>>) -> Self {
        Decode { shape, runs, places: None, recurrent: None }
    }

    /// Where the states are, if they are on a GPU.
    fn recurrent(&mut self, tape: &Tape<'_>) -> Option<Arc<RecurrentRows>> {
        let states = self.runs.iter().map(Run::state);
        recurrent_rows(&mut self.recurrent, tape, states, self.runs.iter().map(|run| run.rows))
    }

    /// A part of the state of each answer that has a row in the wave, on the host.
    fn states<'s>(
        &'s mut self,
        wave: &Waves,
        part: impl Fn(&'s mut Block) -> &'s mut Vec<f32>,
    ) -> Vec<&'s mut [f32]> {
        let runs = self.runs.iter_mut().filter(|run| run.rows > wave.index());
        runs.map(|run| part(&mut run.cache.answer).as_mut_slice()).collect()
    }

    /// Keeps what was read at all layers.
    pub(crate) fn commit(self) {
        self.runs.into_iter().for_each(Run::commit);
    }

    /// The share of each head's attention at a layer that one set of marked tokens gets, `[T, heads]`.
    fn attention_to_set(&self, tape: &mut Tape<'_>, layer: usize, q: &Var, marked: &Marked) -> Var {
        let shape = self.shape;
        let none = vec![0.0; shape.kv_heads * KV_ROWS * shape.head_dim];
        let flags: Vec<Vec<Option<Vec<f32>>>> = self
            .runs
            .iter()
            .enumerate()
            .map(|(sequence, run)| {
                let mut position = 0;
                let blocks = run.cache.blocks(layer, run.cache.answer.rows + run.rows);
                blocks
                    .iter()
                    .map(|block| {
                        let start = position;
                        position += block.rows;
                        let is_marked = |row| marked.contains(sequence, start + row);
                        (0..block.rows).any(is_marked).then(|| flags_of(block.rows, shape, is_marked))
                    })
                    .collect()
            })
            .collect();
        let mut seen = Vec::new();
        for (run, flags) in self.runs.iter().zip(&flags) {
            for ahead in 1..=run.rows {
                let blocks = run.cache.blocks(layer, run.cache.answer.rows + ahead).into_iter();
                let flags = flags.iter().map(|flags| flags.as_deref().unwrap_or(&none));
                seen.push(blocks.zip(flags).map(|(block, v)| KvBlock { v, ..block }).collect());
            }
        }
        let mut mixed = vec![0.0; q.data().len()];
        cached_attention(q.data(), shape, &seen, &mut mixed, tape.workers());
        let shares = mixed.chunks_exact(shape.head_dim).map(|of_head| of_head[0]).collect::<Vec<f32>>();
        tape.external(q.rows(), shape.heads, shares)
    }
}

impl Run<'_> {
    /// The cache on the GPU that holds its pages, if they are on one.
    pub(crate) fn paged(&self) -> Option<&PagedCache> {
        self.cache.prompt.paged()
    }

    /// Keeps what was read at all layers.
    pub(crate) fn commit(self) {
        self.cache.answer.rows += self.rows;
    }

    /// The state that it goes on from on a GPU, if the model has recurrent layers.
    pub(crate) fn state(&self) -> Option<&RecurrentState> {
        self.cache.answer.recurrent()
    }

    /// Where its rows are written on a GPU.
    pub(crate) fn slots(&self) -> impl Iterator<Item = usize> {
        let answer = &self.cache.answer;
        answer.slots(answer.rows..answer.rows + self.rows)
    }

    /// What each of its rows sees on a GPU: the rows before it, and itself.
    pub(crate) fn seen(&self) -> impl Iterator<Item = impl Iterator<Item = (usize, usize)>> {
        let Cache { prompt, answer } = &*self.cache;
        let upto = |rows| prompt.numbers(prompt.rows).chain(answer.numbers(rows));
        (1..=self.rows).map(move |ahead| upto(answer.rows + ahead))
    }
}

/// Attention of a captured decoding step on a GPU.
pub(crate) struct Paged<'a> {
    pub(crate) shape: HeadShape,
    pub(crate) cache: &'a PagedCache,
    pub(crate) step: &'a Step,
}

impl Mix for Paged<'_> {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        tape.write_pages(self.cache, layer, &self.step.slots, &k, &v);
        tape.paged_attention(&q, self.shape, self.cache, layer, &self.step.seen)
    }

    fn attend_projected(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        x: &Var,
        maps: &HeadMaps,
        positions: &Arc<[u32]>,
    ) -> Option<Var> {
        let q = tape.project_to_pages(x, maps, positions, (self.cache, layer, &self.step.slots));
        Some(tape.paged_attention(&q, self.shape, self.cache, layer, &self.step.seen))
    }

    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var {
        tape.short_conv_continued(x, weight, self.recurrent(), layer)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        tape.delta_rule_continued(inputs, shape, self.recurrent(), layer)
    }
}

impl Paged<'_> {
    #[expect(clippy::expect_used, reason = "a mistake of the program")]
    fn recurrent(&self) -> &RecurrentRows {
        self.step.recurrent.as_ref().expect("states of a captured step with recurrent layers")
    }
}

impl Mix for Decode<'_> {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        if let Some(cache) = self.runs.iter().find_map(Run::paged) {
            let (slots, seen) = self.places.get_or_insert_with(|| {
                let slots: Vec<usize> = self.runs.iter().flat_map(Run::slots).collect();
                (tape.page_slots(cache, &slots), tape.pages_seen(cache, self.runs.iter().flat_map(Run::seen)))
            });
            tape.write_pages(cache, layer, slots, &k, &v);
            return tape.paged_attention(&q, self.shape, cache, layer, seen);
        }
        let width = k.cols();
        let mut start = 0;
        for Run { cache, rows } in &mut self.runs {
            let data = start * width..(start + *rows) * width;
            cache.answer.write(layer, cache.answer.rows, &k.data()[data.clone()], &v.data()[data]);
            start += *rows;
        }
        // Each row sees the rows before it, and itself.
        let blocks: Vec<_> = self
            .runs
            .iter()
            .flat_map(|Run { cache, rows }| {
                (1..=*rows).map(|ahead| cache.blocks(layer, cache.answer.rows + ahead))
            })
            .collect();
        let mut mixed = vec![0.0; q.data().len()];
        cached_attention(q.data(), self.shape, &blocks, &mut mixed, tape.workers());
        tape.external(q.rows(), q.cols(), mixed)
    }

    /// As for a packed batch: attention to values that are 1 at marked tokens. On a GPU, where the cached keys stay,
    /// there is none.
    fn attention_to(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        q: &Var,
        _k: &Var,
        marked: &[Marked],
    ) -> Option<Vec<Var>> {
        if self.runs.iter().any(|run| run.paged().is_some()) {
            return None;
        }
        let shares = marked.iter().map(|marked| self.attention_to_set(tape, layer, q, marked));
        Some(shares.collect())
    }

    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var {
        if let Some(rows) = self.recurrent(tape) {
            return tape.short_conv_continued(x, weight, &rows, layer);
        }
        let (weight, cols) = (ConvWeight::of(tape.params(), weight), x.cols());
        let mut mixed = Buffer::from(vec![0.0; x.data().len()]);
        for wave in Waves::of(self.runs.iter().map(|run| run.rows)) {
            let mut states = self.states(&wave, |block| &mut block.layer_state(layer).inputs);
            wave.scatter(&mut mixed, cols, |out| {
                short_conv_step(&wave.gather(x.data(), cols), weight, &mut states, out);
            });
        }
        tape.external(x.rows(), cols, mixed)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        if let Some(rows) = self.recurrent(tape) {
            return tape.delta_rule_continued(inputs, shape, &rows, layer);
        }
        let DeltaInputs { q, k, v, log_decay, beta } = inputs;
        let (workers, values) = (tape.workers(), [v, q, k, log_decay, beta]);
        let mut mixed = Buffer::from(vec![0.0; v.data().len()]);
        for wave in Waves::of(self.runs.iter().map(|run| run.rows)) {
            let [v, q, k, log_decay, beta] = values.map(|x| wave.gather(x.data(), x.cols()));
            let rows = DeltaRows { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
            let mut states = self.states(&wave, |block| &mut block.layer_state(layer).matrices);
            wave.scatter(&mut mixed, values[0].cols(), |out| {
                delta_step(rows, shape, &mut states, out, workers)
            });
        }
        tape.external(v.rows(), v.cols(), mixed)
    }
}

/// Values of a block that are 1 in marked rows and 0 elsewhere.
fn flags_of(rows: usize, shape: HeadShape, is_marked: impl Fn(usize) -> bool) -> Vec<f32> {
    let mut values = vec![0.0; shape.kv_heads * KV_ROWS * shape.head_dim];
    for of_head in values.chunks_exact_mut(KV_ROWS * shape.head_dim) {
        for row in (0..rows).filter(|&row| is_marked(row)) {
            of_head[row * shape.head_dim..][..shape.head_dim].fill(1.0);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PageShape;
    use crate::state::StateShape;
    use burnish_model::{LayerKind, Model};
    use serde::Deserialize;
    use std::path::Path;

    /// Made by `burnish-model/tests/golden/make_models.py` with transformers, or `make_rules.py` with torch.
    #[derive(Deserialize)]
    struct Golden {
        prompts: Vec<Vec<u32>>,
        /// For each prompt `[T, V]`.
        logits: Vec<Vec<f32>>,
    }

    fn logits(model: &Model, ids: &[u32], positions: &[usize], mixer: &mut dyn Mix) -> Vec<f32> {
        let positions: Arc<[u32]> = positions.iter().map(|&position| position as u32).collect();
        let mut tape = Tape::inference(&model.params);
        let hidden = model.forward(&mut tape, ids, &positions, mixer);
        model.logits(&mut tape, &hidden).data().to_vec()
    }

    fn assert_rows_close(ours: &[f32], golden: &Golden, at: &[(usize, usize)], vocab_size: usize) {
        assert_eq!(ours.len(), at.len() * vocab_size);
        for (ours, &(prompt, position)) in ours.chunks(vocab_size).zip(at) {
            let theirs = &golden.logits[prompt][position * vocab_size..][..vocab_size];
            for (id, (x, y)) in ours.iter().zip(theirs).enumerate() {
                assert!((x - y).abs() < 1e-4, "prompt {prompt}, position {position}, id {id}: {x} {y}");
            }
        }
    }

    /// Reads `prefilled[i]` tokens of prompt `i` in one pass and the remaining ones `at_once` per step, all prompts
    /// side by side.
    fn check_incremental_logits(model: &Model, golden: &Golden, prefilled: &[usize], at_once: usize) {
        let shape = model.head_shape();
        let page = PageShape {
            layers: model.config.layers_of(LayerKind::Attention),
            width: shape.kv_heads * shape.head_dim,
            head_dim: shape.head_dim,
            element_bytes: 4,
            state: StateShape::of(&model.config),
        };
        let pool = Arc::new(Pool::new(page, 1 << 24));
        let room = |rows: usize| {
            let mut block = Block::default();
            assert!(block.reserve(rows, &pool));
            block
        };
        let vocab_size = model.vocab().len();
        let read: Vec<(usize, usize)> = prefilled
            .iter()
            .enumerate()
            .flat_map(|(prompt, &len)| (0..len).map(move |at| (prompt, at)))
            .collect();
        let inputs = |at: &[(usize, usize)]| -> (Vec<u32>, Vec<usize>) {
            at.iter().map(|&(prompt, position)| (golden.prompts[prompt][position], position)).unzip()
        };

        let (ids, positions) = inputs(&read);
        let mut prefill = Prefill::new(prefilled, shape, prefilled.iter().map(|&len| room(len)).collect());
        assert_rows_close(&logits(model, &ids, &positions, &mut prefill), golden, &read, vocab_size);

        let blocks = prefill.into_blocks().into_iter().map(Arc::new);
        let mut caches: Vec<Cache> = blocks.map(Cache::after).collect();
        for step in 0.. {
            let next: Vec<Vec<(usize, usize)>> = (0..golden.prompts.len())
                .map(|prompt| {
                    let start = prefilled[prompt] + step * at_once;
                    let end = golden.prompts[prompt].len().min(start + at_once);
                    (start..end).map(|position| (prompt, position)).collect()
                })
                .collect();
            let rows: Vec<(usize, usize)> = next.concat();
            if rows.is_empty() {
                break;
            }
            let (ids, positions) = inputs(&rows);
            let mut runs = Vec::new();
            for (cache, next) in caches.iter_mut().zip(&next).filter(|(_, next)| !next.is_empty()) {
                assert!(cache.reserve(cache.answer_rows() + next.len(), &pool));
                runs.push(Run { cache, rows: next.len() });
            }
            let mut decode = Decode::new(shape, runs);
            let ours = logits(model, &ids, &positions, &mut decode);
            decode.commit();
            assert_rows_close(&ours, golden, &rows, vocab_size);
        }
    }

    #[test]
    fn logits_token_by_token_are_those_of_transformers() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-model/tests/golden");
        let rules = ["rule-delta-net", "rule-gdn", "rule-kda", "rule-fg2-gdn", "rule-fg2-gdn-plus"];
        let names = ["llama", "llama-bias-bf16", "qwen2", "qwen3", "qwen3_5", "qwen3_5-nested-bf16"];
        for name in names.into_iter().chain(rules) {
            let model = Model::load(&models.join(name)).unwrap();
            let expected = std::fs::read_to_string(models.join(name).join("expected.json")).unwrap();
            let golden: Golden = serde_json::from_str(&expected).unwrap();
            let halves: Vec<usize> = golden.prompts.iter().map(|prompt| prompt.len().div_ceil(2)).collect();
            check_incremental_logits(&model, &golden, &halves, 1);
            check_incremental_logits(&model, &golden, &halves, 5);
            check_incremental_logits(&model, &golden, &vec![1; golden.prompts.len()], 1);
        }
    }
}
