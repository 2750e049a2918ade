//! Draws one instance: names, a haystack up to the length, and where the needles stand.

use std::collections::BTreeSet;
use std::fmt;

use burnish_core::rng::Stream;

use super::config::Config;
use super::haystack::fill;
use super::judge::{Later, Truth};
use super::kind::{RecallTask, Surroundings};
use super::needles::{Hidden, Name, Question, distractor, hide};
use super::wording::{Frame, bytes_taken, frame, separator};

/// Tries for a name that was not drawn before.
const NAMES_MAX: usize = 1_000;

/// A cell of the configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    pub(super) task: RecallTask,
    /// Bytes of the prompt, at most.
    pub(super) length: usize,
    /// Share of the text before the needle; `None` if several needles answer the question.
    pub(super) depth: Option<f64>,
}

impl Cell {
    pub(super) fn depth_label(&self) -> String {
        self.depth.map_or_else(|| "spread".to_owned(), |depth| depth.to_string())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task={} length={} depth={}", self.task.name(), self.length, self.depth_label())
    }
}

/// Why a candidate is no instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// No further name is different from those before.
    NoName,
    /// A name occurs where it was not put.
    Occurs,
}

impl Miss {
    pub(super) fn name(self) -> &'static str {
        match self {
            Miss::NoName => "no_name",
            Miss::Occurs => "occurs",
        }
    }
}

/// Draws one candidate: its prompt and its truth. `text` are the sentences of the configured file, if there is one.
pub(super) fn draw(
    config: &Config,
    cell: Cell,
    text: &[String],
    stream: &mut Stream,
) -> Result<(String, Truth), Miss> {
    let mut names = BTreeSet::new();
    let hidden = hide(config, cell.task, &mut |name| fresh(name, config, &mut names, stream));
    let hidden = hidden.ok_or(Miss::NoName)?;
    let question = |question: &Question| frame(config, cell.task, question);
    let [first, later @ ..] = &hidden.questions[..] else { return Err(Miss::NoName) };
    let frame = question(first);
    let surroundings = cell.task.shape(config).map_or(Surroundings::Noise, |shape| shape.surroundings);
    // Between n sentences there are n - 1 separators.
    let room = (cell.length + 1).saturating_sub(bytes_taken(&frame, &hidden));
    let mut sentences = fill(config, surroundings, text, room, stream);
    if surroundings == Surroundings::Needles {
        sentences = distractors(config, cell.task, &hidden, room, &mut names, stream)?;
    }
    if occurs_elsewhere(&hidden, &frame, &sentences) {
        return Err(Miss::Occurs);
    }
    let mut groups = hidden.others.clone();
    match (cell.depth, cell.task) {
        (Some(_), _) => {}
        // An assignment stands before those that refer to it.
        (None, RecallTask::Variables) => groups.push(hidden.asked.clone()),
        (None, _) => groups.extend(hidden.asked.iter().cloned().map(|needle| vec![needle])),
    }
    let mut sentences = scattered(sentences, groups, stream);
    if let Some(depth) = cell.depth {
        let at = place(&sentences, depth);
        sentences.splice(at..at, hidden.asked.iter().cloned());
    }
    let context = sentences.join(separator(config.prompt, surroundings));
    let references = first.references.clone();
    let later = later.iter().map(|asked| Later {
        // The line break that ends the text of the first turn's prompt is between messages here.
        question: question(asked).after.trim_start().to_owned(),
        references: asked.references.clone(),
    });
    let truth = Truth { references, later: later.collect(), needles: hidden.asked };
    Ok((format!("{}{context}{}", frame.before, frame.after), truth))
}

/// A name that is not in `names` yet, which is put there.
fn fresh(name: Name, config: &Config, names: &mut BTreeSet<String>, stream: &mut Stream) -> Option<String> {
    let mut tries = (0..NAMES_MAX).map(|_| name.draw(config, stream));
    tries.find(|drawn| names.insert(drawn.clone()))
}

/// Needles under other keys, up to `room` bytes with a separator after each.
fn distractors(
    config: &Config,
    task: RecallTask,
    hidden: &Hidden,
    room: usize,
    names: &mut BTreeSet<String>,
    stream: &mut Stream,
) -> Result<Vec<String>, Miss> {
    let Some(shape) = task.shape(config) else { return Ok(Vec::new()) };
    let (mut all, mut left) = (Vec::new(), room);
    // Two closures can't share the stream, so each needle has two of its own.
    loop {
        let [mut of_key, mut of_value] = [Stream::new(stream.bits()), Stream::new(stream.bits())];
        let mut key = |name| fresh(name, config, names, &mut of_key);
        let mut value = |name: Name| {
            let mut tries = (0..NAMES_MAX).map(|_| name.draw(config, &mut of_value));
            tries.find(|drawn| !hidden.references().any(|reference| reference == drawn))
        };
        let needle = distractor(config, shape, &mut key, &mut value).ok_or(Miss::NoName)?;
        if needle.len() >= left {
            return Ok(all);
        }
        left -= needle.len() + 1;
        all.push(needle);
    }
}

/// Does a name of question or answer also stand where it was not put? Then an answer could be right by chance, or the
/// question have two answers.
fn occurs_elsewhere(hidden: &Hidden, frame: &Frame, haystack: &[String]) -> bool {
    let others = || hidden.others.iter().flatten().chain(haystack);
    let in_haystack = |name: &String| others().any(|sentence| sentence.contains(name.as_str()));
    let in_frame =
        |name: &String| frame.before.contains(name.as_str()) || frame.after.contains(name.as_str());
    hidden.questions.iter().flat_map(|question| &question.queries).any(in_haystack)
        || hidden.references().any(|name| in_haystack(name) || in_frame(name))
}

/// Puts the sentences of each group between `sentences`, at random and in the group's order.
fn scattered(sentences: Vec<String>, groups: Vec<Vec<String>>, stream: &mut Stream) -> Vec<String> {
    let places = sentences.len() + 1;
    let mut put: Vec<((usize, u64), String)> = Vec::new();
    for group in groups {
        let mut at: Vec<(usize, u64)> = group.iter().map(|_| (stream.index(places), stream.bits())).collect();
        at.sort_unstable();
        put.extend(at.into_iter().zip(group));
    }
    put.sort_by_key(|(at, _)| *at);
    let mut put = put.into_iter().peekable();
    let mut all = Vec::with_capacity(sentences.len());
    for (place, sentence) in sentences.into_iter().map(Some).chain([None]).enumerate() {
        while let Some((_, before)) = put.next_if(|((at, _), _)| *at <= place) {
            all.push(before);
        }
        all.extend(sentence);
    }
    all
}

/// The place before which the share of bytes is nearest to `depth`.
fn place(sentences: &[String], depth: f64) -> usize {
    let total: usize = sentences.iter().map(|sentence| sentence.len() + 1).sum();
    let wanted = depth * total as f64;
    let mut before = 0;
    let mut best = (wanted, 0);
    for (at, sentence) in sentences.iter().enumerate() {
        before += sentence.len() + 1;
        let off = (before as f64 - wanted).abs();
        if off < best.0 {
            best = (off, at + 1);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_is_the_nearest_place_between_sentences() {
        let sentences: Vec<String> = ["aaaa", "bbbb", "cccc", "dddd"].map(str::to_owned).into();
        let places = [0.0, 0.1, 0.2, 0.5, 0.6, 1.0].map(|depth| place(&sentences, depth));
        assert_eq!(places, [0, 0, 1, 2, 2, 4]);
        assert_eq!(place(&[], 1.0), 0);
    }

    #[test]
    fn groups_keep_their_order_and_sentences_too() {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        for seed in 0..50 {
            let all = scattered(
                owned(&["1", "2", "3"]),
                vec![owned(&["a", "b", "c"]), owned(&["x", "y"])],
                &mut Stream::new(seed),
            );
            let of = |texts: &str| {
                all.iter().filter(|text| texts.contains(text.as_str())).cloned().collect::<String>()
            };
            assert_eq!([of("123"), of("abc"), of("xy")], ["123", "abc", "xy"], "{all:?}");
        }
    }
}
