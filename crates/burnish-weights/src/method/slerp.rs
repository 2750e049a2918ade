//! # Spherical linear interpolation
//!
//! `θ = sin((1−t)Ω)/sin Ω · θ₀ + sin(tΩ)/sin Ω · θ₁` with `cos Ω = ⟨θ₀, θ₁⟩ / (‖θ₀‖‖θ₁‖)` over a whole tensor
//! (Shoemake 1985). Where the two are nearly parallel or opposite (`|cos Ω| > 0.9995`) it is the linear interpolation
//! `(1−t) θ₀ + t θ₁`, as in mergekit. The base is `θ₀`. Norms and the product are summed in f64.

use super::{Base, Card, Donor, Method, Site, Span};
use crate::WeightsError;
use crate::settings::{Key, Kind};
use crate::sweep::{dot, fold};

pub(super) struct Slerp;

const CARD: Card = Card {
    id: "slerp",
    title: "interpolation of two models along the sphere",
    equation: "θ = sin((1−t)Ω)/sin Ω · θ₀ + sin(tΩ)/sin Ω · θ₁,  cos Ω = ⟨θ₀, θ₁⟩ / (‖θ₀‖‖θ₁‖)",
    source: "Shoemake 1985; mergekit",
    reconstructed: &[],
    keys: &[Key {
        name: "t",
        kind: Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
        is_per_input: false,
        default: None,
        about: "how far from the base (0) to the model (1)",
    }],
    base: Base::Needed,
    models: (1, 1),
    donor: Donor::Base,
};

/// Above this, vectors count as parallel.
const PARALLEL: f64 = 0.9995;
/// A norm that is not larger counts as 1.
const NORM_MIN: f64 = 1e-8;

impl Method for Slerp {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let t = site.number("t")?;
        let (from, to) = (site.base()?, site.models()[0]);
        let sums = fold::<[f64; 3]>(&[site.tensors[from], site.tensors[to]], |sums, piece| {
            let [a, b] = [piece.inputs[0], piece.inputs[1]];
            for (sum, term) in sums.iter_mut().zip([dot(a, a), dot(b, b), dot(a, b)]) {
                *sum += term;
            }
        })?;
        let total = |at: usize| sums.iter().map(|sum| sum[at]).sum::<f64>();
        let norm = |square: f64| if square.sqrt() > NORM_MIN { square.sqrt() } else { 1.0 };
        let cosine = (total(2) / (norm(total(0)) * norm(total(1)))).clamp(-1.0, 1.0);
        let (first, second) = factors(t, cosine);
        let (first, second) = (first as f32, second as f32);
        Ok(site.computed(move |_, inputs, out| {
            for ((out, a), b) in out.iter_mut().zip(inputs[from]).zip(inputs[to]) {
                *out = first * a + second * b;
            }
        }))
    }
}

/// The factors of the two ends.
fn factors(t: f64, cosine: f64) -> (f64, f64) {
    if cosine.abs() > PARALLEL {
        return (1.0 - t, t);
    }
    let angle = cosine.acos();
    (((1.0 - t) * angle).sin() / angle.sin(), (t * angle).sin() / angle.sin())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_reached_and_length_is_kept_between() {
        for cosine in [-0.9, 0.0, 0.3, 0.99] {
            let near =
                |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 1e-12 && (b - d).abs() < 1e-12;
            assert!(near(factors(0.0, cosine), (1.0, 0.0)) && near(factors(1.0, cosine), (0.0, 1.0)));
            let (a, b) = factors(0.3, cosine);
            assert!((a * a + b * b + 2.0 * a * b * cosine - 1.0).abs() < 1e-12, "unit vectors stay so");
        }
        assert_eq!(factors(0.25, 0.9996), (0.75, 0.25));
        assert_eq!(factors(0.25, -1.0), (0.75, 0.25));
    }
}
