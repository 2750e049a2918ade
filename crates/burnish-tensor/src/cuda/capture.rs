//! CUDA graphs: work that is captured once and launched again with one call.
//!
//! A captured kernel keeps the addresses that it was launched with, so all memory of captured work comes from a
//! [`Reserve`] that outlives the graph. The same work takes memory in the same order, so a plain run fills the reserve and
//! the capture after it finds everything there.
//!
//! The driver records everything that is queued during a capture, so only one thread may use the device meanwhile.

use std::sync::{Arc, atomic::Ordering};

use cudarc::driver::{result, sys};

use super::{Cuda, CudaError, lock, memory::Reserve};

/// Whether work is captured on this device.
#[derive(Debug, Default)]
pub(super) enum Graphs {
    #[default]
    Used,
    /// A capture failed, for this reason, which nobody has been told yet.
    Refused(CudaError),
    Told,
}

/// Captured work. Its memory must stay reserved, and what it reads and writes must stay where it is.
pub(crate) struct Graph {
    cuda: Arc<Cuda>,
    exec: sys::CUgraphExec,
}

// SAFETY: the driver's handles may be used from any thread, one at a time; launching needs `&mut`.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// Queues the captured work.
    pub(crate) fn launch(&mut self) {
        if self.cuda.works() {
            // SAFETY: graph and stream live.
            let launched = unsafe { result::graph::launch(self.exec, self.cuda.stream) };
            self.cuda.note(launched.map_err(CudaError::driver("launching a CUDA graph")));
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.cuda.bind();
        // SAFETY: it was instantiated, and is not launched again. Nobody is left to receive an error.
        unsafe {
            let _ = result::stream::synchronize(self.cuda.stream);
            let _ = result::graph::exec_destroy(self.exec);
        }
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph on {}", self.cuda.name)
    }
}

impl Cuda {
    /// Runs `work` with memory from `reserve`, which also gets the memory that `work` frees.
    pub(crate) fn within<T>(&self, reserve: &mut Reserve, work: impl FnOnce() -> T) -> T {
        lock(&self.memory).enter(reserve);
        let done = work();
        lock(&self.memory).leave(reserve);
        done
    }

    /// Captures what `work` queues, without doing it. The same work must have been done once with the same reserve.
    ///
    /// # Errors
    /// If `work` takes memory that is not in the reserve, copies from or to the host, or waits; or the driver refuses.
    /// The device goes on working.
    pub(crate) fn capture<T>(
        self: &Arc<Self>,
        reserve: &mut Reserve,
        work: impl FnOnce() -> T,
    ) -> Result<(Graph, T), CudaError> {
        let failed = || CudaError::driver("capturing a CUDA graph");
        self.check()?;
        self.bind();
        // SAFETY: the stream lives.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            result::stream::begin_capture(self.stream, mode).map_err(failed())?;
        }
        self.is_capturing.store(true, Ordering::Release);
        let done = self.within(reserve, work);
        self.is_capturing.store(false, Ordering::Release);
        let refused = lock(&self.capture_error).take();
        // SAFETY: the capture was begun above; the graph is destroyed here and nowhere else.
        let exec = unsafe {
            let graph = result::stream::end_capture(self.stream);
            let exec = match (&graph, refused) {
                // What was refused here says more than what the driver says of it.
                (_, Some(error)) => Err(error),
                (Ok(graph), None) => {
                    result::graph::instantiate(*graph, sys::CUgraphInstantiate_flags(0)).map_err(failed())
                }
                (Err(error), None) => Err(failed()(*error)),
            };
            if let Ok(graph) = graph {
                let _ = result::graph::destroy(graph);
            }
            exec?
        };
        Ok((Graph { cuda: Arc::clone(self), exec }, done))
    }

    /// Has no capture failed so far?
    pub(crate) fn uses_graphs(&self) -> bool {
        matches!(*lock(&self.graphs), Graphs::Used)
    }

    /// From now on, work is launched kernel by kernel. If the driver has refused a capture, it may have been only because
    /// kernels overlap: then they do not any more, and work goes on being captured.
    pub(crate) fn refuse_graphs(&self, error: CudaError) {
        if matches!(error, CudaError::Driver { .. }) && self.overlaps.swap(false, Ordering::Relaxed) {
            return;
        }
        *lock(&self.graphs) = Graphs::Refused(error);
    }

    /// Why work is not captured, once.
    pub(crate) fn take_refusal(&self) -> Option<CudaError> {
        let mut graphs = lock(&self.graphs);
        if !matches!(*graphs, Graphs::Refused(_)) {
            return None;
        }
        match std::mem::replace(&mut *graphs, Graphs::Told) {
            Graphs::Refused(error) => Some(error),
            Graphs::Used | Graphs::Told => None,
        }
    }

    /// # Errors
    /// While work is captured: `action` can't be part of a graph.
    pub(super) fn refuse_in_capture(&self, action: &str) -> Result<(), CudaError> {
        if !self.is_capturing.load(Ordering::Acquire) {
            return Ok(());
        }
        let error = CudaError::Captured { action: action.to_owned() };
        self.note(Err(error.clone()));
        Err(error)
    }

    /// Gives the memory of a reserve to whoever needs it next.
    pub(crate) fn dissolve(&self, reserve: Reserve) {
        self.bind();
        for (class, pointer) in reserve.into_pointers() {
            self.keep_or_free(class, pointer);
        }
    }
}
