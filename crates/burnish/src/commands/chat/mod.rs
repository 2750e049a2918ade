//! `burnish chat`

mod commands;
mod input;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use burnish_core::SamplingOptions;
use burnish_core::{Message, Role, StopReason};
use burnish_run::generate::{Answerer, Conversation, in_words, read_tools};
use burnish_rundir::files::write_atomic;
use clap::Args;

use super::Done;
use super::policy::{SamplingArguments, Who};
use crate::answer::{AnswerView, call_line};
use crate::{out, program, signals};
use commands::Line;
use input::{Input, Said};

/// Who is talked with, and how.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    who: Who,
    /// The system message.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// A JSON list of tools (OpenAI function schemas) that may be called; you type their results.
    #[arg(long, value_name = "FILE", value_parser = super::path())]
    tools: Option<PathBuf>,
    /// Go on with the conversation in the first row of this file.
    #[arg(long, value_name = "FILE", value_parser = super::path())]
    load: Option<PathBuf>,
    #[command(flatten)]
    sampling: SamplingArguments,
}

/// What a command came to: an error is said, and in a script it ends the program.
type Outcome = Result<(), String>;

/// A conversation and whom it is with.
struct Session {
    answerer: Answerer,
    conversation: Conversation,
    options: SamplingOptions,
    /// Where this conversation was saved, which may be replaced.
    saved: Option<PathBuf>,
    /// Does a person sit at a terminal?
    is_person: bool,
    is_stopped: Arc<AtomicBool>,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let tools = arguments.tools.as_deref().map(read_tools).transpose()?.unwrap_or_default();
    let answerer = Answerer::open(&arguments.who.asked(1, false, true)?)?;
    super::say_notes(answerer.notes());
    let options = arguments.sampling.options(None);
    let sampling = answerer.sampling(&options)?;
    let seed = arguments.sampling.seed.unwrap_or_else(another_seed);
    let mut conversation = Conversation::new(arguments.system.as_deref(), tools, sampling, seed);
    if let Some(file) = &arguments.load {
        conversation.load(file)?;
        if let Some(system) = &arguments.system {
            conversation.set_system(Some(system));
        }
    }
    let is_person = io::stdin().is_terminal() && io::stdout().is_terminal();
    let is_stopped = Arc::new(AtomicBool::new(false));
    let mut session = Session { answerer, conversation, options, saved: None, is_person, is_stopped };
    let mut input = if is_person { Input::terminal()? } else { Input::lines() };
    if is_person {
        signals::heed(Arc::clone(&session.is_stopped))?;
        session.greet();
    }
    while out::is_read() {
        let text = match input.read()? {
            Said::Text(text) => text,
            Said::Dropped => {
                println!("(Ctrl-D or /quit ends)");
                continue;
            }
            Said::End => break,
        };
        let done = match Line::read(&text) {
            Ok(Line::Quit) => break,
            Ok(Line::Message(text)) if text.trim().is_empty() => Ok(()),
            Ok(line) => session.obey(line),
            Err(problem) => Err(problem),
        };
        match done {
            // A script that went on would say the next thing to the wrong state.
            Err(problem) if !input.is_terminal() => return Err(problem.into()),
            Err(problem) => eprintln!("{}", program::as_called(&problem)),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// A seed that the last conversation did not have.
fn another_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id())
}

impl Session {
    fn greet(&self) {
        println!("{}", self.answerer.shown());
        println!("{}", in_words(&self.conversation.sampling));
        println!("/help lists commands; Ctrl-C stops an answer; Ctrl-D ends\n");
        if !self.conversation.messages().is_empty() {
            self.show_history();
        }
    }

    fn obey(&mut self, line: Line) -> Outcome {
        match line {
            Line::Message(text) => self.attempt(|conversation| {
                conversation.say(&text);
                Ok(())
            }),
            Line::Retry => self.attempt(|conversation| {
                conversation.take_answer_back().map_err(|refusal| refusal.to_string())
            }),
            Line::Tool(result) => self.give_result(&result),
            Line::Help => self.tell(&commands::help()),
            Line::System(None) => match self.conversation.system() {
                Some(text) => self.tell(text),
                None => self.note("there is no system message"),
            },
            Line::System(Some(text)) => {
                self.conversation.set_system(Some(&*text).filter(|text| *text != "-"));
                self.note(if text == "-" {
                    "the system message is removed"
                } else {
                    "the system message is set"
                })
            }
            Line::Temperature(None) | Line::MaxTokens(None) => {
                self.tell(&in_words(&self.conversation.sampling))
            }
            Line::Temperature(temperature) => {
                self.set(SamplingOptions { temperature, ..self.options.clone() })
            }
            Line::MaxTokens(tokens_max) => self.set(SamplingOptions { tokens_max, ..self.options.clone() }),
            Line::Tools => self.show_tools(),
            Line::History => {
                self.show_history();
                Ok(())
            }
            Line::Undo => {
                let said = self.conversation.undo().map_err(|refusal| refusal.to_string())?;
                self.note(&format!("taken back: {said}"))
            }
            Line::Clear => {
                self.conversation.clear();
                self.saved = None;
                self.note("the conversation begins anew")
            }
            Line::Save(file) => self.save(&file),
            Line::Load(file) => self.load(&file),
            Line::Quit => Ok(()),
        }
    }

    /// Changes the conversation and asks for the next answer. Where there is none, the conversation stays as it was.
    fn attempt(&mut self, change: impl FnOnce(&mut Conversation) -> Outcome) -> Outcome {
        let before = self.conversation.clone();
        let done = change(&mut self.conversation).and_then(|()| self.answer());
        if done != Ok(true) {
            self.conversation.go_back_to(before);
        }
        done.map(drop)
    }

    /// Asks for the next answer and shows it; returns whether there is one.
    fn answer(&mut self) -> Result<bool, String> {
        self.is_stopped.store(false, Ordering::SeqCst);
        let openings = if self.conversation.tools().is_empty() { &[] } else { self.answerer.call_openings() };
        let mut view = AnswerView::new(openings);
        let is_stopped = || self.is_stopped.load(Ordering::SeqCst) || !out::is_read();
        let answered =
            self.conversation.answer(self.answerer.policy(), &is_stopped, &mut |partial| view.show(partial));
        let is_stopped = self.is_stopped.swap(false, Ordering::SeqCst);
        let output = match answered {
            Ok(Some(output)) => output,
            Ok(None) => {
                self.note("stopped before anything was said; your message is taken back")?;
                return Ok(false);
            }
            Err(error) => {
                view.end_line();
                return Err(error.to_string());
            }
        };
        view.finish(&output.message, &output.malformed, "");
        match output.stop {
            StopReason::TokensMax => {
                let most = self.conversation.sampling.tokens_max;
                self.note(&format!("cut off after {most} tokens; /max_tokens {} allows more", 2 * most))?;
            }
            StopReason::ContextFull => {
                self.note("the context window is full; /clear begins anew, /undo makes some room")?;
            }
            StopReason::Control if is_stopped => self.note("stopped")?,
            _ => {}
        }
        if self.is_person {
            if let Some(call) = self.conversation.open_calls().first() {
                self.note(&format!("/tool RESULT gives the result of {}", call.function.name))?;
            }
            println!();
        }
        Ok(true)
    }

    fn give_result(&mut self, result: &str) -> Outcome {
        let before = self.conversation.clone();
        let left = self.conversation.give_result(result).map_err(|refusal| refusal.to_string())?;
        if left > 0 {
            let next = self.conversation.open_calls().first().map(call_line).unwrap_or_default();
            return self.note(&format!("next: the result of {next}"));
        }
        let done = self.answer();
        if done != Ok(true) {
            self.conversation.go_back_to(before);
        }
        done.map(drop)
    }

    /// Samples as the options say from now on.
    fn set(&mut self, options: SamplingOptions) -> Outcome {
        self.conversation.sampling = self.answerer.sampling(&options).map_err(|error| error.to_string())?;
        self.options = options;
        self.note(&in_words(&self.conversation.sampling))
    }

    fn save(&mut self, file: &Path) -> Outcome {
        if file.exists() && self.saved.as_deref() != Some(file) {
            return Err(format!("/save {}: exists already; name another file", file.display()));
        }
        let row = self.conversation.row().map_err(|refusal| refusal.to_string())?;
        write_atomic(file, format!("{row}\n").as_bytes()).map_err(|error| error.to_string())?;
        self.saved = Some(file.to_owned());
        self.note(&format!("saved in {}", file.display()))
    }

    fn load(&mut self, file: &Path) -> Outcome {
        let rows = self.conversation.load(file).map_err(|error| error.to_string())?;
        self.saved = None;
        if rows > 1 {
            self.note(&format!("{} has {rows} rows; this is the first", file.display()))?;
        }
        if self.is_person {
            self.show_history();
        }
        Ok(())
    }

    fn show_tools(&self) -> Outcome {
        if self.conversation.tools().is_empty() {
            return self.note("there are no tools; --tools FILE gives some");
        }
        for tool in self.conversation.tools() {
            println!("{}: {}", tool.name, tool.description);
        }
        Ok(())
    }

    fn show_history(&self) {
        for message in self.conversation.messages() {
            show_message(message);
        }
    }

    /// Says what was asked for.
    fn tell(&self, text: &str) -> Outcome {
        println!("{text}");
        Ok(())
    }

    /// Says something beside the conversation: to a person between the lines, of a script to stderr.
    fn note(&self, text: &str) -> Outcome {
        if self.is_person {
            out::dim(&format!("[{text}]\n"));
        } else {
            eprintln!("note: {text}");
        }
        Ok(())
    }
}

fn show_message(message: &Message) {
    match message.role {
        Role::User => println!("> {}", message.content),
        Role::System => println!("system: {}", message.content),
        Role::Tool => println!("tool: {}", message.content),
        Role::Assistant => AnswerView::new(&[]).finish(message, &[], ""),
    }
    println!();
}
