//! How far training has moved the weights away from their start, part by part.

use std::collections::BTreeMap;
use std::ops::Range;

use burnish_model::Model;

use crate::RunError;
use crate::learner::Learner;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;

/// The weights at the start. Per part, `‖W - W₀‖ / ‖W₀‖`: for the head (the embedding if they are tied), and for each
/// whole layer.
pub(super) struct Divergence {
    start: Vec<f32>,
    /// `None` if it is frozen.
    head: Option<Range<usize>>,
    /// The parameters of each layer, by layer number.
    layers: BTreeMap<usize, Vec<Range<usize>>>,
}

impl Divergence {
    /// Keeps the policy that the recipe starts from, if the recipe asks for this metric.
    ///
    /// # Errors
    /// If that policy can't be loaded.
    pub(super) fn new(recipe: &Recipe, learner: &Learner) -> Result<Option<Self>, RunError> {
        let (true, Some(path)) = (recipe.metrics.weight_divergence, &recipe.policy.path) else {
            return Ok(None);
        };
        let policy = &learner.here()?.policy.model;
        // Read again, because the policy of a resumed run is that of the checkpoint.
        let start = Model::load_as(path, &recipe.training())?;
        let start = start.params.data().to_vec();
        if start.len() != policy.params.trained_len() {
            let problem = format!("policy.path: {} is not what this run began with", path.display());
            return Err(RunError::Refused(problem));
        }
        let mut layers: BTreeMap<usize, Vec<Range<usize>>> = BTreeMap::new();
        for entry in policy.params.trained_entries() {
            if let Some(layer) = layer_of(&entry.name) {
                layers.entry(layer).or_default().push(entry.param.range());
            }
        }
        let head = policy.head().base;
        Ok(Some(Divergence { start, head: head.is_trained().then(|| head.range()), layers }))
    }

    /// How far the policy is from the start.
    ///
    /// # Errors
    /// Whatever has failed on a GPU so far.
    pub(super) fn metrics(&self, learner: &Learner) -> Result<Values, RunError> {
        let policy = &learner.here()?.policy.model;
        policy.params.fetch()?;
        let now = policy.params.data();
        let mut metrics = Values::new();
        let of = |ranges: &[Range<usize>]| relative_distance(&self.start, now, ranges);
        metrics.extend(of(self.head.as_slice()).map(|d| ("divergence/lm_head".to_owned(), d)));
        let layers: Vec<(usize, f64)> =
            self.layers.iter().filter_map(|(layer, ranges)| Some((*layer, of(ranges)?))).collect();
        if !layers.is_empty() {
            let mean = layers.iter().map(|(_, distance)| distance).sum::<f64>() / layers.len() as f64;
            metrics.insert("divergence/layers_mean".into(), mean);
        }
        metrics.extend(layers.into_iter().map(|(layer, d)| (format!("divergence/layers/{layer}"), d)));
        Ok(metrics)
    }
}

/// Number of the layer that a parameter of this name belongs to.
fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("model.layers.")?.split('.').next()?.parse().ok()
}

/// `‖now - start‖ / ‖start‖` over these elements; `None` if the start is 0.
fn relative_distance(start: &[f32], now: &[f32], ranges: &[Range<usize>]) -> Option<f64> {
    let (mut moved, mut whole) = (0.0, 0.0);
    for range in ranges {
        for (start, now) in start[range.clone()].iter().zip(&now[range.clone()]) {
            let (start, now) = (f64::from(*start), f64::from(*now));
            moved += (now - start).powi(2);
            whole += start.powi(2);
        }
    }
    (whole > 0.0).then(|| (moved / whole).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_all_of_its_elements_and_zeros_have_no_distance() {
        let (start, now) = ([3.0, 4.0, 9.0, 0.0], [3.0, 4.0, 1.0, 1.0]);
        assert_eq!(relative_distance(&start, &now, &[0..1, 1..2]), Some(0.0));
        assert_eq!(relative_distance(&start, &now, &[0..1, 2..3]), Some((64.0_f64 / 90.0).sqrt()));
        assert_eq!(relative_distance(&start, &now, std::slice::from_ref(&(3..4))), None);
    }

    #[test]
    fn layers_are_told_by_the_names_of_checkpoints() {
        assert_eq!(layer_of("model.layers.11.mlp.up_proj.weight"), Some(11));
        assert_eq!(layer_of("model.norm.weight"), None);
    }
}
