//! What the control flow of a reflector knows of the objects that pass through it.

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

/// Where objects of some type come from, and the store that they go to.
pub(super) trait Subject: Send + Sync {
    fn supports_watch_list(&self) -> bool;

    fn has_moved(&self) -> bool;

    /// Whether there is proof that the resource does not exist any more.
    fn is_gone(&self) -> BoxFuture<'_, bool>;

    /// A way in, on which nothing is yet.
    fn intake(&self, purpose: Purpose) -> Box<dyn Intake + '_>;

    /// Tells the store that there are no objects.
    fn empty(&self);

    /// The objects that cannot be decoded.
    fn undecodable(&self) -> UndecodableObjects;

    fn resync(&self);

    fn bookmark(&self, version: ResourceVersion);

    /// What the store would have its reflector do before more comes.
    fn pressure(&self) -> Pressure;

    /// Resolves when the store has room again.
    fn room(&self) -> BoxFuture<'_, ()>;
}

/// What becomes of objects that come.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// They are kept until there are all of them.
    Gather,
    /// They are handed on to the store, one by one.
    HandOn,
    /// Their versions are noted.
    Compare,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Pressure {
    None,
    /// Whoever processes changes should have its turn.
    Due,
    Full,
}

/// The version of each object.
pub(super) type Versions = Vec<(ObjectKey, String)>;

/// The way of objects from a list, in one or more pages, or from a watch, to what becomes of them.
pub(super) trait Intake: Send {
    /// Takes objects from a list from now on, which is open when [`poll_open`](Self::poll_open) says so.
    fn list(&mut self, options: ListOptions);

    /// The same with a watch.
    fn watch(&mut self, options: WatchOptions);

    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<Result<()>>;

    /// Takes the next object in, or whatever else comes.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Heard>;

    /// Gives the store what has been gathered. From now on objects are handed on. Returns what is
    /// to be reported.
    fn replace(&mut self, version: ResourceVersion) -> Vec<ReflectorError>;

    /// The versions of what has been gathered, or noted.
    fn versions(&mut self) -> Versions;
}

/// What has come, after all that could be done with it where its type is known.
pub(super) enum Heard {
    /// An object, and what became of it.
    Object(Taken),
    Bookmark(Box<Bookmark>),
    /// The end of a list.
    Listed(ListMeta),
    /// The server ends a watch, and tells why.
    Status(Box<Status>),
    Failed(Error),
    /// Nothing more comes.
    Closed,
}

/// What became of an object.
#[derive(Default)]
pub(super) struct Taken {
    /// Its version, decoded or not. Absent if the event was skipped, as one about an object of
    /// another kind is.
    pub(super) version: Option<ResourceVersion>,
    /// An error to be reported.
    pub(super) error: Option<Box<ReflectorError>>,
    /// The event was of type `ADDED`.
    pub(super) is_added: bool,
}

impl dyn Intake + '_ {
    /// Waits until the list or the watch has begun.
    pub(super) async fn opened(&mut self) -> Result<()> {
        poll_fn(|context| self.poll_open(context)).await
    }

    pub(super) async fn next(&mut self) -> Heard {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// What comes next, unless nothing does for as long as `patience`: a server that stops in the middle may never go on.
    pub(super) async fn next_within(&mut self, patience: Duration) -> Heard {
        // No clock is read for what is there already, as most of a list is.
        let now = poll_fn(|context| Poll::Ready(self.poll_next(context))).await;
        match now {
            Poll::Ready(heard) => heard,
            Poll::Pending => timeout(patience, self.next()).await.unwrap_or_else(|elapsed| {
                Heard::Failed(TransportError::new(TransportErrorKind::Timeout, elapsed).into())
            }),
        }
    }
}
