//! What a session has read so far, and why it can't go on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Counts what a server writes. Shared by a session and what reads for it.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    read_bytes: AtomicU64,
    bytes_max: u64,
    fault: Mutex<Option<String>>,
    failed: Notify,
}

impl Meter {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let (read_bytes, fault, failed) = (AtomicU64::new(0), Mutex::new(None), Notify::new());
        Meter(Arc::new(Inner { read_bytes, bytes_max, fault, failed }))
    }

    /// Counts from zero again.
    pub(crate) fn restart(&self) {
        self.0.read_bytes.store(0, Ordering::Relaxed);
    }

    /// Counts these bytes. Returns whether they are still allowed; if not, that is the fault.
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        let before = self.0.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let is_allowed = before.saturating_add(bytes as u64) <= self.0.bytes_max;
        if !is_allowed {
            self.fail(format!("wrote more than {} bytes in one episode", self.0.bytes_max));
        }
        is_allowed
    }

    /// Says why the session can't go on. The first reason counts.
    pub(crate) fn fail(&self, why: String) {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.0.failed.notify_waiters();
    }

    /// Waits until the session can't go on, and returns why.
    pub(crate) async fn failed(&self) -> String {
        loop {
            // Made first, so that no failure after the look is missed.
            let failed = self.0.failed.notified();
            if let Some(why) = self.fault() {
                return why;
            }
            failed.await;
        }
    }

    /// Why the session can't go on.
    pub(crate) fn fault(&self) -> Option<String> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
