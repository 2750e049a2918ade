//! Memory in large pages.
//!
//! The system clears a page when it is first touched. For the 12 GB of a first training step at the shape of Qwen3-0.6B
//! in pages of 4 KiB that takes as long as the arithmetic of the step; in pages of 2 MiB a sixth of it. Linux gives large
//! pages to who asks for them (`transparent_hugepage` is `madvise` on most machines).

/// Below 4 MiB there is little to gain.
#[cfg(target_os = "linux")]
const LARGE_MIN_BYTES: usize = 4 << 20;

/// `len` zeros, in large pages where they are many.
pub(crate) fn zeros(len: usize) -> Vec<f32> {
    // Fresh from the system, and not touched yet.
    let mut data = vec![0.0; len];
    in_large_pages(&mut data);
    data
}

/// Asks for large pages under `memory`, which should not have been touched yet. A system that has none changes nothing.
pub(crate) fn in_large_pages<T>(memory: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        let bytes = std::mem::size_of_val(memory);
        if bytes < LARGE_MIN_BYTES {
            return;
        }
        const PAGE: usize = 4096;
        let start = memory.as_mut_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE);
        let len = bytes.saturating_sub(skipped) / PAGE * PAGE;
        // SAFETY: `start + skipped .. + len` lies inside `memory`, which is borrowed for this call. The advice changes
        // which pages lie under it, never what they hold.
        let _refused = unsafe { libc::madvise(start.add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the mapping around `address` was advised (`hg` among its flags), where the system says so.
    #[cfg(target_os = "linux")]
    fn is_advised(address: usize) -> Option<bool> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_here = false;
        for line in maps.lines() {
            if let Some(flags) = line.strip_prefix("VmFlags:") {
                if is_here {
                    return Some(flags.split_whitespace().any(|flag| flag == "hg"));
                }
            } else if let Some((start, end)) = line.split(' ').next().and_then(|range| range.split_once('-'))
                && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
            {
                is_here = (start..end).contains(&address);
            }
        }
        None
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn many_zeros_lie_in_large_pages_and_few_do_not() {
        let (many, few) = (zeros(64 << 20), vec![0.0_f32; 32 << 20]);
        assert!(many.iter().step_by(1 << 20).all(|&value| value == 0.0));
        let at = |data: &[f32]| is_advised(data.as_ptr() as usize + data.len() * 2);
        match (at(&many), std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists()) {
            (Some(advised), true) => assert_eq!((advised, at(&few)), (true, Some(false))),
            _ => println!("skipped: /proc or the kernel says nothing of large pages"),
        }
    }

    #[test]
    fn any_slice_may_be_asked_for() {
        for len in [0, 1, 4097, (4 << 20) + 3] {
            let mut bytes = vec![7_u8; len];
            in_large_pages(&mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 7));
        }
        in_large_pages(&mut vec![1_u8; 5 << 20][1..]);
    }
}
