//! `burnish methods`

use std::path::Path;

use burnish_methods::{self as methods, Component, PRESETS, SYSTEMS, Scaffold, Status, System};
use clap::{Args, Subcommand};

use super::Done;
use crate::out;
use crate::program::as_called;

/// What to list.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Print everything about each of them as JSON.
    #[arg(long)]
    json: bool,
    /// Print the page `docs/NAME.md`: `objectives` has the parts, `methods` the systems.
    #[arg(long, value_name = "NAME", value_parser = ["objectives", "methods"], num_args = 0..=1)]
    #[arg(default_missing_value = "objectives", conflicts_with = "json")]
    page: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show one: equation, settings and source of a part, the parts of a system, or the settings of a preset.
    Show {
        /// Its id.
        id: String,
    },
    /// Create a new one, at the root of burnish's repository: its file, and its lines in the lists.
    New {
        /// Its family.
        #[arg(value_parser = ["objective", "advantage", "system"])]
        family: String,
        /// Its id: lower-case letters, digits and `_`.
        id: String,
    },
}

pub(crate) fn run(arguments: Arguments) -> Done {
    match arguments.command {
        Some(Command::Show { id }) => show(&id),
        Some(Command::New { family, id }) => begin(&family, &id),
        None if arguments.json => {
            out::json(&serde_json::to_string_pretty(&methods::json()?)?);
            Ok(())
        }
        None => {
            match arguments.page.as_deref() {
                Some("methods") => out::file(&methods::systems()),
                Some(_) => out::file(&methods::objectives()),
                None => list(),
            }
            Ok(())
        }
    }
}

fn list() {
    println!("Systems, composed of the parts below");
    for system in SYSTEMS {
        let status = if system.status == Status::Runs { "" } else { " (planned)" };
        println!("  {:28} {}{status}", system.id, system.title);
    }
    println!();
    let mut before = None;
    for Component { card, .. } in methods::all() {
        if before != Some(card.family) {
            println!("{}{}", if before.is_some() { "\n" } else { "" }, methods::family(card.family));
            before = Some(card.family);
        }
        println!("  {:28} {}", card.id, card.title);
    }
    println!("\nPresets: another framework's settings, `preset = \"ID\"` in a recipe");
    for preset in PRESETS {
        println!("  {:28} {}", preset.id, preset.origin);
    }
    println!(
        "\n{}   says how each is computed or composed, and chosen",
        as_called("burnish methods show ID")
    );
}

fn show(id: &str) -> Done {
    let all = methods::all();
    let found: Vec<&Component> = all.iter().filter(|method| method.card.id == id).collect();
    let system = SYSTEMS.iter().find(|system| system.id == id);
    let preset = PRESETS.iter().find(|preset| preset.id == id);
    if found.is_empty() && system.is_none() && preset.is_none() {
        let meant = methods::nearest(id).map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
        let known = methods::ids().join(", ");
        return Err(
            format!("no method and no preset is called `{id}`\n  help: {meant}There are: {known}").into()
        );
    }
    if let Some(preset) = preset {
        print!("{}", methods::preset(preset));
    }
    if let Some(system) = system {
        show_system(system, &all);
    }
    for Component { card, needs, status, recipe, defaults } in found {
        let kind = methods::member(card.family);
        println!("{}, {kind}: {}\n\n  {}\n", card.id, card.title, card.equation.replace('\n', "\n  "));
        println!("scope       {}", card.scope);
        println!("chosen by   {recipe}");
        println!("defaults    {defaults}");
        println!("needs       {}", if needs.is_empty() { "nothing more".into() } else { needs.join(", ") });
        println!("status      {status}");
        println!("compared    {}", methods::compared(card.check));
        if let Some(guess) = card.reconstructed {
            println!("guessed     {guess}");
        }
        println!("reduces to  {}", card.reduces_to.join("; "));
        println!("paper       {}", card.paper);
        println!("file        {}\n", card.file);
    }
    Ok(())
}

fn show_system(system: &System, parts: &[Component]) {
    let said = |items: &[&str]| if items.is_empty() { "nothing".to_owned() } else { items.join("; ") };
    println!("{}, system: {}\n", system.id, system.title);
    let composition = methods::composition(system);
    let composition: Vec<&str> = composition.iter().map(String::as_str).collect();
    println!("composed of {}", said(&composition));
    println!("needs       {}", said(&methods::needs(system, parts)));
    println!("status      {}", system.status.said());
    println!("evidence    {}", system.evidence.said());
    println!("guessed     {}", said(system.reconstructed));
    println!("reduces to  {}", said(system.reduces_to));
    println!("played on   {}", said(system.environments));
    for command in system.commands() {
        println!("command     {}", as_called(&command));
    }
    if let Some(study) = system.study {
        println!("study       {}", as_called(&format!("burnish study {study}")));
    }
    println!("results     {}", said(system.results));
    println!("paper       {}", system.paper);
    println!("file        {}\n", system.file());
}

fn begin(family: &str, id: &str) -> Done {
    let root = Path::new(".");
    let scaffold = match family {
        "objective" => Scaffold::objective(root, id)?,
        "system" => Scaffold::system(root, id)?,
        _ => Scaffold::advantage(root, id)?,
    };
    scaffold.write()?;
    for (path, _) in scaffold.files() {
        println!("{}", path.display());
    }
    if family == "system" {
        println!("\nnext: name its paper, its parts and its recipe in the card;");
        let page = as_called("burnish methods --page methods > docs/methods.md");
        println!("then: cargo fmt && {page} && cargo test -p burnish-run");
        return Ok(());
    }
    println!(
        "\nnext: write the equation into its head and its code, a test of each `reduces to`, golden numbers;"
    );
    let page = as_called("burnish methods --page objectives > docs/objectives.md");
    println!("then: cargo fmt && cargo test -p burnish-rl && {page}");
    Ok(())
}
