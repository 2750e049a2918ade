//! `burnish methods`

use std::path::Path;

use burnish_run::methods::{self, Method, Scaffold};
use clap::{Args, Subcommand};

use super::Done;

/// What to list.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Everything about each, as JSON.
    #[arg(long)]
    json: bool,
    /// The page `docs/objectives.md`.
    #[arg(long, conflicts_with = "json")]
    page: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show one: its equation, settings, source, and what it was compared with.
    Show {
        /// Its id.
        id: String,
    },
    /// Begin a new one, at the root of burnish's repository: its file, and its lines in the lists.
    New {
        /// What it is.
        #[arg(value_parser = ["objective", "advantage"])]
        family: String,
        /// Its id: small letters, digits and `_`.
        id: String,
    },
}

pub(crate) fn run(arguments: Arguments) -> Done {
    match arguments.command {
        Some(Command::Show { id }) => show(&id),
        Some(Command::New { family, id }) => begin(&family, &id),
        None if arguments.json => {
            println!("{}", serde_json::to_string_pretty(&methods::all())?);
            Ok(())
        }
        None if arguments.page => {
            print!("{}", methods::objectives());
            Ok(())
        }
        None => {
            list();
            Ok(())
        }
    }
}

fn list() {
    let mut before = None;
    for Method { card, status, .. } in methods::all() {
        if before != Some(card.family) {
            println!("{}{}", if before.is_some() { "\n" } else { "" }, methods::family(card.family));
            before = Some(card.family);
        }
        let status = if status == "runs" { "" } else { " (library only)" };
        println!("  {:28} {}{status}", card.id, card.title);
    }
    println!("\nburnish methods show ID   says how each is computed and chosen");
}

fn show(id: &str) -> Done {
    let all = methods::all();
    let found: Vec<&Method> = all.iter().filter(|method| method.card.id == id).collect();
    if found.is_empty() {
        let known: Vec<&str> = all.iter().map(|method| method.card.id).collect();
        return Err(format!("no method is called `{id}`; there are: {}", known.join(", ")).into());
    }
    for Method { card, needs, status, recipe, defaults } in found {
        println!("{}: {}\n\n  {}\n", card.id, card.title, card.equation.replace('\n', "\n  "));
        println!("scope       {}", card.scope);
        println!("chosen by   {recipe}");
        println!("defaults    {defaults}");
        println!("needs       {}", if needs.is_empty() { "nothing more".into() } else { needs.join(", ") });
        println!("status      {status}");
        println!("compared    {:?}", card.check);
        if let Some(guess) = card.reconstructed {
            println!("guessed     {guess}");
        }
        println!("reduces to  {}", card.reduces_to.join("; "));
        println!("paper       {}", card.paper);
        println!("file        {}\n", card.file);
    }
    Ok(())
}

fn begin(family: &str, id: &str) -> Done {
    let root = Path::new(".");
    let scaffold = match family {
        "objective" => Scaffold::objective(root, id)?,
        _ => Scaffold::advantage(root, id)?,
    };
    scaffold.write()?;
    for (path, _) in scaffold.files() {
        println!("{}", path.display());
    }
    println!(
        "\nnext: write the equation into its head and its code, a test of each `reduces to`, golden numbers;"
    );
    println!("then: cargo fmt && cargo test -p burnish-rl && burnish methods --page > docs/objectives.md");
    Ok(())
}
