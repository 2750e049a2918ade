//! Prints a preset for people: what it sets, in the form of a recipe.

use std::fmt::Write;

use burnish_rl::presets::Preset;
use serde_json::Value;

/// Everything about a preset.
pub fn preset(preset: &Preset) -> String {
    let said = |items: &[&str], none: &str| match items {
        [] => none.to_owned(),
        items => items.join("; "),
    };
    let mut page = format!("{}, preset: {}\n\n", preset.id, preset.origin);
    tables("", &(preset.settings)(), &mut page);
    let _ = writeln!(page, "chosen by   preset = \"{}\"; what the recipe says itself comes first", preset.id);
    let _ = writeln!(page, "differs     {}", said(preset.differs, "nothing known"));
    let _ = writeln!(page, "beta > 0    compared: {}", preset.with_beta);
    let _ = writeln!(page, "allows      {}", said(preset.allows, "nothing"));
    page.push_str("file        crates/burnish-rl/src/presets.rs\n");
    page
}

/// The settings as TOML: the keys of a table come before the tables inside it.
fn tables(path: &str, value: &Value, page: &mut String) {
    let Some(table) = value.as_object() else { return };
    let (inner, own): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_object());
    if !own.is_empty() {
        let _ = writeln!(page, "[{path}]");
        // JSON and TOML write numbers, texts and booleans alike.
        own.iter().for_each(|(key, value)| page.push_str(&format!("{key} = {value}\n")));
        page.push('\n');
    }
    for (name, value) in inner {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        tables(&path, value, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_recipe::{Recipe, Source};
    use burnish_rl::presets::PRESETS;

    #[test]
    fn what_is_shown_of_a_preset_can_be_pasted_into_a_recipe_and_is_that_preset() {
        const SMALL: &str = "[run]\ndir = \"x\"\n[policy]\npath = \"x\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n\
                             [env]\nid = \"countdown\"\n";
        let read = |text: &str, changes: &[String]| {
            Recipe::resolve(&Source::parse("r.toml", text, changes).unwrap()).unwrap()
        };
        for of in PRESETS {
            let shown = preset(of);
            let pasted = shown.split_once("\n\n").unwrap().1.split_once("chosen by").unwrap().0;
            let named = read(SMALL, &[format!("preset=\"{}\"", of.id)]);
            let pasted = read(&format!("{SMALL}{pasted}"), &[]);
            assert_eq!((pasted.loss, pasted.advantage), (named.loss, named.advantage), "{}: {shown}", of.id);
            for said in of.differs.iter().chain([&of.origin, &of.with_beta]) {
                assert!(shown.contains(said), "{}: {said}", of.id);
            }
        }
    }
}
