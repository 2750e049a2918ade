//! How our sentences read, as counts that may only fall. Where one of these tests fails, say it in fewer words: subject,
//! verb, object, and the field's term. Where a count has fallen far below its bound, lower the bound.

use crate::docs::files;

/// Blocks of doc comments that open with a question word (tokio and serde_json have some 1 % and 0.2 %).
const QUESTIONS: usize = 2620;
/// Lines of sources with more than 130 characters.
const LONG_LINES: usize = 154;
/// Home-made terms in sources and pages, with the usual ones.
const TERMS: [(&str, &str, usize); 9] = [
    ("controls of thoughts", "thinking controls", 6),
    ("words of reflection", "reflection words", 9),
    ("model of goals", "goal model", 10),
    ("tree of prefixes", "prefix tree", 0),
    ("held to a grammar", "constrained decoding", 3),
    ("is no part of", "a statement of what it is", 2),
    ("nothing but", "only", 26),
    ("under way", "running, pending", 70),
    ("what is there", "the thing's name", 8),
];
/// A count may be below its bound by this share before the bound has to follow.
const SLACK: f64 = 0.1;

/// Fails if `count` is above `most`, or so far below that the bound should be lowered.
fn falls(what: &str, count: usize, most: usize) {
    assert!(count <= most, "{what}: {count}, at most {most}");
    let least = most - (most as f64 * SLACK) as usize - 3.min(most);
    assert!(count >= least, "{what}: {count}; lower its bound of {most} in tests/it/prose.rs");
}

fn sources() -> Vec<String> {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    files("crates", &["rs"]).into_iter().map(read).collect()
}

#[test]
fn doc_comments_open_with_their_subject() {
    let words =
        ["What", "Whether", "Who", "Whose", "Which", "Where", "When", "How", "Why", "Whatever", "Whoever"];
    let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
    let mut count = 0;
    for source in sources() {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        count += (0..lines.len())
            .filter(|&at| is_doc(lines[at]) && (at == 0 || !is_doc(lines[at - 1])))
            .filter(|&at| lines[at][3..].split_whitespace().next().is_some_and(|word| words.contains(&word)))
            .count();
    }
    falls("doc comments that open with a question word", count, QUESTIONS);
}

#[test]
fn lines_are_short() {
    let count =
        sources().iter().flat_map(|source| source.lines()).filter(|line| line.chars().count() > 130).count();
    falls("lines of more than 130 characters", count, LONG_LINES);
}

#[test]
fn terms_are_those_of_the_field() {
    let mut texts = sources();
    let pages =
        [files("docs", &["md"]), files("recipes", &["toml"]), files("systems", &["md", "toml"])].concat();
    texts.extend(pages.into_iter().map(|path| std::fs::read_to_string(path).unwrap()));
    for (term, usual, most) in TERMS {
        // This file names each once.
        let count = texts.iter().map(|text| text.matches(term).count()).sum::<usize>() - 1;
        falls(&format!("\"{term}\" (write: {usual})"), count, most);
    }
}
