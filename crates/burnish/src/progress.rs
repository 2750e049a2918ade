//! Shows a run on the terminal: a bar with rate and time left, or plain lines where there is no terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use burnish_eval::Summary;
use burnish_run::metrics::Values;
use burnish_run::watch::{Event, Watch};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Without a terminal, a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The terminal's view of a run.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    /// Items that were done when this process began, and when that was.
    start: Option<(usize, Instant)>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { bar: None, last_line: None, start: None }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print_line(line)),
            None => print_line(line),
        }
    }

    fn step(&mut self, step: u64, steps_max: u64, metrics: &Values) {
        self.advance("step", step, steps_max, step.saturating_sub(1), &step_line(metrics));
    }

    /// Items of a benchmark. The first event of a process says where it starts.
    fn items(&mut self, done: usize, items: usize, success: Option<f64>, tokens_per_second: f64) {
        let (begin, start) = *self.start.get_or_insert((done, Instant::now()));
        let mut parts = Vec::new();
        parts.extend(success.map(|success| format!("{:.1} % right", 100.0 * success)));
        if done > begin {
            parts.push(format!("{tokens_per_second:.0} tokens/s"));
            if !std::io::stderr().is_terminal() {
                let rate = (done - begin) as f64 / start.elapsed().as_secs_f64().max(1e-9);
                let left = Duration::from_secs_f64((items - done) as f64 / rate);
                parts.push(format!("{rate:.2} items/s, {} left", HumanDuration(left)));
            }
        }
        self.advance("item", done as u64, items as u64, begin as u64, &parts.join("  "));
    }

    /// Moves the bar, or prints a line where there is none and it is time.
    fn advance(&mut self, unit: &str, done: u64, all: u64, from: u64, line: &str) {
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| new_bar(unit, all, from));
            bar.set_message(line.to_owned());
            bar.set_position(done);
            if done == all {
                bar.finish_and_clear();
                // What comes next, such as the run after a stage, has another length.
                self.bar = None;
            }
            return;
        }
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY);
        if is_due || done == all {
            self.last_line = Some(Instant::now());
            print_line(&format!("{unit} {done}/{all}  {line}"));
        }
    }
}

impl Watch for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Doing(what) => self.say(&format!("{what} ...")),
            Event::Note(line) => self.say(&line),
            Event::Step { step, steps_max, metrics } => self.step(step, steps_max, metrics),
            Event::Evaluated { step, name, summary } => {
                let name = name.map(|name| format!(" `{name}`")).unwrap_or_default();
                self.say(&format!("evaluation{name} after {step} steps: {}", evaluation_line(summary)));
            }
            Event::Items { done, items, success, tokens_per_second } => {
                self.items(done, items, success, tokens_per_second);
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
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn new_bar(unit: &str, all: u64, from: u64) -> ProgressBar {
    let bar = ProgressBar::new(all).with_position(from);
    let template = format!("{{bar:24}} {unit} {{pos}}/{{len}}  {{msg}}  {{per_sec}}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
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

/// The result with its interval, then what counts as a failure unread and what does not count.
pub(crate) fn evaluation_line(summary: &Summary) -> String {
    let result = match summary.leading() {
        Some(level) => {
            format!("{} {}", summary.headline.name(), summary.headline.level_with_range(level))
        }
        None => "nothing could be scored".to_owned(),
    };
    [vec![result], summary.left_out()].concat().join("; ")
}
