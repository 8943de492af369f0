//! What runs until it is told to stop, for futures of whatever kind.
//!
//! Generic over the future, the wait would be compiled for each kind of objects, with copies of all that is in it.

use std::future::Future;
use std::pin::Pin;

pub(crate) use kubewright_client::task::Tasks;
use tokio_util::sync::CancellationToken;

/// Does `work` until `stop` is cancelled.
pub(crate) async fn run_until(stop: &CancellationToken, work: Pin<&mut (dyn Future<Output = ()> + Send)>) {
    stop.run_until_cancelled(work).await;
}
