//! The name by which the program was called, so that the commands it suggests can be pasted.

use std::env;
use std::path::{Component, Path};
use std::sync::OnceLock;

use burnish_rundir::text::{shell_path, shell_word};
use clap::CommandFactory;

/// The command that runs this program: as it was typed, or `cargo run` if cargo runs it.
pub(crate) fn called() -> &'static str {
    static CALLED: OnceLock<String> = OnceLock::new();
    CALLED.get_or_init(|| {
        let typed = env::args_os().next().unwrap_or_else(|| "burnish".into());
        let typed = Path::new(&typed);
        // Cargo tells the programs that it runs the path of their package.
        let package = env::var_os("CARGO").and(env::var_os("CARGO_MANIFEST_DIR"));
        let is_ours = env::var("CARGO_PKG_NAME").is_ok_and(|name| name == env!("CARGO_PKG_NAME"));
        let root = package.as_deref().filter(|_| is_ours).and_then(|dir| Path::new(dir).parent()?.parent());
        let here = env::current_dir().ok();
        if let (Some(root), Some(here)) = (root, here)
            && here == root
            && let Some(command) = by_cargo(typed)
        {
            return command;
        }
        shell_path(typed)
    })
}

/// `cargo run` for a program at this path in a target folder: `target/release/burnish`.
fn by_cargo(path: &Path) -> Option<String> {
    let mut above = path.parent()?.components().rev();
    let Component::Normal(profile) = above.next()? else { return None };
    let profile = match profile.to_str()? {
        "debug" => String::new(),
        "release" => " --release".to_owned(),
        other => format!(" --profile {}", shell_word(other)),
    };
    Some(format!("cargo run{profile} --"))
}

/// The command that was typed.
pub(crate) fn again() -> String {
    let words = env::args_os().skip(1).map(|word| match word.to_str() {
        Some(word) => shell_word(word),
        None => shell_path(Path::new(&word)),
    });
    std::iter::once(called().to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Rewrites commands such as `burnish train` in a message to the name by which this program was called. The crates
/// below this one call the program `burnish` in the commands they suggest, and quote paths and overrides with
/// `burnish_rundir::text`.
pub(crate) fn as_called(text: &str) -> String {
    let commands = super::Arguments::command();
    let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
    resolved(text, &names, called())
}

fn resolved(text: &str, commands: &[&str], called: &str) -> String {
    const NAME: &str = "burnish ";
    let mut parts = text.split(NAME);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let word_length = part.find(|end: char| !end.is_ascii_alphanumeric()).unwrap_or(part.len());
        let is_word = written.chars().next_back().is_none_or(|before| " `(\n".contains(before));
        let is_command = is_word && commands.contains(&&part[..word_length]);
        written += if is_command { called } else { NAME.trim_end() };
        written += " ";
        written += part;
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_message_are_written_as_the_program_is_called() {
        let resolve = |text| resolved(text, &["train", "eval"], "target/release/burnish");
        let run = "target/release/burnish";
        assert_eq!(resolve("go on: burnish train x"), format!("go on: {run} train x"));
        assert_eq!(
            resolve("`burnish eval` or (`burnish train`)"),
            format!("`{run} eval` or (`{run} train`)")
        );
        for other in [
            "another burnish process",
            "trains",
            "a burnish ",
            "my-burnish train",
            "/x/burnish train",
            "burnish trains",
        ] {
            assert_eq!(resolve(other), other);
        }
    }

    #[test]
    fn cargo_is_named_with_its_profile() {
        for (path, command) in [
            ("target/release/burnish", "cargo run --release"),
            ("/x/target/debug/burnish", "cargo run"),
            ("t/dist/burnish", "cargo run --profile dist"),
        ] {
            assert_eq!(by_cargo(Path::new(path)).unwrap(), format!("{command} --"));
        }
        assert_eq!(by_cargo(Path::new("burnish")), None);
    }
}
