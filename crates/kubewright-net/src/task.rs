//! Boxed futures and tasks.
//!
//! Tokio's tasks, timeouts and `select!` are generic over the future, so the compiler instantiates
//! them, with a copy of the future and its drop glue, for each use, and tasks for each scheduler.
//! With boxed futures all of that exists once. The allocation is negligible for connections and
//! processes.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts a task.
pub fn spawn(work: BoxFuture<'static, ()>) -> JoinHandle<()> {
    tokio::spawn(work)
}

/// The result of `work`, run on a thread that may block. A panic is propagated.
///
/// `work` completes even if the future is dropped.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and drops this task next.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Tracks running tasks, or other activities, so that their end can be awaited. A handle: clones
/// share the counter.
///
/// tokio-util's equivalent would make every program compile futures-util and its macros.
#[derive(Debug, Clone, Default)]
pub struct Tasks(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    running: AtomicUsize,
    none_is_left: Notify,
}

/// An activity that lasts until this is dropped.
#[derive(Debug)]
pub struct TaskGuard(Tasks);

impl Tasks {
    /// Starts a task. It counts until its future is dropped.
    pub fn spawn(&self, work: BoxFuture<'static, ()>) {
        let running = self.begin();
        spawn(Box::pin(async move {
            let _running = running;
            work.await;
        }));
    }

    /// Starts an activity.
    pub fn begin(&self) -> TaskGuard {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        TaskGuard(self.clone())
    }

    /// Waits until no activity is left. Cancel safe.
    pub async fn ended(&self) {
        loop {
            let mut none_is_left = pin!(self.0.none_is_left.notified());
            // Registered before the check, so that an end in between is not missed.
            none_is_left.as_mut().enable();
            if self.0.running.load(Ordering::Acquire) == 0 {
                return;
            }
            none_is_left.await;
        }
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        let counter = &self.0.0;
        if counter.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            counter.none_is_left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_tasks_are_waited_for_and_none_need_not_be() {
        let (tasks, started) = (Tasks::default(), Instant::now());
        tasks.ended().await;
        tasks.spawn(Box::pin(sleep(Duration::from_secs(1))));
        let other = tasks.begin();
        tasks.spawn(Box::pin(async move {
            sleep(Duration::from_secs(3)).await;
            drop(other);
        }));
        tasks.ended().await;
        assert_eq!(started.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panicked_task_has_ended_and_a_waiting_one_has_not() {
        let tasks = Tasks::default();
        tasks.spawn(Box::pin(async { panic!("as it should") }));
        tasks.ended().await;
        tasks.spawn(Box::pin(pending()));
        assert!(timeout(Duration::from_secs(60), tasks.ended()).await.is_err());
    }
}
