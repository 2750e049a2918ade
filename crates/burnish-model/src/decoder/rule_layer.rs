//! A layer of linear attention that follows one of a family of delta rules ([`Rule`]), whose parts are otherwise alike.
//!
//! ```text
//! q, k, v = silu(conv(W_qkv x))           a convolution over the last tokens, column by column
//! q = q / |q| / sqrt(key_dim)             k = k / |k|                                  per head
//! g = -exp(A_log) softplus(W_f x + dt_bias)           0, per value head, or per channel of the key
//! S_t = (I - k̃ k̃ᵀ) Diag(e^g) S_{t-1} + k̃ ṽᵀ           o = Sᵀ q
//!     k̃ ṽᵀ = β k vᵀ,  β = σ(W_b x) per value head     or   k̃ = √σ(W_b x) ⊙ k,  ṽ = √σ(W_w x) ⊙ v,  W_w = W_b in FG²
//! out = W_o (norm(o) ⊙ σ(W_g x))                                                       norm per value head
//! ```
//!
//! (Yang et al. 2024, arXiv:2406.06484 and 2412.06464; Kimi Team 2025, arXiv:2510.26692; arXiv:2604.19021). Decays per
//! channel and the gate come from products of two thin matrices, as in Kimi Linear. Rates per channel are `β = 1` with
//! scaled keys and values, so all rules have one kernel.

use burnish_tensor::{DeltaInputs, DeltaShape, Param, Tape, Var};

use super::delta_rule::kept_by_rule;
use super::linear::show;
use super::{Declare, Init, Linear};
use crate::config::{Decay, DeltaRuleConfig, Rate, Rule};
use crate::{Mix, ModelConfig, Tap};

#[derive(Debug, Clone)]
pub(super) struct RuleLayer {
    /// Which of the model's layers of this kind it is.
    index: usize,
    in_proj_qkv: Linear, // [2 · K · key_dim + V · value_dim, D]
    conv: Param,         // [rows of in_proj_qkv, 1, kernel]
    decays: Option<Decays>,
    rates: Rates,
    gate: Projection, // [V · value_dim, D]
    norm: Param,      // [value_dim]
    out_proj: Linear, // [D, V · value_dim]
    shape: DeltaShape,
    eps: f32,
}

#[derive(Debug, Clone)]
struct Decays {
    projection: Projection, // [V, D] or [V · key_dim, D]
    a_log: Param,           // [V]
    dt_bias: Param,         // [V] or [V · key_dim]
}

#[derive(Debug, Clone)]
enum Rates {
    PerHead(Projection),              // [V, D]
    PerChannel(Projection),           // [K · key_dim, D]
    EraseWrite(Box<[Projection; 2]>), // [K · key_dim, D], [V · value_dim, D]
}

/// A linear map, whole or as two thin ones.
#[derive(Debug, Clone)]
enum Projection {
    Whole(Linear),
    Thin(Linear, Linear), // [rank, D], [rows, rank]
}

impl Projection {
    /// Named after Qwen3.5 (`in_proj_b`) if it is whole, after Kimi Linear (`b_a_proj`, `b_b_proj`) if it is not.
    fn declare(
        name: &str,
        letter: char,
        rows: usize,
        cols: usize,
        rank: Option<usize>,
        add: Declare<'_>,
    ) -> Self {
        let mut linear = |part: String, rows, cols| {
            Linear::declare(&format!("{name}.{part}"), rows, cols, false, &mut *add)
        };
        match rank {
            None => Projection::Whole(linear(format!("in_proj_{letter}"), rows, cols)),
            Some(rank) => {
                let first = linear(format!("{letter}_a_proj"), rank, cols);
                Projection::Thin(first, linear(format!("{letter}_b_proj"), rows, rank))
            }
        }
    }

    fn apply(&self, tape: &mut Tape<'_>, x: &Var, tap: &mut dyn Tap) -> Var {
        let (Projection::Whole(first) | Projection::Thin(first, _)) = self;
        show(tap, [first], x);
        match self {
            Projection::Whole(linear) => linear.apply(tape, x),
            Projection::Thin(first, second) => {
                let x = first.apply(tape, x);
                show(tap, [second], &x);
                second.apply(tape, &x)
            }
        }
    }

    /// Columns of its result.
    fn rows(&self) -> usize {
        let (Projection::Whole(last) | Projection::Thin(_, last)) = self;
        last.rows()
    }

    /// Numbers per row that are kept between its maps, and by their adapters.
    fn kept(&self) -> usize {
        match self {
            Projection::Whole(linear) => linear.kept(),
            Projection::Thin(first, second) => first.rows() + first.kept() + second.kept(),
        }
    }

    fn linear_maps(&mut self) -> Vec<&mut Linear> {
        match self {
            Projection::Whole(linear) => vec![linear],
            Projection::Thin(first, second) => vec![first, second],
        }
    }
}

impl RuleLayer {
    pub(super) fn declare(
        config: &ModelConfig,
        delta: DeltaRuleConfig,
        rule: Rule,
        name: &str,
        index: usize,
        add: Declare<'_>,
    ) -> Self {
        let (width, shape, heads) = (config.hidden_size, delta.shape(), delta.value_heads);
        let columns = delta.conv_columns();
        let part = |part: &str| format!("{name}.{part}");
        let qkv = Linear::declare(&part("in_proj_qkv"), columns, width, false, add);
        let conv = add(&part("conv1d.weight"), &[columns, 1, delta.conv_kernel], Init::Normal);
        let per_head = match rule.decay() {
            Decay::None => None,
            Decay::PerHead => Some((1, 'a')),
            Decay::PerChannel => Some((delta.key_dim, 'f')),
        };
        let decays = per_head.map(|(channels, letter)| Decays {
            projection: Projection::declare(name, letter, heads * channels, width, delta.decay_rank, add),
            a_log: add(&part("A_log"), &[heads], Init::LogOfUniformFromOne),
            dt_bias: add(&part("dt_bias"), &[heads * channels], Init::InverseSoftplus),
        });
        let mut rates = |letter, rows| Projection::declare(name, letter, rows, width, delta.rate_rank, add);
        let rates = match rule.rate() {
            Rate::PerHead => Rates::PerHead(rates('b', heads)),
            Rate::PerChannel => Rates::PerChannel(rates('b', shape.key_width())),
            Rate::EraseWrite => {
                let erase = rates('b', shape.key_width());
                Rates::EraseWrite(Box::new([erase, rates('w', shape.value_width())]))
            }
        };
        RuleLayer {
            index,
            in_proj_qkv: qkv,
            conv,
            decays,
            rates,
            gate: Projection::declare(name, 'g', shape.value_width(), width, delta.gate_rank, add),
            norm: add(&part("norm.weight"), &[shape.value_dim], Init::Ones),
            out_proj: Linear::declare(&part("out_proj"), width, shape.value_width(), false, add),
            shape,
            eps: config.rms_norm_eps as f32,
        }
    }

    pub(super) fn apply(&self, tape: &mut Tape<'_>, x: &Var, mixer: &mut dyn Mix, tap: &mut dyn Tap) -> Var {
        let (keys, values) = (self.shape.key_width(), self.shape.value_width());
        let (key_dim, heads) = (self.shape.key_dim, self.shape.value_heads);
        show(tap, [&self.in_proj_qkv], x);
        let qkv = self.in_proj_qkv.apply(tape, x);
        let constant =
            |tape: &mut Tape<'_>, value: f32| tape.external(x.rows(), heads, vec![value; x.rows() * heads]);
        let log_decay = match &self.decays {
            None => constant(tape, 0.0),
            Some(decays) => {
                let log_decay = decays.projection.apply(tape, x, tap);
                tape.log_decay(&log_decay, decays.a_log, decays.dt_bias)
            }
        };

        let qkv = mixer.convolve(tape, self.index, &qkv, self.conv);
        let mut part = |start, width| tape.columns(&qkv, 2 * keys + values, start, width);
        let (q, k, v) = (part(0, keys), part(keys, keys), part(2 * keys, values));
        let q = tape.unit_heads(&q, key_dim, (key_dim as f32).sqrt().recip());
        let k = tape.unit_heads(&k, key_dim, 1.0);
        let (k, v, beta) = match &self.rates {
            Rates::PerHead(projection) => {
                let beta = projection.apply(tape, x, tap);
                (k, v, tape.sigmoid(&beta))
            }
            Rates::PerChannel(projection) => {
                let rates = projection.apply(tape, x, tap);
                (tape.root_gate(&k, &rates), tape.root_gate(&v, &rates), constant(tape, 1.0))
            }
            Rates::EraseWrite(both) => {
                let [erase, write] = &**both;
                let erase = erase.apply(tape, x, tap);
                let write = write.apply(tape, x, tap);
                (tape.root_gate(&k, &erase), tape.root_gate(&v, &write), constant(tape, 1.0))
            }
        };
        let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
        let mixed = mixer.recur(tape, self.index, inputs, self.shape);

        let normed = tape.rms_norm(&mixed, self.norm, self.eps);
        let gate = self.gate.apply(tape, x, tap);
        let gated = tape.sigmoid_gate(&normed, &gate);
        show(tap, [&self.out_proj], &gated);
        self.out_proj.apply(tape, &gated)
    }

    /// Numbers per row that a recording pass keeps of it, besides its input.
    pub(super) fn kept(&self) -> usize {
        let (keys, values, heads) =
            (self.shape.key_width(), self.shape.value_width(), self.shape.value_heads);
        let decays = self
            .decays
            .as_ref()
            .map_or(heads, |decays| 2 * decays.projection.rows() + decays.projection.kept());
        let rates = match &self.rates {
            Rates::PerHead(projection) => 2 * projection.rows() + projection.kept(),
            // Keys and values with their rates, and a constant rate of 1.
            Rates::PerChannel(projection) => keys + values + projection.rows() + projection.kept() + heads,
            Rates::EraseWrite(both) => {
                let of_both = both.iter().map(|projection| projection.rows() + projection.kept());
                keys + values + of_both.sum::<usize>() + heads
            }
        };
        // The norm's input and result, the gate, and what is gated.
        let gated = 4 * values + heads + self.gate.kept();
        let maps = self.in_proj_qkv.kept() + self.out_proj.kept();
        kept_by_rule(self.shape) + decays + rates + gated + maps
    }

    pub(super) fn linear_maps(&mut self) -> Vec<&mut Linear> {
        let RuleLayer { in_proj_qkv, decays, rates, gate, out_proj, .. } = self;
        let mut maps = vec![in_proj_qkv];
        maps.extend(decays.iter_mut().flat_map(|decays| decays.projection.linear_maps()));
        match rates {
            Rates::PerHead(rates) | Rates::PerChannel(rates) => maps.extend(rates.linear_maps()),
            Rates::EraseWrite(both) => maps.extend(both.iter_mut().flat_map(Projection::linear_maps)),
        }
        maps.extend(gate.linear_maps());
        maps.push(out_proj);
        maps
    }
}
