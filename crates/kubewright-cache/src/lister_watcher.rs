//! The source of a reflector: the interface between caches and clients.

use std::pin::Pin;

use futures_core::Stream;
use kubewright_client::Result;
use kubewright_core::meta::v1::ListMeta;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;

use crate::queue::BoxFuture;

/// Lists and watches objects of one kind.
///
/// Implemented by [`ListWatch`](crate::ListWatch) over a client, and by fakes in tests. The error
/// [`Error::Undecodable`](kubewright_client::Error::Undecodable) in a stream concerns one object,
/// existing or deleted, that cannot be decoded; the stream continues after it. All other errors end
/// the stream.
pub trait ListerWatcher<T>: Send + Sync + 'static {
    /// Starts a list, or one page of it.
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ItemStream<T>>>;

    /// Starts a watch.
    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<EventStream<T>>>;

    /// Whether the server supports streaming lists: a watch that starts with all objects, ended by
    /// a bookmark. True by default.
    #[doc(alias = "IsWatchListSemanticsUnSupported")]
    fn supports_watch_list(&self) -> bool {
        true
    }

    /// Whether the set of objects to list has changed since the last list, as happens with a shard.
    ///
    /// A watch that expires for this reason does not count as a failure, and the next list follows
    /// after the shortest delay.
    fn has_moved(&self) -> bool {
        false
    }

    /// Whether there is proof that the resource itself, and so its objects, no longer exist. Called
    /// after a list or watch was answered with 404. False by default: a 404 alone may come from a
    /// broken proxy.
    fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// The objects of a list, then its metadata.
pub type ItemStream<T> = Pin<Box<dyn Stream<Item = Result<ListItem<T>>> + Send>>;

/// The events of a watch.
pub type EventStream<T> = Pin<Box<dyn Stream<Item = Result<WatchEvent<T>>> + Send>>;

/// An element of a list.
#[derive(Debug)]
pub enum ListItem<T> {
    /// An object.
    Item(T),
    /// The metadata of the list, after the last object.
    End(ListMeta),
}
