//! What a person types, or what a script says.

use std::io::{self, BufRead};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::commands::COMMANDS;

/// What was said next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Text(String),
    /// Ctrl-C: what was typed so far is dropped.
    Dropped,
    End,
}

/// Where it comes from.
pub(crate) enum Input {
    Terminal(Box<Editor<Names, MemHistory>>),
    Lines(io::StdinLock<'static>),
}

impl Input {
    /// A person at a terminal, with a history of what was typed.
    pub(crate) fn terminal() -> rustyline::Result<Self> {
        let mut editor = Editor::with_config(Config::builder().auto_add_history(false).build())?;
        editor.set_helper(Some(Names));
        Ok(Input::Terminal(Box::new(editor)))
    }

    /// A script: the lines of standard input.
    pub(crate) fn lines() -> Self {
        Input::Lines(io::stdin().lock())
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal(_))
    }

    /// The next line, with those that it is continued on: a line goes on where it ends with a backslash.
    pub(crate) fn read(&mut self) -> Result<Said, String> {
        let mut text = String::new();
        let mut is_continued = false;
        loop {
            let line = match self.line(if is_continued { "... " } else { "> " })? {
                Said::Text(line) => line,
                Said::End if is_continued => break,
                other => return Ok(other),
            };
            if is_continued {
                text.push('\n');
            }
            is_continued = line.ends_with('\\');
            text.push_str(line.strip_suffix('\\').unwrap_or(&line));
            if !is_continued {
                break;
            }
        }
        if let Input::Terminal(editor) = self
            && !text.trim().is_empty()
        {
            // A line that is not in the history can only be typed again.
            let _ = editor.add_history_entry(text.as_str());
        }
        Ok(Said::Text(text))
    }

    fn line(&mut self, prompt: &str) -> Result<Said, String> {
        match self {
            Input::Terminal(editor) => match editor.readline(prompt) {
                Ok(line) => Ok(Said::Text(line)),
                Err(ReadlineError::Eof) => Ok(Said::End),
                Err(ReadlineError::Interrupted) => Ok(Said::Dropped),
                Err(error) => Err(format!("the terminal can't be read: {error}")),
            },
            Input::Lines(stdin) => {
                let mut line = String::new();
                let length = stdin.read_line(&mut line);
                match length.map_err(|error| format!("standard input can't be read: {error}"))? {
                    0 => Ok(Said::End),
                    _ => Ok(Said::Text(line.trim_end_matches(['\n', '\r']).to_owned())),
                }
            }
        }
    }
}

/// Completes the names of commands.
pub(crate) struct Names;

impl Completer for Names {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..pos).unwrap_or_default();
        let names = COMMANDS.iter().map(|command| command.name).filter(|name| name.starts_with(typed));
        // Without a slash, everything would be offered.
        let names = names.filter(|_| typed.starts_with('/')).map(|name| format!("{name} "));
        Ok((0, names.collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}
