//! How much memory an update takes, from the outline of its model.

use burnish_model::{Head, Outline};
use burnish_tensor::{LogitsRoom, Precision};

use crate::TrainerConfig;
use crate::adamw::MomentType;

/// Where an update is computed. What is kept differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the CPU, where values are f32 in every precision.
    Cpu,
    /// On a GPU, where values have the type of the products.
    Gpu,
}

impl Place {
    /// Bytes of a value that goes from one operation to the next.
    pub fn value_bytes(self, precision: Precision) -> usize {
        match (self, precision) {
            (Place::Gpu, Precision::Bf16) => 2,
            _ => 4,
        }
    }

    fn logits_room(self) -> LogitsRoom {
        match self {
            Place::Cpu => LogitsRoom::CPU,
            Place::Gpu => LogitsRoom::GPU,
        }
    }
}

/// Bytes that updates take beside the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateNeed {
    /// The gradient of what is trained, in f32; held between updates too.
    pub gradient: usize,
    /// AdamW's moments; held between updates too.
    pub moments: usize,
    /// A copy in bf16 of what is trained, which a GPU multiplies with.
    pub shadow: usize,
    /// What a micro-batch keeps of its forward pass for the backward pass, and gradients on their way, at most.
    pub pass: usize,
    /// Logits, and the hidden states that they are made of.
    pub head: usize,
}

impl UpdateNeed {
    /// Of updates of the model of `outline`, if a micro-batch has `rows` rows and each of them is scored.
    pub fn new(outline: &Outline, config: &TrainerConfig, rows: usize, place: Place) -> Self {
        let trained = outline.trained();
        let moments = match config.adamw.moments {
            MomentType::F32 => 8 * trained,
            // A scale in f32 for each 256 numbers, twice.
            MomentType::EightBit => 2 * trained + trained / 32,
        };
        let has_shadow = place == Place::Gpu && outline.precision == Precision::Bf16;
        let value = place.value_bytes(outline.precision);
        UpdateNeed {
            gradient: 4 * trained,
            moments,
            shadow: if has_shadow { 2 * trained } else { 0 },
            pass: value * rows * pass_numbers(outline, config.pass.checkpointing),
            head: head_bytes(outline, rows, place),
        }
    }

    /// What stays between updates.
    pub fn held(self) -> usize {
        self.gradient + self.moments + self.shadow
    }

    /// What is freed after each micro-batch.
    pub fn passing(self) -> usize {
        self.pass + self.head
    }
}

/// Numbers per row that a pass holds when it holds most: as it turns back at the last layer.
fn pass_numbers(outline: &Outline, is_checkpointing: bool) -> usize {
    let config = &outline.config;
    let layers = outline.kept_by_layers();
    let width = config.hidden_size;
    let kept = if is_checkpointing {
        width * layers.len() + layers.iter().max().copied().unwrap_or_default()
    } else {
        layers.iter().sum()
    };
    // The last norm: what it reads and what it gives. On the way back: the gradient of what the layer gives, and of the gate
    // and what it gates.
    kept + 2 * width + 1 + 2 * width + 2 * config.intermediate_size
}

fn head_bytes(outline: &Outline, rows: usize, place: Place) -> usize {
    let config = &outline.config;
    let value = place.value_bytes(outline.precision);
    // The scored rows, and their gradient.
    let hidden = 2 * value * rows * config.hidden_size;
    match config.head {
        Head::Value => hidden,
        Head::Vocabulary => hidden + 4 * place.logits_room().held(rows, config.vocab_size),
    }
}

/// Bytes that scoring takes: a forward pass of `rows` rows that keeps nothing, with its logits.
pub fn scoring_need(outline: &Outline, rows: usize, place: Place) -> usize {
    place.value_bytes(outline.precision) * rows * outline.passing() + head_bytes(outline, rows, place)
}
