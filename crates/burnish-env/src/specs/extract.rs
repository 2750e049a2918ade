//! The specification in a response.

/// Where a model's thoughts end.
const THOUGHT_END: &str = "</think>";

/// The longest block that is fenced as Python, of what follows the last `</think>`. A block that is not closed is
/// none: what is missing of it is not known. `None` if there is no block with anything in it.
pub(super) fn block(response: &str) -> Option<&str> {
    let said = response.rsplit_once(THOUGHT_END).map_or(response, |(_, said)| said);
    let mut longest: Option<&str> = None;
    // Whether the open block is Python, and where its text begins.
    let mut open: Option<(bool, usize)> = None;
    let mut at = 0;
    for line in said.split_inclusive('\n') {
        let trimmed = line.trim();
        let after = at + line.len();
        match open {
            Some((is_python, start)) if trimmed == "```" => {
                if is_python
                    && let Some(text) = said.get(start..at)
                    && longest.is_none_or(|before| text.len() > before.len())
                {
                    longest = Some(text);
                }
                open = None;
            }
            Some(_) => {}
            None => {
                if let Some(name) = trimmed.strip_prefix("```") {
                    open = Some((name.trim().eq_ignore_ascii_case("python"), after));
                }
            }
        }
        at = after;
    }
    longest.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_block_of_python_after_the_thoughts_is_the_specification() {
        let two = "```python\na = 1\n```\nor\n```python\nlonger = 2\n```\nor\n```python\nb = 3\n```";
        assert_eq!(block(two), Some("longer = 2\n"));
        let thought =
            "<think>\n```python\nvery_long = 'thought'\n```\n</think>\nSo:\n```python\nshort = 1\n```";
        assert_eq!(block(thought), Some("short = 1\n"));
        assert_eq!(block("```Python\na = 1\n```"), Some("a = 1\n"));
        for none in ["a = 1", "```\na = 1\n```", "```python\na = 1\n", "```python\n \n```", "```text\na\n```"]
        {
            assert_eq!(block(none), None, "{none:?}");
        }
        // A fence inside another language's block opens nothing.
        assert_eq!(block("```text\n```python\na = 1\n```\n"), None);
    }

    proptest! {
        #[test]
        fn a_block_is_found_as_it_was_written(before in "[a-z \n]{0,20}", code in "[a-z =\n]{0,30}[a-z]\n") {
            let response = format!("{before}\n```python\n{code}```\nThat is all.");
            prop_assert_eq!(block(&response), Some(code.as_str()));
        }
    }
}
