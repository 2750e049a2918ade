//! # QK-Restore and its Procrustes variant
//!
//! ## What it does
//! Tuning on short traces gives routing (`W_Q`, `W_K`) gradients from short distances only and so destroys recall over long
//! contexts, while extraction (`W_V`, `W_O`) learns. QK-Restore puts the routing of the model before tuning (`pre`, the
//! base) back into the model after it (`post`). Everything else is `post`'s, byte for byte.
//!
//! ## Formula
//! `full`: `W_Q, W_K ← pre` in every softmax-attention layer. `q`, `k`, `v`: only that matrix, the paper's ablations.
//!
//! `pro`: as near to `post` as the routing `R = W_Q W_Kᵀ` of `pre` allows, linearised. Per head, with columns for head
//! dimensions: `W_K ← W_K^pre`, `W_Q ← W_Q^post + (W_Q^pre − W_Q^post) Π`, `Π = (KᵀK + λI)⁻¹ KᵀK`, `K = W_K^pre` of the head's
//! group, `λ = lambda · mean σ²(K)`. Along a singular direction of `K` with value `σ` the share of `pre` is `σ²/(σ²+λ)`.
//!
//! ## Reduces to
//! `lambda → 0` is `full`; `lambda → ∞` leaves `W_Q^post` with `W_K^pre`. `pre = post` changes nothing.
//!
//! ## Reconstructed
//! The paper (arXiv:2606.11052) was read in notes. `lambda` is relative to `mean σ²` because its own value is not known. The
//! form with `Π` is derived from the paper's `(R^pre − W_Q^post W_K^{pre,T})(W_K^pre W_K^{pre,T} + λI)⁻¹ W_K^pre`; a test
//! compares the two. Biases and the gains of QK-norms belong to routing, but the paper names only the matrices, so they
//! stay `post`'s unless `biases` is on.
//!
//! ## References
//! "Attention Amnesia in Hybrid LLMs", arXiv:2606.11052.

mod layers;
mod layout;
mod project;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::layout::{Block, Layout, Role};
use super::{Base, Card, Donor, Job, Method, Part, Site, Span};
use crate::WeightsError;
use crate::checkpoint::View;
use crate::settings::{Default, Key, Kind};

pub(super) struct QkRestore;

const fn key(name: &'static str, kind: Kind, default: Default, about: &'static str) -> Key {
    Key { name, kind, is_per_input: false, default: Some(default), about }
}

const CARD: Card = Card {
    id: "qk_restore",
    title: "the routing of the model before tuning, in the model after it",
    equation: "full: W_Q, W_K ← pre;  pro: W_K ← pre, W_Q ← post + (pre − post) Π, Π = (KᵀK + λI)⁻¹ KᵀK",
    source: "Attention Amnesia in Hybrid LLMs, arXiv:2606.11052",
    reconstructed: &[
        "λ of `pro` is relative to the mean squared singular value of W_K",
        "which layers are softmax attention where config.json has no `layer_types`",
    ],
    keys: &[
        key(
            "mode",
            Kind::Word(&["full", "pro", "q", "k", "v"]),
            Default::Text("full"),
            "what is restored: routing, routing by projection, or one matrix",
        ),
        key("lambda", Kind::Number(0.0, f64::INFINITY), Default::Number(0.1), "λ of `pro`, in mean σ²(W_K)"),
        key("layers", Kind::Text, Default::Text(""), "numbers of softmax-attention layers, such as 3,7,11"),
        key(
            "fused",
            Kind::Word(&["blocks", "groups"]),
            Default::Text(""),
            "order of rows in fused projections: all q, all k, all v; or q, k, v of each group of heads",
        ),
        key("biases", Kind::Flag, Default::Flag(false), "whether biases and QK-norms are restored as well"),
    ],
    base: Base::Needed,
    models: (1, 1),
    donor: Donor::LastModel,
};

impl Method for QkRestore {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn check(&self, job: &Job<'_>, names: &[&str]) -> Result<(), WeightsError> {
        let layers = layers::softmax_layers(job, names)?;
        if job.text("mode", "")? == "pro" && job.flag("biases", "")? {
            let problem =
                "`biases` restores what `mode: pro` has no rule for; use `mode: full`, or leave it out";
            return Err(WeightsError::Refused(problem.to_owned()));
        }
        let is_routing = |name: &&&str| {
            layout::named(name).is_some_and(|(_, kind)| kind == layout::Kind::Weight)
                && layers.contains(layers::layer(name))
        };
        if names.iter().any(|name| is_routing(&name)) {
            return Ok(());
        }
        Err(WeightsError::Refused(
            "there is nothing to restore: no tensor of a softmax-attention layer is called like a query, key or fused \
             projection (q_proj, wq, query_key_value ...); `burnish weights inspect` lists the names"
                .to_owned(),
        ))
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let (pre, post) = (site.base()?, site.models()[0]);
        let Some((projection, kind)) = layout::named(site.name) else { return Ok(site.copied(post)) };
        let mode = site.text("mode")?;
        let names: Vec<&str> = site.job.sources[post].names().collect();
        let layers = layers::softmax_layers(site.job, &names)?;
        let is_asked = kind == layout::Kind::Weight || site.flag("biases")?;
        if !is_asked || !layers.contains(layers::layer(site.name)) {
            return Ok(site.copied(post));
        }
        let layout = Layout::of(site, projection, kind)?;
        let width = site.len() / site.shape.first().copied().unwrap_or(1).max(1);
        let mut spans = Vec::new();
        for block in &layout.blocks {
            let elements = block.rows * width;
            let part = match (mode.as_str(), block.role) {
                ("full" | "q", Role::Query(_))
                | ("full" | "k" | "pro", Role::Key(_))
                | ("v", Role::Value(_)) => Part::Copy(pre),
                ("pro", Role::Query(head)) => projected(site, &layout, block, head, pre, post)?,
                _ => Part::Copy(post),
            };
            spans.push(Span { elements, part });
        }
        Ok(spans)
    }
}

/// The queries of one head, projected.
fn projected<'a>(
    site: &'a Site<'a>,
    layout: &Layout,
    block: &Block,
    head: usize,
    pre: usize,
    post: usize,
) -> Result<Part<'a>, WeightsError> {
    let (key, rows) = layout.key_of(site, head, block.rows, pre)?;
    let share = Arc::new(projection(&key, rows, block.rows, site.number("lambda")?)?);
    let rows = block.rows;
    let width = site.len() / site.shape.first().copied().unwrap_or(1).max(1);
    Ok(Part::Compute {
        unit: rows * width,
        kernel: Box::new(move |_, inputs, out| project::blend(&share, inputs[pre], inputs[post], width, out)),
    })
}

/// `Π` of the keys in the rows from `first` on of `key`.
fn projection(key: &View<'_>, first: usize, rows: usize, lambda: f64) -> Result<Vec<f32>, WeightsError> {
    let width = key.len() / key.shape.first().copied().unwrap_or(1).max(1);
    let mut values = vec![0.0; rows * width];
    key.read(first * width..(first + rows) * width, &mut values)?;
    project::projection(&values, rows, lambda).map_err(|problem| key.error(problem))
}
