//! Which term is in which chunk, and BM25 on top of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::{is_function_word, terms};

/// An inverted index of texts.
#[derive(Debug, Clone)]
pub struct Index {
    /// Per term: places of the texts that have it, ascending, with how often.
    postings: BTreeMap<String, Vec<(usize, u32)>>,
    /// Terms per text, with repetitions.
    lengths: Vec<usize>,
    mean_length: f64,
}

impl Index {
    /// The index of `texts`.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut postings: BTreeMap<String, Vec<(usize, u32)>> = BTreeMap::new();
        let mut lengths = Vec::new();
        for (place, text) in texts.into_iter().enumerate() {
            let terms = terms(text);
            lengths.push(terms.len());
            for term in terms {
                let entries = postings.entry(term).or_default();
                match entries.last_mut() {
                    Some((last, count)) if *last == place => *count += 1,
                    _ => entries.push((place, 1)),
                }
            }
        }
        let mean_length = lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
        Index { postings, lengths, mean_length }
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Is there no text?
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// In how many texts `term` is.
    pub fn frequency(&self, term: &str) -> usize {
        self.postings.get(term).map_or(0, Vec::len)
    }

    /// How much `term` tells: `ln(1 + (N - n + 0.5) / (n + 0.5))`, which is never negative (Lucene's variant).
    pub fn idf(&self, term: &str) -> f64 {
        let having = self.frequency(term) as f64;
        (1.0 + (self.len() as f64 - having + 0.5) / (having + 0.5)).ln()
    }

    /// The places of the texts that have all of `terms`, ascending; all texts for no terms.
    pub fn having_all(&self, terms: &BTreeSet<String>) -> Vec<usize> {
        let mut lists = Vec::with_capacity(terms.len());
        for term in terms {
            match self.postings.get(term) {
                Some(list) => lists.push(list),
                None => return Vec::new(),
            }
        }
        lists.sort_by_key(|list| list.len());
        let Some((rarest, others)) = lists.split_first() else { return (0..self.len()).collect() };
        let in_all = |place: &usize| {
            others.iter().all(|list| list.binary_search_by_key(place, |(other, _)| *other).is_ok())
        };
        rarest.iter().map(|(place, _)| *place).filter(in_all).collect()
    }

    /// BM25 of every text (Robertson and Zaragoza 2009) for the terms of a query. One that is repeated counts as often.
    pub fn bm25(&self, query: &[String], k1: f64, b: f64) -> Vec<f64> {
        let mut scores = vec![0.0; self.len()];
        for term in query {
            let Some(entries) = self.postings.get(term) else { continue };
            let idf = self.idf(term);
            for (place, count) in entries {
                let count = f64::from(*count);
                let length = self.lengths[*place] as f64 / self.mean_length;
                scores[*place] += idf * count * (k1 + 1.0) / (count + k1 * (1.0 - b + b * length));
            }
        }
        scores
    }

    /// The places of the `depth` texts that BM25 finds nearest to a query (`k1` 1.2, `b` 0.75), nearest first, with
    /// their scores. English function words of the query do not count, unless it has no others.
    pub fn nearest(&self, query: &str, depth: usize) -> Vec<(usize, f64)> {
        let scores = self.bm25(&query_terms(query), 1.2, 0.75);
        highest(&scores, depth).into_iter().map(|place| (place, scores[place])).collect()
    }

    /// The share of what `text` is about that `other` mentions: terms that are no function words, each once and
    /// weighted by [`Index::idf`]. `None` if `text` is about nothing.
    pub fn coverage(&self, text: &str, other: &BTreeSet<String>) -> Option<f64> {
        let topic: BTreeSet<String> =
            terms(text).into_iter().filter(|term| !is_function_word(term)).collect();
        let weight = |terms: &mut dyn Iterator<Item = &String>| terms.map(|term| self.idf(term)).sum::<f64>();
        let all = weight(&mut topic.iter());
        (all > 0.0).then(|| weight(&mut topic.intersection(other)) / all)
    }
}

/// The terms of `query` that carry a topic; all of them if none does. Questions are full of words that are rare in
/// passages and yet say nothing, such as "explain".
pub(crate) fn query_terms(query: &str) -> Vec<String> {
    let all = terms(query);
    let topical: Vec<String> = all.iter().filter(|term| !is_function_word(term)).cloned().collect();
    if topical.is_empty() { all } else { topical }
}

/// The places of the `depth` highest of `scores`, best first; of equal ones, the earlier first.
pub(crate) fn highest(scores: &[f64], depth: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len()).collect();
    places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    places.truncate(depth);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use bm25::{EmbedderBuilder, Scorer, Tokenizer};
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        let index = Index::new(["a b", "a a c d"]);
        // idf(b) = ln(1 + 1.5/1.5); length 2 of mean 3: 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2/3)).
        let expected = 2f64.ln() * 2.2 / (1.0 + 1.2 * 0.75);
        let scores = index.bm25(&terms("b x"), 1.2, 0.75);
        assert!((scores[0] - expected).abs() < 1e-12 && scores[1] == 0.0, "{scores:?}");
        assert_eq!(highest(&[0.0, 2.0, 0.0, 3.0], 3), [3, 1, 0]);
        let set = |text: &str| terms(text).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(index.having_all(&set("a")), [0, 1]);
        assert_eq!(index.having_all(&set("c a")), [1]);
        assert!(index.having_all(&set("a x")).is_empty());
        assert_eq!(index.coverage("what about b", &set("b")), Some(1.0));
        assert_eq!(index.coverage("what about it", &set("b")), None);
    }

    #[derive(Clone, Default)]
    struct Terms;
    impl Tokenizer for Terms {
        fn tokenize(&self, text: &str) -> Vec<String> {
            terms(text)
        }
    }

    proptest! {
        #[test]
        fn scores_are_those_of_an_independent_implementation(
            texts in prop::collection::vec("([a-f] ){1,12}", 1..12), query in "([a-g] ){1,6}",
        ) {
            let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
            let ours = Index::new(refs.iter().copied()).bm25(&terms(&query), 1.2, 0.75);
            let embedder =
                EmbedderBuilder::<u64, Terms>::with_tokenizer_and_fit_to_corpus(Terms, &refs).build();
            let mut scorer = Scorer::<usize, u64>::new();
            for (place, text) in refs.iter().enumerate() {
                scorer.upsert(&place, embedder.embed(text));
            }
            for (place, ours) in ours.iter().enumerate() {
                let theirs = f64::from(scorer.score(&place, &embedder.embed(&query)).unwrap());
                prop_assert!((ours - theirs).abs() < 1e-4, "{} and {}", ours, theirs);
            }
        }
    }
}
