//! Tasks and their ends, for futures of whatever kind.
//!
//! Generic over the future, either would be compiled for each kind of objects, with copies of all that is in it.

use std::future::Future;
use std::pin::Pin;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::queue::BoxFuture;

/// Starts a task that `tasks` waits for.
pub(crate) fn spawn(tasks: &TaskTracker, work: BoxFuture<'static, ()>) {
    tasks.spawn(work);
}

/// Does `work` until `stop` is cancelled.
pub(crate) async fn run_until(stop: &CancellationToken, work: Pin<&mut (dyn Future<Output = ()> + Send)>) {
    stop.run_until_cancelled(work).await;
}
