//! Type-erased interfaces between a reflector's control flow and its objects.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use kubewright_client::transport::{TransportError, TransportErrorKind};
use kubewright_client::{Error, Result};
use kubewright_core::meta::v1::{ListMeta, Status};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::Bookmark;
use kubewright_core::{ObjectKey, ResourceVersion};
use tokio::time::timeout;

use super::{ReflectorError, UndecodableObjects};
use crate::queue::BoxFuture;

/// The source of objects of some type, and the store that receives them.
pub(super) trait Pipeline: Send + Sync {
    fn supports_watch_list(&self) -> bool;

    fn has_moved(&self) -> bool;

    /// Whether there is proof that the resource no longer exists.
    fn is_gone(&self) -> BoxFuture<'_, bool>;

    /// A new intake without a stream.
    fn intake(&self, purpose: Purpose) -> Box<dyn Intake + '_>;

    /// Empties the store.
    fn empty(&self);

    /// The objects that cannot be decoded.
    fn undecodable(&self) -> UndecodableObjects;

    fn resync(&self);

    fn bookmark(&self, version: ResourceVersion);

    /// The store's backpressure signal.
    fn pressure(&self) -> Pressure;

    /// Resolves when the store accepts changes again.
    fn room(&self) -> BoxFuture<'_, ()>;
}

/// How an intake treats objects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// Collects them until the list is complete.
    Gather,
    /// Passes them to the store one by one.
    HandOn,
    /// Records their versions.
    Compare,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Pressure {
    None,
    /// The consumer should run.
    Due,
    Full,
}

/// Key and version of each object.
pub(super) type ObjectVersions = Vec<(ObjectKey, String)>;

/// Reads objects from a list (of one or more pages) or from a watch, and processes them.
pub(super) trait Intake: Send {
    /// Reads from a list from now on; [`poll_open`](Self::poll_open) tells when it has started.
    fn list(&mut self, options: ListOptions);

    /// Reads from a watch from now on.
    fn watch(&mut self, options: WatchOptions);

    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<Result<()>>;

    /// Processes the next object or other stream element.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<StreamItem>;

    /// Passes the collected list to the store. From now on objects are passed on one by one.
    /// Returns the errors to report.
    fn replace(&mut self, version: ResourceVersion) -> Vec<ReflectorError>;

    /// The versions of the collected or recorded objects.
    fn versions(&mut self) -> ObjectVersions;
}

/// A processed stream element.
pub(super) enum StreamItem {
    /// An object was processed.
    Object(Processed),
    Bookmark(Box<Bookmark>),
    /// The end of a list.
    Listed(ListMeta),
    /// An ERROR event, which ends the watch.
    Status(Box<Status>),
    Failed(Error),
    /// The stream ended.
    Closed,
}

/// The result of processing an object.
#[derive(Default)]
pub(super) struct Processed {
    /// Its version, decodable or not. `None` if the event was skipped, for example because of its
    /// kind.
    pub(super) version: Option<ResourceVersion>,
    /// The error to report.
    pub(super) error: Option<Box<ReflectorError>>,
    /// Whether the event was of type `ADDED`.
    pub(super) is_added: bool,
}

impl dyn Intake + '_ {
    /// Waits until the list or the watch has started.
    pub(super) async fn opened(&mut self) -> Result<()> {
        poll_fn(|context| self.poll_open(context)).await
    }

    pub(super) async fn next(&mut self) -> StreamItem {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next element, or an error if none arrives within `response_timeout`: a stalled
    /// server may never continue.
    pub(super) async fn next_within(&mut self, response_timeout: Duration) -> StreamItem {
        // Avoids reading the clock for buffered elements, which most of a list are.
        let now = poll_fn(|context| Poll::Ready(self.poll_next(context))).await;
        match now {
            Poll::Ready(heard) => heard,
            Poll::Pending => timeout(response_timeout, self.next()).await.unwrap_or_else(|elapsed| {
                StreamItem::Failed(TransportError::new(TransportErrorKind::Timeout, elapsed).into())
            }),
        }
    }
}
