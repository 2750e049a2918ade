//! Fenced code blocks, as CommonMark defines them.

/// A fenced block of a response.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The first word of its info string, in lower case: usually a language.
    pub language: String,
    /// Its lines, without the indentation of its opening fence.
    pub content: String,
    /// Whether a closing fence ends it. A response that was cut off may end inside a block.
    pub is_closed: bool,
}

/// An opening fence.
struct Open {
    sign: char,
    length: usize,
    indent: usize,
}

/// Further indentation makes a line code or text, not a fence.
const INDENT_MAX: usize = 3;

/// The fenced blocks of `text`, in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Open> = None;
    // Where the texts of the list items around a line begin: a fence is indented from the innermost.
    let mut items: Vec<usize> = vec![0];
    for line in text.split_inclusive('\n') {
        if let (Some(fence), Some(block)) = (&open, blocks.last_mut()) {
            if closes(line, fence) {
                block.is_closed = true;
                open = None;
            } else {
                block.content.push_str(without_indent(line, fence.indent));
            }
            continue;
        }
        let mut rest = line.trim();
        if rest.is_empty() {
            continue;
        }
        let mut indent = indent_of(line);
        items.retain(|item| *item <= indent);
        let is_code = |indent: usize, items: &[usize]| indent > items.last().unwrap_or(&0) + INDENT_MAX;
        if !is_code(indent, &items)
            && let Some(length) = marker(rest)
        {
            indent += length;
            items.push(indent);
            rest = &rest[length..];
        }
        if !is_code(indent, &items)
            && let Some((fence, language)) = opens(rest, indent)
        {
            open = Some(fence);
            blocks.push(Block { language, content: String::new(), is_closed: false });
        }
    }
    blocks
}

/// The fence that `rest` of a line is, and its language.
fn opens(rest: &str, indent: usize) -> Option<(Open, String)> {
    let sign = rest.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let info = rest.trim_start_matches(sign);
    let length = rest.len() - info.len();
    // "```x```" is code inside of a line.
    if length < 3 || (sign == '`' && info.contains('`')) {
        return None;
    }
    let name = info.trim().trim_start_matches(['{', '.']);
    let name = name.split(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ',' | ':' | ';')).next();
    Some((Open { sign, length, indent }, name.unwrap_or_default().to_lowercase()))
}

fn closes(line: &str, fence: &Open) -> bool {
    let signs = line.trim();
    indent_of(line) <= fence.indent + INDENT_MAX
        && signs.len() >= fence.length
        && signs.chars().all(|c| c == fence.sign)
}

/// The length of a list marker and the space after it: `- `, `1. `.
fn marker(line: &str) -> Option<usize> {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+'])?,
        1..=9 => line[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let space = rest.len() - rest.trim_start_matches(' ').len();
    (1..=4).contains(&space).then_some(line.len() - rest.len() + space)
}

/// Columns of space at the start of `line`; a tab goes to the next multiple of four.
fn indent_of(line: &str) -> usize {
    let mut columns = 0;
    for c in line.chars() {
        match c {
            ' ' => columns += 1,
            '\t' => columns += 4 - columns % 4,
            _ => break,
        }
    }
    columns
}

/// `line` without up to `indent` spaces.
fn without_indent(line: &str, indent: usize) -> &str {
    let spaces = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
    &line[spaces..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_what_commonmark_says() {
        let found = |text: &str| -> Vec<(String, String, bool)> {
            blocks(text).into_iter().map(|block| (block.language, block.content, block.is_closed)).collect()
        };
        let one = |language: &str, content: &str, is_closed| {
            vec![(language.to_owned(), content.to_owned(), is_closed)]
        };
        for (text, expected) in [
            ("```python\na\n```", one("python", "a\n", true)),
            // A longer fence holds shorter ones; a closing fence may be longer.
            ("````python\n```\na\n```\n`````\n", one("python", "```\na\n```\n", true)),
            ("~~~ Python title=\"a.py\"\na\n```\n~~~", one("python", "a\n```\n", true)),
            ("```{.python}\na\n```", one("python", "a\n", true)),
            ("```\na\n``` b\n```", one("", "a\n``` b\n", true)),
            // In a list item, the fence is indented with the item's text.
            ("1. Then:\n\n   ```py\n   if a:\n       b\n   ```\n", one("py", "if a:\n    b\n", true)),
            ("10. x\n    - y\n\n      ```\n      a\n      ```", one("", "a\n", true)),
            ("- ```py\n  a\n  ```", one("py", "a\n", true)),
            ("1. x\n   - y\n\n   ```py\n   a\n   ```", one("py", "a\n", true)),
            ("```py\na", one("py", "a", false)),
            // An indented fence belongs to the code, as in a docstring.
            (
                "```py\n\"\"\"\n    ```\n    f()\n    ```\n\"\"\"\n```",
                one("py", "\"\"\"\n    ```\n    f()\n    ```\n\"\"\"\n", true),
            ),
            ("def f():\n    \"\"\"\n    ```\n    f()\n    ```\n    \"\"\"\n", Vec::new()),
            ("Write ```a``` or ``b``.", Vec::new()),
            ("``\na\n``", Vec::new()),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }
}
