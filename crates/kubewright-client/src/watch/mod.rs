//! Watches that survive lost connections, and waiting for conditions.
//!
//! [`RetryWatcher`] reopens a watch where it ended and misses nothing; it ends only when its
//! version has expired, or when the user may not watch. [`await_condition`] waits until one object
//! meets a condition, one of [`conditions`] or a closure; [`until`] waits for events that meet
//! conditions. To wait on a cache, which recovers from expired versions but may miss intermediate
//! states, use `until_with_sync` of the cache crate: it is [`until_on`] over other [`Events`].

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

/// A source of events.
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
