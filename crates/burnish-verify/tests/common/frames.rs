//! Sentences with a place for an answer: those of `tests/frames/*.txt`, and the ends of the worked solutions of GSM8K
//! and MATH.

use std::collections::BTreeMap;
use std::path::Path;

use super::Dice;

/// The most sentences that one line of a file gives.
const PER_LINE: usize = 60;

/// A sentence with `{V}` in place of the answer and `{N}` in place of another number.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The row of the table that counts it.
    pub(crate) set: &'static str,
    pub(crate) text: String,
    pub(crate) is_right: bool,
    /// Only for plain numbers.
    pub(crate) is_number: bool,
}

/// The frames of the files: `right.txt`, `number.txt` and `wrong.txt` with the words of `lists.txt`.
pub(crate) fn own() -> Vec<Frame> {
    let lists: BTreeMap<&str, Vec<&str>> = include_str!("../frames/lists.txt")
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, words)| (name, words.split(" | ").collect()))
        .collect();
    let files = [
        (include_str!("../frames/right.txt"), true, false),
        (include_str!("../frames/number.txt"), true, true),
        (include_str!("../frames/wrong.txt"), false, false),
    ];
    let mut frames = Vec::new();
    for (file, is_right, is_number) in files {
        for (index, line) in file.lines().enumerate() {
            if line.starts_with("# ") || line.is_empty() {
                continue;
            }
            for text in expanded(line, &lists, &mut Dice(index as u64)) {
                frames.push(Frame { set: "sentences", text: text.replace("\\n", "\n"), is_right, is_number });
            }
        }
    }
    frames
}

/// `line` with every list's words in its places, [`PER_LINE`] of all combinations.
fn expanded(line: &str, lists: &BTreeMap<&str, Vec<&str>>, dice: &mut Dice) -> Vec<String> {
    let names: Vec<&str> =
        lists.keys().copied().filter(|name| line.contains(&format!("{{{name}}}"))).collect();
    let count: usize = names.iter().map(|name| lists[name].len()).product();
    let chosen: Vec<usize> = if count <= PER_LINE {
        (0..count).collect()
    } else {
        (0..PER_LINE).map(|_| dice.below(count as u64) as usize).collect()
    };
    let mut found: Vec<String> = chosen
        .into_iter()
        .map(|mut index| {
            let mut text = line.to_owned();
            for name in &names {
                let words = &lists[name];
                text = text.replace(&format!("{{{name}}}"), words[index % words.len()]);
                index /= words.len();
            }
            capital(&text)
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The last lines of GSM8K's training solutions, if the answer occurs in them once.
pub(crate) fn gsm8k(data: &Path, most: usize) -> Vec<Frame> {
    let text = super::gunzipped(&data.join("train.jsonl.gz"));
    let mut frames = Vec::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let (solution, answer) = row["answer"].as_str().unwrap().rsplit_once("####").unwrap();
        let last = without_calculations(solution.trim().lines().last().unwrap_or(""));
        let answer = answer.trim();
        let places: Vec<usize> = last
            .match_indices(answer)
            .map(|(at, _)| at)
            .filter(|at| is_apart(&last, *at, answer.len()))
            .collect();
        // Only if the answer is the result of an equation, or the only number.
        if let [at] = places[..]
            && is_plain(&last, at, answer.len())
        {
            let text = format!("{}{{V}}{}", &last[..at], &last[at + answer.len()..]);
            frames.push(Frame { set: "GSM8K's solutions", text, is_right: true, is_number: true });
        }
        if frames.len() == most {
            break;
        }
    }
    frames
}

/// Whether the answer at `at` is all that a line says: the only other numbers are those that an equation before it adds
/// up, and the sentence does not turn it into a bound.
fn is_plain(line: &str, at: usize, length: usize) -> bool {
    let has_digit = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    let before = line[..at].trim_end_matches(['$', ' ']);
    let is_result = before.ends_with('=') || !has_digit(before);
    let lower = line.to_lowercase();
    let bounds = [
        "at least",
        "at most",
        "minimum",
        "maximum",
        "more than",
        "less than",
        "fewer",
        "exceed",
        ">",
        "<",
        "not ",
        "n't",
    ];
    is_result && !has_digit(&line[at + length..]) && !bounds.iter().any(|bound| lower.contains(bound))
}

/// Without `<<9*2=18>>`.
fn without_calculations(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some(open) = rest.find("<<") {
        plain.push_str(&rest[..open]);
        rest = rest[open..].find(">>").map_or("", |close| &rest[open + close + 2..]);
    }
    plain + rest
}

fn is_apart(text: &str, at: usize, length: usize) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '/' | '-' | ':');
    let before = text[..at].chars().next_back();
    let after = text[at + length..].chars().next();
    let next = text[at + length..].chars().nth(1);
    let ends = after
        .is_none_or(|c| !is_part(c) || (matches!(c, '.' | ',') && !next.is_some_and(|c| c.is_ascii_digit())));
    !before.is_some_and(is_part) && ends
}

/// The last sentence of MATH's solutions, with the answer's formula in place of its box.
pub(crate) fn math(data: &Path, most: usize) -> Vec<Frame> {
    let text = super::gunzipped(&data.join("math_test.jsonl.gz"));
    let mut frames = Vec::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let solution = row["solution"].as_str().unwrap_or("");
        let Some(at) = solution.find("$\\boxed{") else { continue };
        let inner = at + "$\\boxed{".len();
        let Some(close) = solution[inner..].find("}$").map(|close| inner + close) else { continue };
        // A formula that is only the box, in the last sentence.
        let is_alone = !solution[inner..close].contains('$') && solution.matches("\\boxed").count() == 1;
        let start = solution[..at].rfind(['.', '\n']).map_or(0, |stop| stop + 1);
        let after = &solution[close + 2..];
        let is_number = solution[inner..close].chars().all(|c| c.is_ascii_digit());
        let before = solution[start..at].trim_start();
        if is_alone
            && is_number
            && after.len() < 40
            && before.matches('$').count().is_multiple_of(2)
            && before.len() > 8
            && is_plain(&format!("{before}0{after}"), before.len(), 1)
        {
            let text = format!("{before}{{V}}{after}");
            frames.push(Frame { set: "MATH's solutions", text, is_right: true, is_number: false });
        }
        if frames.len() == most {
            break;
        }
    }
    frames
}
