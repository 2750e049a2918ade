//! Marks around a final answer: boxes, tags and hashes. One that holds nothing is only mentioned.

use super::{closing, is_connective};
use crate::text;

/// Whether the content of a mark says that the mark is only mentioned: "I put it into \boxed{}".
pub(crate) type Mention = fn(&str) -> bool;
/// Where a mark starts, and its content.
pub(crate) type Found = (usize, String);

/// How many marks without content are passed over.
const MENTIONS: usize = 64;

/// Nothing but space and what stands around an answer.
pub(crate) fn is_nothing(content: &str) -> bool {
    const AROUND: &[&str] =
        &["\\,", "\\;", "\\:", "\\!", "\\ ", "\\quad", "\\qquad", "$", "~", "`", "\"", "."];
    let mut rest = content.trim();
    while let Some(after) = AROUND.iter().find_map(|around| rest.strip_prefix(around)) {
        rest = after.trim_start();
    }
    rest.is_empty()
}

/// Nothing, or what stands for an answer: `?`, `___`, `\ldots`, "your answer here"; "and", "tags" beside `<answer>`.
pub(crate) fn is_placeholder(content: &str) -> bool {
    const WORDS: &[&str] = &["answer", "your", "my", "the", "final", "here", "goes", "insert"];
    let words = text::words(content);
    let mut each = words.split(' ');
    is_nothing(content)
        || content.chars().all(|c| c.is_whitespace() || "$.…_?\\`".contains(c))
        || ["\\ldots", "\\dots", "\\cdots", "\\square", "\\Box"].contains(&content.trim())
        || matches!(words.as_str(), "and" | "tag" | "tags")
        || (words.contains("answer") && each.all(|word| WORDS.contains(&word)))
}

/// The content of the last box, with that of the boxes joined to it.
pub(crate) fn boxed(response: &str, is_mention: Mention) -> Option<Found> {
    let (mut start, mut content) = last_box(response, is_mention)?;
    if content.trim().is_empty() {
        return Some((start, content));
    }
    for _ in 0..16 {
        let Some((earlier, earlier_content)) = last_box(&response[..start], is_mention) else { break };
        let end = earlier + box_length(&response[earlier..start]);
        if !is_connective(&response[end..start]) {
            break;
        }
        if earlier_content != content {
            content = format!("{earlier_content}, {content}");
        }
        start = earlier;
    }
    Some((start, content))
}

/// Start and content of the last box of `text` that holds something, or was cut off.
pub(crate) fn last_box(text: &str, is_mention: Mention) -> Option<Found> {
    let mut end = text.len();
    for _ in 0..MENTIONS {
        let start = text[..end].rfind("\\boxed").max(text[..end].rfind("\\fbox"))?;
        let rest = &text[start + 1..];
        let after = rest.strip_prefix("boxed").or(rest.strip_prefix("fbox")).unwrap_or(rest).trim_start();
        match after.strip_prefix('{').map(|inner| closing(inner).map(|length| &inner[..length])) {
            // A box that is never closed was cut off: it holds no answer, and the rest is not guessed.
            Some(None) => return Some((start, String::new())),
            Some(Some(inner)) if !is_mention(inner) => return Some((start, inner.to_owned())),
            Some(Some(_)) => {}
            None if let Some(token) = bare(after) => return Some((start, token.to_owned())),
            None => {}
        }
        end = start;
    }
    None
}

/// What a box without braces holds: `\boxed 5`, `$\boxed B$`. In "the \boxed command" it is nothing.
fn bare(after: &str) -> Option<&str> {
    let word = after.split_whitespace().next()?;
    let token = word.trim_end_matches(['$', '.']);
    let is_value =
        token.trim_start_matches(['-', '$', '.']).starts_with(|c: char| c.is_ascii_digit() || c == '\\')
            && token.contains(char::is_alphanumeric);
    let rest = after[word.len()..].lines().next().unwrap_or_default();
    let is_letter = token.len() == 1
        && token.starts_with(|c: char| c.is_ascii_alphabetic())
        && (word.contains('$') || rest.trim().is_empty());
    (is_value || is_letter).then_some(token)
}

/// Length of the box at the start of `text`.
fn box_length(text: &str) -> usize {
    let open = text.find('{').map_or(0, |open| open + 1);
    closing(&text[open..]).map_or(text.len(), |length| open + length + 1)
}

/// The content of the last `<answer>` that holds something.
pub(crate) fn tagged(response: &str) -> Option<String> {
    tag(response, is_placeholder).or_else(|| tag(response, is_nothing)).map(|(_, content)| content)
}

pub(crate) fn tag(response: &str, is_mention: Mention) -> Option<Found> {
    let lower = response.to_ascii_lowercase();
    let mut end = lower.len();
    for _ in 0..MENTIONS {
        let mark = lower[..end].rfind("<answer>")?;
        let start = mark + "<answer>".len();
        let length = lower[start..end].find("</answer>").unwrap_or(end - start);
        if !is_mention(&response[start..start + length]) {
            return Some((mark, response[start..start + length].to_owned()));
        }
        end = mark;
    }
    None
}

pub(crate) fn hashes(response: &str, is_mention: Mention) -> Option<Found> {
    let mut end = response.len();
    for _ in 0..MENTIONS {
        let start = response[..end].rfind("####")?;
        let line = response[start..].trim_start_matches('#').lines().next().unwrap_or("");
        if !is_mention(line) {
            // `#### Solution:` is a heading; the mark of GSM8K is followed by the answer.
            let is_heading = line.trim().ends_with(':') || line.contains("Step");
            return (!is_heading).then(|| (start, line.to_owned()));
        }
        end = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::reading::{marked, stripped};

    fn text(response: &str) -> Option<String> {
        marked(response).map(|found| stripped(&found.text).to_owned())
    }

    #[test]
    fn a_mark_that_holds_nothing_is_only_mentioned() {
        for response in [
            r"The result is \boxed{31}. I was told to mark it with \boxed.",
            r"\boxed{31} is in the \boxed command, `\boxed{}`, \boxed{\,}, $\boxed{ }$, \boxed{answer}",
            r"\boxed{31} where it says \boxed{\text{your final answer}}, \boxed{\ldots}, \boxed{?}, \boxed{___}",
            r"<answer>31</answer> \boxed{}",
            "<answer>31</answer> stands in <answer></answer> or <answer>...</answer>.",
            "<Answer>31</Answer> stands between <answer> and </answer>, in <answer> tags.",
            "<answer>31</answer>\n<answer>Your answer here</answer>",
            "#### 31\nI wrote it behind ####",
            "#### 31\nI wrote it behind `####`.",
            "The answer is 31\nI put it into \\boxed{answer}, or behind ####",
        ] {
            assert_eq!(text(response).as_deref(), Some("31"), "{response}");
        }
        // What was cut off is no mention, and without another mark a word for an answer is one.
        assert_eq!(text(r"\boxed{31} and then \boxed{3").as_deref(), Some(""));
        assert_eq!(text(r"\boxed{answer}").as_deref(), Some("answer"));
        for (response, expected) in [
            (r"\boxed 5", "5"),
            (r"$\boxed\frac{1}{2}$", r"\frac{1}{2}"),
            (r"$\boxed B$ is it", "B"),
            (r"\boxed{1} \boxed{\{\}}", r"\{\}"),
            (r"\boxed{1} \boxed{\infty}", r"\infty"),
            ("<answer>1</answer><answer>{}</answer>", "{}"),
            ("<answer>1</answer><answer>no answer</answer>", "no answer"),
        ] {
            assert_eq!(text(response).as_deref(), Some(expected), "{response}");
        }
        for response in
            ["\\boxed", "\\boxed{} ".repeat(100).as_str(), "<answer></answer>", "####", "31 #### \n"]
        {
            assert_eq!(text(response), None, "{response}");
        }
    }

    #[test]
    fn the_last_box_counts_with_what_is_joined_to_it() {
        let cases = [
            (r"\boxed{1} \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
            (r"\boxed{1}, \boxed{2} and $\boxed{3}$", "1, 2, 3"),
            (r"\boxed{1} but \boxed{2}", "2"),
            (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
            (r"\boxed{7} and $\boxed{7}$", "7"),
            (r"\fbox{4}", "4"),
            (r"\boxed 5$ is it", "5"),
        ];
        for (response, expected) in cases {
            assert_eq!(text(response).as_deref(), Some(expected), "{response}");
        }
        assert_eq!(text(r"\boxed{1} and \boxed{1").as_deref(), Some(""));
    }
}
