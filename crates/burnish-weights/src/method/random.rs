//! Which elements of a change are dropped by chance.
//!
//! Whether an element is kept depends on the seed, the name of the tensor, which model it is of, and its index: not on
//! threads, sizes of files or other tensors.

use burnish_core::rng::{Address, Purpose, bits, fold_bytes};

/// Draws at a time.
const BLOCK: usize = 128;

/// Elements that are kept with a given chance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chance {
    seed: u64,
    /// The chance in 2⁻³².
    kept: u64,
}

impl Chance {
    /// Of the tensor `name`, and of the input that `which` tells from others, kept with probability `density`.
    pub(super) fn new(seed: u64, name: &str, which: u64, density: f64) -> Self {
        let address = Address { task: which, ..Address::new(seed, Purpose::Perturb) };
        let seed = fold_bytes(address.seed(), name.as_bytes());
        Chance { seed, kept: (density * (1u64 << 32) as f64) as u64 }
    }

    /// Sets the changes that are dropped to 0. `changes` begins with element `start`.
    pub(super) fn keep(self, start: usize, changes: &mut [f32]) {
        let Ok(kept) = u32::try_from(self.kept) else { return };
        let thin = |change: &mut f32, drawn: u32| *change = if drawn < kept { *change } else { 0.0 };
        // One draw of 64 bits serves two elements.
        let (odd, changes) = changes.split_at_mut((start % 2).min(changes.len()));
        let first = (start / 2) as u64;
        odd.iter_mut().for_each(|change| thin(change, (bits(self.seed, first) >> 32) as u32));
        // First all draws, then all choices: a loop of choices alone has no condition that the processor would have to
        // guess.
        let places = (first + odd.len() as u64..).step_by(BLOCK);
        for (changes, place) in changes.chunks_mut(2 * BLOCK).zip(places) {
            let mut drawn = [0; 2 * BLOCK];
            for (pair, place) in drawn.as_chunks_mut::<2>().0.iter_mut().zip(place..) {
                let bits = bits(self.seed, place);
                *pair = [bits as u32, (bits >> 32) as u32];
            }
            changes.iter_mut().zip(drawn).for_each(|(change, drawn)| thin(change, drawn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(chance: Chance, start: usize, count: usize) -> Vec<bool> {
        let mut ones = vec![1.0; count];
        chance.keep(start, &mut ones);
        ones.into_iter().map(|one| one == 1.0).collect()
    }

    #[test]
    fn as_many_are_kept_as_asked_and_the_choice_is_the_elements_own() {
        for density in [0.1, 0.5, 0.93] {
            let chance = Chance::new(3, "w", 0, density);
            let all = kept(chance, 0, 100_000);
            let share = all.iter().filter(|kept| **kept).count() as f64 / 1e5;
            let deviation = (density * (1.0 - density) / 1e5).sqrt();
            assert!((share - density).abs() < 4.0 * deviation, "{share} of {density}");
            // Wherever a piece begins: two elements share a draw, so odd beginnings go their own way.
            for start in [0, 1, 2, 777, BLOCK - 1, BLOCK, BLOCK + 1] {
                for count in [0, 1, 2, 3, BLOCK, 1000] {
                    assert_eq!(kept(chance, start, count), all[start..start + count], "{start} {count}");
                }
            }
            // Neighbours that share a draw are independent.
            let both = all.as_chunks::<2>().0.iter().filter(|pair| pair[0] && pair[1]).count() as f64 / 5e4;
            assert!((both - density * density).abs() < 0.01, "{both}");
        }
        assert_eq!(kept(Chance::new(3, "w", 0, 1.0), 0, 999), vec![true; 999]);
        assert_eq!(kept(Chance::new(3, "w", 0, 0.0), 0, 999), vec![false; 999]);
        let other = |seed, name, which| kept(Chance::new(seed, name, which, 0.5), 0, 64);
        assert_ne!(other(3, "w", 0), other(4, "w", 0));
        assert_ne!(other(3, "w", 0), other(3, "v", 0));
        assert_ne!(other(3, "w", 0), other(3, "w", 1));
    }
}
