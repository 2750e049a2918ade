//! # Sums of task vectors
//!
//! A task vector is what tuning changed, `δᵢ = θᵢ − θ₀`. These methods add several to the base, after they are thinned
//! out and, where they disagree in sign, after the minority is left out:
//!
//! `θ = θ₀ + λ · Σᵢ mᵢ wᵢ δ̃ᵢ / n`
//!
//! | method | `δ̃` | `m` | `n` unless `normalize` says otherwise |
//! | --- | --- | --- | --- |
//! | task arithmetic (Ilharco et al. 2022, arXiv:2212.04089) | `δ` | 1 | 1 |
//! | TIES (Yadav et al. 2023, arXiv:2306.01708) | the share `density` of largest size | sign is that of `Σ wδ̃` | `Σ mw` |
//! | DARE (Yu et al. 2023, arXiv:2311.03099) | each element kept with chance `density` | 1 | 1 |
//! | DARE with TIES' signs | the same | sign is that of `Σ wδ̃` | 1 |
//!
//! With `rescale`, DARE's default, `δ̃` is scaled to the sum of sizes that `δ` had, as in mergekit 0.1.5; the paper divides
//! by `density`, which is the same in expectation. As in mergekit, a sum of 0 counts as positive, and a divisor of 0
//! as 1. Changes are taken in f32; sums of sizes in f64.

use super::random::Chance;
use super::trim::Largest;
use super::{Base, Card, DENSITY, Donor, INT8_MASK, Method, Site, Span, WEIGHT};
use crate::WeightsError;
use crate::settings::{Default, Key, Kind};
use crate::sweep::{fold, size};

pub(super) struct TaskVectors {
    card: &'static Card,
    thinning: Thinning,
    /// Whether elements whose sign is in the minority are left out.
    elects_sign: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Thinning {
    None,
    Largest,
    Random,
}

const fn keys(normalize: bool, rescale: bool) -> [Key; 6] {
    [
        WEIGHT,
        DENSITY,
        Key {
            name: "normalize",
            kind: Kind::Flag,
            is_per_input: false,
            default: Some(Default::Flag(normalize)),
            about: "whether the sum is divided by the sum of the weights that took part",
        },
        Key {
            name: "rescale",
            kind: Kind::Flag,
            is_per_input: false,
            default: Some(Default::Flag(rescale)),
            about: "whether what is kept is scaled to the sum of sizes of the whole",
        },
        Key {
            name: "lambda",
            kind: Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
            is_per_input: false,
            default: Some(Default::Number(1.0)),
            about: "a factor of the whole change",
        },
        INT8_MASK,
    ]
}

const PLAIN: &[Key] = &keys(false, false);
const AVERAGED: &[Key] = &keys(true, false);
const RESCALED: &[Key] = &keys(false, true);

const TASK_ARITHMETIC_CARD: Card = Card {
    id: "task_arithmetic",
    title: "weighted sum of what each model changed",
    equation: "θ = θ₀ + λ Σ wᵢ (θᵢ − θ₀)",
    source: "Ilharco et al. 2022, arXiv:2212.04089; mergekit",
    reconstructed: &[],
    keys: PLAIN,
    base: Base::Needed,
    models: (1, usize::MAX),
    donor: Donor::Base,
};

pub(super) const TASK_ARITHMETIC: TaskVectors =
    TaskVectors { card: &TASK_ARITHMETIC_CARD, thinning: Thinning::None, elects_sign: false };

pub(super) const TIES: TaskVectors = TaskVectors {
    card: &Card {
        id: "ties",
        title: "the largest changes, averaged where they agree in sign",
        equation: "θ = θ₀ + λ Σ mᵢ wᵢ δ̃ᵢ / Σ mᵢ wᵢ,  δ̃: the share `density` of largest size,  m: sign of Σ wδ̃",
        source: "Yadav et al. 2023, arXiv:2306.01708; mergekit",
        keys: AVERAGED,
        ..TASK_ARITHMETIC_CARD
    },
    thinning: Thinning::Largest,
    elects_sign: true,
};

pub(super) const DARE_LINEAR: TaskVectors = TaskVectors {
    card: &Card {
        id: "dare_linear",
        title: "sum of changes of which elements are dropped by chance",
        equation: "θ = θ₀ + λ Σ wᵢ δ̃ᵢ,  δ̃: each element kept with chance `density`, scaled to the sizes of δ",
        source: "Yu et al. 2023, arXiv:2311.03099; mergekit",
        keys: RESCALED,
        ..TASK_ARITHMETIC_CARD
    },
    thinning: Thinning::Random,
    elects_sign: false,
};

pub(super) const DARE_TIES: TaskVectors = TaskVectors {
    card: &Card {
        id: "dare_ties",
        title: "sum of changes dropped by chance, where they agree in sign",
        equation: "θ = θ₀ + λ Σ mᵢ wᵢ δ̃ᵢ,  δ̃ as in dare_linear,  m: sign of Σ wδ̃",
        source: "Yu et al. 2023, arXiv:2311.03099; Yadav et al. 2023, arXiv:2306.01708; mergekit",
        keys: RESCALED,
        ..TASK_ARITHMETIC_CARD
    },
    thinning: Thinning::Random,
    elects_sign: true,
};

/// Which elements of a change are kept.
enum Kept {
    All,
    None,
    Largest(Largest),
    Random(Chance),
}

/// A change with its factors.
struct Change {
    input: usize,
    weight: f32,
    scale: f32,
    kept: Kept,
}

/// A sum of sizes that is smaller is not scaled to or from.
const SIZES_MIN: f64 = 1e-7;

impl Method for TaskVectors {
    fn card(&self) -> &'static Card {
        self.card
    }

    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError> {
        let base = site.base()?;
        let changes = site.models().into_iter().map(|input| self.change(site, base, input));
        let changes = changes.collect::<Result<Vec<Change>, WeightsError>>()?;
        let (normalize, lambda) = (site.flag("normalize")?, site.number("lambda")? as f32);
        let elects_sign = self.elects_sign;
        Ok(site.computed(move |start, inputs, out| {
            let base = inputs[base];
            let mut changed = vec![0.0; base.len()];
            if elects_sign {
                let parts: Vec<Vec<f32>> = changes
                    .iter()
                    .map(|change| {
                        change.put(start, inputs[change.input], base, &mut changed);
                        changed.clone()
                    })
                    .collect();
                sum_of_majority(&changes, &parts, normalize, out);
            } else {
                out.fill(0.0);
                for change in &changes {
                    change.put(start, inputs[change.input], base, &mut changed);
                    out.iter_mut().zip(&changed).for_each(|(out, value)| *out += value);
                }
                let divisor: f32 = changes.iter().map(|change| change.weight).sum();
                if normalize && divisor.abs() >= 1e-8 {
                    out.iter_mut().for_each(|out| *out /= divisor);
                }
            }
            for (out, base) in out.iter_mut().zip(base) {
                *out = base + lambda * *out;
            }
        }))
    }
}

impl TaskVectors {
    fn change(&self, site: &Site<'_>, base: usize, input: usize) -> Result<Change, WeightsError> {
        let density = site.number_of("density", input)?;
        let pair = [site.tensors[base], site.tensors[input]];
        let elements = site.len();
        let kept = match self.thinning {
            _ if elements == 0 => Kept::All,
            Thinning::None => Kept::All,
            _ if density >= 1.0 => Kept::All,
            Thinning::Largest if density <= 0.0 => Kept::None,
            Thinning::Largest => {
                let count = ((density * elements as f64) as u64).max(1);
                Kept::Largest(Largest::of(pair, count)?)
            }
            Thinning::Random => Kept::Random(Chance::new(site.job.seed, site.name, input as u64, density)),
        };
        let weight = site.number_of("weight", input)? as f32;
        let mut change = Change { input, weight, scale: 1.0, kept };
        if site.flag("rescale")? && !matches!(change.kept, Kept::All) {
            let sums = fold::<[f64; 2]>(&pair, |sums, piece| {
                let mut changed: Vec<f32> =
                    piece.inputs[1].iter().zip(piece.inputs[0]).map(|(model, base)| model - base).collect();
                sums[0] += size(&changed);
                change.thin(piece.start, &mut changed);
                sums[1] += size(&changed);
            })?;
            let before: f64 = sums.iter().map(|sum| sum[0]).sum();
            let after: f64 = sums.iter().map(|sum| sum[1]).sum();
            if before >= SIZES_MIN && after >= SIZES_MIN {
                change.scale = (before / after) as f32;
            }
        }
        Ok(change)
    }
}

impl Change {
    /// Writes the thinned, scaled and weighted change of the elements from `start` on.
    fn put(&self, start: usize, model: &[f32], base: &[f32], out: &mut [f32]) {
        for ((out, model), base) in out.iter_mut().zip(model).zip(base) {
            *out = model - base;
        }
        self.thin(start, out);
        for out in out {
            *out = *out * self.scale * self.weight;
        }
    }

    fn thin(&self, start: usize, changes: &mut [f32]) {
        match &self.kept {
            Kept::All => {}
            Kept::None => changes.fill(0.0),
            Kept::Largest(largest) => largest.keep(start, changes),
            Kept::Random(chance) => chance.keep(start, changes),
        }
    }
}

/// The sum of the weighted changes whose sign is that of the sum of all.
fn sum_of_majority(changes: &[Change], parts: &[Vec<f32>], normalize: bool, out: &mut [f32]) {
    let mut all = vec![0.0; out.len()];
    for part in parts {
        all.iter_mut().zip(part).for_each(|(all, value)| *all += value);
    }
    let mut divisors = vec![0.0; out.len()];
    out.fill(0.0);
    for (change, part) in changes.iter().zip(parts) {
        for (((out, divisor), all), value) in out.iter_mut().zip(&mut divisors).zip(&all).zip(part) {
            let agrees = if *all >= 0.0 { *value > 0.0 } else { *value < 0.0 };
            *out += if agrees { *value } else { 0.0 };
            *divisor += if agrees { change.weight } else { 0.0 };
        }
    }
    if normalize {
        for (out, divisor) in out.iter_mut().zip(&divisors) {
            *out /= if *divisor == 0.0 { 1.0 } else { *divisor };
        }
    }
}
