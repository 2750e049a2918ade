//! Rotary position tables.

use std::sync::{Arc, PoisonError, RwLock};

/// Number of positions in one block of the table.
const BLOCK: usize = 1024;

/// Cosines and sines of rotary position embedding (Su et al. 2021), in the convention of Hugging Face's Llama and
/// Qwen models: elements `i` and `i + n` of a head are a pair, `n` the number of frequencies.
///
/// A head may be wider than `2 n`; the elements beyond are left alone (partial rotary embedding). The table grows
/// with the largest position asked for.
#[derive(Debug)]
pub struct Rope {
    inv_freq: Vec<f32>,
    scaling: f32,
    /// Blocks of `BLOCK` positions; for each position first all cosines, then all sines.
    blocks: RwLock<Vec<Arc<[f32]>>>,
}

impl Rope {
    /// Angles are `position · inv_freq[i]`; `attention_scaling` multiplies cosines and sines (YaRN; otherwise 1).
    #[must_use]
    pub fn new(inv_freq: Vec<f32>, attention_scaling: f32) -> Self {
        Rope { inv_freq, scaling: attention_scaling, blocks: RwLock::default() }
    }

    /// Number of pairs that are rotated in each head.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.inv_freq.len()
    }

    /// The table up to the largest of `positions`.
    pub(crate) fn table(&self, positions: &[u32]) -> Table {
        let needed = positions.iter().max().map_or(0, |&last| last as usize / BLOCK + 1);
        // A panic elsewhere can't leave a half-made block behind, so a poisoned lock is still usable.
        let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
        if blocks.len() >= needed {
            return Table { blocks: blocks.clone(), pairs: self.pairs() };
        }
        drop(blocks);
        let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
        while blocks.len() < needed {
            let block = self.block(blocks.len() * BLOCK);
            blocks.push(block);
        }
        Table { blocks: blocks.clone(), pairs: self.pairs() }
    }

    /// The angle is rounded to f32 before its cosine is taken, as in the implementations that published models were
    /// trained with; at position 10,000 that changes an angle by up to 5e-4.
    fn block(&self, first: usize) -> Arc<[f32]> {
        let mut values = Vec::with_capacity(BLOCK * 2 * self.pairs());
        for position in first..first + BLOCK {
            let angle = |&frequency: &f32| f64::from(position as f32 * frequency);
            values.extend(self.inv_freq.iter().map(angle).map(|a| a.cos() as f32 * self.scaling));
            values.extend(self.inv_freq.iter().map(angle).map(|a| a.sin() as f32 * self.scaling));
        }
        values.into()
    }
}

/// A snapshot of the table that needs no lock.
pub(crate) struct Table {
    blocks: Vec<Arc<[f32]>>,
    pairs: usize,
}

impl Table {
    /// Cosines and sines of one position.
    pub(crate) fn at(&self, position: u32) -> (&[f32], &[f32]) {
        let (block, row) = (position as usize / BLOCK, position as usize % BLOCK);
        self.blocks[block][row * 2 * self.pairs..][..2 * self.pairs].split_at(self.pairs)
    }
}
