//! The arithmetic that work can't do without: products with weights and attention.
//!
//! A multiply-add is 2 operations. With `W` the elements of the layers' matrices, `V·D` those of the head, and a
//! *pair* a query and a key that it sees (its own included):
//!
//! ```text
//! forward  = 2·W·rows + 2·V·D·scored + 4·layers·heads·head_dim·pairs
//! training = 3 · forward                  (the products once for values, twice for derivatives)
//! ```
//!
//! Of the delta rule, reading and writing a state once a row: `6·layers·value_heads·key_dim·value_dim·rows`. Its
//! matrices are in `W`, its convolution is left out.
//!
//! A prompt that several answers share counts once; the last token of a sequence is never read.

use burnish_model::{LayerKind, ModelConfig};

/// Rows that go through the layers, rows that go through the head, and pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Extent {
    pub(crate) rows: f64,
    pub(crate) scored: f64,
    pub(crate) pairs: f64,
}

impl Extent {
    /// One prompt of `prompt` tokens with answers of the given lengths, every token of which is scored.
    pub(crate) fn of_group(prompt: usize, answers: impl IntoIterator<Item = usize>) -> Self {
        let mut extent = Extent { rows: prompt as f64, scored: 0.0, pairs: pairs(0, prompt) };
        for answer in answers {
            let read = answer.saturating_sub(1);
            extent.rows += read as f64;
            extent.scored += answer as f64;
            extent.pairs += pairs(prompt, read);
        }
        extent
    }

    /// `self` and `other`.
    pub(crate) fn and(self, other: Extent) -> Self {
        Extent {
            rows: self.rows + other.rows,
            scored: self.scored + other.scored,
            pairs: self.pairs + other.pairs,
        }
    }
}

/// Pairs of `rows` queries that follow `before` keys.
pub(crate) fn pairs(before: usize, rows: usize) -> f64 {
    let (before, rows) = (before as f64, rows as f64);
    before * rows + rows * (rows + 1.0) / 2.0
}

/// What one row, one scored row and one pair of a model cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Costs {
    layers: f64,
    state: f64,
    head: f64,
    pair: f64,
}

impl Costs {
    /// Of a model of this configuration.
    pub(crate) fn of(config: &ModelConfig) -> Self {
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let gates = if config.has_attention_gate { queries } else { 0 };
        let attending = config.layers_of(LayerKind::Attention);
        let attention = config.hidden_size * (2 * queries + gates + 2 * keys);
        let mlp = config.hidden_size * 3 * config.intermediate_size;
        let (delta, state) = config.delta_rule.map_or((0, 0), |delta| {
            let values = delta.value_heads * delta.value_dim;
            let maps = config.hidden_size * (delta.conv_columns() + 2 * values + 2 * delta.value_heads);
            (maps, 3 * values * delta.key_dim)
        });
        let recurrent = config.layers_of(LayerKind::DeltaRule);
        Costs {
            layers: (config.num_hidden_layers * mlp + attending * attention + recurrent * delta) as f64,
            state: (recurrent * state) as f64,
            head: (config.vocab_size * config.hidden_size) as f64,
            pair: (2 * attending * queries) as f64,
        }
    }

    /// Operations of a forward pass.
    pub(crate) fn forward(self, extent: Extent) -> f64 {
        2.0 * ((self.layers + self.state) * extent.rows
            + self.head * extent.scored
            + self.pair * extent.pairs)
    }

    /// Operations of a forward and a backward pass.
    pub(crate) fn training(self, extent: Extent) -> f64 {
        3.0 * self.forward(extent)
    }

    /// Elements of the matrices that every decoding step reads.
    pub(crate) fn weights(self) -> f64 {
        self.layers + self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_model::{Architecture, Dtype, ModelShape};

    /// The reference shape (a).
    fn costs() -> Costs {
        let shape = ModelShape {
            architecture: Architecture::Qwen3,
            vocab_size: 512,
            hidden_size: 256,
            intermediate_size: 768,
            num_hidden_layers: 6,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 64,
            max_position_embeddings: 4096,
            rope_theta: 10_000.0,
            tie_word_embeddings: false,
            dtype: Dtype::F32,
            delta_rule: None,
            masked: false,
        };
        Costs::of(&ModelConfig::new(&shape).unwrap())
    }

    #[test]
    fn an_extent_counts_each_query_key_pair_once() {
        let extent = Extent::of_group(3, [3, 1]);
        // The prompt sees 1 + 2 + 3 keys; the two tokens of the first answer that are read see 4 and 5.
        assert_eq!(extent, Extent { rows: 5.0, scored: 4.0, pairs: 15.0 });
    }

    #[test]
    fn the_operations_are_those_of_the_matrices_written_out() {
        let layer = 256 * 256 + 2 * 256 * 128 + 256 * 256 + 3 * 256 * 768;
        assert_eq!(costs().weights(), (6 * layer + 512 * 256) as f64);
        // One row that sees itself: every weight once, and per layer 4 heads of 64 for q·k and for p·v.
        let one = Extent { rows: 1.0, scored: 1.0, pairs: 1.0 };
        assert_eq!(costs().forward(one), (2 * (6 * layer + 512 * 256) + 6 * 2 * 2 * 256) as f64);
        assert_eq!(costs().training(one), 3.0 * costs().forward(one));
    }

    #[test]
    fn the_reference_step_needs_two_thirds_of_a_second_at_200_gflops() {
        let step = (0..16).fold(Extent::default(), |all, _| all.and(Extent::of_group(1, [255])));
        let seconds = costs().training(step) / 200e9;
        assert!((0.6..0.7).contains(&seconds), "{seconds}");
    }
}
