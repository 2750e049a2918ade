//! Writes `docs/objectives.md` from the cards.

use std::fmt::Write;

use burnish_rl::presets::PRESETS;
use burnish_rl::rules::RULES;
use burnish_rl::{Check, Family};
use serde_json::Value;

use super::{Component, all, compare, family};

const HEAD: &str = "\
<!-- Made by `burnish methods --page objectives`; a test compares it with the code. -->
# Objectives and advantages

All parts that `loss.objective`, `advantage.estimator`, `selection.selector`, `plan.plan`, `gate.gate`,
`replay.replay` and `make.program` can name. Each equation is that of one token, or of the unit given as *scope*,
before weighting and division (`docs/grpo.md`), in nats: `lp`, `old` and `ref` are the log-probabilities under the
policy, the proximal policy and the reference, `A` is the advantage, `R` a reward. The head of each code file has the
conventions, the derivatives, and the differences from papers and frameworks. `burnish methods show ID` prints one part.
";

/// The text of `docs/objectives.md`.
pub fn objectives() -> String {
    let methods = all();
    let mut page = HEAD.to_owned();
    let families = [
        Family::Advantage,
        Family::Objective,
        Family::Preference,
        Family::RewardModel,
        Family::Distillation,
        Family::Selector,
        Family::Plan,
        Family::Gate,
        Family::Replay,
        Family::Maker,
    ];
    for of in families {
        let own: Vec<&Component> = methods.iter().filter(|method| method.card.family == of).collect();
        if !own.is_empty() {
            let _ = writeln!(page, "\n## {}\n", family(of));
            own.into_iter().for_each(|method| section(&mut page, method));
        }
    }
    presets(&mut page);
    distances(&mut page);
    rules(&mut page);
    page
}

fn section(page: &mut String, method: &Component) {
    let card = &method.card;
    let _ = writeln!(page, "### `{}`: {}\n", card.id, card.title);
    let _ = writeln!(page, "```text\n{}\n```\n", card.equation);
    let _ = writeln!(page, "- scope: {}; chosen by `{}`", card.scope, method.recipe);
    let defaults = settings(&method.defaults);
    if !defaults.is_empty() {
        let _ = writeln!(page, "- defaults: {defaults}");
    }
    if !method.needs.is_empty() {
        let _ = writeln!(page, "- needs {}", method.needs.join(", "));
    }
    if !card.reduces_to.is_empty() {
        let _ = writeln!(page, "- reduces to: {}", card.reduces_to.join("; "));
    }
    let checked = compared(card.check);
    let _ = writeln!(page, "- compared {checked}; source: {}; code: `{}`", card.paper, card.file);
    if let Some(guess) = card.reconstructed {
        let _ = writeln!(page, "- **reconstructed**, not known to be the paper's: {guess}");
    }
    page.push('\n');
}

/// The leaves of settings, as `key = value`.
fn settings(values: &Value) -> String {
    fn collect(prefix: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(table) => {
                for (key, value) in table {
                    let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    collect(&key, value, found);
                }
            }
            value => found.push(format!("`{prefix} = {value}`")),
        }
    }
    let mut found = Vec::new();
    collect("", values, &mut found);
    found.join(", ")
}

fn presets(page: &mut String) {
    page.push_str("## Presets\n\n`preset = \"ID\"` sets the values below; what the recipe itself sets wins. The presets of TRL and \
                   verl are compared with the framework's own functions exactly as they stand here \
                   (`crates/burnish-rl/tests/it/presets.rs`).\n\n");
    page.push_str("| preset | is there | sets | differs in numbers | compared with `beta` above 0 |\n| --- | --- | --- | --- | --- |\n");
    for preset in PRESETS {
        let differs =
            if preset.differs.is_empty() { "nothing known".into() } else { preset.differs.join("; ") };
        let (id, origin, sets) = (preset.id, preset.origin, settings(&(preset.settings)()));
        let _ = writeln!(page, "| `{id}` | {origin} | {sets} | {differs} | {} |", preset.with_beta);
    }
}

fn distances(page: &mut String) {
    let Ok(distances) = compare::distances() else { return };
    page.push_str(
        "\nHow far the gradients of two presets are from each other, `‖g_i - g_j‖ / max(‖g_i‖, ‖g_j‖)`, on one batch of random \
         rollouts (eight groups of four, 4 to 32 tokens, ratios about 15 % off 1): 0 is the same computation.\n\n",
    );
    let numbers: Vec<String> = (1..=PRESETS.len()).map(|number| number.to_string()).collect();
    let _ = writeln!(page, "| | preset | {} |", numbers.join(" | "));
    let _ = writeln!(page, "| --- | --- |{}", " --- |".repeat(PRESETS.len()));
    for ((number, preset), row) in numbers.iter().zip(PRESETS).zip(distances) {
        let cells: Vec<String> = row.iter().map(|distance| format!("{distance:.2}")).collect();
        let _ = writeln!(page, "| {number} | `{}` | {} |", preset.id, cells.join(" | "));
    }
}

fn rules(page: &mut String) {
    page.push_str(
        "\n## Combinations that are refused\n\n`allow = [\"ID\"]` in a recipe permits the combination with a warning.\n\n",
    );
    page.push_str("| id | key | why | nearest |\n| --- | --- | --- | --- |\n");
    for rule in RULES {
        let _ = writeln!(page, "| `{}` | `{}` | {} | {} |", rule.id, rule.key, rule.reason, rule.nearest);
    }
}

/// What the numbers of a part were compared with, as pages say it.
pub fn compared(check: Check) -> String {
    match check {
        Check::Golden(what) => format!("with {what}"),
        Check::Oracle(what) => format!("with an independent implementation: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_page_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/objectives.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == super::objectives(), "run: burnish methods --page objectives > docs/objectives.md");
    }
}
