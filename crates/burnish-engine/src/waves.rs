//! Rows of several sequences, taken one of each at a time: a recurrent state sees its sequence's rows in order.

use std::borrow::Cow;
use std::rc::Rc;

/// The `index`-th rows of all sequences that have as many, of a batch in which the sequences lie one after the other.
pub(crate) struct Waves {
    /// The sequences' first rows and numbers of rows.
    spans: Rc<[(usize, usize)]>,
    index: usize,
}

impl Waves {
    /// All waves of sequences with these numbers of rows.
    pub(crate) fn of(lens: impl Iterator<Item = usize>) -> Vec<Waves> {
        let mut end = 0;
        let spans: Rc<[(usize, usize)]> = lens
            .map(|len| {
                end += len;
                (end - len, len)
            })
            .collect();
        let count = spans.iter().map(|(_, len)| *len).max().unwrap_or(0);
        (0..count).map(|index| Waves { spans: Rc::clone(&spans), index }).collect()
    }

    /// Which wave it is: sequences with more rows than this have a row in it.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    fn rows(&self) -> impl Iterator<Item = usize> {
        self.spans.iter().filter(|(_, len)| *len > self.index).map(|(first, _)| first + self.index)
    }

    /// Has every sequence one row, so that the wave is the batch?
    fn is_all(&self) -> bool {
        self.spans.iter().all(|(_, len)| *len == 1)
    }

    /// Its rows of `x`, each of `cols` columns.
    pub(crate) fn gather<'x>(&self, x: &'x [f32], cols: usize) -> Cow<'x, [f32]> {
        if self.is_all() {
            return Cow::Borrowed(x);
        }
        Cow::Owned(self.rows().flat_map(|row| &x[row * cols..][..cols]).copied().collect())
    }

    /// Lets `write` fill its rows of `out`, each of `cols` columns.
    pub(crate) fn scatter(&self, out: &mut [f32], cols: usize, write: impl FnOnce(&mut [f32])) {
        if self.is_all() {
            return write(out);
        }
        let mut own = vec![0.0; self.rows().count() * cols];
        write(&mut own);
        for (row, own) in self.rows().zip(own.chunks_exact(cols)) {
            out[row * cols..][..cols].copy_from_slice(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sequence_has_its_rows_in_order() {
        let waves: Vec<Vec<usize>> =
            Waves::of([1, 3, 0, 2].into_iter()).iter().map(|wave| wave.rows().collect()).collect();
        assert_eq!(waves, [vec![0, 1, 4], vec![2, 5], vec![3]]);
        let mut out = vec![0.0; 12];
        for wave in Waves::of([1, 3, 0, 2].into_iter()) {
            wave.scatter(&mut out, 2, |own| own.fill(1.0 + wave.index() as f32));
        }
        assert_eq!(out, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1.0, 1.0, 2.0, 2.0]);
    }
}
