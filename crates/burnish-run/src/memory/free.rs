//! How much memory a device has free.

use std::fs;

use burnish_recipe::Recipe;
use burnish_tensor::Device;

use crate::RunError;

/// Bytes that are free on the device of a recipe; `None` where nobody says.
///
/// # Errors
/// If the device can't be opened.
pub fn free_bytes(recipe: &Recipe) -> Result<Option<usize>, RunError> {
    let device = Device::open(&recipe.device)?;
    Ok(if device.is_cpu() { of_machine() } else { device.memory_free_bytes()? })
}

/// What the system could still give to this process, within the limit of its control group.
fn of_machine() -> Option<usize> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let available = in_meminfo(&read("/proc/meminfo")?)?;
    let group = |file: &str| read(&format!("/sys/fs/cgroup/{file}"));
    let within = [group("memory.max"), group("memory.current"), group("memory.stat")];
    Some(available.min(within_group(within).unwrap_or(usize::MAX)))
}

fn in_meminfo(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}

/// The limit of a control group less what it uses, where files that are cached count as free.
fn within_group([max, current, stat]: [Option<String>; 3]) -> Option<usize> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let cached = stat
        .and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("inactive_file ")).and_then(number));
    let used = number(&current?)?.saturating_sub(cached.unwrap_or(0));
    Some(number(&max?)?.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let text = "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:   12000000 kB\n";
        assert_eq!(in_meminfo(text), Some(12_000_000 << 10));
        assert_eq!(in_meminfo("MemTotal: 1 kB\n"), None);
        let group = |max: &str| {
            within_group([max, "700\n", "anon 600\ninactive_file 50\n"].map(|text| Some(text.to_owned())))
        };
        assert_eq!(group("1000\n"), Some(350));
        assert_eq!(group("600\n"), Some(0));
        assert_eq!(group("max\n"), None);
        assert_eq!(within_group([None, None, None]), None);
    }
}
