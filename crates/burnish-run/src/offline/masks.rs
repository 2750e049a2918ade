//! How a model of masked diffusion learns answers: each on a canvas of a fixed length, with part of it masked.

use burnish_core::rng::{Address, Purpose};
use burnish_recipe::Recipe;
use burnish_train::Sample;

use crate::learner::Learner;
use crate::seeds::Draws;

/// What canvases are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Masks {
    /// The id that stands for a token not known.
    pub(super) mask: u32,
    /// What a canvas is filled with behind an answer.
    end: u32,
    /// Tokens of a canvas: as many as an answer may have when it is sampled, which begins with that many masks.
    pub(super) canvas: usize,
}

impl Masks {
    /// `None` where the policy reads from left to right.
    pub(super) fn of(recipe: &Recipe, learner: &Learner) -> Option<Self> {
        let mask = learner.mask_token_id()?;
        let end = *learner.chat().end_ids().first()?;
        Some(Masks { mask, end, canvas: recipe.rollout.tokens_max })
    }

    /// A sample for each answer in `whole`, which is read up to it: the answer, filled with end tokens, all of which
    /// count. `None` in the place of an answer that is longer than the canvas.
    pub(super) fn canvases(self, whole: &Sample) -> Vec<Option<Sample>> {
        let mut answers = Vec::new();
        let mut at = 0;
        for run in whole.loss_mask.chunk_by(|a, b| a == b) {
            if run[0] {
                let filled = run.len() <= self.canvas;
                answers.push(filled.then(|| self.canvas_at(&whole.ids[..at + run.len()], run.len())));
            }
            at += run.len();
        }
        answers
    }

    /// `ids` end with an answer of `tokens`.
    fn canvas_at(self, ids: &[u32], tokens: usize) -> Sample {
        let (prompt, mut ids) = (ids.len() - tokens, ids.to_vec());
        ids.resize(prompt + self.canvas, self.end);
        let loss_mask = (0..ids.len()).map(|at| at >= prompt).collect();
        Sample { loss_mask, ..Sample::of_text(ids) }
    }
}

/// The seed of the noise of sample number `sample` of a step; of what is held out the same in every evaluation.
pub(super) fn noise_seed(recipe: &Recipe, step: Option<u64>, sample: u64) -> u64 {
    let draws = if step.is_some() { Draws::Noise } else { Draws::HeldOutNoise };
    let address = Address::new(recipe.run.seed, Purpose::Perturb);
    Address { stage: draws.stage(), step: step.unwrap_or(0), task: sample, ..address }.seed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_a_canvas_of_its_own_behind_what_comes_before_it() {
        let masks = Masks { mask: 99, end: 50, canvas: 3 };
        let mask = [false, true, true, false, true, false, true, true, true, true];
        let whole = Sample { loss_mask: mask.to_vec(), ..Sample::of_text((10..20).collect()) };
        let made = masks.canvases(&whole);
        assert_eq!(made.len(), 3);
        let first = made[0].as_ref().unwrap();
        assert_eq!(first.ids, [10, 11, 12, 50]);
        assert_eq!(first.loss_mask, [false, true, true, true]);
        assert_eq!(made[1].as_ref().unwrap().ids, [10, 11, 12, 13, 14, 50, 50]);
        assert_eq!(made[2], None, "longer than the canvas");
        assert_eq!(first.check(), Ok(()));
        assert_eq!(first.clone().with_noise(masks.mask, 1).check(), Ok(()));
    }
}
