//! Runs CPU-heavy work outside of the runtime's worker threads.

use std::sync::Arc;

use kubewright_core::meta::v1::Status;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::rejection::Rejection;

/// Runs CPU-heavy work on tokio's blocking threads, with a limited number of jobs.
///
/// The worker threads stay free for health checks, watches and small requests. A paused clock does
/// not advance while a job runs, so jobs must not wait for timers.
#[derive(Debug, Clone)]
pub(crate) struct Offload {
    permits: Arc<Semaphore>,
}

impl Offload {
    /// Runs at most `jobs` jobs at a time. Further jobs are queued.
    pub(crate) fn new(jobs: usize) -> Self {
        Offload { permits: Arc::new(Semaphore::new(jobs)) }
    }

    /// Limits the jobs to half of the CPUs.
    pub(crate) fn on_half_of_the_processors() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Offload::new((processors / 2).max(1))
    }

    /// Runs `work` and returns its result. Dropping this future does not cancel the work.
    ///
    /// # Errors
    ///
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
        job.await.map_err(|_| Status::internal("the server failed to handle this request").into())
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
