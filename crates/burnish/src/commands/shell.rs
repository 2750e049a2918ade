//! `burnish completions` and `burnish man`

use clap::{Args, Command};
use clap_complete::Shell;

use super::Done;
use crate::out;

/// For which shell.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints what a shell reads to complete commands and options.
pub(crate) fn completions(arguments: &Arguments, mut program: Command) -> Done {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    out::file(&String::from_utf8(script)?);
    Ok(())
}

/// Prints the manual page: all commands with their options.
pub(crate) fn man(program: Command) -> Done {
    let mut page = Vec::new();
    let top = clap_mangen::Man::new(program.clone());
    top.render_title(&mut page)?;
    top.render_name_section(&mut page)?;
    top.render_synopsis_section(&mut page)?;
    top.render_description_section(&mut page)?;
    for command in program.get_subcommands() {
        describe(command, program.get_name(), &mut page)?;
    }
    top.render_version_section(&mut page)?;
    out::file(&String::from_utf8(page)?);
    Ok(())
}

/// Adds a section for a command, and one for each command below it.
fn describe(command: &Command, above: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    let name = format!("{above} {}", command.get_name());
    page.extend(format!(".SH \"{}\"\n", name.to_uppercase()).bytes());
    let own = clap_mangen::Man::new(command.clone().display_name(name.clone()).bin_name(name.clone()));
    let mut section = Vec::new();
    own.render_description_section(&mut section)?;
    own.render_synopsis_section(&mut section)?;
    if command.get_arguments().next().is_some() {
        own.render_options_section(&mut section)?;
    }
    // Headings of the command's own page are one level lower in this one.
    page.extend(String::from_utf8_lossy(&section).replace(".SH ", ".SS ").bytes());
    command.get_subcommands().try_for_each(|below| describe(below, &name, page))
}
