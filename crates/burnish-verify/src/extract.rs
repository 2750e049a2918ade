//! Where the final answer is in a response.
//!
//! The first of these that is there and holds something counts; a mark that holds nothing is only mentioned:
//! 1. the last `\boxed{...}` (or `\fbox`); boxes joined by nothing but `,`, `;`, "and", "or" are one list;
//! 2. the last `<answer>...</answer>`;
//! 3. the last `#### ...`, to the end of its line;
//! 4. after the last phrase such as "the answer is" or "Answer:" (also in the languages of MGSM), to the end of
//!    its line, or of the display that follows;
//! 5. without any of these: the whole response, if it is nothing but an answer; otherwise what the verifier takes for
//!    it (`math`, `number`: the last formula or number; `choice`: a letter that opens the last line, or its "... is
//!    (B)"; `json`: the last fenced block; `text` and `exact`: only the whole response).

use crate::marks::{Found, Mention, boxed, hashes, is_nothing, is_placeholder, last_box, tag};

/// How the answer was marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Boxed,
    Tag,
    Hashes,
    Phrase,
}

/// The marked answer of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) text: String,
    pub(crate) mark: Mark,
    /// Where the text after a phrase starts in the response.
    pub(crate) start: usize,
}

/// Steps 1 to 4. `None` if nothing marks an answer.
pub(crate) fn marked(response: &str) -> Option<Marked> {
    // A placeholder ("write it as \boxed{answer}") is an answer only if there is no other.
    marked_by(response, is_placeholder).or_else(|| marked_by(response, is_nothing))
}

/// The marked answer, where marks whose content is a mention are passed over.
fn marked_by(response: &str, is_mention: Mention) -> Option<Marked> {
    let found = |mark| move |(_, text): Found| Marked { text, mark, start: 0 };
    boxed(response, is_mention)
        .map(found(Mark::Boxed))
        .or_else(|| tag(response, is_mention).map(found(Mark::Tag)))
        .or_else(|| hashes(response, is_mention).map(found(Mark::Hashes)))
        .or_else(|| {
            let (start, _) = phrase_at(response)?;
            Some(Marked { text: phrase(response, start)?, mark: Mark::Phrase, start })
        })
}

/// Where the answer after the last phrase of `response` starts.
pub(crate) fn earlier_phrase(response: &str) -> Option<usize> {
    phrase_at(response).map(|(start, _)| start)
}

/// Where the brace that is open at the start closes.
pub(crate) fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    let mut is_escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if is_escaped => {}
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    None
}

/// Whether the text between two answers joins them into one.
pub(crate) fn is_connective(between: &str) -> bool {
    let bare: String = between.chars().filter(|c| !"$()[]\\ \n\t*".contains(*c)).collect();
    matches!(
        bare.to_lowercase().as_str(),
        "," | ";" | "and" | "or" | ",and" | ",or" | "textand" | "text{and}" | "text{or}"
    )
}

/// Phrases of other languages that come right before the answer, ASCII letters in lower case.
const PHRASES: &[&str] = &[
    "die antwort ist",
    "die antwort lautet",
    "antwort:",
    "la réponse est",
    "réponse :",
    "réponse:",
    "la respuesta es",
    "respuesta:",
    "Ответ —",
    "Ответ –",
    "Ответ -",
    "Ответ:",
    "ответ —",
    "ответ:",
    "ответ равен",
    "jibu ni",
    "jibu:",
    "答えは",
    "答え:",
    "答え：",
    "答案是",
    "答案为",
    "答案:",
    "答案：",
    "คำตอบคือ",
    "คำตอบ:",
    "উত্তর হল",
    "উত্তর হলো",
    "উত্তর:",
    "సమాధానం",
];

/// Where an answer is marked: of the last marks of each kind, the first one.
fn mark_at(response: &str) -> Option<usize> {
    let found = [
        last_box(response, is_nothing).map(|(start, _)| start),
        tag(response, is_nothing).map(|(start, _)| start),
        hashes(response, is_nothing).map(|(start, _)| start),
        phrase_at(response).map(|(_, start)| start),
    ];
    found.into_iter().flatten().min()
}

/// The text before the first mark of an answer.
pub(crate) fn before(response: &str) -> &str {
    let mut before = response;
    while let Some(at) = mark_at(before) {
        before = &before[..at];
    }
    before
}

/// Where the answer after the last phrase starts, and where the phrase does.
fn phrase_at(response: &str) -> Option<(usize, usize)> {
    let lower = response.to_ascii_lowercase();
    let after = |phrase: &&str| lower.rfind(phrase).map(|at| (at + phrase.len(), at));
    let other = PHRASES.iter().filter_map(after).max();
    let mut end = lower.len();
    let mut english = None;
    // Bounded, because each attempt reads a line.
    for _ in 0..64 {
        let Some(at) = lower[..end].rfind("answer") else { break };
        let after = at + "answer".len();
        let before = lower[..at].trim_end_matches([' ', '*', '_']);
        let before = before.rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or("");
        let start = introduction(&lower[after..], before).map(|length| (after + length, at));
        if start.is_some_and(|(start, _)| !is_blank(&response[start..])) {
            english = start;
            break;
        }
        end = at;
    }
    other.max(english)
}

fn phrase(response: &str, start: usize) -> Option<String> {
    let rest = response[start..].trim_start_matches([' ', '*', '\n', '\r', '\t', ':', '_', '：']);
    // A display may take several lines.
    for (open, close) in [("$$", "$$"), ("\\[", "\\]"), ("```", "```")] {
        if let Some(inner) = rest.strip_prefix(open) {
            let length = inner.find(close).unwrap_or(inner.len());
            return Some(inner[..length].to_owned());
        }
    }
    rest.lines().next().map(str::to_owned)
}

/// Whether nothing follows but stops and markdown.
fn is_blank(text: &str) -> bool {
    text.trim_start_matches([' ', '*', '\n', '\r', ':', '.']).is_empty()
}

/// Verbs that lead to an answer: "the answer comes out to be".
const VERBS: &[&str] =
    &["is", "was", "equals", "becomes", "be", "are", "'s", "equal", "comes", "works", "turns", "amounts"];
/// What may follow such a verb and still belong to it.
const TAILS: &[&str] = &["be", "to", "out", "equal", "been", "is"];

/// Before "answer": words for an answer that is given up.
const GIVEN_UP: &[&str] =
    &["earlier", "previous", "first", "old", "initial", "original", "former", "wrong", "incorrect", "prior"];
/// Before "answer" used as a noun.
const NOUN_LEADS: &[&str] = &[
    "the",
    "an",
    "my",
    "our",
    "your",
    "his",
    "her",
    "their",
    "final",
    "correct",
    "right",
    "exact",
    "numerical",
    "numeric",
    "only",
    "possible",
    "same",
    "single",
    "true",
    "actual",
    "obvious",
    "unique",
    "desired",
    "required",
    "approximate",
];

/// Length of what is between "answer" (which follows the word `before`) and the answer itself, if this is such a
/// phrase: `:`, `=`, a dash, or words up to a verb such as "is" ("the answer to the question, then, must be").
fn introduction(after: &str, before: &str) -> Option<usize> {
    if GIVEN_UP.contains(&before) {
        return None;
    }
    let skipped = after.len() - after.trim_start_matches([' ', '*', '_', '`']).len();
    let rest = &after[skipped..];
    if rest.starts_with([':', '=', '：']) {
        let length = rest.chars().next().map_or(0, char::len_utf8);
        // `answer => 18`
        return Some(skipped + length + usize::from(rest.starts_with("=>")));
    }
    for dash in ["- ", "– ", "— ", "–", "—", "->", "-->", "→", "⇒"] {
        if rest.starts_with(dash) {
            return Some(skipped + dash.len());
        }
    }
    // "the answer 18", "the answer of 18"
    let value = ["of ", "as ", ""].iter().find_map(|word| {
        let tail = rest.strip_prefix(word)?;
        let is_value = tail.starts_with(|c: char| c.is_ascii_digit() || c == '$')
            || (tail.starts_with('-') && tail[1..].starts_with(|c: char| c.is_ascii_digit()));
        is_value.then_some(skipped + word.len())
    });
    if value.is_some() && skipped > 0 {
        // "People answer 45" has a verb.
        let is_noun = before.is_empty() || NOUN_LEADS.contains(&before);
        return if is_noun { value } else { None };
    }
    // Words up to the first value of the sentence.
    let line = rest.lines().next().unwrap_or("");
    let limit = line.char_indices().nth(120).map_or(line.len(), |(index, _)| index);
    let line = &line[..limit];
    let stop = [". ", "? ", "! "].iter().filter_map(|stop| line.find(stop)).min().unwrap_or(line.len());
    let line = &line[..stop];
    let digit = line.find(|c: char| c.is_ascii_digit() || matches!(c, '$' | '\\'));
    let window = &line[..digit.unwrap_or(line.len())];
    let words: Vec<(usize, &str)> = words(window);
    // The question may have verbs of its own. The last one before the value counts; without a value, the first one.
    let is_verb = |(_, word): &(usize, &str)| {
        VERBS.contains(word) || word.strip_suffix("n't").is_some_and(|verb| VERBS.contains(&verb))
    };
    let is_direct = words.first().is_some_and(is_verb);
    let at = if digit.is_some() && !is_direct {
        words.iter().rposition(is_verb)
    } else {
        words.iter().position(is_verb)
    };
    if let Some(mut at) = at {
        let (first, word) = words[at];
        // A letter must follow (an answer in words), unlike in "the answer is". "isn't" does more than lead to an
        // answer.
        let is_denied = word.ends_with("n't");
        let mut end = if is_denied { first } else { first + word.len() };
        while !is_denied
            && let Some((start, word)) = words.get(at + 1).filter(|(_, word)| TAILS.contains(word))
        {
            end = start + word.len();
            at += 1;
        }
        let is_plain = !window[..first].contains([':', ';']) && at <= 20;
        if is_plain {
            return Some(skipped + end);
        }
    }
    // "Answer (in dollars): 18"
    let colon = window.find([':', '=', '：'])?;
    let is_label = words.iter().take_while(|(start, _)| *start < colon).count() <= 6
        && !rest.starts_with(['.', '?', '!']);
    is_label.then(|| skipped + colon + window[colon..].chars().next().map_or(1, char::len_utf8))
}

/// The words of `text` with their places; `'s` is a word of its own.
fn words(text: &str) -> Vec<(usize, &str)> {
    let is_part = |c: char| c.is_alphabetic() || matches!(c, '\'' | '’');
    let mut words = Vec::new();
    let mut start = None;
    for (index, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, is_part(c)) {
            (None, true) => start = Some(index),
            (Some(from), false) => {
                words.push((from, &text[from..index]));
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// The formulas of `text` (`$..$`, `$$..$$`, `\(..\)`, `\[..\]`) with their places, delimiters included.
pub(crate) fn formulas(text: &str) -> Vec<(std::ops::Range<usize>, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['$', '\\']) {
        let start = at + offset;
        let rest = &text[start..];
        let (open, close) = if rest.starts_with("\\$") {
            at = start + 2;
            continue;
        } else if rest.starts_with("$$") {
            ("$$", "$$")
        } else if rest.starts_with('$') {
            ("$", "$")
        } else if rest.starts_with("\\(") {
            ("\\(", "\\)")
        } else if rest.starts_with("\\[") {
            ("\\[", "\\]")
        } else {
            at = start + 1;
            continue;
        };
        let inner = start + open.len();
        // A formula is short; looking no further keeps this linear.
        let limit = text.floor_char_boundary(inner + 1000);
        // `$\\$36$` is one formula about money.
        let content = &text[inner..limit];
        let end = content
            .match_indices(close)
            .map(|(at, _)| at)
            .find(|at| open != "$" || !content[..*at].ends_with('\\'));
        match end {
            Some(length) if open != "$" || is_formula(&text[inner..inner + length]) => {
                at = inner + length + close.len();
                found.push((start..at, &text[inner..inner + length]));
            }
            _ => at = inner,
        }
    }
    found
}

/// Whether what stands between two dollar signs is a formula, not the text between two prices.
fn is_formula(content: &str) -> bool {
    if content.contains('\n') || content.trim().is_empty() {
        return false;
    }
    let mut word = 0;
    let mut is_command = false;
    for c in content.chars() {
        if c.is_ascii_alphabetic() {
            word += 1;
            if word > 3 && !is_command && !content.contains('\\') {
                return false;
            }
        } else {
            word = 0;
            is_command = c == '\\';
        }
    }
    !content.ends_with(' ') || content.contains('\\')
}

/// Without the Markdown, quotes and full stops around an answer.
pub(crate) fn stripped(text: &str) -> &str {
    let text =
        text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '"' | '“' | '”' | ':'));
    text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | '*' | '。' | '।'))
}

/// The first sentence: up to a stop that is followed by space.
pub(crate) fn sentence(text: &str) -> &str {
    let stops = [". ", ".\n", "。", "। ", "! ", "? "];
    let end = stops.iter().filter_map(|stop| text.find(stop)).min().unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(response: &str) -> Option<String> {
        marked(response).map(|found| stripped(&found.text).to_owned())
    }

    #[test]
    fn marks_are_looked_for_in_the_documented_order() {
        let all = "#### 4\nThe answer is 3. <answer>2</answer> \\boxed{1}";
        let order = [Mark::Boxed, Mark::Tag, Mark::Hashes, Mark::Phrase];
        let cut = [all, &all[..37], "#### 4\nThe answer is 3.", "The answer is 3."];
        for (response, mark) in cut.into_iter().zip(order) {
            assert_eq!(marked(response).map(|found| found.mark), Some(mark), "{response}");
        }
        assert_eq!(marked("3"), None);
    }

    #[test]
    fn phrases_introduce_an_answer() {
        let cases = [
            ("The answer is 3.", "3"),
            ("**Answer:** 3", "3"),
            ("Answer: **3**", "3"),
            ("The final answer to this question is 3", "3"),
            ("the answer = 3\nThat was easy.", "3"),
            ("Final Answer:\n\n\\[\nx = 3\n\\]", "x = 3"),
            ("答案是 3。", "3"),
            ("Ответ — 3.", "3"),
            ("The answer is 2. The answer is 3", "3"),
        ];
        for (response, expected) in cases {
            assert_eq!(text(response).as_deref(), Some(expected), "{response}");
        }
        for response in ["I have no answers", "the answer", "The answer is: "] {
            assert_eq!(marked(response), None, "{response}");
        }
    }

    #[test]
    fn dollars_are_formulas_only_where_no_prose_stands_between() {
        let inner = |text| formulas(text).into_iter().map(|(_, inner)| inner).collect::<Vec<_>>();
        assert_eq!(inner("so $x+1$ and \\(y\\) and $$z$$"), ["x+1", "y", "z"]);
        assert_eq!(inner("it costs $5 and then another $6"), Vec::<&str>::new());
        assert_eq!(inner("from $5 each to $x^2$"), ["x^2"]);
    }
}
