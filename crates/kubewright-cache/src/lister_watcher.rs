//! Where a reflector learns of objects: the seam between caches and clients.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use kubewright_client::Result;
use kubewright_client::transport::{TransportError, TransportErrorKind};
use kubewright_core::meta::v1::ListMeta;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use tokio::time::timeout;

use crate::queue::BoxFuture;

/// Something that can list and watch objects of one kind.
///
/// Clients are one, and tests stand in here. An error [`Error::Decode`](kubewright_client::Error::Decode) in a stream tells
/// of one object that cannot be read, and the stream goes on; all others end it.
pub trait ListerWatcher<T>: Send + Sync + 'static {
    /// Begins a list, or one page of it.
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ItemStream<T>>>;

    /// Begins a watch.
    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<EventStream<T>>>;

    /// Whether a watch can begin with all objects and a bookmark that ends them. True by default.
    #[doc(alias = "IsWatchListSemanticsUnSupported")]
    fn supports_watch_list(&self) -> bool {
        true
    }

    /// Whether what is to be listed has become another since the last list, as that of a share of the objects does.
    ///
    /// A watch that expires for this reason counts as no failure, and the next list comes after the shortest delay.
    fn has_moved(&self) -> bool {
        false
    }
}

/// The objects of a list, and then its metadata.
pub type ItemStream<T> = Pin<Box<dyn Stream<Item = Result<Listed<T>>> + Send>>;

/// The events of a watch.
pub type EventStream<T> = Pin<Box<dyn Stream<Item = Result<WatchEvent<T>>> + Send>>;

/// What a list consists of.
#[derive(Debug)]
pub enum Listed<T> {
    /// An object.
    Item(T),
    /// What the list says of itself, after the last object.
    End(ListMeta),
}

/// The next item of a stream, unless nothing comes for as long as `patience`: a server that stops in the middle may never go on.
pub(crate) async fn next_within<I>(
    patience: Duration,
    stream: &mut Pin<Box<dyn Stream<Item = Result<I>> + Send>>,
) -> Option<Result<I>> {
    // No clock is read for what is there already, as most of a list is.
    let now = poll_fn(|context: &mut Context<'_>| Poll::Ready(stream.as_mut().poll_next(context))).await;
    match now {
        Poll::Ready(item) => item,
        Poll::Pending => timeout(patience, next(stream))
            .await
            .unwrap_or_else(|elapsed| Some(Err(TransportError::new(TransportErrorKind::Timeout, elapsed).into()))),
    }
}

/// The next item of a stream.
pub(crate) async fn next<I>(stream: &mut Pin<Box<dyn Stream<Item = I> + Send>>) -> Option<I> {
    poll_fn(|context: &mut Context<'_>| -> Poll<Option<I>> { stream.as_mut().poll_next(context) }).await
}
