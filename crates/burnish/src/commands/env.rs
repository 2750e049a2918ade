//! `burnish env list|show|serve`

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use burnish_core::{Role, ToolCall, json};
use burnish_env::offered::{INSTRUCTIONS, Offered};
use burnish_env::openenv::{Served, Serving};
use burnish_env::redesign::Knob;
use burnish_env::{CATALOGUE, Generator};
use burnish_recipe::TASKS_MAX;
use burnish_run::watch::Stop;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::Done;
use crate::signals;

/// How often it is looked whether a server is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// What to show.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the environments.
    List,
    /// Show an environment: its configuration, bounds, a task, a correct answer, and how its tasks are made.
    Show {
        /// Id of the environment.
        id: String,
        /// Overrides of its configuration, `key.sub=value`.
        overrides: Vec<String>,
        /// Number of tasks to make for the acceptance rates.
        #[arg(long, default_value_t = 200)]
        tasks: usize,
        /// Seed of the tasks.
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        seed: u64,
    },
    /// Serve an environment over OpenEnv, or over MCP, so that other trainers can use it.
    Serve(ServeArguments),
}

/// Which environment is served where.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Id of the environment.
    id: String,
    /// Overrides of its configuration, `key.sub=value`.
    overrides: Vec<String>,
    /// Serve tools over the Model Context Protocol, to the one client at stdin and stdout.
    #[arg(long, conflicts_with_all = ["address", "sessions", "key_env"])]
    mcp: bool,
    /// Address and port; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    address: String,
    /// Most sessions at the same time.
    #[arg(long, value_name = "N", default_value = "64", value_parser = super::at_least_one)]
    sessions: usize,
    /// Most turns of an episode.
    #[arg(long, value_name = "N", default_value = "64", value_parser = super::at_least_one)]
    turns: usize,
    /// The environment variable that holds a key, which clients then have to send.
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,
}

pub(crate) fn run(command: Command) -> Done {
    match command {
        Command::List => {
            for kind in CATALOGUE {
                println!("{:16} {}", kind.id, kind.summary);
            }
            Ok(())
        }
        Command::Show { id, overrides, tasks, seed } => show(&id, &overrides, tasks, seed),
        Command::Serve(arguments) => serve(arguments),
    }
}

fn show(id: &str, overrides: &[String], count: usize, seed: u64) -> Done {
    let kind = burnish_env::kind(id)?;
    let source = burnish_recipe::Source::parse("configuration", "", overrides)?;
    let config: Value = source.decode()?;
    println!("{}: {}\n", kind.id, kind.summary);
    let generator = match (kind.build)(&config) {
        Ok(generator) => generator,
        // Some environments need a file of the user's; their keys are worth showing even without one.
        Err(error) if overrides.is_empty() => {
            println!("configuration (its defaults are not complete: {error}):");
            println!("{}", indented(&serde_json::to_string_pretty(&(kind.defaults)())?));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    println!("configuration:\n{}\n", indented(&serde_json::to_string_pretty(&generator.config())?));
    println!("bounds:");
    for bound in generator.bounds() {
        println!("  {:28} {} to {}  {}", bound.key, bound.min, bound.max, bound.help);
    }
    show_redesign(&*generator)?;
    show_tasks(&*generator, count, seed)
}

/// The keys that the environment lets an engineer change between rounds of training.
fn show_redesign(generator: &dyn Generator) -> Done {
    let Some(able) = generator.redesign() else { return Ok(()) };
    let knobs = able.knobs()?;
    if knobs.is_empty() {
        return Ok(());
    }
    println!("\nkeys that may be redesigned, with the values to choose from:");
    for Knob { key, menu, min, max, help, .. } in knobs {
        let menu: Vec<String> = menu.iter().map(f64::to_string).collect();
        println!("  {key:28} {} ({min} to {max})  {help}", menu.join(", "));
    }
    Ok(())
}

fn serve(arguments: ServeArguments) -> Done {
    let ServeArguments { id, overrides, mcp, address, sessions, turns, key_env } = arguments;
    let source = burnish_recipe::Source::parse("configuration", "", &overrides)?;
    let generator: Arc<dyn Generator> = Arc::from(burnish_env::build(&id, &source.decode()?)?);
    generator.ready()?;
    if mcp {
        let offered = Offered::new(generator, turns)?;
        return Ok(burnish_mcp::serve_stdio(&format!("burnish {id}"), INSTRUCTIONS, offered)?);
    }
    let sessions = sessions.min(generator.at_once().unwrap_or(usize::MAX));
    let serving =
        Serving { address: address.clone(), sessions, turns_max: turns, key: super::key_in(key_env)? };
    let served =
        Served::start(generator, serving).map_err(|error| format!("--address {address}: {error}"))?;
    let stop = Stop::default();
    signals::listen(stop.clone(), signals::Work::Serving)?;
    println!("{id} at http://{}: OpenEnv, {sessions} sessions", served.address());
    while !stop.is_asked() {
        sleep(LOOK);
    }
    Ok(())
}

fn show_tasks(generator: &dyn Generator, count: usize, seed: u64) -> Done {
    if count as u64 > TASKS_MAX {
        return Err(format!("--tasks {count}: must be {TASKS_MAX} or less").into());
    }
    let set = generator.tasks(seed, count)?;
    println!("\nacceptance, {count} tasks:");
    for cell in &set.cells {
        let rate = 100.0 * cell.made as f64 / cell.drawn.max(1) as f64;
        let dropped: Vec<String> = cell.dropped.iter().map(|(why, n)| format!("{n} {why}")).collect();
        let dropped = if dropped.is_empty() { "none".to_owned() } else { dropped.join(", ") };
        println!(
            "  {:28} {} made of {} drawn ({rate:.0} %); dropped: {dropped}",
            cell.cell, cell.made, cell.drawn
        );
    }
    let Some(task) = set.tasks.first() else { return Ok(()) };
    println!("\na task, {}:", task.id);
    for message in &task.prompt {
        println!("{}", indented(&message.content));
    }
    let demonstrations = generator.demonstrations();
    let episode = demonstrations.and_then(|known| known.demonstrate_episode(task)).unwrap_or_default();
    let played = episode.get(task.prompt.len()..).unwrap_or_default();
    if !played.is_empty() {
        println!("\na correct answer:");
    }
    for message in played {
        let said = if message.role == Role::Assistant { "" } else { "> " };
        if !message.content.is_empty() || message.tool_calls.is_empty() {
            println!("{}", indented(&format!("{said}{}", message.content)));
        }
        for ToolCall { function, .. } in &message.tool_calls {
            println!("{}", indented(&format!("{} {}", function.name, json::line(&function.arguments))));
        }
    }
    let answers = played.iter().filter(|message| message.role == Role::Assistant);
    let answers: Vec<&str> = answers.map(|message| message.content.as_str()).collect();
    let drawing = generator.draw(task, (!answers.is_empty()).then(|| answers.join("\n")).as_deref());
    println!("\ndrawn:\n{}", indented(&drawing));
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
