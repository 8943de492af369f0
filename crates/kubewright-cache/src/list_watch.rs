//! A lister-watcher over a client.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use kubewright_client::{Api, Client, ListStream, MetadataApi, Result, WatchStream};
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::{Decoder, FieldSelector, GroupVersionResource, Object, Selector, Str, StringPool};

use crate::definition::is_gone;
use crate::lister_watcher::{EventStream, ItemStream, ListItem, ListerWatcher};
use crate::queue::BoxFuture;

/// Default time for a server to begin its response: longer than a server with default settings
/// works on a request.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// Lists and watches the objects of one resource that match the selectors.
///
/// Objects are decoded for long-term storage: long repeated strings are interned, and managed
/// fields are dropped unless
/// [`keep_managed_fields`](Self::keep_managed_fields) is set.
///
/// ```
/// # use kubewright_cache::{InformerOptions, ListWatch, SharedIndexInformer};
/// # use kubewright_client::{Api, Client};
/// # use kubewright_core::Kind;
/// # fn example<Pod: Kind>(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = ListWatch::new(Api::<Pod>::all(client)).labels("app=web".parse()?);
/// let informer = SharedIndexInformer::new(pods, InformerOptions::default());
/// # Ok(()) }
/// ```
#[doc(alias = "NewListWatchFromClient")]
pub struct ListWatch<T> {
    source: Box<dyn ListWatchClient<T>>,
    selection: ListSelection,
}

/// Selectors and decoding options, independent of the object type.
#[derive(Default)]
struct ListSelection {
    label_selector: Selector,
    field_selector: FieldSelector,
    shard_selector: Option<Str>,
    keeps_managed_fields: bool,
}

impl ListSelection {
    fn narrow_list(&self, options: &mut ListOptions) {
        options.label_selector = self.label_selector.clone();
        options.field_selector = self.field_selector.clone();
        options.shard_selector = self.shard_selector.clone().or(options.shard_selector.take());
    }

    fn narrow_watch(&self, options: &mut WatchOptions) {
        options.label_selector = self.label_selector.clone();
        options.field_selector = self.field_selector.clone();
        options.shard_selector = self.shard_selector.clone().or(options.shard_selector.take());
    }

    fn decoder(&self) -> Decoder {
        let decoder = Decoder::new().pool(StringPool::default());
        if self.keeps_managed_fields { decoder } else { decoder.skip_managed_fields() }
    }
}

/// A client that can open list and watch streams.
trait ListWatchClient<T>: Send + Sync {
    fn list<'a>(&'a self, options: ListOptions, how: &'a ListSelection) -> BoxFuture<'a, Result<ItemStream<T>>>;
    fn watch<'a>(&'a self, options: WatchOptions, how: &'a ListSelection) -> BoxFuture<'a, Result<EventStream<T>>>;
    fn answer_timeout(self: Box<Self>, timeout: Duration) -> Box<dyn ListWatchClient<T>>;
    fn default_answer_timeout(self: Box<Self>, timeout: Duration) -> Box<dyn ListWatchClient<T>>;
    fn client(&self) -> &Client;
    fn resource(&self) -> &GroupVersionResource;
}

impl<T: Object> ListWatchClient<T> for Api<T> {
    fn list<'a>(&'a self, options: ListOptions, how: &'a ListSelection) -> BoxFuture<'a, Result<ItemStream<T>>> {
        Box::pin(async move { Ok(items(self.list_stream(&options).await?, how)) })
    }

    fn watch<'a>(&'a self, options: WatchOptions, how: &'a ListSelection) -> BoxFuture<'a, Result<EventStream<T>>> {
        Box::pin(async move { Ok(events(Api::watch(self, &options).await?, how)) })
    }

    fn answer_timeout(self: Box<Self>, timeout: Duration) -> Box<dyn ListWatchClient<T>> {
        Box::new(Api::answer_timeout(*self, timeout))
    }

    fn default_answer_timeout(self: Box<Self>, timeout: Duration) -> Box<dyn ListWatchClient<T>> {
        Box::new(Api::default_answer_timeout(*self, timeout))
    }

    fn client(&self) -> &Client {
        Api::client(self)
    }

    fn resource(&self) -> &GroupVersionResource {
        Api::resource(self)
    }
}

impl ListWatchClient<PartialObjectMetadata> for MetadataApi {
    fn list<'a>(
        &'a self,
        options: ListOptions,
        how: &'a ListSelection,
    ) -> BoxFuture<'a, Result<ItemStream<PartialObjectMetadata>>> {
        Box::pin(async move { Ok(items(self.list_stream(&options).await?, how)) })
    }

    fn watch<'a>(
        &'a self,
        options: WatchOptions,
        how: &'a ListSelection,
    ) -> BoxFuture<'a, Result<EventStream<PartialObjectMetadata>>> {
        Box::pin(async move { Ok(events(MetadataApi::watch(self, &options).await?, how)) })
    }

    fn answer_timeout(self: Box<Self>, timeout: Duration) -> Box<dyn ListWatchClient<PartialObjectMetadata>> {
        Box::new(MetadataApi::answer_timeout(*self, timeout))
    }

    fn default_answer_timeout(self: Box<Self>, timeout: Duration) -> Box<dyn ListWatchClient<PartialObjectMetadata>> {
        Box::new(MetadataApi::default_answer_timeout(*self, timeout))
    }

    fn client(&self) -> &Client {
        MetadataApi::client(self)
    }

    fn resource(&self) -> &GroupVersionResource {
        MetadataApi::resource(self)
    }
}

impl<T: Object> ListWatch<T> {
    /// All objects of `api`.
    pub fn new(api: Api<T>) -> Self {
        Self::over(Box::new(api))
    }

    fn over(source: Box<dyn ListWatchClient<T>>) -> Self {
        ListWatch { source: source.default_answer_timeout(RESPONSE_TIMEOUT), selection: ListSelection::default() }
    }

    /// Restricts the stream to objects that match the label selector.
    #[doc(alias = "NewFilteredListWatchFromClient")]
    #[must_use]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.selection.label_selector = selector;
        self
    }

    /// Restricts the stream to objects that match the field selector.
    #[must_use]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.selection.field_selector = selector;
        self
    }

    /// Restricts the stream to a shard, in the server's selector syntax, if it supports sharding.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<Str>) -> Self {
        self.selection.shard_selector = Some(selector.into());
        self
    }

    /// How long the server may take to begin its response before the request is repeated. By
    /// default the timeout of the
    /// [client](kubewright_client::Client::answer_timeout) , or two minutes. client-go has no such
    /// limit, so a server that accepts requests and answers pings but sends no response blocks its
    /// cache forever. Waits for a rate limiter or a Retry-After do not count.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.source = self.source.answer_timeout(timeout);
        self
    }

    /// Keeps `metadata.managedFields`, which take about a quarter of an object and are rarely read.
    #[doc(alias = "TransformStripManagedFields")]
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.selection.keeps_managed_fields = true;
        self
    }
}

impl ListWatch<PartialObjectMetadata> {
    /// Lists and watches only the metadata of the objects of `api`.
    pub fn of_metadata(api: MetadataApi) -> Self {
        Self::over(Box::new(api))
    }
}

impl<T: Object> ListerWatcher<T> for ListWatch<T> {
    fn list(&self, mut options: ListOptions) -> BoxFuture<'_, Result<ItemStream<T>>> {
        self.selection.narrow_list(&mut options);
        self.source.list(options, &self.selection)
    }

    fn watch(&self, mut options: WatchOptions) -> BoxFuture<'_, Result<EventStream<T>>> {
        self.selection.narrow_watch(&mut options);
        self.source.watch(options, &self.selection)
    }

    /// The proof is that both the CustomResourceDefinition and the entry in discovery are missing.
    fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(is_gone(self.source.client(), self.source.resource()))
    }
}

impl<T> fmt::Debug for ListWatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListWatch")
            .field("labels", &self.selection.label_selector)
            .field("fields", &self.selection.field_selector)
            .finish_non_exhaustive()
    }
}

fn items<T: Object>(list: ListStream<T>, how: &ListSelection) -> ItemStream<T> {
    Box::pin(ListItems(Some(list.decode_with(how.decoder()))))
}

fn events<T: Object>(watch: WatchStream<T>, how: &ListSelection) -> EventStream<T> {
    Box::pin(watch.decode_with(how.decoder()))
}

/// The items of a list, and its metadata once the list is complete.
struct ListItems<T>(Option<ListStream<T>>);

impl<T: Object> Stream for ListItems<T> {
    type Item = Result<ListItem<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(list) = &mut self.0 else { return Poll::Ready(None) };
        Pin::new(list).poll_next(context).map(|item| match item {
            Some(Ok(object)) => Some(Ok(ListItem::Item(object))),
            Some(Err(error)) => Some(Err(error)),
            None => self.0.take().map(|list| Ok(ListItem::End(list.into_metadata()))),
        })
    }
}
