//! Does a replica compute with the weights that it was given?

/// A text, and its log-probs under the new weights and under those before.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// Ids of the text, at least two.
    pub ids: Vec<u32>,
    /// The log-prob of each id but the first after those before it, at temperature 1, under the new weights.
    pub new: Vec<f32>,
    /// The same under the weights that the replicas had before; `None` if those are not known.
    pub before: Option<Vec<f32>>,
}

impl Proof {
    /// Compares a replica's log-probs, which may differ from the new ones by `tolerance` in the mean.
    ///
    /// The weights of two versions differ less from each other than arithmetic in low precision does. Whoever has the
    /// old weights is found as soon as that is no longer so: it is closer to them than to the new ones.
    ///
    /// # Errors
    /// Says how they differ.
    pub(super) fn check(&self, theirs: &[f32], tolerance: f64) -> Result<(), String> {
        if theirs.len() != self.new.len() {
            return Err(format!("it gave {} log-probs of {} tokens", theirs.len(), self.new.len()));
        }
        let off = distance(theirs, &self.new);
        if let Some(before) = &self.before {
            let off_before = distance(theirs, before);
            if off_before < off / 2.0 {
                return Err(format!(
                    "it still has the weights before: its log-probs of a known text differ from theirs by \
                     {off_before:.2e} nats per token, and by {off:.2e} from those of the new ones"
                ));
            }
        }
        // Also if it is not a number.
        if off <= tolerance {
            return Ok(());
        }
        Err(format!(
            "its log-probs of a known text differ from those of the new weights by {off:.2e} nats per token, and \
             `engine.tolerance` is {tolerance}"
        ))
    }
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum();
    sum / a.len().max(1) as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_other_weights_is_found() {
        let new = vec![-1.0, -2.0, -3.0];
        let with = |before: Option<Vec<f32>>| Proof { ids: vec![1, 2, 3, 4], new: new.clone(), before };
        let moved = |by: f32| new.iter().map(|x| x + by).collect::<Vec<f32>>();
        assert!(with(None).check(&moved(0.01), 0.05).is_ok());
        assert!(with(None).check(&moved(0.1), 0.05).unwrap_err().contains("engine.tolerance"));
        assert!(with(None).check(&[f32::NAN; 3], 0.05).is_err());
        assert!(with(None).check(&moved(0.0)[..2], 0.05).is_err());
        // It has the old weights, which the tolerance alone would not show.
        let old = with(Some(moved(0.02)));
        assert!(old.check(&moved(0.02), 0.05).unwrap_err().contains("the weights before"));
        assert!(old.check(&moved(0.001), 0.05).is_ok());
        // The step is smaller than the noise: nothing can be told, and nothing is lost.
        assert!(with(Some(moved(0.001))).check(&moved(0.01), 0.05).is_ok());
        // A step that changed nothing.
        assert!(with(Some(moved(0.0))).check(&moved(0.01), 0.05).is_ok());
    }
}
