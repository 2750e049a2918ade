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

/// How far the log-probs of a replica may be off, in nats per token in the mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    /// Whatever it was like before: [`EngineConfig::tolerance`](super::EngineConfig::tolerance).
    pub(super) tolerance: f64,
    /// The least that it was ever off, which is what its rounding makes.
    pub(super) least: Option<f64>,
}

impl Allowed {
    /// Ten times what its rounding makes, as rounding depends on the weights.
    fn most(self) -> f64 {
        let usual = self.least.map_or(f64::INFINITY, |least| (10.0 * least).max(FLOOR));
        usual.min(self.tolerance)
    }
}

/// As far as any replica may be off, in nats per token: f32 is off by 1e-5 or less.
const FLOOR: f64 = 1e-3;

impl Proof {
    /// Compares a replica's log-probs. Returns how far they are off, in nats per token.
    ///
    /// The weights of two versions differ less from each other than arithmetic in low precision does. Whoever has the
    /// old weights is found as soon as that is no longer so: it is closer to them than to the new ones. Whoever has read
    /// some of the new weights is found when it is more off than it was.
    ///
    /// # Errors
    /// Says how they differ.
    pub(super) fn check(&self, theirs: &[f32], allowed: Allowed) -> Result<f64, String> {
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
        let most = allowed.most();
        // Also if it is not a number.
        if off <= most {
            return Ok(off);
        }
        let was = allowed.least.map_or(String::new(), |least| format!("; it was off by {least:.2e}"));
        Err(format!(
            "its log-probs of a known text differ from those of the new weights by {off:.2e} nats per token{was}; at most \
             {most:.2e} is allowed (`engine.tolerance`): it has not read all of them"
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
        let unknown = Allowed { tolerance: 0.05, least: None };
        assert!((with(None).check(&moved(0.01), unknown).unwrap() - 0.01).abs() < 1e-6);
        assert!(with(None).check(&moved(0.1), unknown).unwrap_err().contains("engine.tolerance"));
        assert!(with(None).check(&[f32::NAN; 3], unknown).is_err());
        assert!(with(None).check(&moved(0.0)[..2], unknown).is_err());
        // It has the old weights, which the tolerance alone would not show.
        let old = with(Some(moved(0.02)));
        assert!(old.check(&moved(0.02), unknown).unwrap_err().contains("the weights before"));
        assert!(old.check(&moved(0.001), unknown).is_ok());
        // The step is smaller than the noise: nothing can be told, and nothing is lost.
        assert!(with(Some(moved(0.001))).check(&moved(0.01), unknown).is_ok());
        // A step that changed nothing.
        assert!(with(Some(moved(0.0))).check(&moved(0.01), unknown).is_ok());
        // It has some of the new weights.
        let exact = Allowed { tolerance: 0.05, least: Some(1e-6) };
        assert!(old.check(&moved(0.005), exact).unwrap_err().contains("not read all"));
        assert!(old.check(&moved(0.0005), exact).is_ok());
        let rounding = Allowed { tolerance: 0.05, least: Some(1e-3) };
        assert!(old.check(&moved(0.005), rounding).is_ok());
        assert!(with(None).check(&moved(0.1), Allowed { tolerance: 0.05, least: Some(0.02) }).is_err());
    }
}
