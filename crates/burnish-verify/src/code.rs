//! The program in a response.

/// Fences that open and close a block of code.
const FENCES: [&str; 2] = ["```", "~~~"];

/// Names of languages with which a block of Python begins; none is fine too.
const PYTHON: [&str; 5] = ["", "python", "python3", "py", "python2"];

/// The program in a response: the last fenced block that is Python by its name or has no name; if a block is not
/// closed, what is there of it; without any block, the whole response. `None` if there is nothing but space.
pub fn python(response: &str) -> Option<&str> {
    let found = last_block(response).unwrap_or(response);
    (!found.trim().is_empty()).then_some(found)
}

fn last_block(response: &str) -> Option<&str> {
    let mut last = None;
    let mut open: Option<(&str, bool, usize)> = None;
    let mut at = 0;
    for line in response.split_inclusive('\n') {
        let trimmed = line.trim();
        let after = at + line.len();
        match open {
            Some((fence, is_python, start)) if trimmed == fence => {
                if is_python {
                    last = response.get(start..at);
                }
                open = None;
            }
            Some(_) => {}
            None => {
                if let Some(fence) = FENCES.into_iter().find(|fence| trimmed.starts_with(fence)) {
                    let name = trimmed[fence.len()..].trim().to_lowercase();
                    open = Some((fence, PYTHON.contains(&name.as_str()), after));
                }
            }
        }
        at = after;
    }
    match open {
        Some((_, true, start)) => response.get(start..).filter(|rest| !rest.trim().is_empty()).or(last),
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_block_of_python_is_the_program() {
        let two = "First:\n```python\na = 1\n```\nBetter:\n```\na = 2\n```\nIt prints:\n```text\n2\n```\n";
        assert_eq!(python(two), Some("a = 2\n"));
        assert_eq!(python("```py\n  a = 1\n"), Some("  a = 1\n"));
        assert_eq!(python("```python\na = 1\n```\n```python\n"), Some("a = 1\n"));
        assert_eq!(python("~~~Python\nb = '''\n```\n'''\n~~~"), Some("b = '''\n```\n'''\n"));
        assert_eq!(python("    return 1\n"), Some("    return 1\n"));
        assert_eq!(python(" \n"), None);
        // An empty block is an empty program, not the text with its fences.
        assert_eq!(python("```python\n```"), None);
    }

    proptest! {
        #[test]
        fn a_program_is_found_as_it_was_written(before in "[a-z \n]{0,20}", code in "[a-z =\n]{0,30}[a-z]\n") {
            let response = format!("{before}\n```python\n{code}```\nThat is all.");
            prop_assert_eq!(python(&response), Some(code.as_str()));
        }
    }
}
