//! `{% generation %}` ... `{% endgeneration %}`: the tags that `transformers` adds to Jinja.
//!
//! There the pair is a call block of an internal function, so it is made one here too: the tags' words are
//! replaced by `call` of [`FUNCTION`] and `endcall`, and everything else stays as it is: line numbers,
//! whitespace control, the scope of variables. The function gets the block's body; to find where bodies lie in
//! the rendered text it puts a mark before and after each, two characters that neither the template nor
//! anything given to it contains. [`take_out`] reads and removes them.

use std::collections::BTreeSet;
use std::ops::Range;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, State};

/// Name of the function that stands behind the tags.
const FUNCTION: &str = "__generation__";

/// The template with call blocks for generation blocks, and whether there were any.
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
                let replaced = generation_tag(rest).or_else(|| if found { reading_set(rest) } else { None });
                if let Some((tag, length)) = replaced {
                    found = true;
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

/// The tag that `tag` begins with, with its word replaced, and its length; `None` for any other tag.
fn generation_tag(tag: &str) -> Option<(String, usize)> {
    let (word, after) = tag_word(tag)?;
    let replaced = match word {
        "generation" => format!("call {FUNCTION}()"),
        "endgeneration" => "endcall".into(),
        _ => return None,
    };
    let blank = after.trim_start();
    let close = blank.strip_prefix(['-', '+']).unwrap_or(blank).strip_prefix("%}")?;
    let length = tag.len() - close.len();
    let begin = tag.len() - after.len();
    let text = [&tag[..begin - word.len()], &replaced, &tag[begin..length]].concat();
    Some((text, length))
}

/// `{% set name.key = value %}` as `{% set name.key = [(value), name][0] %}`, which is the same but reads
/// `name`: the engine lets a block see those variables of its surroundings that it reads.
fn reading_set(tag: &str) -> Option<(String, usize)> {
    let (_, target) = tag_word(tag).filter(|(word, _)| *word == "set")?;
    let length = expression_length(tag, "%}");
    let (target, _) = target[..target.len() - (tag.len() - length)].split_once('=')?;
    let (name, _) = target.split_once('.')?;
    let equals = tag.find('=')? + 1;
    let inner = tag[..length].strip_suffix("%}")?;
    let value = inner.strip_suffix(['-', '+']).unwrap_or(inner).get(equals..)?;
    let rest = &tag[equals + value.len()..length];
    Some((format!("{}[({value}), {name}][0]{rest}", &tag[..equals]), length))
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

/// The length of a tag or an expression with its delimiters. A closing delimiter within a string or within
/// brackets (`{{ {"a": {}} }}`) closes nothing.
fn expression_length(source: &str, close: &str) -> usize {
    let mut depth = 0usize;
    let mut chars = source.char_indices().skip(2);
    while let Some((at, char)) = chars.next() {
        if depth == 0 && source[at..].starts_with(close) {
            return at + close.len();
        }
        match char {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\'' | '"' => {
                while let Some((_, inner)) = chars.next() {
                    if inner == char {
                        break;
                    }
                    if inner == '\\' {
                        chars.next();
                    }
                }
            }
            _ => {}
        }
    }
    source.len()
}

/// Two characters that stand before and after a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    open: char,
    close: char,
}

impl Marks {
    /// Two characters, of Unicode's private use, that are in none of `texts`.
    pub(crate) fn absent_from<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let is_private = |c: &char| ('\u{f0000}'..='\u{ffffd}').contains(c);
        let used: BTreeSet<char> = texts.into_iter().flat_map(str::chars).filter(is_private).collect();
        let mut free = ('\u{f0000}'..='\u{ffffd}').filter(|c| !used.contains(c));
        Some(Marks { open: free.next()?, close: free.next()? })
    }
}

/// Makes generation blocks part of the environment: with marks around each body, or without.
pub(crate) fn add_function(environment: &mut Environment<'static>, marks: Option<Marks>) {
    environment.add_function(FUNCTION, move |state: &mut State, kwargs: Kwargs| -> Result<String, Error> {
        let body: Value = kwargs.get("caller")?;
        let body = body.call(state, &[])?.to_string();
        Ok(match marks {
            Some(Marks { open, close }) => format!("{open}{body}{close}"),
            None => body,
        })
    });
}

/// The text without marks, and the bytes of it that stood between them. `None` if the marks do not come in
/// pairs one after the other: blocks within blocks, or a template that cuts or repeats a block's text.
pub(crate) fn take_out(marked: &str, marks: Marks) -> Option<(String, Vec<Range<usize>>)> {
    let mut text = String::with_capacity(marked.len());
    let mut ranges = Vec::new();
    let mut open = None;
    for char in marked.chars() {
        if char == marks.open {
            if open.replace(text.len()).is_some() {
                return None;
            }
        } else if char == marks.close {
            ranges.push(open.take()?..text.len());
        } else {
            text.push(char);
        }
    }
    open.is_none().then_some((text, ranges))
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
    fn tags_become_call_blocks_with_their_whitespace_control() {
        check("a{% generation %}b{% endgeneration %}c", "a{% call __generation__() %}b{% endcall %}c");
        check(
            "{%- generation -%}\n b\n{%-endgeneration+%}",
            "{%- call __generation__() -%}\n b\n{%-endcall+%}",
        );
        check("{%+  generation\n%}{%\tendgeneration%}", "{%+  call __generation__()\n%}{%\tendcall%}");
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
            "{% raw %}{{{% endraw %}{% call __generation__() %}",
        );
        check("{{ {'a': {}} }}{% generation %}", "{{ {'a': {}} }}{% call __generation__() %}");
    }

    #[test]
    fn namespaces_that_a_block_only_writes_are_read_too() {
        let (found, _) = rewrite("{% set a.b=1 %}{% generation %}{%- set a.b = 1 == 1, 2 -%}{% set c = 1 %}");
        let expected = "{% set a.b=1 %}{% call __generation__() %}\
                        {%- set a.b =[( 1 == 1, 2 ),  a][0]-%}{% set c = 1 %}";
        assert_eq!(found, expected);
    }

    #[test]
    fn marks_are_never_characters_of_the_texts() {
        let all: String = ('\u{f0000}'..='\u{ffffd}').collect();
        assert!(Marks::absent_from([all.as_str()]).is_none());
        let most: String = all.chars().filter(|c| !['\u{f1234}', '\u{f4321}'].contains(c)).collect();
        let marks = Marks::absent_from([most.as_str(), "x"]).unwrap();
        assert_eq!((marks.open, marks.close), ('\u{f1234}', '\u{f4321}'));
    }

    #[test]
    fn marks_are_taken_out_in_pairs() {
        let marks = Marks { open: '<', close: '>' };
        assert_eq!(take_out("a<bé>c<>", marks), Some(("abéc".into(), vec![1..4, 5..5])));
        for wrong in ["<a", "a>", "<<a>>", "<a>>"] {
            assert_eq!(take_out(wrong, marks), None);
        }
    }
}
