//! The only way to the terminal. Control characters are shown instead of sent; a reader that goes away (`| head`, a
//! closed terminal) ends only the printing; and the progress bar stays below all lines, whoever prints them.
//!
//! In this crate, `print!`, `println!`, `eprint!` and `eprintln!` are the macros below, because those of the standard
//! library panic when nobody reads. `clippy::print_stdout` and `print_stderr` catch only the latter, and are on in
//! `main.rs`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use burnish_rundir::text::{plain_json, visible};
use indicatif::ProgressBar;

use crate::commands::Done;

/// Writes to stdout, through this module.
macro_rules! print {
    ($($text:tt)*) => { $crate::out::text(format_args!($($text)*)) };
}
/// Writes a line to stdout, through this module.
macro_rules! println {
    () => { $crate::out::text(format_args!("\n")) };
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}
/// Writes to stderr, through this module.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::out::error(&format!($($text)*)) };
}
/// Writes a line to stderr, through this module.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::out::error(&format!("{}\n", format_args!($($text)*))) };
}

/// Why stdout can't be written to any more.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);
/// The bar on the screen.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints lines above `bar` from now on. `None` removes the last bar.
pub(crate) fn keep_below(bar: Option<ProgressBar>) {
    let last = std::mem::replace(&mut *BAR.lock().unwrap_or_else(PoisonError::into_inner), bar.clone());
    if let (Some(last), None) = (last, bar) {
        last.finish_and_clear();
    }
}

fn above_bar(print: impl FnOnce()) {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// Text for people.
pub(crate) fn text(text: Arguments<'_>) {
    write(&visible(&text.to_string()));
}

/// A line for people.
pub(crate) fn line(text: Arguments<'_>) {
    write(&visible(&format!("{text}\n")));
}

/// JSON for programs.
pub(crate) fn json(json: &str) {
    write(&plain_json(&burnish_core::json::plain(format!("{json}\n"))));
}

/// A file for programs: printed exactly if a program reads it, with control characters shown if a person does.
pub(crate) fn file(text: &str) {
    if io::stdout().is_terminal() { write(&visible(text)) } else { write(text) }
}

/// Text of a model: exact where a program reads it, shown where a person does.
pub(crate) fn answer(text: &str) {
    file(text);
}

/// As [`answer`], dimmed where the terminal has colours and they are wanted.
pub(crate) fn dim(text: &str) {
    if !text.is_empty() && is_coloured() {
        write(&format!("\u{1b}[2m{}\u{1b}[22m", visible(text)));
    } else {
        answer(text);
    }
}

/// Does the terminal have colours, and are they wanted (`NO_COLOR`, `CLICOLOR`)?
pub(crate) fn is_coloured() -> bool {
    io::stdout().is_terminal() && console::colors_enabled()
}

/// Text to stderr. If it can't be written, there is nowhere to report that.
pub(crate) fn error(text: &str) {
    above_bar(|| {
        let _ = io::stderr().write_all(visible(text).as_bytes());
    });
}

/// Whether stdout still has a reader. A command that only prints may stop without one.
pub(crate) fn is_read() -> bool {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).is_none()
}

fn write(text: &str) {
    above_bar(|| {
        let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.is_none() {
            let mut stdout = io::stdout().lock();
            *lost = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).err();
        }
    });
}

/// Call this last. Succeeds if everything was printed, or the reader stopped reading.
///
/// # Errors
/// Why some output was lost, such as a full disk.
pub(crate) fn finish() -> Done {
    match LOST.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("stdout: not all that was printed could be written: {error}").into())
        }
        _ => Ok(()),
    }
}
