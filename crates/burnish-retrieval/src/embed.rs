//! Texts as vectors, and the neighbours that they have.

use burnish_core::rng::fold_bytes;

use crate::index::{Index, highest};
use crate::text::{is_function_word, terms};
use crate::{Result, wrong};

/// Turns texts into vectors whose cosine says how close the texts are. A model's mean hidden state is one, an
/// embeddings endpoint another, [`Hashed`] one that needs neither.
pub trait Embed {
    /// The name that reports give it.
    fn name(&self) -> &str;

    /// One vector per text, in order, all of one length. The error says what went wrong, and what to do.
    fn embed(&self, texts: &[&str]) -> std::result::Result<Vec<Vec<f32>>, String>;
}

/// The vectors of `texts`, checked: one each, of one length, finite, and scaled to length 1 (zeros stay zeros).
pub(crate) fn unit_vectors(embed: &dyn Embed, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
    let mut vectors = match embed.embed(texts) {
        Ok(vectors) => vectors,
        Err(error) => return wrong(format!("embedding with {:?}: {error}", embed.name())),
    };
    if vectors.len() != texts.len() {
        return wrong(format!(
            "embedding with {:?}: {} texts got {} vectors",
            embed.name(),
            texts.len(),
            vectors.len()
        ));
    }
    let width = vectors.first().map_or(0, Vec::len);
    for (place, vector) in vectors.iter_mut().enumerate() {
        if vector.len() != width || vector.iter().any(|value| !value.is_finite()) {
            return wrong(format!(
                "embedding with {:?}: the vector of text {place} is not {width} finite numbers, as the first is",
                embed.name()
            ));
        }
        let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if norm > 0.0 {
            vector.iter_mut().for_each(|value| *value /= norm);
        }
    }
    Ok(vectors)
}

/// The cosine of two vectors that are scaled to length 1.
pub fn cosine(left: &[f32], right: &[f32]) -> f64 {
    // Eight sums side by side, which the compiler turns into vector instructions.
    let mut sums = [0.0f32; 8];
    let (left, right) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (left, right) in left.zip(right) {
        for (sum, (a, b)) in sums.iter_mut().zip(left.iter().zip(right)) {
            *sum += a * b;
        }
    }
    f64::from(sums.iter().sum::<f32>() + rest)
}

/// For each vector of length 1 the places of its `count` nearest others, nearest first; of equally near ones, the
/// earlier first.
pub fn neighbours(vectors: &[Vec<f32>], count: usize) -> Vec<Vec<usize>> {
    (0..vectors.len())
        .map(|own| {
            let similarity = |(other, vector): (usize, &Vec<f32>)| {
                if other == own { f64::NEG_INFINITY } else { cosine(&vectors[own], vector) }
            };
            let scores: Vec<f64> = vectors.iter().enumerate().map(similarity).collect();
            highest(&scores, count.min(vectors.len() - 1))
        })
        .collect()
}

/// Hashed TF-IDF: each term adds `(1 + ln count) * idf` at a place and with a sign that its hash gives (Weinberger and
/// others 2009). Function words add nothing. It knows words, not meanings. With few numbers per vector, words that
/// share a place make chunks neighbours that have nothing in common: 2048 are enough for a few thousand chunks.
#[derive(Debug, Clone)]
pub struct Hashed {
    index: Index,
    width: usize,
}

impl Hashed {
    /// With the term weights of `texts` and vectors of `width` numbers.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>, width: usize) -> Self {
        Hashed { index: Index::new(texts), width: width.max(1) }
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        for term in terms(text).into_iter().filter(|term| !is_function_word(term)) {
            *counts.entry(term).or_default() += 1;
        }
        let mut vector = vec![0.0; self.width];
        for (term, count) in counts {
            let hash = fold_bytes(term.len() as u64, term.as_bytes());
            let weight = (1.0 + f64::from(count).ln()) * self.index.idf(&term);
            let place = ((hash >> 1) % self.width as u64) as usize;
            vector[place] += (if hash & 1 == 0 { weight } else { -weight }) as f32;
        }
        vector
    }
}

impl Embed for Hashed {
    fn name(&self) -> &str {
        "hashed"
    }

    fn embed(&self, texts: &[&str]) -> std::result::Result<Vec<Vec<f32>>, String> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(Vec<Vec<f32>>);
    impl Embed for Given {
        fn name(&self) -> &str {
            "given"
        }
        fn embed(&self, _: &[&str]) -> std::result::Result<Vec<Vec<f32>>, String> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn neighbours_are_nearest_first_and_never_oneself() {
        let vectors = [vec![1.0, 0.0], vec![0.0, 1.0], vec![0.8, 0.6], vec![0.8, 0.6]];
        assert_eq!(neighbours(&vectors, 2), [[2, 3], [2, 3], [3, 0], [2, 0]]);
        assert_eq!(neighbours(&vectors[..1], 5), [Vec::<usize>::new()]);
        assert!(neighbours(&[], 5).is_empty());
    }

    #[test]
    fn texts_with_common_words_are_closer() {
        let texts = ["steam engines drive ships", "engines of steam trains", "whales eat krill"];
        let vectors = unit_vectors(&Hashed::new(texts, 256), &texts).unwrap();
        assert!(cosine(&vectors[0], &vectors[1]) > cosine(&vectors[0], &vectors[2]) + 0.1);
        assert!((cosine(&vectors[0], &vectors[0]) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn vectors_that_do_not_fit_are_refused() {
        for given in [vec![vec![1.0]], vec![vec![1.0], vec![1.0, 2.0]], vec![vec![1.0], vec![f32::NAN]]] {
            assert!(unit_vectors(&Given(given), &["a", "b"]).unwrap_err().0.contains("\"given\""));
        }
    }
}
