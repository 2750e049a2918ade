//! A template of `transformers` in the words of the template engine.
//!
//! Two things are Jinja's there and not the engine's:
//!
//! - `{% generation %}` ... `{% endgeneration %}` is a tag that `transformers` adds: a scope of its own, whose text passes
//!   an internal function. Here the pair becomes `{% with %}{% filter %}` ... `{% endfilter %}{% endwith %}`, with the
//!   filter [`GENERATION`]. (A call block, which it is there, would not do: the engine lets such a block see fewer
//!   variables of its surroundings.)
//! - A loop over `None` is an error in Python. So what is looped over passes the filter [`LOOPED`], which refuses it.
//!
//! Everything else stays as it is: line numbers, whitespace control, the scope of variables.

/// Name of the filter that stands behind generation blocks.
pub(crate) const GENERATION: &str = "__generation__";
/// Name of the filter that everything looped over passes.
pub(crate) const LOOPED: &str = "__looped__";

/// The template, and whether it has generation blocks.
pub(crate) fn rewrite(source: &str) -> (String, bool) {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut found = false;
    while let Some(at) = next_delimiter(rest) {
        out += &rest[..at];
        rest = &rest[at..];
        let length = match &rest[..2] {
            "{#" => rest.find("#}").map_or(rest.len(), |end| end + 2),
            "{{" => expression_length(rest, "}}"),
            _ => {
                let generation = generation_tag(rest);
                found |= generation.is_some();
                if let Some((tag, length)) = generation.or_else(|| checked_loop(rest)) {
                    out += &tag;
                    rest = &rest[length..];
                    continue;
                }
                raw_length(rest).unwrap_or_else(|| expression_length(rest, "%}"))
            }
        };
        out += &rest[..length];
        rest = &rest[length..];
    }
    (out + rest, found)
}

fn next_delimiter(source: &str) -> Option<usize> {
    ["{%", "{{", "{#"].iter().filter_map(|delimiter| source.find(delimiter)).min()
}

/// The word that a tag begins with, and what follows it.
fn tag_word(tag: &str) -> Option<(&str, &str)> {
    let inner = tag.strip_prefix("{%")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_start();
    let end = inner.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(inner.len());
    Some(inner.split_at(end))
}

/// The two tags in place of the generation tag that `tag` begins with, and its length; `None` for any other tag.
/// The first keeps the whitespace control of its left side, the second that of its right.
fn generation_tag(tag: &str) -> Option<(String, usize)> {
    let (word, after) = tag_word(tag)?;
    let (outer, inner) = match word {
        "generation" => ("with".to_string(), format!("filter {GENERATION}")),
        "endgeneration" => ("endfilter".to_string(), "endwith".to_string()),
        _ => return None,
    };
    let blank = after.trim_start();
    let close = blank.strip_prefix(['-', '+']).unwrap_or(blank).strip_prefix("%}")?;
    let length = tag.len() - close.len();
    let begin = tag.len() - after.len();
    let text = [&tag[..begin - word.len()], &outer, " %}{% ", &inner, &tag[begin..length]].concat();
    Some((text, length))
}

/// The length of a raw block, whose tags are text.
fn raw_length(tag: &str) -> Option<usize> {
    tag_word(tag).filter(|(word, _)| *word == "raw")?;
    let mut at = 2;
    while let Some(next) = tag[at..].find("{%") {
        at += next;
        if tag_word(&tag[at..]).is_some_and(|(word, _)| word == "endraw") {
            return Some(at + expression_length(&tag[at..], "%}"));
        }
        at += 2;
    }
    Some(tag.len())
}

/// `{% for a in b if c %}` as `{% for a in (b)|__looped__ if c %}`.
fn checked_loop(tag: &str) -> Option<(String, usize)> {
    let (_, clause) = tag_word(tag).filter(|(word, _)| *word == "for")?;
    let length = expression_length(tag, "%}");
    let inner = tag[..length].strip_suffix("%}")?;
    let end = inner.strip_suffix(['-', '+']).unwrap_or(inner).len();
    let clause = tag.get(tag.len() - clause.len()..end)?;
    let words = top_level_words(clause);
    let (_, begin) = words.iter().find(|(word, _)| *word == "in")?;
    let begin = begin + "in".len();
    let stop = words.iter().find(|(word, at)| *at > begin && ["if", "recursive"].contains(word));
    let stop = stop.map_or(clause.len(), |(_, at)| *at);
    let looped = clause[begin..stop].trim();
    let start = tag[..end - clause.len()].len();
    let text = format!(
        "{}{} ({looped})|{LOOPED} {}{}",
        &tag[..start],
        &clause[..begin],
        &clause[stop..],
        &tag[end..length]
    );
    Some((text, length))
}

/// The words outside strings and brackets, with their places.
fn top_level_words(source: &str) -> Vec<(&str, usize)> {
    let mut words = Vec::new();
    let mut depth = 0usize;
    let mut begin = None;
    for (at, char) in code(source).chain([(source.len(), ' ')]) {
        let is_word = char.is_alphanumeric() || char == '_';
        match (begin, is_word) {
            (None, true) => begin = Some(at),
            (Some(from), false) => {
                if depth == 0 {
                    words.push((&source[from..at], from));
                }
                begin = None;
            }
            _ => {}
        }
        depth = depth_after(depth, char);
    }
    words
}

/// The characters outside strings; of a string only its first quote.
fn code(source: &str) -> impl Iterator<Item = (usize, char)> {
    let mut chars = source.char_indices();
    std::iter::from_fn(move || {
        let (at, char) = chars.next()?;
        if ['\'', '"'].contains(&char) {
            while let Some((_, inner)) = chars.next().filter(|(_, inner)| *inner != char) {
                if inner == '\\' {
                    chars.next();
                }
            }
        }
        Some((at, char))
    })
}

fn depth_after(depth: usize, char: char) -> usize {
    match char {
        '(' | '[' | '{' => depth + 1,
        ')' | ']' | '}' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// The length of a tag or an expression with its delimiters. A closing delimiter within a string or within
/// brackets (`{{ {"a": {}} }}`) closes nothing.
fn expression_length(source: &str, close: &str) -> usize {
    let mut depth = 0;
    for (at, char) in code(&source[2..]) {
        if depth == 0 && source[2 + at..].starts_with(close) {
            return 2 + at + close.len();
        }
        depth = depth_after(depth, char);
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let (found, has_tags) = rewrite(source);
        assert_eq!(found, expected);
        assert_eq!(has_tags, source != expected);
    }

    #[test]
    fn tags_keep_their_whitespace_control() {
        check(
            "a{% generation %}b{% endgeneration %}c",
            "a{% with %}{% filter __generation__ %}b{% endfilter %}{% endwith %}c",
        );
        check(
            "{%- generation -%}\n b\n{%-endgeneration+%}",
            "{%- with %}{% filter __generation__ -%}\n b\n{%-endfilter %}{% endwith+%}",
        );
        check(
            "{%+  generation\n%}{%\tendgeneration%}",
            "{%+  with %}{% filter __generation__\n%}{%\tendfilter %}{% endwith%}",
        );
    }

    #[test]
    fn what_only_looks_like_a_tag_stays() {
        for source in [
            "{# {% generation %} #}",
            "{#- about {% generation %} / {% endgeneration %} -#}",
            "{{ '{% generation %}' }}",
            "{% set a = \"}} %} {% generation %}\" %}",
            "{{ \"\\\"{% generation %}\" }}",
            "{% raw %}{% generation %}{% endraw %}",
            "{%- raw -%}{% generation %}{{ '{%- endraw -%}",
            "{% set generation = 1 %}{{ generation }}",
            "{% generation_2 %}",
            "{{ {'a': {'b': '{% generation %}'}} }}",
            "{% if generation %}",
            "{% generation x %}",
            "{# open {% generation %}",
            "{{ 'open {% generation %}",
            "{",
        ] {
            check(source, source);
        }
        check(
            "{% raw %}{{{% endraw %}{% generation %}",
            "{% raw %}{{{% endraw %}{% with %}{% filter __generation__ %}",
        );
        check("{{ {'a': {}} }}{% generation %}", "{{ {'a': {}} }}{% with %}{% filter __generation__ %}");
    }

    #[test]
    fn what_is_looped_over_is_checked() {
        for (source, expected) in [
            ("{% for a in b %}", "{% for a in (b)|__looped__ %}"),
            ("{%- for a, in_b in c.in['in'] -%}", "{%- for a, in_b in (c.in['in'])|__looped__ -%}"),
            ("{% for a in f(x if y) if a in b %}", "{% for a in (f(x if y))|__looped__ if a in b %}"),
            ("{%for a in 1, 2 recursive%}", "{%for a in (1, 2)|__looped__ recursive%}"),
            ("{% for a %}", "{% for a %}"),
        ] {
            assert_eq!(rewrite(source), (expected.to_string(), false));
        }
    }
}
