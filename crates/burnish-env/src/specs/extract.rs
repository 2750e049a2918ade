//! The specification in a response.

use burnish_verify::code::blocks;

/// Where a model's thoughts end.
const THOUGHT_END: &str = "</think>";

/// The longest block that is fenced as Python, of what follows the last `</think>`. A block that is not closed is
/// none: what is missing of it is not known. `None` if there is no block with anything in it.
pub(super) fn block(response: &str) -> Option<String> {
    let said = response.rsplit_once(THOUGHT_END).map_or(response, |(_, said)| said);
    let python = blocks(said).into_iter().filter(|block| block.is_closed && block.language == "python");
    // Of equals, the first.
    let longest = python.map(|block| block.content).rev().max_by_key(String::len);
    longest.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_block_of_python_after_the_thoughts_is_the_specification() {
        let two = "```python\na = 1\n```\nor\n```python\nlonger = 2\n```\nor\n```python\nb = 3\n```";
        assert_eq!(block(two).as_deref(), Some("longer = 2\n"));
        let thought =
            "<think>\n```python\nvery_long = 'thought'\n```\n</think>\nSo:\n```python\nshort = 1\n```";
        assert_eq!(block(thought).as_deref(), Some("short = 1\n"));
        assert_eq!(block("```Python\na = 1\n```").as_deref(), Some("a = 1\n"));
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
            prop_assert_eq!(block(&response), Some(code));
        }
    }
}
