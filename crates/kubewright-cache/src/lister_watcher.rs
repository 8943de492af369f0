//! Where a reflector learns of objects: the seam between caches and clients.

use std::pin::Pin;

use futures_core::Stream;
use kubewright_client::Result;
use kubewright_core::meta::v1::ListMeta;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;

use crate::queue::BoxFuture;

/// Something that can list and watch objects of one kind.
///
/// Clients are one, and tests stand in here. The error
/// [`Error::Undecodable`](kubewright_client::Error::Undecodable) in a stream is about one object
/// that exists, or was deleted, and cannot be decoded: the stream continues behind it. All other
/// errors end it.
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

    /// Whether there is proof that the resource itself does not exist any more, and its objects
    /// with it. Asked after a list or watch was answered with 404. False by default: a 404 alone
    /// may come from a broken proxy.
    fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
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
