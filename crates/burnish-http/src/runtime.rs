//! The thread that moves every call.

use std::future::{Future, pending};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

/// The runtime, once somebody has asked for it.
static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// Starts the thread, unless it runs already.
///
/// # Errors
/// If the system gives no thread, or no way to wait for sockets.
pub(crate) fn runtime() -> io::Result<Handle> {
    // Nothing that holds the lock panics.
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*runtime {
        return Ok(handle.clone());
    }
    // One thread is enough: all that it does is to wait.
    let moving = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = moving.handle().clone();
    std::thread::Builder::new().name("http".into()).spawn(move || moving.block_on(pending::<()>()))?;
    Ok(runtime.insert(handle).clone())
}

/// Something that goes on by itself. It ends when this is dropped.
#[derive(Debug)]
pub struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lets `work` go on by itself, until it ends or the [`Task`] is dropped.
///
/// # Errors
/// If the system gives no thread for it.
pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> io::Result<Task> {
    Ok(Task(runtime()?.spawn(work)))
}

/// Waits for `work`. Not to be called from within a [`spawn`]ed future.
///
/// # Errors
/// If the system gives no thread for it.
pub fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    Ok(runtime()?.block_on(work))
}

/// Does all of these at the same time, and waits for them. Not to be called from within a [`spawn`]ed future.
///
/// # Errors
/// If the system gives no thread for it.
pub fn run_all<T: Send + 'static>(
    works: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> io::Result<Vec<T>> {
    let runtime = runtime()?;
    let tasks: Vec<JoinHandle<T>> = works.into_iter().map(|work| runtime.spawn(work)).collect();
    runtime.block_on(async {
        let mut results = Vec::with_capacity(tasks.len());
        for task in tasks {
            results.push(task.await.map_err(io::Error::other)?);
        }
        Ok(results)
    })
}

/// Waits.
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits for `work`, but not longer than `longest`: then `None`.
pub async fn timeout<T>(longest: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(longest, work).await.ok()
}
