//! Shows a run: a bar on the terminal, and lines that stay, so that the run can be read afterwards.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use burnish_eval::Summary;
use burnish_recipe::plain_words::plain;
use burnish_run::watch::{Event, Watch};
use burnish_rundir::metrics::Values;
use burnish_rundir::text::visible_line;
use console::Term;
use indicatif::{ProgressBar, ProgressStyle};

use crate::out;
use crate::program::as_called;

/// With a bar, lines are printed at most this often.
const LINE_EVERY_WITH_BAR: Duration = Duration::from_secs(10);
/// Without a bar, when lines are all there is.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// On a narrower screen, lines wrap, because a shorter line would not say enough.
const LINE_ROOM_MIN: usize = 40;
/// Columns between parts of a line.
const GAP: &str = "  ";

/// The terminal's view of a run.
pub(crate) struct Progress {
    /// The terminal, if stderr is one.
    terminal: Option<Term>,
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    /// How many items were done when this process began, and when it began.
    start: Option<(u64, Instant)>,
    /// What items are called.
    unit: &'static str,
    /// Whether stdout belongs to the answers, so that lines go to stderr.
    is_aside: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal().then(Term::stderr);
        Progress { terminal, bar: None, last_line: None, start: None, unit: "item", is_aside: false }
    }

    /// Of items that are called `unit`, where stdout is for something else.
    pub(crate) fn aside(unit: &'static str) -> Self {
        let mut progress = Progress::new();
        (progress.unit, progress.is_aside) = (unit, true);
        progress
    }

    /// Removes the bar.
    fn clear(&mut self) {
        if self.bar.take().is_some() {
            out::keep_below(None);
        }
    }

    /// Width of the terminal in columns.
    fn width(&self) -> usize {
        self.terminal.as_ref().map_or(usize::MAX, |terminal| usize::from(terminal.size().1))
    }

    fn step(&mut self, step: u64, steps_max: u64, metrics: &Values) {
        let took = metrics.get("step_time").copied().and_then(|took| Duration::try_from_secs_f64(took).ok());
        let begun = Instant::now().checked_sub(took.unwrap_or_default()).unwrap_or_else(Instant::now);
        self.start.get_or_insert((step.saturating_sub(1), begun));
        self.advance("step", step, steps_max, &step_parts(metrics));
    }

    /// Progress over the items of a benchmark. The first event of a process tells where it starts.
    fn items(&mut self, done: usize, items: usize, success: Option<f64>, tokens_per_second: f64) {
        let (begin, _) = *self.start.get_or_insert((done as u64, Instant::now()));
        let mut parts = Vec::new();
        parts.extend(success.map(|success| format!("{:.1} % right", 100.0 * success)));
        if done as u64 > begin {
            parts.push(format!("{tokens_per_second:.0} tokens/s"));
        }
        self.advance(self.unit, done as u64, items as u64, &parts);
    }

    /// Progress over items that are told by their number alone.
    pub(crate) fn count(&mut self, done: usize, all: usize) {
        self.start.get_or_insert_with(|| (0, Instant::now()));
        self.advance(self.unit, done as u64, all as u64, &[]);
    }

    /// Moves the bar, if there is one, and prints a line if it is time for one: at the first and the last item, and
    /// in between as often as a person can read.
    fn advance(&mut self, unit: &str, done: u64, all: u64, parts: &[String]) {
        let pace = self.start.and_then(|(begin, start)| Pace::of(begin, done, all, start.elapsed()));
        let (rate, left) = match pace {
            Some(pace) => (Some(pace.rate(unit)), Some(pace.left())),
            None => (None, None),
        };
        // A file with these lines may be all there is to read later, so they are complete whatever is on the screen.
        let is_screen = self.terminal.is_some() && (self.is_aside || std::io::stdout().is_terminal());
        let every = if is_screen { LINE_EVERY_WITH_BAR } else { LINE_EVERY };
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= every);
        if is_due || done == all {
            self.last_line = Some(Instant::now());
            let all_parts: Vec<String> =
                parts.iter().cloned().chain(rate.clone()).chain(left.clone()).collect();
            // On a screen, each line must fit; everything else is in `metrics.jsonl`.
            let room = if is_screen { self.width().max(LINE_ROOM_MIN) } else { usize::MAX };
            let line = fitted(format!("{unit} {done}/{all}"), &all_parts, room);
            if self.is_aside {
                eprintln!("{line}");
            } else {
                println!("{line}");
            }
        }
        if self.terminal.is_some() {
            let (begin, _) = self.start.unwrap_or((0, Instant::now()));
            let width = self.width();
            let bar = self.bar.get_or_insert_with(|| ProgressBar::new(all).with_position(begin));
            out::keep_below(Some(bar.clone()));
            // The time left comes first, because that is what a person looks for.
            let shown: Vec<String> = left.into_iter().chain(parts.iter().cloned()).chain(rate).collect();
            let (template, message) = bar_line(unit, done, all, &shown, width);
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_message(message);
            bar.set_position(done);
        }
        if done == all {
            self.clear();
            // What comes next, such as the run after a stage, has its own length.
            (self.start, self.last_line) = (None, None);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Watch for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Doing(what) => println!("{what} ..."),
            Event::Note(line) => println!("{}", as_called(&plain(&line))),
            Event::Step { step, steps_max, metrics } => self.step(step, steps_max, metrics),
            Event::Evaluated { step, name, summary } => {
                let name = name.map(|name| format!(" `{}`", visible_line(name))).unwrap_or_default();
                println!("evaluation{name} after {step} steps: {}", evaluation_line(summary));
            }
            Event::Measured { step, values } => {
                println!("evaluation after {step} steps: {}", measured_line(values))
            }
            Event::Items { done, items, success, tokens_per_second } => {
                self.items(done, items, success, tokens_per_second);
            }
            Event::Saved(path) => {
                if self.bar.is_none() {
                    println!("saved {}", path.display());
                }
            }
        }
    }
}

/// The template of the bar and its message, with as many parts as fit into `width` columns, because a number that is
/// cut off looks like another number.
fn bar_line(unit: &str, done: u64, all: u64, parts: &[String], width: usize) -> (&'static str, String) {
    let (template, bar) = match width {
        100.. => ("{bar:24} {msg}", 25),
        60.. => ("{bar:12} {msg}", 13),
        _ => ("{msg}", 0),
    };
    // The last column stays free, because some terminals wrap when it is written.
    (template, fitted(format!("{unit} {done}/{all}"), parts, width.saturating_sub(bar + 1)))
}

/// `first`, followed by as many parts as fit.
fn fitted(first: String, parts: &[String], room: usize) -> String {
    let mut line = first;
    for part in parts {
        if line.chars().count() + GAP.len() + part.chars().count() > room {
            break;
        }
        line = format!("{line}{GAP}{part}");
    }
    line
}

/// The speed of this process, over everything that it has done.
#[derive(Debug, Clone, Copy)]
struct Pace {
    per_item: Duration,
    items_left: u64,
}

impl Pace {
    fn of(begin: u64, done: u64, all: u64, elapsed: Duration) -> Option<Self> {
        let here = u32::try_from(done.saturating_sub(begin)).ok().filter(|here| *here > 0)?;
        Some(Pace { per_item: elapsed / here, items_left: all.saturating_sub(done) })
    }

    fn rate(self, unit: &str) -> String {
        let seconds = self.per_item.as_secs_f64().max(1e-9);
        if seconds < 1.0 {
            format!("{} {unit}s/s", digits(1.0 / seconds))
        } else {
            format!("{} s/{unit}", digits(seconds))
        }
    }

    fn left(self) -> String {
        let left = self.per_item.as_secs_f64() * self.items_left as f64;
        format!("{} left", Duration::try_from_secs_f64(left).map_or_else(|_| "long".to_owned(), in_time))
    }
}

/// A duration in its two largest units.
pub(crate) fn in_time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{minutes} min {} s", seconds % 60),
        600..3600 => format!("{minutes} min"),
        3600..86400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A number with three significant digits.
fn digits(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "not a number".to_owned() };
    }
    if !(1e-3..1e5).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = (2 - size.log10().floor() as i32).max(0) as usize;
    format!("{value:.decimals$}")
}

/// The numbers of a step for a person, most important first.
fn step_parts(metrics: &Values) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = |name: &str, text: &dyn Fn(f64) -> String| {
        parts.extend(metrics.get(name).map(|value| text(*value)));
    };
    part("reward", &|reward| format!("reward {}", digits(reward)));
    part("success", &|success| format!("success {:.0} %", 100.0 * success));
    part("loss", &|loss| format!("loss {}", digits(loss)));
    part("entropy", &|entropy| format!("entropy {}", digits(entropy)));
    part("kl", &|kl| format!("kl {}", digits(kl)));
    part("grad_norm", &|norm| format!("gradient {}", digits(norm)));
    let tokens = metrics.get("tokens/sampled").or_else(|| metrics.get("tokens/trained"));
    if let (Some(tokens), Some(seconds)) = (tokens, metrics.get("step_time").filter(|time| **time > 0.0)) {
        parts.push(format!("{:.0} tokens/s", tokens / seconds));
    }
    parts
}

/// The result with its interval, then how many episodes failed without being played and how many were not counted.
pub(crate) fn evaluation_line(summary: &Summary) -> String {
    let result = match summary.leading() {
        Some(level) => {
            format!("{} {}", summary.headline.name(), summary.headline.level_with_range(level))
        }
        None => "nothing could be scored".to_owned(),
    };
    [vec![result], summary.left_out()].concat().join("; ")
}

/// The numbers of held-out rows that are shown: the loss, and of preferences how often they are told apart.
const HELD_OUT: [(&str, &str); 3] =
    [("eval/loss", "loss"), ("eval/accuracy", "accuracy"), ("eval/rewards/accuracies", "accuracy")];

/// What changed on held-out rows since the evaluation before training; `None` if that is not known.
pub(crate) fn change_line(values: &Values) -> Option<String> {
    let part = |(name, label): &(&str, &str)| {
        let end = |end: &str| values.get(&format!("{name}/change{end}"));
        let (change, low, high) = (end("")?, end("/low")?, end("/high")?);
        Some(format!("{label} {change:+.4} [{low:+.4}, {high:+.4}]"))
    };
    let parts: Vec<String> = HELD_OUT.iter().filter_map(part).collect();
    let rows = values.get("eval/held_out_rows").copied().unwrap_or_default();
    (!parts.is_empty()).then(|| format!("{} (95 %, paired bootstrap over {rows} rows)", parts.join(", ")))
}

/// The numbers of held-out rows, with their 95 % intervals.
pub(crate) fn measured_line(values: &Values) -> String {
    let part = |(name, label): &(&str, &str)| {
        let end = |end: &str| values.get(&format!("{name}/{end}"));
        let range = end("low").zip(end("high")).map(|(low, high)| format!(" [{low:.4}, {high:.4}]"));
        Some(format!("{label} {:.4}{}", values.get(*name)?, range.unwrap_or_default()))
    };
    let parts: Vec<String> = HELD_OUT.iter().filter_map(part).collect();
    let rows = values.get("eval/held_out_rows").copied().unwrap_or_default();
    format!("{} on {rows} held-out rows", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_no_wider_than_its_terminal_and_cuts_no_number() {
        let parts =
            ["12 min left", "reward 0.512", "success 41 %", "loss -0.0123", "entropy 1.20", "9.13 s/step"];
        let parts = parts.map(str::to_owned);
        for width in 0..220 {
            let (template, message) = bar_line("step", 1200, 32000, &parts, width);
            let bar =
                template.strip_prefix("{bar:").map_or(0, |rest| rest[..2].parse::<usize>().unwrap() + 1);
            let whole: Vec<&str> = message.split(GAP).collect();
            assert_eq!(whole[0], "step 1200/32000");
            assert_eq!(whole[1..], parts[..whole.len() - 1]);
            assert!(whole.len() == 1 || bar + message.len() < width, "{width}: {message}");
        }
        assert_eq!(bar_line("step", 1, 9, &parts, 40).1, "step 1/9  12 min left  reward 0.512");
        assert_eq!(bar_line("step", 1, 9, &parts, 200).1.split(GAP).count(), 7);
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        for (value, text) in [
            (0.123_456_78, "0.123"),
            (12.345_678, "12.3"),
            (1234.5, "1234"),
            (0.0, "0"),
            (-0.000_012_3, "-1.23e-5"),
            (3e9, "3.00e9"),
            (f64::NAN, "not a number"),
        ] {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn pace_is_that_of_this_process() {
        let pace = Pace::of(100, 110, 130, Duration::from_secs(25)).unwrap();
        assert_eq!((pace.rate("step"), pace.left()), ("2.50 s/step".to_owned(), "50 s left".to_owned()));
        let fast = Pace::of(0, 300, 320, Duration::from_secs(60)).unwrap();
        assert_eq!((fast.rate("item"), fast.left()), ("5.00 items/s".to_owned(), "4 s left".to_owned()));
        assert!(Pace::of(7, 7, 9, Duration::from_secs(1)).is_none());
    }

    #[test]
    fn times_are_told_in_two_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min 1 s"),
            (754, "12 min"),
            (7320, "2 h 2 min"),
            (200_000, "2 d 7 h"),
        ] {
            assert_eq!(in_time(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_step_is_told_by_its_reward_and_its_loss() {
        let metrics = [("reward", 0.5), ("loss", -0.01234), ("step_time", 2.0), ("tokens/sampled", 512.0)];
        let metrics: Values = metrics.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(step_parts(&metrics).join(GAP), "reward 0.500  loss -0.0123  256 tokens/s");
    }
}
