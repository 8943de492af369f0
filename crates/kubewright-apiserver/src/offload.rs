//! Runs CPU-heavy work outside of the runtime's worker threads.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use kubewright_core::meta::v1::Status;
use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_blocking;

use kubewright_objects::rejection::Rejection;

thread_local! {
    /// Whether this thread is running an offloaded job.
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread may block: it runs an offloaded job.
#[cfg(feature = "etcd")]
pub(crate) fn may_block() -> bool {
    MAY_BLOCK.get()
}

/// Runs CPU-heavy work on tokio's blocking threads, with a limited number of jobs.
///
/// The worker threads stay free for health checks, watches and small requests.
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
            MAY_BLOCK.set(true);
            let result = work();
            MAY_BLOCK.set(false);
            result
        });
        job.await.map_err(|_| Status::internal("the server failed to handle this request").into())
    }

    /// Polls `future` on blocking threads until it is ready.
    ///
    /// While it waits, for example for a webhook, it occupies neither a thread nor a permit.
    /// Dropping this future drops `future`, at the latest when it waits again.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub(crate) async fn drive<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Rejection> {
        let mut future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
        let woken = Arc::new(PollWaker::default());
        loop {
            let waker = Waker::from(Arc::clone(&woken));
            let poll = move || {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                (polled, future)
            };
            match self.run(poll).await? {
                (Poll::Ready(output), _) => return Ok(output),
                (Poll::Pending, pending) => future = pending,
            }
            woken.0.notified().await;
        }
    }
}

/// Wakes [`Offload::drive`]. It remembers a wake-up that arrives during a poll.
#[derive(Default)]
struct PollWaker(Notify);

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
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

    #[tokio::test(start_paused = true)]
    async fn a_future_that_waits_occupies_no_thread() {
        let (offload, here) = (Offload::new(1), std::thread::current().id());
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = offload.drive(async move {
            assert_ne!(std::thread::current().id(), here);
            // The paused clock advances only if no blocking thread is busy.
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            receiver.await
        });
        let other = async {
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            let number = offload.run(|| 7).await.expect("the only permit is free");
            sender.send(number).expect("the receiver waits");
        };
        let (received, ()) = tokio::join!(waiting, other);
        assert_eq!(received.expect("no panic"), Ok(7));
        assert!(offload.drive(async { panic!("on purpose") }).await.is_err());
    }
}
