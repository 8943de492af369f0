//! CPU-heavy work on threads that poll no connections.

use std::sync::Arc;

use kubewright_core::meta::v1::Status;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::rejection::Rejection;

/// Runs heavy work on tokio's blocking threads, a few jobs at a time.
///
/// The threads of the executor stay free for health checks, watches and small requests. A paused
/// clock does not advance while a job runs, so jobs must not wait for timers.
#[derive(Debug)]
pub(crate) struct Offload {
    permits: Arc<Semaphore>,
}

impl Offload {
    /// At most `jobs` at a time. Others wait for their turn.
    pub(crate) fn new(jobs: usize) -> Self {
        Offload { permits: Arc::new(Semaphore::new(jobs)) }
    }

    /// As many jobs as half of the processors can do.
    pub(crate) fn on_half_of_the_processors() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Offload::new((processors / 2).max(1))
    }

    /// The result of `work`. A caller that stops waiting does not stop the work.
    ///
    /// # Errors
    /// 500 if the work panics or the runtime is shutting down.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let job = spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        job.await.map_err(|_| Status::internal("the server failed at this request").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_runs_on_another_thread_and_a_panic_is_an_error() {
        let (offload, here) = (Offload::new(1), std::thread::current().id());
        let there = offload.run(|| std::thread::current().id()).await.expect("no panic");
        assert_ne!(here, there);
        assert!(offload.run(|| panic!("on purpose")).await.is_err());
        assert_eq!(offload.run(|| 1).await.expect("the permit is free again"), 1);
    }
}
