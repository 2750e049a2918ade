//! Splitting work over rows.

use rayon::prelude::*;

/// Number of elements that one task of an elementwise loop handles: 64 KiB, which stays in a core's first- or
/// second-level cache and takes long enough (some microseconds) to be worth a task. It is fixed, so that nothing
/// depends on the number of threads.
const TASK_ELEMENTS: usize = 1 << 14;

/// Number of rows of `cols` elements in one task.
pub(crate) fn task_rows(cols: usize) -> usize {
    (TASK_ELEMENTS / cols.max(1)).max(1)
}

/// Calls `body(first_row, rows)` on pieces of `out`, in parallel if there is more than one.
pub(crate) fn for_rows(out: &mut [f32], cols: usize, body: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = task_rows(cols);
    if out.len() <= rows * cols {
        body(0, out);
        return;
    }
    out.par_chunks_mut(rows * cols).enumerate().for_each(|(task, chunk)| body(task * rows, chunk));
}

/// `y += x`.
pub(crate) fn add(y: &mut [f32], x: &[f32]) {
    assert_eq!(y.len(), x.len());
    for_rows(y, 1, |first, y| {
        crate::vector::simd(
            #[inline(always)]
            || crate::vector::add(y, &x[first..][..y.len()]),
        )
    });
}

/// `out = x + y`.
pub(crate) fn sum(out: &mut [f32], x: &[f32], y: &[f32]) {
    assert!(out.len() == x.len() && x.len() == y.len());
    for_rows(out, 1, |first, out| {
        let range = first..first + out.len();
        crate::vector::simd(
            #[inline(always)]
            || {
                for ((out, &x), &y) in out.iter_mut().zip(&x[range.clone()]).zip(&y[range]) {
                    *out = x + y;
                }
            },
        )
    });
}

/// Runs `body` on a thread of the pool. Outside the pool, every parallel operation would hand its work over and sleep
/// until it is done; inside, the thread continues itself.
pub fn in_pool<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| body())
}

/// Runs `body` with `n` threads of its own (0: as many as there are cores), regardless of [`set_threads`], for several
/// pieces of work side by side. Results do not depend on it.
///
/// # Errors
/// If the operating system provides no threads.
pub fn with_threads<R: Send>(n: usize, body: impl FnOnce() -> R + Send) -> std::io::Result<R> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().map_err(std::io::Error::other)?;
    Ok(pool.install(body))
}

/// Sets the number of threads that all operations share. Call it once, at the start of the program; a later call, or
/// one after the first parallel operation, has no effect. Results do not depend on it.
pub fn set_threads(n: usize) {
    // The only possible error is that the pool already exists, which is documented above.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(n).build_global();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_side_by_side_has_threads_of_its_own() {
        let both = std::thread::scope(|scope| {
            let of = |n| scope.spawn(move || with_threads(n, rayon::current_num_threads).unwrap());
            [of(1), of(3)].map(|thread| thread.join().unwrap())
        });
        assert_eq!(both, [1, 3]);
    }
}
