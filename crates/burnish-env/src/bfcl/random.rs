//! The generator of Python's `random.Random(seed)`: ids in the gold calls come from it, so the APIs must draw the same
//! numbers.
//!
//! MT19937 by Matsumoto and Nishimura (1998), seeded by an array as CPython seeds it with an integer.

const SIZE: usize = 624;
const MIDDLE: usize = 397;

/// A Mersenne twister.
#[derive(Clone)]
pub(super) struct Random {
    words: Vec<u32>,
    next: usize,
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Random {{ next: {} }}", self.next)
    }
}

impl Random {
    /// As `random.Random(seed)`.
    pub(super) fn new(seed: u64) -> Self {
        let key = [seed as u32, (seed >> 32) as u32];
        let key = if key[1] == 0 { &key[..1] } else { &key[..] };
        let mut words = vec![19_650_218u32; SIZE];
        for at in 1..SIZE {
            let last = words[at - 1];
            words[at] = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(at as u32);
        }
        let mut at = 1;
        let mixed = |words: &[u32], at: usize, by: u32| {
            let last = words[at - 1];
            words[at] ^ (last ^ (last >> 30)).wrapping_mul(by)
        };
        let advance = |words: &mut Vec<u32>, at: &mut usize| {
            *at += 1;
            if *at == SIZE {
                words[0] = words[SIZE - 1];
                *at = 1;
            }
        };
        for step in 0..SIZE.max(key.len()) {
            let part = step % key.len();
            words[at] = mixed(&words, at, 1_664_525).wrapping_add(key[part]).wrapping_add(part as u32);
            advance(&mut words, &mut at);
        }
        for _ in 1..SIZE {
            words[at] = mixed(&words, at, 1_566_083_941).wrapping_sub(at as u32);
            advance(&mut words, &mut at);
        }
        words[0] = 0x8000_0000;
        Random { words, next: SIZE }
    }

    fn word(&mut self) -> u32 {
        if self.next == SIZE {
            for at in 0..SIZE {
                let joined = (self.words[at] & 0x8000_0000) | (self.words[(at + 1) % SIZE] & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.words[at] = self.words[(at + MIDDLE) % SIZE] ^ (joined >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number of `bits` bits, at most 64; the low words are drawn first.
    fn bits(&mut self, bits: u32) -> u64 {
        if bits <= 32 {
            return u64::from(self.word() >> (32 - bits));
        }
        let low = u64::from(self.word());
        low | u64::from(self.word() >> (64 - bits)) << 32
    }

    /// As `randint`: between `least` and `most`, both included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        let count = most - least + 1;
        let bits = u64::BITS - count.leading_zeros();
        loop {
            let drawn = self.bits(bits);
            if drawn < count {
                return least + drawn;
            }
        }
    }

    /// As `uniform`.
    pub(super) fn uniform(&mut self, least: f64, most: f64) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        let share = (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0;
        least + (most - least) * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From CPython 3.11: `r = random.Random(141053)`.
    #[test]
    fn it_draws_what_python_draws() {
        let mut random = Random::new(141_053);
        assert_eq!(random.between(100_000, 999_999), 251675);
        assert_eq!(random.between(100_000_000_000, 999_999_999_999), 391310425148);
        assert_eq!(random.uniform(-10.0, 40.0), 8.546173419897784);
        for _ in 0..700 {
            random.between(1, 6);
        }
        assert_eq!(random.between(1_000_000, 9_999_999), 9266902);
        assert_eq!(Random::new((1 << 40) + 5).between(0, 99_999), 66110);
    }
}
