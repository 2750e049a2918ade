//! `[memory]`: notes that programs read, `path = "notes.jsonl"` or `from = "recipes/notes.toml"`. The file has a note per line, as a
//! run with `make.kind = "memory"` writes them.

use super::{Recipe, RecipeError, Source, StageUse, rounds};

/// Checks that there is a memory for whoever reads one. The parts of the recipe are complete.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let is_given = rounds::gives(recipe, StageUse::Memory);
    let plan = recipe.plan.as_ref().is_some_and(|plan| plan.build().is_ok_and(|plan| plan.recalls()));
    let strategy = recipe.eval.strategy.as_ref().and_then(|strategy| strategy.named());
    let strategy = strategy.is_some_and(|named| named.build().is_ok_and(|strategy| strategy.recalls()));
    let Some(memory) = &recipe.memory else {
        let missing = |key: &str| {
            let rule = "reads notes: say where they are, `memory = { path = \"notes.jsonl\" }`, or which recipe makes them, \
                        `memory = { from = \"recipes/notes.toml\" }`";
            Err(source.error(key, rule.to_owned()))
        };
        return match (plan, strategy) {
            _ if is_given => Ok(()),
            (true, _) => missing("plan"),
            (_, true) => missing("eval.strategy"),
            _ => Ok(()),
        };
    };
    if memory.path.is_some() == memory.from.is_some() && !is_given {
        let rule = "must name one file: `{ path = \"notes.jsonl\" }`, or `{ from = \"recipes/notes.toml\" }`, which makes it";
        return Err(source.error("memory", rule.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tests::{SMALL, read};

    #[test]
    fn a_memory_names_one_file_and_whoever_reads_one_has_one() {
        for (changes, parts) in [
            (&["memory={}"][..], &["`memory`", "must name one file"][..]),
            (&["memory={path=\"a\", from=\"b.toml\"}"], &["`memory`", "must name one file"]),
            (&["plan.plan=recall"], &["`plan`", "reads notes"]),
            (&["eval.strategy.strategy=recall"], &["`eval.strategy`", "reads notes"]),
        ] {
            let error = read(SMALL, changes).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{changes:?}: {error}");
        }
        let recipe = read(SMALL, &["plan.plan=recall", "memory.from=notes.toml"]).unwrap();
        assert_eq!(read(&recipe.to_toml().unwrap(), &[]).unwrap(), recipe);
        assert!(!read(SMALL, &[]).unwrap().to_toml().unwrap().contains("memory"));
    }
}
