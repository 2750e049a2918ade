//! What minijinja's parser does not read, or reads otherwise, written in what it reads. Lines keep their numbers.

/// The function through which a loop gets its items.
pub(super) const EACH: &str = "__each";
/// Variables with the marks before and after a generation block's text; undefined if there are none to write.
pub(super) const OPEN: &str = "__open";
pub(super) const CLOSE: &str = "__close";

/// Blocks that minijinja can't leave by `break` or `continue`.
const CLOSED: [&str; 6] = ["with", "generation", "filter", "macro", "call", "set"];

/// The template for minijinja, and whether it has generation blocks.
///
/// # Errors
/// If a loop is left from within another block.
pub(super) fn rewrite(source: &str) -> Result<(String, bool), String> {
    let mut out = String::with_capacity(source.len());
    let mut has_generation = false;
    let mut open: Vec<&str> = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match rest.as_bytes().get(1) {
            Some(b'#') => rest.find("#}").map(|end| end + 2),
            Some(b'{') => tag_length(rest, "}}"),
            Some(b'%') => tag_length(rest, "%}"),
            _ => Some(1),
        };
        let (tag, after) = rest.split_at(length.unwrap_or(rest.len()));
        rest = after;
        let Some(inner) = tag.strip_prefix("{%").and_then(|tag| tag.strip_suffix("%}")) else {
            out.push_str(tag);
            continue;
        };
        let body = inner.trim_start_matches(['-', '+']);
        let left = &inner[..inner.len() - body.len()];
        let trimmed = body.trim_end_matches(['-', '+']);
        let (body, right) = body.split_at(trimmed.len());
        let name = words(body).next().map(|(_, word)| word);
        match name {
            Some("set") if body.contains('=') => {}
            Some(name) if name == "for" || CLOSED.contains(&name) => open.push(name),
            Some(name) if open.last().is_some_and(|last| name.strip_prefix("end") == Some(last)) => {
                open.pop();
            }
            Some(name @ ("break" | "continue")) if open.last().is_some_and(|last| *last != "for") => {
                let block = open.last().copied().unwrap_or_default();
                return Err(format!("`{name}` can't leave a loop from within a `{block}` block"));
            }
            _ => {}
        }
        match name {
            // A block is a scope, and its tags take the white space and line ends of the tags that it had.
            Some("generation") => {
                has_generation = true;
                out.push_str(&format!("{{%{left} with %}}{{{{ {OPEN} }}}}{{% if true {right}%}}"));
            }
            Some("endgeneration") => {
                out.push_str(&format!("{{%{left} endif %}}{{{{ {CLOSE} }}}}{{% endwith {right}%}}"));
            }
            Some("for") => out.push_str(&format!("{{%{left}{}{right}%}}", loop_over(body))),
            Some("raw") => {
                // Jinja keeps a line end after this tag.
                let right = if right.is_empty() { "+" } else { right };
                let end = rest.find("endraw").unwrap_or(rest.len());
                out.push_str(&format!("{{%{left}{body}{right}%}}{}", &rest[..end]));
                rest = &rest[end..];
            }
            _ => out.push_str(tag),
        }
    }
    out.push_str(rest);
    Ok((out, has_generation))
}

/// `for x in items if test` with `items` passed through [`EACH`].
fn loop_over(body: &str) -> String {
    let mut words = words(body).skip_while(|(_, word)| *word != "in");
    let Some(start) = words.next().map(|(at, word)| at + word.len()) else { return body.to_owned() };
    let end = words.find(|(_, word)| ["if", "recursive"].contains(word)).map_or(body.len(), |(at, _)| at);
    format!("{} {EACH}({}) {}", &body[..start], &body[start..end], &body[end..])
}

/// The words of a tag outside of texts and brackets, and where each begins.
fn words(body: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let mut depth = 0_i64;
    code(body, 0).filter_map(move |at| {
        let bytes = body.as_bytes();
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b if depth == 0 && is_word(b) && (at == 0 || !is_word(bytes[at - 1])) => {
                let length = bytes[at..].iter().take_while(|b| is_word(**b)).count();
                return Some((at, &body[at..at + length]));
            }
            _ => {}
        }
        None
    })
}

/// The length of a tag that ends with `close`.
fn tag_length(tag: &str, close: &str) -> Option<usize> {
    code(tag, 2).find(|at| tag[*at..].starts_with(close)).map(|at| at + close.len())
}

/// The places of the ASCII characters that are not part of a text between quotes.
fn code(text: &str, start: usize) -> impl Iterator<Item = usize> {
    let mut quote = None;
    let mut is_escaped = false;
    text.bytes().enumerate().skip(start).filter_map(move |(at, byte)| {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if byte == b'\\' => is_escaped = true,
            Some(open) if open == byte => quote = None,
            Some(_) => {}
            None if matches!(byte, b'"' | b'\'') => quote = Some(byte),
            None => return byte.is_ascii().then_some(at),
        }
        None
    })
}
