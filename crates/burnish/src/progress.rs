//! Shows a run on the terminal: a bar with rate and time left, or plain lines where there is no terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use burnish_eval::Summary;
use burnish_run::metrics::Values;
use burnish_run::watch::{Event, Watch};
use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The terminal's view of a run.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { bar: None, last_line: None }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print_line(line)),
            None => print_line(line),
        }
    }

    fn step(&mut self, step: u64, steps_max: u64, metrics: &Values) {
        let line = step_line(metrics);
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| new_bar(steps_max, step.saturating_sub(1)));
            bar.set_message(line);
            bar.set_position(step);
            if step == steps_max {
                bar.finish_and_clear();
            }
            return;
        }
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY);
        if is_due || step == steps_max {
            self.last_line = Some(Instant::now());
            print_line(&format!("step {step}/{steps_max}  {line}"));
        }
    }
}

impl Watch for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Doing(what) => self.say(&format!("{what} ...")),
            Event::Note(line) => self.say(&line),
            Event::Step { step, steps_max, metrics } => self.step(step, steps_max, metrics),
            Event::Evaluated { step, summary } => {
                self.say(&format!("evaluation after {step} steps: {}", evaluation_line(summary)));
            }
            Event::Saved(path) => {
                if self.bar.is_none() {
                    print_line(&format!("saved {}", path.display()));
                }
            }
        }
    }
}

/// A reader that went away (`| head`) must not end a run.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn new_bar(steps_max: u64, from: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps_max).with_position(from);
    let style = ProgressStyle::with_template("{bar:24} step {pos}/{len}  {msg}  {per_sec}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.reset_eta();
    bar
}

fn step_line(metrics: &Values) -> String {
    let mut parts = Vec::new();
    if let Some(reward) = metrics.get("reward") {
        parts.push(format!("reward {reward:.3}"));
    }
    if let Some(success) = metrics.get("success") {
        parts.push(format!("success {:.0} %", 100.0 * success));
    }
    if let (Some(loss), None) = (metrics.get("loss"), metrics.get("reward")) {
        parts.push(format!("loss {loss:.4}"));
    }
    if let Some(entropy) = metrics.get("entropy") {
        parts.push(format!("entropy {entropy:.2}"));
    }
    let tokens = metrics.get("tokens/sampled").or_else(|| metrics.get("tokens/trained"));
    if let (Some(tokens), Some(seconds)) = (tokens, metrics.get("step_time")) {
        parts.push(format!("{:.0} tokens/s", tokens / seconds));
    }
    parts.join("  ")
}

/// Success with its interval, and what else matters.
pub(crate) fn evaluation_line(summary: &Summary) -> String {
    let mut line = match &summary.success {
        Some(interval) => format!(
            "success {:.1} % [{:.1}, {:.1}]",
            100.0 * interval.mean,
            100.0 * interval.low,
            100.0 * interval.high
        ),
        None => "nothing could be scored".to_owned(),
    };
    if summary.unscored > 0 {
        line.push_str(&format!(", {} unscored", summary.unscored));
    }
    line
}
