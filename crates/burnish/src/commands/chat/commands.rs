//! What a line that begins with a slash asks for.

use std::path::PathBuf;

use burnish_core::names::nearest;

/// A command, for the help.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    value: &'static str,
    does: &'static str,
}

const fn known(name: &'static str, value: &'static str, does: &'static str) -> Known {
    Known { name, value, does }
}

pub(crate) const COMMANDS: [Known; 13] = [
    known("/help", "", "this list"),
    known("/system", "[TEXT]", "shows the system message, or sets it; `/system -` removes it"),
    known("/temperature", "[X]", "shows or sets the temperature; 0 takes the likeliest token each time"),
    known("/max_tokens", "[N]", "shows or sets the most tokens of an answer"),
    known("/tools", "", "shows the tools that may be called"),
    known("/tool", "RESULT", "gives the result of a call"),
    known("/retry", "", "answers once more, in place of the last answer"),
    known("/undo", "", "takes back what you said last, with the answer"),
    known("/clear", "", "begins anew; the system message stays"),
    known("/history", "", "shows the conversation"),
    known("/save", "FILE", "saves the conversation as a row that `burnish sft` reads"),
    known("/load", "FILE", "goes on with the conversation in the first row of a file"),
    known("/quit", "", "ends, as Ctrl-D does"),
];

/// A line that was said.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// Something to answer.
    Message(String),
    Help,
    System(Option<String>),
    Temperature(Option<f32>),
    MaxTokens(Option<usize>),
    Tools,
    Tool(String),
    Retry,
    Undo,
    Clear,
    History,
    Save(PathBuf),
    Load(PathBuf),
    Quit,
}

impl Line {
    /// Reads a line. A message that begins with a slash is written with two.
    ///
    /// # Errors
    /// Says which command was probably meant, or which value it takes.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        if let Some(rest) = trimmed.strip_prefix("//") {
            return Ok(Line::Message(format!("/{rest}")));
        }
        if !trimmed.starts_with('/') {
            return Ok(Line::Message(text.to_owned()));
        }
        let (name, value) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        let value = value.trim();
        let given = Some(value).filter(|value| !value.is_empty());
        let alone = |line: Line| match given {
            None => Ok(line),
            Some(value) => Err(format!("{name} takes no value, but `{value}` follows it")),
        };
        let number = |problem: &str| format!("{name} {value}: {problem}");
        let file = |what: &str| {
            let value = given.ok_or(format!("{name} {what}: which file?"))?;
            burnish_recipe::expand(value.as_ref()).map_err(|error| error.to_string())
        };
        match name {
            "/help" | "/?" => alone(Line::Help),
            "/system" => Ok(Line::System(given.map(str::to_owned))),
            "/temperature" => {
                let parsed = given.map(str::parse).transpose();
                Ok(Line::Temperature(parsed.map_err(|_| number("must be a number, such as 0.7"))?))
            }
            "/max_tokens" => {
                let parsed = given.map(str::parse).transpose();
                Ok(Line::MaxTokens(parsed.map_err(|_| number("must be a whole number, such as 512"))?))
            }
            "/tools" => alone(Line::Tools),
            "/tool" => Ok(Line::Tool(value.to_owned())),
            "/retry" => alone(Line::Retry),
            "/undo" => alone(Line::Undo),
            "/clear" => alone(Line::Clear),
            "/history" => alone(Line::History),
            "/save" => Ok(Line::Save(file("FILE")?)),
            "/load" => Ok(Line::Load(file("FILE")?)),
            "/quit" | "/exit" => alone(Line::Quit),
            other => {
                let meant = nearest(other, COMMANDS.iter().map(|command| command.name));
                let meant = meant.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
                Err(format!(
                    "{other}: there is no such command; {meant}/help lists them, and a message that begins with a slash \
                     begins with two"
                ))
            }
        }
    }
}

/// The list of commands.
pub(crate) fn help() -> String {
    let line = |Known { name, value, does }: &Known| format!("{:20} {does}\n", format!("{name} {value}"));
    let commands: String = COMMANDS.iter().map(line).collect();
    format!(
        "{commands}\nA line that ends with \\ goes on with the next one; a message that begins with / is written with //.\n\
         Ctrl-C stops an answer; Ctrl-D ends."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let read = |text| Line::read(text).unwrap();
        assert_eq!(read(" hi "), Line::Message(" hi ".into()));
        assert_eq!(read("//usr is a folder"), Line::Message("/usr is a folder".into()));
        assert_eq!(read("/system  Be brief.\nVery. "), Line::System(Some("Be brief.\nVery.".into())));
        assert_eq!(read("/system"), Line::System(None));
        assert_eq!(read("/temperature 0.5"), Line::Temperature(Some(0.5)));
        assert_eq!(read("/max_tokens"), Line::MaxTokens(None));
        assert_eq!(read("/tool {\"a\": 1}"), Line::Tool("{\"a\": 1}".into()));
        assert_eq!(read("/save a b.jsonl"), Line::Save("a b.jsonl".into()));
        assert_eq!((read("/exit"), read("/?")), (Line::Quit, Line::Help));
        for (wrong, part) in [
            ("/temprature 1", "did you mean /temperature?"),
            ("/temperature hot", "must be a number"),
            ("/max_tokens -1", "whole number"),
            ("/save", "which file?"),
            ("/undo 2", "takes no value"),
            ("/usr/bin", "begins with two"),
        ] {
            let error = Line::read(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_command_of_the_help_is_read() {
        for command in &COMMANDS {
            let value = command.value.replace("[X]", "1").replace("[N]", "1");
            let line = Line::read(&format!("{} {value}", command.name)).unwrap();
            assert!(!matches!(line, Line::Message(_)), "{}", command.name);
        }
        assert!(help().lines().all(|line| line.len() <= 100));
    }
}
