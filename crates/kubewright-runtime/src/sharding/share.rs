//! A watch of this replica's share of the objects, filtered by the server if it supports that
//! (KEP-5866), else here.
//!
//! Servers filter by the hash of the uid, so a shard is a range of those hashes. When shards
//! change, the watch ends as expired, and the next list is that of the new share.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};

use futures_core::Stream;
use kubewright_cache::{BoxFuture, EventStream, ItemStream, ListItem, ListWatch, ListerWatcher};
use kubewright_client::{Error, Result};
use kubewright_core::meta::v1::{ListMeta, Status};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Object, ResourceVersion};

use super::{Permission, ShardingInner, hash};

/// The owned shards with their terms.
pub(super) type Terms = Vec<Option<u64>>;

/// The last list of an informer.
#[derive(Default)]
pub(super) struct Cover {
    listed: RwLock<(Terms, ResourceVersion)>,
    /// 0 before the first list, 1 if the server filters, 2 if not.
    cut: AtomicU8,
}

impl Cover {
    /// Whether the server filters the share; `None` before the first list.
    #[inline]
    pub(super) fn is_cut_by_server(&self) -> Option<bool> {
        match self.cut.load(Ordering::Relaxed) {
            0 => None,
            cut => Some(cut == 1),
        }
    }

    /// The permission for the object of this uid, by a cache at this version.
    ///
    /// After a shard was owned by another replica, only objects listed since are reconciled.
    #[inline]
    pub(super) fn right(&self, inner: &ShardingInner, uid: &str, cache: &ResourceVersion) -> Permission {
        let owned = inner.owned();
        let shard = hash::shard_of_uid(uid, owned.len());
        let Some(owned) = &owned[shard] else { return Permission::Denied };
        let (terms, version) = &*self.listed();
        if terms.get(shard) != Some(&Some(owned.term)) || cache.partial_cmp(version).is_none_or(|order| order.is_lt()) {
            return Permission::NotYet;
        }
        owned.permit().map_or(Permission::Denied, Permission::Granted)
    }

    #[inline]
    fn listed(&self) -> std::sync::RwLockReadGuard<'_, (Terms, ResourceVersion)> {
        self.listed.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists and watches this replica's share.
pub(super) struct ShareListWatch<T> {
    pub(super) inner: Arc<ShardingInner>,
    pub(super) cover: Arc<Cover>,
    pub(super) source: ListWatch<T>,
    /// The shards of the first page of the last list.
    pub(super) listing: Mutex<Terms>,
}

/// The share at the time of the request.
#[derive(Clone)]
struct Share {
    terms: Terms,
    selector: String,
}

impl Share {
    #[inline]
    fn new(terms: Terms) -> Self {
        let selector = hash::selector(terms.iter().map(Option::is_some));
        Share { terms, selector }
    }

    #[inline]
    fn has(&self, uid: &str) -> bool {
        self.terms[hash::shard_of_uid(uid, self.terms.len())].is_some()
    }
}

impl<T: Object> ListerWatcher<T> for ShareListWatch<T> {
    fn list(&self, mut options: ListOptions) -> BoxFuture<'_, Result<ItemStream<T>>> {
        let share = Share::new(self.terms_of(&options));
        options.shard_selector = Some(share.selector.as_str().into());
        Box::pin(async move {
            let items = self.source.list(options).await?;
            Ok(Box::pin(ShardItems { items, share, cover: self.cover.clone() }) as ItemStream<T>)
        })
    }

    fn watch(&self, mut options: WatchOptions) -> BoxFuture<'_, Result<EventStream<T>>> {
        let share = Share::new(self.cover.listed().0.clone());
        options.shard_selector = Some(share.selector.as_str().into());
        Box::pin(async move {
            if self.inner.terms() != share.terms {
                return Err(Error::Status(moved()));
            }
            let events = self.source.watch(options).await?;
            let (inner, terms) = (self.inner.clone(), share.terms.clone());
            let moved = Box::pin(async move {
                let mut changes = inner.changes.subscribe();
                while inner.terms() == terms && changes.changed().await.is_ok() {}
            });
            Ok(Box::pin(ShardEvents { events: Some(events), share, moved }) as EventStream<T>)
        })
    }

    /// The metadata of a list tells whether the server has filtered it; a watch does not.
    fn supports_watch_list(&self) -> bool {
        false
    }

    fn has_moved(&self) -> bool {
        self.inner.terms() != self.cover.listed().0
    }

    fn is_gone(&self) -> BoxFuture<'_, bool> {
        self.source.is_gone()
    }
}

impl<T> ShareListWatch<T> {
    /// The shards to list. All pages use those of the first page, even if they have changed since:
    /// then the whole list is dropped when its watch begins.
    fn terms_of(&self, options: &ListOptions) -> Terms {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        if options.continue_token.is_none() {
            *listing = self.inner.terms();
        }
        listing.clone()
    }
}

/// The error that makes the reflector list again.
#[inline]
fn moved() -> Box<Status> {
    Box::new(Status::expired("the shards of this replica have changed"))
}

struct ShardItems<T> {
    items: ItemStream<T>,
    share: Share,
    cover: Arc<Cover>,
}

impl<T> ShardItems<T> {
    fn ended(&self, meta: &ListMeta) {
        let is_cut = meta.shard_info.as_ref().is_some_and(|info| info.selector == self.share.selector);
        self.cover.cut.store(if is_cut { 1 } else { 2 }, Ordering::Relaxed);
        if meta.continue_.as_ref().is_some_and(|token| !token.is_empty()) {
            // Nothing is covered before the last page.
            return;
        }
        let version = meta.resource_version.clone().unwrap_or_default().into();
        *self.cover.listed.write().unwrap_or_else(PoisonError::into_inner) = (self.share.terms.clone(), version);
    }
}

impl<T: Object> Stream for ShardItems<T> {
    type Item = Result<ListItem<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let item = std::task::ready!(self.items.as_mut().poll_next(context));
            match &item {
                Some(Ok(ListItem::Item(object))) if !self.share.has(object.uid()) => continue,
                Some(Err(Error::Undecodable(object))) if !self.share.has(&object.identity.uid) => continue,
                Some(Ok(ListItem::End(meta))) => self.ended(meta),
                _ => {}
            }
            return Poll::Ready(item);
        }
    }
}

struct ShardEvents<T> {
    /// `None` once the share has changed.
    events: Option<EventStream<T>>,
    share: Share,
    moved: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<T: Object> Stream for ShardEvents<T> {
    type Item = Result<WatchEvent<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(events) = &mut this.events else { return Poll::Ready(None) };
        if this.moved.as_mut().poll(context).is_ready() {
            this.events = None;
            return Poll::Ready(Some(Ok(WatchEvent::Error(moved()))));
        }
        loop {
            let event = std::task::ready!(events.as_mut().poll_next(context));
            match &event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)))
                    if !this.share.has(object.uid()) => {}
                Some(Err(Error::Undecodable(object))) if !this.share.has(&object.identity.uid) => {}
                _ => return Poll::Ready(event),
            }
        }
    }
}
