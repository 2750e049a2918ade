//! Which ids of the output head exist.

/// The ids that a model may produce. Heads are often padded beyond the tokenizer's vocabulary; an excluded id has
/// logit -∞ in log-probs, entropy and sampling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocab {
    len: usize,
    /// In ascending order.
    excluded: Vec<u32>,
}

impl Vocab {
    /// All ids `0..len`.
    #[must_use]
    pub fn all(len: usize) -> Self {
        Vocab { len, excluded: Vec::new() }
    }

    /// The ids of `0..len` that are `allowed`.
    #[must_use]
    pub fn only(len: usize, allowed: impl Fn(u32) -> bool) -> Self {
        Vocab { len, excluded: (0..len as u32).filter(|&id| !allowed(id)).collect() }
    }

    /// Number of rows of the output head, including excluded ones.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a head has rows")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether `id` exists.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        (id as usize) < self.len && (self.excluded.is_empty() || self.excluded.binary_search(&id).is_err())
    }

    /// Ids below [`Vocab::len`] that do not exist, ascending.
    #[must_use]
    pub fn excluded(&self) -> &[u32] {
        &self.excluded
    }
}
