//! The program in a response.

pub use crate::fence::{Block, blocks};

/// Names of Python in the info strings of fences.
const PYTHON: [&str; 7] = ["python", "python3", "python2", "py", "py3", "ipython", "ipython3"];

/// The program in a response: of its fenced blocks the one that defines most of `names`, which the tests of the program
/// use; of several such, and if none does, the last one that is Python by its name; else the last one without a name. A
/// block that is not closed counts with what is there of it. Without any such block the whole response is the program.
/// `None` if there is nothing but space.
pub fn python(response: &str, names: &[&str]) -> Option<String> {
    let rank = |block: &Block| {
        let is_named = PYTHON.contains(&block.language.as_str());
        let defined = names.iter().filter(|name| definition(&block.content, name).is_some()).count();
        // An empty block after others was cut off before anything was in it.
        let is_empty = !block.is_closed && block.content.trim().is_empty();
        ((is_named || block.language.is_empty()) && !is_empty).then_some((defined, is_named))
    };
    let ranked = blocks(response).into_iter().filter_map(|block| rank(&block).map(|rank| (rank, block)));
    // Of equals, the last.
    let best = ranked.max_by_key(|(rank, _)| *rank);
    let program = best.map_or_else(|| response.to_owned(), |(_, block)| block.content);
    (!program.trim().is_empty()).then_some(program)
}

/// Where `program` defines `name` at its top level: as a function, a class or a variable.
pub fn definition(program: &str, name: &str) -> Option<usize> {
    let mut at = 0;
    for line in program.split_inclusive('\n') {
        let line_of = line.strip_prefix("async ").map_or(line, str::trim_start);
        let (rest, after) = match line_of.strip_prefix("def ").or_else(|| line_of.strip_prefix("class ")) {
            Some(rest) => (rest.trim_start(), "([:"),
            None => (line, "=:"),
        };
        let defines = |rest: &str| {
            let rest = rest.trim_start();
            rest.starts_with(|c| after.contains(c)) && !rest.starts_with("==")
        };
        if rest.strip_prefix(name).is_some_and(defines) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// The names that a program calls: its tests, when it is asked which block of an answer they are about.
pub fn called(program: &str) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    for (bracket, _) in program.match_indices('(') {
        let before = program[..bracket].trim_end_matches([' ', '\t']);
        let name = &before[before.trim_end_matches(is_part).len()..];
        let is_method = before[..before.len() - name.len()].ends_with('.');
        if !name.is_empty() && !is_method && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_block_of_python_is_the_program() {
        let cases = [
            ("First:\n```python\na = 1\n```\nBetter:\n```\na = 2\n```\n", Some("a = 1\n")),
            ("```python\na = 1\n```\nBetter:\n```Py\na = 2\n```\nOutput:\n```\n3\n```\n", Some("a = 2\n")),
            ("```\na = 1\n```\nBetter:\n```\na = 2\n```\nIt prints:\n```text\n2\n```\n", Some("a = 2\n")),
            ("```py\n  a = 1\n", Some("  a = 1\n")),
            ("```python\na = 1\n```\n```python\n", Some("a = 1\n")),
            ("~~~Python\nb = '''\n```\n'''\n~~~", Some("b = '''\n```\n'''\n")),
            ("    return 1\n", Some("    return 1\n")),
            (" \n", None),
            // An empty block is an empty program, not the text with its fences.
            ("```python\n```", None),
        ];
        for (response, expected) in cases {
            assert_eq!(python(response, &[]).as_deref(), expected, "{response}");
        }
    }

    #[test]
    fn the_block_that_defines_what_is_tested_is_the_program() {
        let f = "def f(x):\n    return x\n";
        for (response, names) in [
            (
                format!("```python\n{f}```\nUse it:\n```python\nprint(f(3))\n```\nOutput:\n```\n3\n```"),
                vec!["f"],
            ),
            (format!("```\n{f}```\nOutput:\n```\n3\n```"), vec!["f"]),
            (format!("```python\nf(3) == 3\n```\n```\n{f}```"), vec!["set", "f"]),
            (format!("```python\ndef f(x): pass\n```\nBetter:\n```python\n{f}```"), vec!["f"]),
            (format!("```python\ndef g(x): pass\nf = g\n```\nBetter:\n```python\n{f}```"), vec!["f"]),
        ] {
            assert_eq!(python(&response, &names).as_deref(), Some(f), "{response}");
        }
    }

    #[test]
    fn definitions_are_found_at_the_top_level() {
        for program in [
            "def f(x):",
            "async def f (x):",
            "class f:",
            "class f(g):",
            "f = g",
            "f: int = 1",
            "def f[T](x: T):",
        ] {
            assert_eq!(definition(&format!("import a\n{program}\n"), "f"), Some(9), "{program}");
        }
        for program in ["def ff(x):", "    def f(x):", "f(3)", "f == 3", "print(f)", "define f(", "f.x = 3"] {
            assert_eq!(definition(program, "f"), None, "{program}");
        }
        assert_eq!(called("assert f(3) == g.h (f( 4), set ([]))"), ["f", "set"]);
    }

    proptest! {
        #[test]
        fn a_program_is_found_as_it_was_written(before in "[a-z \n]{0,20}", code in "[a-z =\n]{0,30}[a-z]\n") {
            let response = format!("{before}\n```python\n{code}```\nThat is all.");
            prop_assert_eq!(python(&response, &[]), Some(code));
        }
    }
}
