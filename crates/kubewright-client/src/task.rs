//! Futures behind a pointer, and tasks that are made of them.
//!
//! A task of tokio, a timeout and a `select!` are generic over the future inside. The compiler puts them into a codegen unit of
//! their own, with another copy of the future and of what drops it, and tasks are compiled for each scheduler besides. Behind a pointer,
//! all of that exists once. Where a connection or a program is started, the allocation does not show.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A future of whatever kind.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts a task.
pub fn spawn(work: BoxFuture<'static, ()>) -> JoinHandle<()> {
    tokio::spawn(work)
}

/// The result of `work`, which may read files or wait otherwise, on a thread that is allowed to
/// block. A panic is passed on.
///
/// `work` is carried through even if the future is dropped.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and drops this task next.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Tasks, or other things that go on, whose end somebody waits for. A handle: clones count together.
///
/// What tokio-util has for this brings all of futures-util and its macros, which every program would compile.
#[derive(Debug, Clone, Default)]
pub struct Tasks(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    running: AtomicUsize,
    none_is_left: Notify,
}

/// Something that goes on until this is dropped.
#[derive(Debug)]
pub struct Running(Tasks);

impl Tasks {
    /// Starts a task. It counts until its future is dropped.
    pub fn spawn(&self, work: BoxFuture<'static, ()>) {
        let running = self.begin();
        spawn(Box::pin(async move {
            let _running = running;
            work.await;
        }));
    }

    /// Counts something else.
    pub fn begin(&self) -> Running {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        Running(self.clone())
    }

    /// Waits until nothing is left that goes on. Cancel safe.
    pub async fn ended(&self) {
        loop {
            let mut none_is_left = pin!(self.0.none_is_left.notified());
            // Asked for before the look, so that an end in between is not missed.
            none_is_left.as_mut().enable();
            if self.0.running.load(Ordering::Acquire) == 0 {
                return;
            }
            none_is_left.await;
        }
    }
}

impl Drop for Running {
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
    async fn a_task_that_panics_has_ended_and_one_that_waits_has_not() {
        let tasks = Tasks::default();
        tasks.spawn(Box::pin(async { panic!("as it should") }));
        tasks.ended().await;
        tasks.spawn(Box::pin(pending()));
        assert!(timeout(Duration::from_secs(60), tasks.ended()).await.is_err());
    }
}
