//! Writes `docs/methods.md` from the cards of systems.

use std::fmt::Write;

use super::{SYSTEMS, System, all};

const HEAD: &str = "\
<!-- Made by `burnish methods --page methods`; a test compares it with the code. -->
# Methods

Published systems: what each is composed of, and how a recipe switches it on. The parts, their formulas and all keys are
in `docs/objectives.md`, the measurements in `docs/results/README.md`. *Evidence* says which sources could be read. What
is **reconstructed** is our guess, and no result of it is a reproduction of the paper. Paths are relative to the
repository. `burnish methods show ID` prints one system.

| method | | status | composed of | study |
| --- | --- | --- | --- | --- |
";

/// The text of `docs/methods.md`.
pub fn systems() -> String {
    let mut page = HEAD.to_owned();
    for system in SYSTEMS {
        let study = system.study.map_or_else(|| "–".to_owned(), |file| format!("`{file}`"));
        let (id, title, status) = (system.id, system.title, system.status.said());
        let _ = writeln!(page, "| `{id}` | {title} | {status} | {} | {study} |", composition(system));
    }
    SYSTEMS.iter().for_each(|system| section(&mut page, system));
    page
}

fn composition(system: &System) -> String {
    let parts = super::composition(system);
    if parts.is_empty() { "–".to_owned() } else { parts.join(", ") }
}

fn section(page: &mut String, system: &System) {
    let _ = writeln!(page, "\n## `{}`: {}\n", system.id, system.title);
    let _ = writeln!(page, "- {}; evidence: {}", system.paper, system.evidence.said());
    if !system.reconstructed.is_empty() {
        let _ = writeln!(page, "- **reconstructed**: {}", system.reconstructed.join("; "));
    }
    let _ = writeln!(page, "- status: {}; composed of: {}", system.status.said(), composition(system));
    let needs = super::needs(system, &all());
    if !needs.is_empty() {
        let _ = writeln!(page, "- needs {}", needs.join(", "));
    }
    if !system.reduces_to.is_empty() {
        let _ = writeln!(page, "- reduces to: {}", system.reduces_to.join("; "));
    }
    if !system.environments.is_empty() {
        let _ = writeln!(page, "- environments: {}", quoted(system.environments));
    }
    if let Some(study) = system.study {
        let _ = writeln!(page, "- study: `{study}`");
    }
    if !system.results.is_empty() {
        let _ = writeln!(page, "- results: {}", quoted(system.results));
    }
    let _ = writeln!(page, "- card: `{}`", system.file());
    let commands = system.commands();
    if !commands.is_empty() {
        let _ = writeln!(page, "\n```\n{}\n```", commands.join("\n"));
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_page_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/methods.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == super::systems(), "run: burnish methods --page methods > docs/methods.md");
    }
}
