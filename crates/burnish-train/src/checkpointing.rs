//! How much of a micro-batch's forward pass the backward pass computes again.

/// Activation checkpointing. It changes time and memory, and no bit of a gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointing {
    /// Everything is kept.
    Off,
    /// The hidden states between layers and what attention computes are kept, and the rest is computed again.
    Selective,
    /// The hidden states between layers are kept, and each layer is computed again: a third more time.
    Full,
}

/// The activation checkpointing of micro-batches, by their rows: a longer one keeps less, so that it fits as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointingBySize {
    /// Most rows for [`Checkpointing::Off`].
    pub off_max: usize,
    /// Most rows for [`Checkpointing::Selective`], where there are more than those.
    pub selective_max: usize,
}

impl CheckpointingBySize {
    /// That of a micro-batch of `rows` rows.
    pub fn of(self, rows: usize) -> Checkpointing {
        match rows {
            _ if rows <= self.off_max => Checkpointing::Off,
            _ if rows <= self.selective_max => Checkpointing::Selective,
            _ => Checkpointing::Full,
        }
    }
}

impl Checkpointing {
    /// This for every micro-batch.
    pub const fn always(self) -> CheckpointingBySize {
        let (off_max, selective_max) = match self {
            Checkpointing::Off => (usize::MAX, usize::MAX),
            Checkpointing::Selective => (0, usize::MAX),
            Checkpointing::Full => (0, 0),
        };
        CheckpointingBySize { off_max, selective_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_micro_batches_keep_less() {
        let limits = CheckpointingBySize { off_max: 10, selective_max: 20 };
        let found = [1, 10, 11, 20, 21].map(|rows| limits.of(rows));
        use Checkpointing::{Full, Off, Selective};
        assert_eq!(found, [Off, Off, Selective, Selective, Full]);
        for same in [Off, Selective, Full] {
            assert_eq!([1, 1 << 40].map(|rows| same.always().of(rows)), [same; 2]);
        }
    }
}
