//! # Model stock
//!
//! `θ = t · mean(θᵢ) + (1−t) θ₀` with `t = N c / (1 + (N−1) c)`, where `c` is the mean cosine between the changes
//! `θᵢ − θ₀` of every two of the `N` models (Jang et al. 2024, arXiv:2403.19522): of a whole tensor, or of each row with
//! `filter_wise`. As in mergekit, the base is kept where `1 + (N−1) c` is nearly 0.

use super::{Base, Card, Donor, Method, Site, Span};
use crate::WeightsError;
use crate::settings::{Default, Key, Kind};
use crate::sweep::{dot, fold};

pub(super) struct ModelStock;

const CARD: Card = Card {
    id: "model_stock",
    title: "the point between base and average that the angles between changes suggest",
    equation: "θ = t mean(θᵢ) + (1−t) θ₀,  t = N c / (1 + (N−1) c),  c = mean cos(θᵢ − θ₀, θⱼ − θ₀)",
    source: "Jang et al. 2024, arXiv:2403.19522; mergekit",
    reconstructed: &[],
    keys: &[Key {
        name: "filter_wise",
        kind: Kind::Flag,
        is_per_input: false,
        default: Some(Default::Flag(false)),
        about: "whether each row has its own angles",
    }],
    base: Base::Needed,
    models: (2, usize::MAX),
    donor: Donor::Base,
};

/// A product of norms that is smaller counts as this.
const NORMS_MIN: f64 = 1e-6;
/// A divisor that is smaller has no meaning.
const DIVISOR_MIN: f64 = 1e-6;

impl Method for ModelStock {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let (base, models) = (site.base()?, site.models());
        if site.flag("filter_wise")? && !site.is_empty() {
            let row = site.row();
            return Ok(site.computed_by(row, move |_, inputs, out| {
                for (at, out) in out.chunks_mut(row).enumerate() {
                    let rows = at * row..(at + 1) * row;
                    let base = &inputs[base][rows.clone()];
                    let models: Vec<&[f32]> =
                        models.iter().map(|&input| &inputs[input][rows.clone()]).collect();
                    let mut products = Vec::new();
                    add_products(&mut products, base, &models);
                    blend(share(&products, models.len()) as f32, base, &models, out);
                }
            }));
        }
        let views: Vec<_> = [base].iter().chain(&models).map(|&input| site.tensors[input]).collect();
        let parts = fold::<Vec<f64>>(&views, |products, piece| {
            add_products(products, piece.inputs[0], &piece.inputs[1..]);
        })?;
        let mut products = Vec::new();
        for part in &parts {
            products.resize(part.len(), 0.0);
            products.iter_mut().zip(part).for_each(|(sum, term)| *sum += term);
        }
        let share = share(&products, models.len()) as f32;
        Ok(site.computed(move |_, inputs, out| {
            let others: Vec<&[f32]> = models.iter().map(|&input| inputs[input]).collect();
            blend(share, inputs[base], &others, out);
        }))
    }
}

/// Adds the scalar products of the changes of every two models, a model with itself included, in the order of the upper
/// triangle.
fn add_products(sums: &mut Vec<f64>, base: &[f32], models: &[&[f32]]) {
    let change = |model: &&[f32]| model.iter().zip(base).map(|(a, b)| a - b).collect::<Vec<f32>>();
    let changes: Vec<Vec<f32>> = models.iter().map(change).collect();
    sums.resize(models.len() * (models.len() + 1) / 2, 0.0);
    let pairs = changes.iter().enumerate().flat_map(|(at, a)| changes[at..].iter().map(move |b| (a, b)));
    sums.iter_mut().zip(pairs).for_each(|(sum, (a, b))| *sum += dot(a, b));
}

/// `t`, from the products in the order of [`add_products`].
fn share(products: &[f64], count: usize) -> f64 {
    let at = |i: usize, j: usize| products.get(i * count - i * i.saturating_sub(1) / 2 + j - i).copied();
    let at = |i: usize, j: usize| at(i, j).unwrap_or_default();
    let mut cosines = Vec::new();
    for i in 0..count {
        for j in i + 1..count {
            let norms = (at(i, i).sqrt() * at(j, j).sqrt()).max(NORMS_MIN);
            cosines.push((at(i, j) / norms).clamp(-1.0, 1.0));
        }
    }
    let cosine = cosines.iter().sum::<f64>() / cosines.len().max(1) as f64;
    let divisor = 1.0 + (count as f64 - 1.0) * cosine;
    if divisor.abs() < DIVISOR_MIN { 0.0 } else { count as f64 * cosine / divisor }
}

fn blend(share: f32, base: &[f32], models: &[&[f32]], out: &mut [f32]) {
    let count = models.len() as f32;
    out.fill(0.0);
    for model in models {
        out.iter_mut().zip(*model).for_each(|(out, value)| *out += value);
    }
    for (out, base) in out.iter_mut().zip(base) {
        *out = share * (*out / count) + (1.0 - share) * base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_papers_equation() {
        let base = [0.0; 3];
        let of = |models: &[&[f32]]| {
            let mut products = Vec::new();
            add_products(&mut products, &base, models);
            share(&products, models.len())
        };
        assert!((of(&[&[1.0, 0.0, 0.0], &[2.0, 0.0, 0.0]]) - 1.0).abs() < 1e-12, "parallel: the average");
        assert_eq!(of(&[&[1.0, 0.0, 0.0], &[0.0, 2.0, 0.0]]), 0.0, "orthogonal: the base");
        let half = 0.5f64.sqrt() as f32;
        let cosine = f64::from(half);
        let two = 2.0 * cosine / (1.0 + cosine);
        assert!((of(&[&[1.0, 0.0, 0.0], &[half, half, 0.0]]) - two).abs() < 1e-7);
        // Three models with cosines 0, √½ and 0: their mean is a third of √½.
        let mean = cosine / 3.0;
        let three = 3.0 * mean / (1.0 + 2.0 * mean);
        assert!((of(&[&[1.0, 0.0, 0.0], &[half, half, 0.0], &[0.0, 0.0, 5.0]]) - three).abs() < 1e-7);
        assert_eq!(of(&[&[1.0, 0.0, 0.0], &[-1.0, 0.0, 0.0]]), 0.0, "opposite: no estimate, the base");
    }
}
