//! How much attention each head pays to each cell of a table while a step of a plan is written.
//!
//! `a_c^{(ℓ,h)}` is the mean, over the tokens of the step, of the share of the head's attention that the tokens of cell
//! `c` get at the row that predicts the token; then over all cells normalised to a sum of 1.

use std::ops::Range;
use std::sync::Arc;

use burnish_core::Trace;
use burnish_env::{CellStep, Cells};
use burnish_eval::cells::normalised;
use burnish_model::{Marked, Model, Packed, Tap, Tokenizer};
use burnish_tensor::{Layout, Tape, Var, Visibility};

/// A prompt with a table, and the plan that was written to it.
pub(super) struct Written {
    /// Prompt and answer.
    ids: Vec<u32>,
    /// The tokens of each cell, row by row.
    cells: Vec<Arc<[bool]>>,
    /// The rows that predict the tokens of each step.
    steps: Vec<Range<usize>>,
}

impl Written {
    /// `None` if the prompt shows no cells, or there is no answer.
    pub(super) fn of(
        trace: &Trace,
        answer: &str,
        steps: &[CellStep],
        cells: &dyn Cells,
        tokenizer: &Tokenizer,
        visibility: Visibility,
    ) -> Option<Self> {
        let branches = trace.branches();
        let branch = branches.first()?;
        let first = branch.sampled_mask.iter().position(|sampled| *sampled)?;
        let (text, starts) = text_of(&branch.ids, tokenizer)?;
        let begin = *starts.get(first)?;
        text.get(begin..begin + answer.len()).filter(|text| *text == answer)?;
        let cells: Vec<_> = cells.cells(&text[..begin]).iter().map(|bytes| flags(&starts, bytes)).collect();
        if cells.is_empty() {
            return None;
        }
        let steps = steps
            .iter()
            .map(|step| predicting(&(begin + step.text.start..begin + step.text.end), &starts, visibility));
        Some(Written { ids: branch.ids.clone(), cells, steps: steps.collect() })
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> usize {
        self.cells.len()
    }

    /// For each step the attention of each head of each layer of attention to the cells, `[layers · heads][cells]`.
    pub(super) fn attention(&self, model: &Model) -> Vec<Vec<Vec<f64>>> {
        let marked = self.cells.iter().map(|cell| Marked(vec![Arc::clone(cell)])).collect();
        let mut tap = Shares { marked, steps: self.steps.clone(), heads: Vec::new() };
        let layout = Arc::new(Layout::roots(&[self.ids.len()], model.visibility()));
        let mut mixer = Packed { layout, shape: model.head_shape() };
        let positions: Arc<[u32]> = (0..self.ids.len() as u32).collect();
        let mut tape = Tape::inference(&model.params);
        model.forward_tapped(&mut tape, &self.ids, &positions, &mut mixer, &mut tap);
        let of_step = |step: usize| {
            let heads =
                tap.heads.iter().map(|cells| cells.iter().map(|steps| steps[step]).collect::<Vec<f64>>());
            heads.map(|cells| normalised(&cells)).collect()
        };
        (0..self.steps.len()).map(of_step).collect()
    }
}

/// The rows that predict the tokens that begin in a range of bytes.
fn predicting(bytes: &Range<usize>, starts: &[usize], visibility: Visibility) -> Range<usize> {
    // From left to right a token is predicted at the row before it.
    let shift = usize::from(visibility == Visibility::Causal);
    let row = |byte: usize| starts.partition_point(|&start| start < byte).saturating_sub(shift);
    row(bytes.start)..row(bytes.end)
}

/// The text of all tokens, and the byte at which each begins. `None` if they can't be turned into text.
fn text_of(ids: &[u32], tokenizer: &Tokenizer) -> Option<(String, Vec<usize>)> {
    let starts: Option<Vec<usize>> = (0..ids.len())
        .map(|tokens| tokenizer.decode(&ids[..tokens], false).ok().map(|text| text.len()))
        .collect();
    Some((tokenizer.decode(ids, false).ok()?, starts?))
}

/// The tokens that have a part in a range of bytes.
fn flags(starts: &[usize], bytes: &Range<usize>) -> Arc<[bool]> {
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    starts.iter().zip(ends).map(|(&start, end)| start < bytes.end && end > bytes.start).collect()
}

/// A tap that adds up shares over the rows of each step.
struct Shares {
    marked: Vec<Marked>,
    steps: Vec<Range<usize>>,
    /// Of each head of each layer, of each cell: the sum over the rows of each step.
    heads: Vec<Vec<Vec<f64>>>,
}

impl Tap for Shares {
    fn marked(&self) -> &[Marked] {
        &self.marked
    }

    fn attention(&mut self, _tape: &mut Tape<'_>, _layer: usize, set: usize, share: Var) {
        let heads = share.cols();
        if set == 0 {
            self.heads.extend((0..heads).map(|_| Vec::with_capacity(self.marked.len())));
        }
        let first = self.heads.len() - heads;
        for head in 0..heads {
            let rows = |rows: &Range<usize>| {
                rows.clone().map(|row| f64::from(share.data()[row * heads + head])).sum::<f64>()
            };
            let sums = self.steps.iter().map(rows).collect();
            self.heads[first + head].push(sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_predicted_where_its_tokens_are_or_right_before_them() {
        let text = "<|im_start|>find 1 0 : 1 ; read 0 1 : 0";
        let tokenizer = Tokenizer::train_bpe(&[text], 300, &["<|im_start|>"]).unwrap();
        let ids = tokenizer.encode(text).unwrap();
        let (_, starts) = text_of(&ids, &tokenizer).unwrap();
        for (visibility, shift) in [(Visibility::Causal, 1), (Visibility::Bidirectional, 0)] {
            for step in ["find 1 0 : 1 ", " read 0 1 : 0"] {
                let at = text.find(step).unwrap();
                let rows = predicting(&(at..at + step.len()), &starts, visibility);
                let said = tokenizer.decode(&ids[rows.start + shift..rows.end + shift], false).unwrap();
                assert_eq!(said.trim(), step.trim());
            }
        }
    }

    #[test]
    fn attention_is_that_of_the_rows_of_a_step() {
        let shape = serde_json::json!({
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 20, "hidden_size": 16,
            "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
            "head_dim": 8, "max_position_embeddings": 16, "initializer_range": 0.5,
        });
        let config = burnish_model::ModelConfig::from_json(shape).unwrap();
        let masked = config.masked(19).unwrap();
        let cells: Vec<Arc<[bool]>> = (0..5).map(|own| (0..5).map(|at| at == own).collect()).collect();
        let written = Written { ids: vec![3, 1, 4, 1, 5], cells, steps: vec![0..1, 1..3] };
        for (config, sees_later) in [(config, false), (masked, true)] {
            let steps = written.attention(&Model::init(config, 1));
            for heads in &steps {
                assert_eq!(heads.len(), 4, "two heads in each of two layers");
                for head in heads {
                    assert!((head.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{head:?}");
                }
            }
            // The first row sees itself alone from left to right, the rows of the other step the first three tokens.
            assert_eq!(steps[0][0][1] > 0.0, sees_later);
            assert_eq!(steps[1][3][3] > 0.0, sees_later);
            assert!(steps[1][3][2] > 0.0);
        }
    }

    #[test]
    fn the_tokens_of_a_cell_are_those_of_its_text() {
        let prompt =
            "<|im_start|>user\n| name | city |\n| ada | rome |\n| bo | new york |\nwho has city rome\n";
        let texts = [prompt, "the city of rome | the name of ada | new york is not york"];
        let tokenizer = Tokenizer::train_bpe(&texts, 300, &["<|im_start|>", "<|im_end|>"]).unwrap();
        let ids = tokenizer.encode(prompt).unwrap();
        let (text, starts) = text_of(&ids, &tokenizer).unwrap();
        assert_eq!((text.as_str(), starts.len()), (prompt, ids.len()));
        let tables = burnish_env::build("tables", &serde_json::json!({})).unwrap();
        let found: Vec<String> = tables
            .cells()
            .unwrap()
            .cells(&text)
            .iter()
            .map(|bytes| {
                let flags = flags(&starts, bytes);
                let own: Vec<u32> =
                    ids.iter().zip(&*flags).filter(|(_, flag)| **flag).map(|(id, _)| *id).collect();
                tokenizer.decode(&own, false).unwrap().trim().to_owned()
            })
            .collect();
        assert_eq!(found, ["ada", "rome", "bo", "new york"]);
    }
}
