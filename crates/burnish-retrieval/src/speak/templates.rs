//! A speaker that needs no model: questions of a topic and a detail, sentences as answers.
//!
//! A question names two things that occur together in one chunk of all: a topic, which other chunks of the cluster
//! share, and a detail that where possible occurs in other chunks as well. A topic goes on as long as chunks of the
//! cluster have it, with at most two questions per chunk. So the question is answerable by exactly
//! one chunk, and without its topic by none: when polish leaves the topic out, only the history has it.
//!
//! The questions are English, whatever the chunks are written in.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::rng::{Address, Purpose, Stream};

use super::{Asked, Scene, Speaker};
use crate::data::Chunk;
use crate::index::Index;
use crate::text::{is_function_word, length, sentences, terms, words};

/// Questions, with the topic last, so that a pronoun can stand for it.
const QUESTIONS: [&str; 5] = [
    "What is known about {detail} in connection with {topic}?",
    "How is {detail} connected with {topic}?",
    "What should I know about {detail} when it comes to {topic}?",
    "Can you explain what {detail} has to do with {topic}?",
    "What part does {detail} play in the case of {topic}?",
];

/// Questions that leave their topic out.
const ELLIPSES: [&str; 3] = ["And {detail}?", "What about {detail}?", "And how about {detail}?"];

/// Share of follow-ups that are ellipses; the others have a pronoun.
const ELLIPSIS: f64 = 0.4;

/// A detail that is in so many chunks says too little without its topic; of two such, neither is preferred.
const AMBIGUOUS: usize = 6;

/// An answer goes on until it has so many words, or the chunk ends.
const ANSWER_WORDS: usize = 30;

/// Questions from templates.
#[derive(Debug, Clone)]
pub struct Templates {
    index: Index,
    places: BTreeMap<String, usize>,
}

/// Words of a chunk that name something.
#[derive(Debug, Clone)]
struct Phrase {
    text: String,
    terms: BTreeSet<String>,
    /// Is it written as a name?
    name: bool,
}

impl Templates {
    /// For `chunks`: all that retrievers will search, since questions must single one out.
    pub fn new(chunks: &[Chunk]) -> Self {
        Templates {
            index: Index::new(chunks.iter().map(|chunk| chunk.text.as_str())),
            places: chunks.iter().enumerate().map(|(place, chunk)| (chunk.id.clone(), place)).collect(),
        }
    }

    /// The phrases of chunk `place` that may be a topic. First what most chunks of the scene that were not asked about
    /// share; then a name, the rarer one, the earlier one.
    fn topics(&self, scene: &Scene<'_>, place: usize) -> Vec<Phrase> {
        let open: Vec<BTreeSet<String>> = (0..scene.chunks.len())
            .filter(|other| !scene.is_asked(*other))
            .map(|other| term_set(&scene.chunks[other].text))
            .collect();
        let text = &scene.chunks[place].text;
        let all = terms(text);
        let mut topics: Vec<(usize, Phrase)> = phrases(text)
            .into_iter()
            .filter(|phrase| {
                phrase.name || phrase.terms.iter().all(|t| all.iter().filter(|o| *o == t).count() > 1)
            })
            .filter(|phrase| !self.is_common(phrase, scene.chunks.len()))
            .map(|phrase| (open.iter().filter(|terms| phrase.terms.is_subset(terms)).count(), phrase))
            .collect();
        topics.sort_by_key(|(shared, phrase)| {
            let spread = self.index.having_all(&phrase.terms).len();
            (std::cmp::Reverse(*shared), !phrase.name, spread)
        });
        topics.into_iter().map(|(_, phrase)| phrase).collect()
    }

    /// Is the phrase in more than `few` chunks, and in more than one of eight? Such phrases name no topic.
    fn is_common(&self, phrase: &Phrase, few: usize) -> bool {
        let having = self.index.having_all(&phrase.terms).len();
        having > few && having * 8 > self.index.len()
    }

    /// A detail that together with `topic` singles out chunk `place` of the scene; alone it should not.
    fn detail(&self, scene: &Scene<'_>, place: usize, topic: &BTreeSet<String>) -> Option<Phrase> {
        let chunk = scene.chunks[place];
        let own = *self.places.get(&chunk.id)?;
        let together: BTreeSet<usize> = self.index.having_all(topic).into_iter().collect();
        let near = sentences(&chunk.text)
            .into_iter()
            .map(|range| term_set(&chunk.text[range]))
            .filter(|terms| topic.is_subset(terms))
            .collect::<Vec<_>>();
        let mut best: Vec<Phrase> = Vec::new();
        let mut rank = (0, false, false);
        for phrase in phrases(&chunk.text) {
            let asked = scene
                .said
                .iter()
                .any(|said| said.asked.detail.as_ref().is_some_and(|d| term_set(d) == phrase.terms));
            if asked || !phrase.terms.is_disjoint(topic) || self.is_common(&phrase, 2) {
                continue;
            }
            let having = self.index.having_all(&phrase.terms);
            if having.iter().filter(|other| together.contains(other)).any(|other| *other != own) {
                continue;
            }
            let beside = near.iter().any(|terms| phrase.terms.is_subset(terms));
            let own_rank = (having.len().min(AMBIGUOUS), phrase.terms.len() > 1, beside);
            if own_rank > rank {
                best.clear();
                rank = own_rank;
            }
            if own_rank == rank {
                best.push(phrase);
            }
        }
        let mut stream = Stream::new(Address::new(scene.seed, Purpose::Task).seed());
        (!best.is_empty()).then(|| best.swap_remove(stream.index(best.len())))
    }
}

impl Speaker for Templates {
    fn ask(&self, scene: &Scene<'_>) -> Result<Option<Asked>, String> {
        let times = |place: usize| scene.said.iter().filter(|said| said.asked.chunk == place).count();
        let open: Vec<usize> = (0..scene.chunks.len()).filter(|place| times(*place) == 0).collect();
        let once = (0..scene.chunks.len()).filter(|place| times(*place) == 1);
        // The topic goes on while there is something left to ask about it, twice per chunk at most.
        let last = scene.said.last().and_then(|said| said.asked.topic.as_ref());
        let go_on = last.into_iter().flat_map(|topic| {
            let terms = term_set(topic);
            let having = open
                .iter()
                .copied()
                .chain(once.clone())
                .filter(|place| terms.is_subset(&term_set(&scene.chunks[*place].text)));
            having.map(|place| (place, topic.clone(), terms.clone())).collect::<Vec<_>>()
        });
        let anew = open.iter().flat_map(|place| {
            self.topics(scene, *place).into_iter().map(|topic| (*place, topic.text, topic.terms))
        });
        for (place, topic, terms) in go_on.chain(anew) {
            let Some(detail) = self.detail(scene, place, &terms) else { continue };
            let mut stream = Stream::new(Address::new(scene.seed, Purpose::Environment).seed());
            let question = filled(QUESTIONS[stream.index(QUESTIONS.len())], &detail.text, &topic);
            return Ok(Some(Asked { chunk: place, question, topic: Some(topic), detail: Some(detail.text) }));
        }
        Ok(None)
    }

    fn answer(&self, scene: &Scene<'_>, asked: &Asked) -> Result<String, String> {
        let text = &scene.chunks[asked.chunk].text;
        let ranges = sentences(text);
        let detail = asked.detail.as_deref().map(term_set).unwrap_or_default();
        let both: BTreeSet<String> =
            detail.iter().cloned().chain(asked.topic.as_deref().map(term_set).unwrap_or_default()).collect();
        let holds = |wanted: &BTreeSet<String>| {
            ranges.iter().position(|range| wanted.is_subset(&term_set(&text[range.clone()])))
        };
        let Some(first) = holds(&both).or_else(|| holds(&detail)).or((!ranges.is_empty()).then_some(0))
        else {
            return Err(format!("chunk {:?} has no sentence", scene.chunks[asked.chunk].id));
        };
        let start = ranges[first].start;
        let end = ranges[first..]
            .iter()
            .map(|range| range.end)
            .find(|end| length(&text[start..*end]) >= ANSWER_WORDS)
            .unwrap_or(text.trim_end().len());
        Ok(text[start..end].to_owned())
    }

    fn polish(&self, scene: &Scene<'_>, asked: &Asked) -> Result<String, String> {
        let before = scene.said.last().and_then(|said| said.asked.topic.as_ref());
        let (Some(topic), Some(detail)) = (&asked.topic, &asked.detail) else {
            return Ok(asked.question.clone());
        };
        if before != Some(topic) {
            return Ok(asked.question.clone());
        }
        let mut stream = Stream::new(Address::new(scene.seed, Purpose::Perturb).seed());
        if stream.uniform() < ELLIPSIS {
            return Ok(filled(ELLIPSES[stream.index(ELLIPSES.len())], detail, topic));
        }
        let plural = topic.ends_with('s') && !topic.ends_with("ss") && !topic.ends_with("us");
        let pronoun = if plural { "them" } else { "it" };
        let bare = asked.question.trim_end_matches('?');
        Ok(match bare.strip_suffix(topic.as_str()) {
            Some(start) => format!("{start}{pronoun}?"),
            None => asked.question.clone(),
        })
    }
}

fn filled(template: &str, detail: &str, topic: &str) -> String {
    template
        .split("{detail}")
        .collect::<Vec<_>>()
        .join(detail)
        .split("{topic}")
        .collect::<Vec<_>>()
        .join(topic)
}

fn term_set(text: &str) -> BTreeSet<String> {
    terms(text).into_iter().collect()
}

/// Names (runs of up to four capitalised words within a sentence), pairs of neighbouring words that carry a topic, and
/// such words alone, each once, in the order in which they begin.
fn phrases(text: &str) -> Vec<Phrase> {
    let mut found: Vec<Phrase> = Vec::new();
    let mut seen = BTreeSet::new();
    for sentence in sentences(text) {
        let sentence = &text[sentence];
        let words: Vec<&str> = words(sentence).into_iter().map(|range| &sentence[range]).collect();
        let spans = self::words(sentence);
        // Only one space or a hyphen may be between the words of a phrase.
        let joined = |at: usize| {
            at + 1 < spans.len() && matches!(&sentence[spans[at].end..spans[at + 1].start], " " | "-")
        };
        for start in 0..words.len() {
            let mut end = start;
            while is_name(words[end]) && end < start + 3 && joined(end) && is_name(words[end + 1]) {
                end += 1;
            }
            // A sentence's first word alone may be a capital by place only.
            let name = is_name(words[start]) && (end > start || start > 0);
            let mut add = |last: usize, name: bool| {
                let text = &sentence[spans[start].start..spans[last].end];
                let text = if start == 0 && !name { text.to_lowercase() } else { text.to_owned() };
                let terms = term_set(&text);
                if !terms.is_empty() && seen.insert(text.to_lowercase()) {
                    found.push(Phrase { text, terms, name });
                }
            };
            if name {
                add(end, true);
            } else if is_topical(words[start]) {
                if joined(start) && is_topical(words[start + 1]) && !is_name(words[start + 1]) {
                    add(start + 1, false);
                }
                add(start, false);
            }
        }
    }
    found
}

fn is_name(word: &str) -> bool {
    let mut characters = word.chars();
    characters.next().is_some_and(char::is_uppercase)
        && word.chars().count() > 1
        && !is_function_word(&word.to_lowercase())
}

/// May `word` stand in a question for what it is? Not function words, adverbs, numbers or short words.
fn is_topical(word: &str) -> bool {
    let unspaced = word.chars().any(crate::text::is_unspaced);
    (word.chars().count() >= 4 || unspaced)
        && word.chars().count() <= 24
        && word.chars().all(char::is_alphabetic)
        && !word.ends_with("ly")
        && !is_function_word(&word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Turn;
    use crate::speak::Said;

    fn chunk(id: &str, text: &str) -> Chunk {
        Chunk { id: id.to_owned(), document: "d".to_owned(), span: None, text: text.to_owned() }
    }

    #[test]
    fn phrases_are_names_pairs_and_words() {
        let found: Vec<String> = phrases("Nikola Tesla's steam engine, in New York. Most people walk.")
            .into_iter()
            .map(|p| p.text)
            .collect();
        for phrase in ["Nikola Tesla", "steam engine", "engine", "New York", "people walk"] {
            assert!(found.iter().any(|found| found == phrase), "{phrase}: {found:?}");
        }
        assert!(
            !found.iter().any(|phrase| phrase == "Most" || phrase == "engine in" || phrase == "Tesla steam")
        );
    }

    #[test]
    fn a_follow_up_leaves_out_what_only_the_history_has() {
        let chunks = [
            chunk("a", "Nikola Tesla worked in Graz. The river floods gardens there in spring."),
            chunk("b", "Later Nikola Tesla left. Some gardens and a railway were built by Nikola Tesla."),
            chunk("c", "A railway runs along the coast. The harbour has a railway museum with old engines."),
            chunk("d", "The river carries salt. Harbour towns sell it."),
        ];
        let templates = Templates::new(&chunks);
        let cluster: Vec<&Chunk> = chunks.iter().collect();
        let scene = Scene { chunks: &cluster, said: &[], seed: 5 };
        let first = templates.ask(&scene).unwrap().unwrap();
        assert_eq!((first.chunk, first.topic.as_deref()), (0, Some("Nikola Tesla")));
        assert_eq!(first.detail.as_deref(), Some("river"), "that of two chunks, of which one has the topic");
        assert!(templates.answer(&scene, &first).unwrap().contains("river floods"));
        assert_eq!(templates.polish(&scene, &first).unwrap(), first.question);

        let turn = Turn {
            user: first.question.clone(),
            rewrite: None,
            answer: String::new(),
            evidence: vec!["a".to_owned()],
            switched: false,
        };
        let said = [Said { asked: first, turn }];
        let mut polished = BTreeSet::new();
        for seed in 0..40 {
            let scene = Scene { chunks: &cluster, said: &said, seed };
            let next = templates.ask(&scene).unwrap().unwrap();
            assert_eq!((next.chunk, next.detail.as_deref()), (1, Some("railway")));
            assert!(next.question.contains("Nikola Tesla") && next.question.contains("railway"));
            let words = templates.polish(&scene, &next).unwrap();
            assert!(!words.contains("Tesla") && words.contains("railway"), "{words}");
            polished.insert(words);
        }
        assert!(polished.contains("And railway?"));
        assert!(polished.contains("How is railway connected with it?"));
    }
}
