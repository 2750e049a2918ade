//! Memory of this process, from `/proc/self` (Linux).

use std::fs;

use crate::Done;

/// Bytes that are resident now.
pub(crate) fn resident_bytes() -> Done<u64> {
    field("VmRSS:")
}

/// Most bytes that were resident since the last [`reset_peak`].
pub(crate) fn peak_bytes() -> Done<u64> {
    field("VmHWM:")
}

/// Lets the peak begin again at what is resident now.
pub(crate) fn reset_peak() -> Done {
    fs::write("/proc/self/clear_refs", "5").map_err(|error| format!("/proc/self/clear_refs: {error}").into())
}

fn field(name: &str) -> Done<u64> {
    let path = "/proc/self/status";
    let status = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    parse(&status, name).ok_or_else(|| format!("{path} has no line `{name} N kB`").into())
}

fn parse(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_status_is_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     100 kB\n";
        assert_eq!(parse(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(parse(status, "VmRSS:"), Some(102_400));
        assert_eq!(parse(status, "VmSwap:"), None);
    }

    #[test]
    fn the_peak_holds_what_was_touched_and_given_back() {
        if !std::path::Path::new("/proc/self/clear_refs").exists() {
            println!("skipped: no /proc here");
            return;
        }
        reset_peak().unwrap();
        let before = resident_bytes().unwrap();
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        assert!(peak_bytes().unwrap() >= before + (60 << 20));
    }
}
