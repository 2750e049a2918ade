//! How far a run is: at the head of the page, for people and for programs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::Report;
use super::html::{escape, with_code};
use crate::text::utc;

/// How far a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is done.
    #[default]
    Finished,
    /// A process works on it.
    Running,
    /// It was stopped, and can go on.
    Stopped,
}

impl Standing {
    fn name(self) -> &'static str {
        match self {
            Standing::Finished => "finished",
            Standing::Running => "running",
            Standing::Stopped => "stopped",
        }
    }
}

/// The name of the page's mark.
const MARK: &str = "<meta name=\"burnish-run\" content=\"";
/// The mark is within this number of bytes.
const HEAD_BYTES: u64 = 1024;

/// Whether the report at `path` is that of a finished run. Reports of earlier versions have no mark: they were written
/// at the end only.
pub fn is_finished(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    let marked = text.split_once(MARK).map(|(_, rest)| rest.starts_with(Standing::Finished.name()));
    read.is_ok() && marked.unwrap_or(true)
}

/// The mark by which [`is_finished`] knows the page.
pub(super) fn mark(standing: Standing) -> String {
    format!("{MARK}{}\">\n", standing.name())
}

/// The line that says how far the run is.
pub(super) fn line(report: &Report) -> String {
    if report.told.is_empty() {
        return String::new();
    }
    let (name, told) = (report.standing.name(), with_code(&report.told));
    let written = escape(&utc(report.written));
    format!(
        "<p class=\"standing\"><b class=\"{name}\">{name}</b> {told} <span class=\"soft\">Written {written}.</span>\
         <span id=\"again\" class=\"soft\"></span></p>\n"
    )
}

/// While a run goes on, its page looks for a newer one by itself; the page of a run that has ended runs nothing.
///
/// A reload from the page's head would close what the reader has opened. So this keeps what is open and how far the page
/// is scrolled, waits while the page is hidden or text is marked, and can be switched off. Where scripts may not run, the
/// page is still whole, and says nothing of this.
pub(super) fn reload(standing: Standing) -> &'static str {
    if standing == Standing::Running { RELOAD } else { "" }
}

const RELOAD: &str = r#"<script>
(() => {
  const key = "burnish " + location.pathname, parts = [...document.querySelectorAll("details[id]")];
  let kept = {};
  try { kept = JSON.parse(sessionStorage.getItem(key)) || {}; } catch { return; }
  const on = document.createElement("input"), label = document.createElement("label");
  on.type = "checkbox";
  on.checked = !kept.isOff;
  label.append(on, " look for a newer page every 30 seconds");
  document.getElementById("again").append(" ", label);
  if (kept.open) {
    parts.forEach(part => part.open = kept.open.includes(part.id));
    history.scrollRestoration = "manual";
    scrollTo(0, kept.top);
  }
  addEventListener("pagehide", () => sessionStorage.setItem(key, JSON.stringify({
    open: parts.filter(part => part.open).map(part => part.id), top: scrollY, isOff: !on.checked
  })));
  setInterval(() => {
    if (on.checked && !document.hidden && getSelection().isCollapsed) location.reload();
  }, 30000);
})();
</script>
"#;
