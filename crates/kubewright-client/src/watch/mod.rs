//! Watches that outlive their connections, and waiting for something to become true.
//!
//! [`RetryWatcher`] opens a watch again where it ended and misses nothing; it ends only when the server no longer
//! remembers the version, or does not let us watch. [`await_condition`] waits until one object is as it should be, as [`conditions`] has it or a closure, [`until`] for events that meet conditions. Waiting on a cache, which recovers from
//! forgotten versions but may miss what lay between, is for the crate of caches: its `until_with_sync` is [`until_on`] over
//! other [`Events`].

mod await_condition;
pub mod conditions;
mod retry_watcher;
mod until;

use kubewright_core::Object;
use kubewright_core::stream::WatchEvent;

use crate::api::WatchStream;
use crate::error::Result;

pub use await_condition::await_condition;
pub use retry_watcher::RetryWatcher;
pub use until::{Condition, UntilError, until, until_on};

/// Somewhere that events come from, one after the other.
#[doc(alias = "watch.Interface")]
pub trait Events<T> {
    /// The next event, or `None` after the last. Cancel safe.
    fn next_event(&mut self) -> impl Future<Output = Option<Result<WatchEvent<T>>>> + Send;
}

impl<T: Object> Events<T> for WatchStream<T> {
    fn next_event(&mut self) -> impl Future<Output = Option<Result<WatchEvent<T>>>> + Send {
        self.next()
    }
}

impl<T: Object> Events<T> for RetryWatcher<T> {
    async fn next_event(&mut self) -> Option<Result<WatchEvent<T>>> {
        self.next().await.map(Ok)
    }
}
