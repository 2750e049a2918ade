//! Keys and values of tokens that were already read.

use burnish_model::{Attend, Packed};
use burnish_tensor::{HeadShape, KvBlock, Tape, Var, cached_attention};
use std::sync::Arc;

/// Keys and values of a run of tokens, at every layer.
#[derive(Debug, Default)]
pub(crate) struct Block {
    layers: Vec<LayerBlock>,
}

/// Keys (after norm and rotation) and values of a run of tokens at one layer, each `[rows, kv_heads * head_dim]`.
#[derive(Debug, Default)]
struct LayerBlock {
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Block {
    /// Appends rows at `layer`.
    fn extend(&mut self, layer: usize, k: &[f32], v: &[f32]) {
        if self.layers.len() <= layer {
            self.layers.resize_with(layer + 1, LayerBlock::default);
        }
        let block = &mut self.layers[layer];
        block.k.extend_from_slice(k);
        block.v.extend_from_slice(v);
    }

    /// The rows at `layer`, `width` columns each.
    fn at(&self, layer: usize, width: usize) -> Option<KvBlock<'_>> {
        let block = self.layers.get(layer)?;
        Some(KvBlock { k: &block.k, v: &block.v, rows: block.k.len() / width })
    }
}

/// What one sequence has read: a prompt that it may share with others, and its own answer.
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

    fn blocks(&self, layer: usize, width: usize) -> Vec<KvBlock<'_>> {
        [self.prompt.at(layer, width), self.answer.at(layer, width)].into_iter().flatten().collect()
    }
}

/// Attention of a prefill: prompts packed one after the other, each seeing itself, whose keys and values are
/// kept.
pub(crate) struct Prefill {
    packed: Packed,
    prompts: Vec<Block>,
}

impl Prefill {
    pub(crate) fn new(packed: Packed) -> Self {
        let prompts = packed.layout.segments().iter().map(|_| Block::default()).collect();
        Prefill { packed, prompts }
    }

    /// What each prompt left behind, in the order of the pack.
    pub(crate) fn into_blocks(self) -> Vec<Block> {
        self.prompts
    }
}

impl Attend for Prefill {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        let width = k.cols();
        for (segment, block) in self.packed.layout.segments().iter().zip(&mut self.prompts) {
            let rows = segment.start * width..(segment.start + segment.len) * width;
            block.extend(layer, &k.data()[rows.clone()], &v.data()[rows]);
        }
        self.packed.attend(tape, layer, q, k, v)
    }
}

/// Attention of one decoding step: row `i` is the newest token of the sequence that `caches[i]` belongs to.
pub(crate) struct Decode<'a> {
    pub(crate) shape: HeadShape,
    pub(crate) caches: Vec<&'a mut Cache>,
}

impl Attend for Decode<'_> {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        let width = k.cols();
        let rows = k.data().chunks_exact(width).zip(v.data().chunks_exact(width));
        for (cache, (k, v)) in self.caches.iter_mut().zip(rows) {
            cache.answer.extend(layer, k, v);
        }
        let blocks: Vec<_> = self.caches.iter().map(|cache| cache.blocks(layer, width)).collect();
        let mut mixed = vec![0.0; q.data().len()];
        cached_attention(q.data(), self.shape, &blocks, &mut mixed);
        tape.external(q.rows(), q.cols(), mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_model::Model;
    use burnish_tensor::Layout;
    use serde::Deserialize;
    use std::path::Path;

    /// Made by `burnish-model/tests/golden/make_models.py` with transformers.
    #[derive(Deserialize)]
    struct Golden {
        prompts: Vec<Vec<u32>>,
        /// For each prompt `[T, V]`.
        logits: Vec<Vec<f32>>,
    }

    fn logits(model: &Model, ids: &[u32], positions: &[usize], mixer: &mut dyn Attend) -> Vec<f32> {
        let positions: Arc<[u32]> = positions.iter().map(|&position| position as u32).collect();
        let mut tape = Tape::inference(&model.params);
        let hidden = model.forward(&mut tape, ids, &positions, mixer);
        model.logits(hidden.data())
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

    /// Reads `prefilled[i]` tokens of prompt `i` in one pass, and the others one by one, all prompts side by side.
    fn check_incremental_logits(model: &Model, golden: &Golden, prefilled: &[usize]) {
        let shape = model.head_shape();
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
        let layout = Arc::new(Layout::causal(prefilled));
        let mut prefill = Prefill::new(Packed { layout, shape });
        assert_rows_close(&logits(model, &ids, &positions, &mut prefill), golden, &read, vocab_size);

        let blocks = prefill.into_blocks().into_iter().map(Arc::new);
        let mut caches: Vec<Cache> = blocks.map(Cache::after).collect();
        for step in 0.. {
            let next: Vec<(usize, usize)> = (0..golden.prompts.len())
                .map(|prompt| (prompt, prefilled[prompt] + step))
                .filter(|&(prompt, position)| position < golden.prompts[prompt].len())
                .collect();
            if next.is_empty() {
                break;
            }
            let (ids, positions) = inputs(&next);
            let caches = caches
                .iter_mut()
                .enumerate()
                .filter(|(prompt, _)| next.iter().any(|(active, _)| active == prompt))
                .map(|(_, cache)| cache)
                .collect();
            let ours = logits(model, &ids, &positions, &mut Decode { shape, caches });
            assert_rows_close(&ours, golden, &next, vocab_size);
        }
    }

    #[test]
    fn logits_token_by_token_are_those_of_transformers() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-model/tests/golden");
        for name in ["llama", "llama-bias-bf16", "qwen2", "qwen3"] {
            let model = Model::load(&models.join(name)).unwrap();
            let expected = std::fs::read_to_string(models.join(name).join("expected.json")).unwrap();
            let golden: Golden = serde_json::from_str(&expected).unwrap();
            let halves: Vec<usize> = golden.prompts.iter().map(|prompt| prompt.len().div_ceil(2)).collect();
            check_incremental_logits(&model, &golden, &halves);
            check_incremental_logits(&model, &golden, &vec![1; golden.prompts.len()]);
        }
    }
}
