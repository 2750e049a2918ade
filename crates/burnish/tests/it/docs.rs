//! The pages for users of other frameworks are right about keys.

use burnish_recipe::{Recipe, Source};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::Scratch;

/// A page, and the recipe beside it.
const PAGES: [(&str, &str); 2] = [
    ("docs/coming-from-trl.md", "docs/examples/coming_from_trl.toml"),
    ("docs/coming-from-verl.md", "docs/examples/coming_from_verl.toml"),
];
/// Creates the keys that are absent by default.
const OPTIONAL: &str = "policy.lora={rank=4, alpha=8}";
/// The minimal recipe; everything else has its default.
const LEAST: &str = r#"
run.dir = "runs/x"
policy.path = "models/starter"
train = { method = "grpo", max_steps = 1 }
env.id = "countdown"
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn burnish(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_burnish")).args(arguments).current_dir(root()).output().unwrap()
}

/// The recipe, completed with defaults.
fn resolved(recipe: &str, overrides: &[&str]) -> Source {
    let output = burnish(&[&["train", recipe, "--dry-run"], overrides].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{recipe} {overrides:?}: {error}");
    Source::parse(recipe, &String::from_utf8(output.stdout).unwrap(), &[]).unwrap()
}

fn defaults() -> Source {
    completed(OPTIONAL)
}

/// The minimal recipe with one change, completed with defaults. Nothing is asked for that it names.
fn completed(change: &str) -> Source {
    let source = Source::parse("least", LEAST, &[change.to_owned()]).unwrap();
    let text = Recipe::resolve(&source).unwrap().to_toml().unwrap();
    Source::parse("defaults", &text, &[]).unwrap()
}

/// Cells of the rows of tables with our keys in the third column and our defaults in the fourth.
fn rows(page: &str) -> Vec<Vec<String>> {
    let between = |text: &str| text.split("<!-- end -->").next().unwrap_or_default().to_owned();
    let tables: Vec<String> = page.split("<!-- keys -->").skip(1).map(between).collect();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let lines = tables.iter().flat_map(|table| table.lines().filter(|line| line.starts_with('|')).skip(2));
    lines.map(cells).collect()
}

/// The texts in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn value(text: &str) -> Value {
    let source = Source::parse(text, &format!("x = {text}"), &[]).unwrap_or_else(|error| panic!("{error}"));
    source.get("x").cloned().unwrap()
}

fn is_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

#[test]
fn the_recipes_of_the_pages_are_complete() {
    for (page_path, recipe) in PAGES {
        resolved(recipe, &[]);
        assert!(page(page_path).contains(recipe), "{page_path} does not name {recipe}");
    }
}

#[test]
fn every_key_in_the_tables_exists_and_has_the_default_that_is_said() {
    let defaults = defaults();
    let with_engine = completed("engine={kind=\"vllm\", urls=[\"http://localhost:8000\"]}");
    let with_trainer = completed("trainer={kind=\"tinker\", url=\"http://localhost:8000\"}");
    for (page_path, recipe) in PAGES {
        let ours = resolved(recipe, &[OPTIONAL]);
        let with_critic = resolved(recipe, &["advantage={estimator=\"gae\"}", "critic={}"]);
        let with_gate = resolved(
            recipe,
            &[
                "gate={gate=\"dgg\"}",
                "eval.extra=[{name=\"more\"}]",
                "eval.cycle=true",
                "policy.chat_template=recipes/templates/tools.jinja",
            ],
        );
        let with_filters = resolved(
            recipe,
            &[
                "rollout.repetition_penalty=1.1",
                "rollout.grammar={regex=\"[0-9]+\"}",
                "rollout.allow_off_policy=true",
                // Left out, the device decides.
                "rollout.cache_mib=4096",
                "loss.correction={behavior=\"sampled\", weight={level=\"token\"}}",
            ],
        );
        let with_rows = resolved(
            recipe,
            &[
                "train={method=\"sft\", num_train_epochs=2, patience=2}",
                "data={path=\"docs/examples/problems.jsonl\", held_out_share=0.5, shuffle=false}",
                "data.max_length=64",
                "data.packing=true",
                "data.overlong=truncate",
                "checkpoint.best=loss",
            ],
        );
        let with_pairs = resolved(
            recipe,
            &[
                "loss={objective=\"dpo\"}",
                "train.method=preference",
                "data.path=docs/examples/problems.jsonl",
            ],
        );
        let (mut keys, mut compared) = (0, 0);
        for row in rows(&page(page_path)) {
            let [_, _, key_cell, default_cell, ..] = &row[..] else { panic!("{page_path}: {row:?}") };
            let named = quoted(key_cell);
            for key in &named {
                let is_ours = [
                    &ours,
                    &with_critic,
                    &with_gate,
                    &with_filters,
                    &with_rows,
                    &with_pairs,
                    &with_engine,
                    &with_trainer,
                ]
                .iter()
                .any(|recipe| recipe.get(key).is_some());
                assert!(is_ours, "{page_path}: no recipe has `{key}`: {row:?}");
                keys += 1;
            }
            let said = quoted(default_cell);
            if said.is_empty() {
                continue;
            }
            assert_eq!(said.len(), named.len(), "{page_path}: as many defaults as keys: {row:?}");
            for (key, said) in named.iter().zip(&said) {
                let found = defaults.get(key).unwrap_or_else(|| panic!("`{key}` has no default: {row:?}"));
                assert!(
                    is_equal(found, &value(said)),
                    "{page_path}: `{key}` is {found} by default, not {said}"
                );
                compared += 1;
            }
        }
        assert!(keys > 25 && compared > 20, "{page_path}: {keys} keys, {compared} defaults");
    }
}

/// A block of TOML on these pages consists of lines `key = value`, which are given as overrides of the page's recipe.
#[test]
fn every_block_of_toml_on_the_pages_is_accepted() {
    for (page_path, recipe) in PAGES {
        let page = page(page_path);
        let blocks: Vec<&str> =
            page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!blocks.is_empty(), "{page_path}");
        for block in blocks {
            let lines = block.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
            let overrides: Vec<String> = lines
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(|line| line.replacen(" = ", "=", 1))
                .collect();
            let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
            assert!(overrides.iter().all(|line| line.contains('=')), "{page_path}: {block}");
            resolved(recipe, &overrides);
        }
    }
}

/// Files with one of these endings below a folder of the repository.
pub(crate) fn files(folder: &str, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.extend(files(&format!("{folder}/{name}"), ends));
        } else if path.extension().is_some_and(|end| ends.iter().any(|own| end == *own)) {
            found.push(path);
        }
    }
    found
}

/// Users have only the repository, and nothing beside it.
#[test]
fn no_page_and_no_recipe_needs_a_folder_beside_the_repository() {
    let mut pages = vec![root().join("README.md"), root().join("models/starter/README.md")];
    pages.extend(files("docs", &["md", "toml", "py", "sh"]));
    pages.extend(files("recipes", &["toml"]));
    pages.extend(files("systems", &["md", "toml"]));
    assert!(pages.len() > 100, "{}", pages.len());
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for word in ["../shared", "shared/data", "/work/"] {
            let line = text.lines().find(|line| line.contains(word));
            assert!(line.is_none(), "{}: {line:?}", page.display());
        }
    }
}

/// All data that a recipe trains on exists, unless the recipe says where to get it.
#[test]
fn every_recipe_is_complete() {
    for path in [files("recipes", &["toml"]), files("systems", &["toml"])].concat() {
        let text = std::fs::read_to_string(&path).unwrap();
        // `systems/Cargo.toml`
        if text.contains("[package]") {
            continue;
        }
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let command = if text.contains("[study]") { "study" } else { "train" };
        let output = burnish(&[command, &path, "--dry-run"]);
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The pages of the repository, its recipes and its studies.
fn pages_and_recipes() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "md"));
    found.extend(files("docs", &["md"]));
    found.extend(
        ["bench", "models", "recipes", "systems"].iter().flat_map(|folder| files(folder, &["md", "toml"])),
    );
    found
}

#[test]
fn what_the_readme_names_is_there() {
    let readme = page("README.md");
    let words = readme.split(|end: char| end.is_whitespace() || "`(),;".contains(end));
    let mut named = 0;
    for word in words.map(|word| word.trim_end_matches(['.', ':'])) {
        if ["docs/", "recipes/", "models/", "bench/"].iter().any(|folder| word.starts_with(folder)) {
            assert!(root().join(word).exists(), "README.md names {word}");
            named += 1;
        }
    }
    assert!(named > 25, "{named}");
}

#[test]
fn what_pages_and_recipes_name_is_there() {
    let mut named = 0;
    for page in pages_and_recipes() {
        let text = std::fs::read_to_string(&page).unwrap();
        // The page of a study that was not run yet is still to come.
        let lines = text.lines().filter(|line| !line.starts_with("results = "));
        let words = lines
            .flat_map(|line| line.split(|end: char| end.is_whitespace() || "`'\"\\()[]{},;=|".contains(end)));
        for word in words.map(|word| word.trim_end_matches(['.', ':'])) {
            // `ID` and `*` stand for several names.
            let is_name = !word.contains("ID") && !word.contains('*');
            if is_name && ["docs/", "recipes/", "systems/"].iter().any(|folder| word.starts_with(folder)) {
                assert!(root().join(word).exists(), "{} names {word}", page.display());
                named += 1;
            }
        }
    }
    assert!(named > 500, "{named}");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut links = 0;
    for page in pages_and_recipes() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.is_empty() && !link.contains(':') && !link.contains(char::is_whitespace) {
                assert!(page.parent().unwrap().join(link).exists(), "{} links to {link}", page.display());
                links += 1;
            }
        }
    }
    assert!(links > 100, "{links}");
}

#[test]
fn both_pages_train_on_the_same_rows() {
    for rows in ["problems", "problems_eval"] {
        let [jsonl, parquet] = ["jsonl", "parquet"].map(|kind| format!("docs/examples/{rows}.{kind}"));
        let output = burnish(&["data", "check", &jsonl, "--against", &parquet]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("(100.00 %) overlap"), "{rows}: {said}");
    }
}

/// The files that a page shows: each block behind a line `` `NAME`: ``.
fn shown_files(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(":\n\n```") {
        let name = before.rsplit('\n').next().and_then(|line| line.strip_prefix('`')?.strip_suffix('`'));
        let (_, block) = after.split_once('\n').unwrap();
        let (block, after) = block.split_once("```").unwrap();
        found.extend(name.map(|name| (name, block)));
        rest = after;
    }
    found
}

#[test]
fn the_own_reward_of_the_readme_runs_as_it_stands() {
    let readme = page("README.md");
    let scratch = Scratch::new();
    let shown = shown_files(&readme);
    assert_eq!(shown.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["reward.toml", "reward.py"]);
    shown.iter().for_each(|(name, text)| scratch.write(name, *text));
    let row = readme.split("With rows such as `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    let rows: Vec<String> = (0..60).map(|number| row.replace('2', &number.to_string())).collect();
    scratch.write("problems.jsonl", rows.join("\n"));
    std::os::unix::fs::symlink(root().join("models"), scratch.path("models")).unwrap();
    let short =
        ["train.max_steps=1", "rollout.tasks_per_step=2", "rollout.group_size=2", "rollout.tokens_max=8"];
    let told = scratch.burnish(&[&["train", "reward.toml"], &short[..]].concat()).succeeds().stdout();
    assert!(
        scratch.path("runs/reward/checkpoints/step_1").is_dir() && told.contains("12 held-out tasks"),
        "{told}"
    );

    scratch.write("reward.py", "import json\nfor line in sys.stdin:\n    pass\n");
    let failed = scratch.burnish(&[&["train", "reward.toml", "run.dir=broken"], &short[..]].concat());
    let error = failed.stderr();
    assert!(error.contains("tried on") && error.contains("NameError"), "{error}");
    assert!(!scratch.path("broken").exists() && !failed.stdout().contains("evaluation"));
}
