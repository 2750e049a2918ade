//! Randomness is addressed, not consumed.
//!
//! A random number is a pure function of *where* it is used: (run seed, stage, step, task, rollout, turn, purpose)
//! gives a 64-bit seed ([`Address::seed`]), and (seed, position) gives a number ([`bits`], [`uniform`]). Nothing is
//! drawn from a shared stream, so batching, thread count, resume, and removing a feature that should change nothing all
//! leave every sample as it was.
//!
//! The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), applied once per field of the address;
//! one more round mixes a position into the seed. It is not cryptographic.

use serde::{Deserialize, Serialize};

/// What a random number decides. Two purposes at one place never share numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u64)]
pub enum Purpose {
    /// Initial weights.
    Init = 1,
    /// Which task instance is made.
    Task = 2,
    /// What happens inside an environment.
    Environment = 3,
    /// Which token is sampled.
    Sample = 4,
    /// The order in which data is read, or how a batch is split.
    Shuffle = 5,
    /// Resampling for confidence intervals.
    Bootstrap = 6,
    /// Deliberate perturbation: shuffled rewards, dropout, corrupted data.
    Perturb = 7,
    /// A random choice of the objective.
    Objective = 8,
}

/// Where in a run a random number is used. Fields that do not apply stay 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// Seed of the run.
    pub run: u64,
    /// Stage of the run.
    pub stage: u64,
    /// Optimiser step, or the index of another repetition.
    pub step: u64,
    /// Which task of the step.
    pub task: u64,
    /// Which rollout of the task.
    pub rollout: u64,
    /// Which turn of the rollout.
    pub turn: u64,
    /// What the number decides.
    pub purpose: Purpose,
}

impl Address {
    /// The address of `purpose` in a run; set the other fields with struct update syntax.
    pub fn new(run: u64, purpose: Purpose) -> Self {
        Address { run, stage: 0, step: 0, task: 0, rollout: 0, turn: 0, purpose }
    }

    /// The 64-bit seed of this place.
    pub fn seed(&self) -> u64 {
        [self.run, self.stage, self.step, self.task, self.rollout, self.turn, self.purpose as u64]
            .into_iter()
            .fold(0x6275_726e_6973_6821, |state, field| mix(state ^ mix(field)))
    }
}

/// Finaliser of SplitMix64: a bijection on 64 bits in which every input bit reaches every output bit.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The 64 random bits of `seed` at `position`.
pub fn bits(seed: u64, position: u64) -> u64 {
    mix(seed ^ mix(position))
}

/// Folds a text into the 64 bits of `hash`: the same on every machine and in every version. Not cryptographic. Start
/// with the total number of bytes. If the text comes in pieces whose lengths are multiples of 8 bytes, the result is
/// that of the whole text.
pub fn fold_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(hash, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        bits(hash, u64::from_le_bytes(word))
    })
}

/// A number in `[0, 1)` with 53 random bits, of `seed` at `position`.
pub fn uniform(seed: u64, position: u64) -> f64 {
    (bits(seed, position) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The numbers of one seed, read position by position.
///
/// For generators that need an unknown number of random numbers. A stream is made where it is used and dropped there;
/// it is never stored or shared.
#[derive(Debug, Clone)]
pub struct Stream {
    seed: u64,
    position: u64,
}

impl Stream {
    /// The stream of `seed`, from position 0.
    pub fn new(seed: u64) -> Self {
        Stream { seed, position: 0 }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let value = bits(self.seed, self.position);
        self.position += 1;
        value
    }

    /// The next number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        let value = uniform(self.seed, self.position);
        self.position += 1;
        value
    }

    /// A whole number below `bound`, without bias (Lemire 2019). A `bound` of 0 gives 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// An index below `len`, without bias. A `len` of 0 gives 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A standard normal number (Box and Muller 1958; the sine half is dropped).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts `items` in a uniformly random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_in_pieces_of_whole_words_hash_as_in_one_and_every_byte_counts() {
        let bytes: Vec<u8> = (0..21).collect();
        let whole = fold_bytes(21, &bytes);
        assert_eq!(fold_bytes(fold_bytes(21, &bytes[..16]), &bytes[16..]), whole);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(fold_bytes(21, &other), whole);
        }
    }

    #[test]
    fn every_field_of_an_address_changes_the_seed() {
        let base = Address::new(1, Purpose::Task);
        let variants = [
            Address { run: 2, ..base },
            Address { stage: 1, ..base },
            Address { step: 1, ..base },
            Address { task: 1, ..base },
            Address { rollout: 1, ..base },
            Address { turn: 1, ..base },
            Address { purpose: Purpose::Sample, ..base },
        ];
        let mut seeds: Vec<u64> = variants.iter().map(Address::seed).collect();
        seeds.push(base.seed());
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), variants.len() + 1);
    }

    #[test]
    fn seeds_stay_what_they_were_when_stored_runs_were_made() {
        // Computed by an independent implementation. If these values change, no recorded run can be resumed to the same
        // numbers.
        assert_eq!(Address::new(7, Purpose::Sample).seed(), 0x703e_543f_f992_c250);
        assert_eq!(bits(7, 3), 0xe880_a903_bcff_6547);
    }

    #[test]
    fn uniform_numbers_fill_the_unit_interval_evenly() {
        const BINS: usize = 64;
        const DRAWS: u64 = 200_000;
        let mut counts = [0f64; BINS];
        for position in 0..DRAWS {
            counts[(uniform(11, position) * BINS as f64) as usize] += 1.0;
        }
        let expected = DRAWS as f64 / BINS as f64;
        let chi2: f64 = counts.iter().map(|n| (n - expected).powi(2) / expected).sum();
        // 63 degrees of freedom: 99.9 % of good generators stay below 104.
        assert!(chi2 < 104.0, "chi-square {chi2}");
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let mut stream = Stream::new(5);
        let draws: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02, "mean {mean}, variance {variance}");
    }

    proptest! {
        #[test]
        fn below_stays_below(seed: u64, bound in 1u64..) {
            prop_assert!(Stream::new(seed).below(bound) < bound);
        }

        #[test]
        fn shuffle_keeps_the_items(seed: u64, len in 0usize..40) {
            let mut items: Vec<usize> = (0..len).collect();
            Stream::new(seed).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..len).collect::<Vec<_>>());
        }
    }
}
