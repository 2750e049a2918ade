//! Words of reflection made likelier and unlikelier in turn (CyclicReflex, arXiv:2506.11077), or by a constant.

use std::sync::Arc;

use super::{Act, Part, Said, Stage};
use crate::control::{Now, Steer};

/// Adds a triangular wave to logits, until thoughts are closed.
#[derive(Debug)]
pub(super) struct Cyclic {
    pub(super) amplitude: f32,
    pub(super) period: usize,
    pub(super) phase: f32,
    pub(super) ids: Arc<[u32]>,
}

impl Cyclic {
    /// What is added before the token at position `t` of the answer. The published code counts tokens, not thoughts.
    fn wave(&self, t: usize) -> f32 {
        // In f64, so that a long answer's position is exact.
        let period = self.period as f64;
        let x = (t as f64 + f64::from(self.phase) * period).rem_euclid(period) / period;
        let a = f64::from(self.amplitude);
        let wave = if x <= 0.25 {
            4.0 * a * x
        } else if x <= 0.75 {
            2.0 * a - 4.0 * a * x
        } else {
            4.0 * a * x - 4.0 * a
        };
        wave as f32
    }
}

impl Part for Cyclic {
    fn decide(&mut self, now: &Now<'_>, said: &Said, steer: &mut Steer) -> Result<Act, String> {
        shift(self.wave(now.answer.len()), &self.ids, said, steer);
        Ok(Act::Pass)
    }
}

/// Adds the same to logits everywhere, until thoughts are closed.
#[derive(Debug)]
pub(super) struct Shifted {
    pub(super) by: f32,
    pub(super) ids: Arc<[u32]>,
}

impl Part for Shifted {
    fn decide(&mut self, _: &Now<'_>, said: &Said, steer: &mut Steer) -> Result<Act, String> {
        shift(self.by, &self.ids, said, steer);
        Ok(Act::Pass)
    }
}

fn shift(by: f32, ids: &[u32], said: &Said, steer: &mut Steer) {
    if by != 0.0 && said.stage != Stage::After {
        ids.iter().for_each(|id| steer.bias(*id, by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(amplitude: f32, period: usize, phase: f32) -> Vec<f32> {
        let part = Cyclic { amplitude, period, phase, ids: Arc::default() };
        (0..3 * period).map(|t| part.wave(t)).collect()
    }

    #[test]
    fn the_wave_is_a_triangle_of_mean_0_and_of_its_period() {
        for (amplitude, period) in [(5.0, 1200), (5.0, 900), (1.0, 4), (-2.0, 8), (0.0, 12)] {
            let all = wave(amplitude, period, 0.0);
            let mean: f64 = all[..period].iter().map(|by| f64::from(*by)).sum::<f64>() / period as f64;
            assert!(mean.abs() < 1e-6, "{mean}");
            assert_eq!(all[..period], all[period..2 * period]);
            assert_eq!(
                (all[0], all[period / 4], all[period / 2], all[3 * period / 4]),
                (0.0, amplitude, 0.0, -amplitude)
            );
            assert!(all.iter().all(|by| by.abs() <= amplitude.abs()));
        }
        // A phase moves it.
        assert_eq!(wave(5.0, 8, 0.25)[..8], wave(5.0, 8, 0.0)[2..10]);
    }
}
