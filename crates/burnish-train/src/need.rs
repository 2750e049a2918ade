//! How much memory an update takes, from the outline of its model.

use burnish_model::{Head, Outline};
use burnish_tensor::{LogitsRoom, Precision};

use crate::Checkpointing;
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
    /// The gradient of what is trained, in f32.
    pub gradient: usize,
    /// AdamW's moments; held between updates too.
    pub moments: usize,
    /// A copy in bf16 of what is trained, which a GPU multiplies with; held between updates too.
    pub shadow: usize,
    /// What a micro-batch keeps of its forward pass for the backward pass.
    pub kept: usize,
    /// What comes on top of that, at most: the logits with their gradient, or a layer on its way back; on the CPU both.
    pub passing: usize,
}

impl UpdateNeed {
    /// Of updates of the model of `outline`, if a micro-batch has `rows` rows and each of them is scored.
    pub fn new(
        outline: &Outline,
        moments: MomentType,
        checkpointing: Checkpointing,
        rows: usize,
        place: Place,
    ) -> Self {
        let trained = outline.trained();
        let moments = match moments {
            MomentType::F32 => 8 * trained,
            // A scale in f32 for each 256 numbers, twice.
            MomentType::EightBit => 2 * trained + trained / 32,
        };
        let has_shadow = place == Place::Gpu && outline.precision == Precision::Bf16;
        let value = place.value_bytes(outline.precision);
        let (kept, layer) = kept_and_layer(outline, checkpointing);
        let (layer, head) = (value * rows * layer, head_bytes(outline, rows, place, true));
        UpdateNeed {
            gradient: 4 * trained,
            moments,
            shadow: if has_shadow { 2 * trained } else { 0 },
            kept: value * rows * kept,
            // On the CPU, memory of the head waits for its next use while layers are computed again.
            passing: match place {
                Place::Gpu => layer.max(head),
                Place::Cpu => layer + head,
            },
        }
    }
}

/// Numbers per row that a pass keeps, and those that its last layer holds beside them on its way back.
fn kept_and_layer(outline: &Outline, checkpointing: Checkpointing) -> (usize, usize) {
    let config = &outline.config;
    let layers = outline.kept_by_layers();
    let width = config.hidden_size;
    let attended: usize = layers.iter().map(|(_, attended)| attended).sum();
    // What is computed again of a layer, without the input that was kept.
    let again = |is_kept: bool| {
        let of = |(all, attended): &(usize, usize)| all - width - if is_kept { *attended } else { 0 };
        layers.iter().map(of).max().unwrap_or_default()
    };
    let (kept, again) = match checkpointing {
        Checkpointing::Off => (layers.iter().map(|(all, _)| all).sum(), 0),
        Checkpointing::Selective => (width * layers.len() + attended, again(true)),
        Checkpointing::Full => (width * layers.len(), again(false)),
    };
    // What the last norm reads, with its root. On the way back: what the layer gives and its gradient, and the gradients
    // of the gate and what it gates.
    (kept + width + 1, again + 2 * width + 2 * config.intermediate_size)
}

fn head_bytes(outline: &Outline, rows: usize, place: Place, is_differentiated: bool) -> usize {
    let config = &outline.config;
    let value = place.value_bytes(outline.precision);
    // The scored rows, and what they were gathered from or their gradient.
    let hidden = 2 * value * rows * config.hidden_size;
    match config.head {
        Head::Value => hidden,
        Head::Vocabulary => {
            // In bf16, a GPU writes the gradient of the logits beside them.
            let number = if value == 2 && is_differentiated { 6 } else { 4 };
            hidden + number * place.logits_room().held(rows, config.vocab_size)
        }
    }
}

/// Bytes that scoring takes: a forward pass of `rows` rows that keeps nothing, with its logits.
pub fn scoring_need(outline: &Outline, rows: usize, place: Place) -> usize {
    place.value_bytes(outline.precision) * rows * outline.config.passing()
        + head_bytes(outline, rows, place, false)
}
