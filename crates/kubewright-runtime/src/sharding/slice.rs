//! A watch of this replica's share of the objects: the server cuts it where it can (KEP-5866), and we do otherwise.
//!
//! Servers cut by the hash of the uid, so a shard is a range of those hashes here. When shards come or go, the watch ends as one
//! that is too old, and what is listed next is the new share.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};

use futures_core::Stream;
use kubewright_cache::{BoxFuture, EventStream, ItemStream, ListWatch, Listed, ListerWatcher};
use kubewright_client::{Error, Result};
use kubewright_core::meta::v1::{ListMeta, Status};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Object, ResourceVersion};

use super::{Inner, Right, hash};

/// Which shards are this replica's, and since which term.
pub(super) type Terms = Vec<Option<u64>>;

/// What one informer has listed last.
#[derive(Default)]
pub(super) struct Cover {
    listed: RwLock<(Terms, ResourceVersion)>,
    /// 0 before the first list, 1 if the server cuts, 2 if not.
    cut: AtomicU8,
}

impl Cover {
    /// Whether the server cuts the share; `None` before it was first asked.
    #[inline]
    pub(super) fn is_cut_by_server(&self) -> Option<bool> {
        match self.cut.load(Ordering::Relaxed) {
            0 => None,
            cut => Some(cut == 1),
        }
    }

    /// The right to work on the object of this uid, by a cache at this version.
    ///
    /// A shard that was another's meanwhile is worked on only by what was listed since.
    #[inline]
    pub(super) fn right(&self, inner: &Inner, uid: &str, cache: &ResourceVersion) -> Right {
        let owned = inner.owned();
        let shard = hash::shard_of_uid(uid, owned.len());
        let Some(owned) = &owned[shard] else { return Right::Denied };
        let (terms, version) = &*self.listed();
        if terms.get(shard) != Some(&Some(owned.term)) || cache.partial_cmp(version).is_none_or(|order| order.is_lt()) {
            return Right::NotYet;
        }
        owned.permit().map_or(Right::Denied, Right::Granted)
    }

    #[inline]
    fn listed(&self) -> std::sync::RwLockReadGuard<'_, (Terms, ResourceVersion)> {
        self.listed.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists and watches this replica's share.
pub(super) struct Slice<T> {
    pub(super) inner: Arc<Inner>,
    pub(super) cover: Arc<Cover>,
    pub(super) source: ListWatch<T>,
    /// Of which shards the first page of the last list was.
    pub(super) listing: Mutex<Terms>,
}

/// Which objects are in the share, as it was when it was asked for.
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

impl<T: Object> ListerWatcher<T> for Slice<T> {
    #[inline]
    fn list(&self, mut options: ListOptions) -> BoxFuture<'_, Result<ItemStream<T>>> {
        let share = Share::new(self.terms_of(&options));
        options.shard_selector = Some(share.selector.as_str().into());
        Box::pin(async move {
            let items = self.source.list(options).await?;
            Ok(Box::pin(Items { items, share, cover: self.cover.clone() }) as ItemStream<T>)
        })
    }

    #[inline]
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
            Ok(Box::pin(Events { events: Some(events), share, moved }) as EventStream<T>)
        })
    }

    /// The metadata of a list says whether the server has cut it; a watch says nothing.
    #[inline]
    fn supports_watch_list(&self) -> bool {
        false
    }

    #[inline]
    fn has_moved(&self) -> bool {
        self.inner.terms() != self.cover.listed().0
    }

    fn is_gone(&self) -> BoxFuture<'_, bool> {
        self.source.is_gone()
    }
}

impl<T> Slice<T> {
    /// The shards that are listed. All pages are of those of the first, also when they have changed in between: then the whole list
    /// is dropped when its watch begins, instead of one that is of some shards in part.
    #[inline]
    fn terms_of(&self, options: &ListOptions) -> Terms {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        if options.continue_token.is_none() {
            *listing = self.inner.terms();
        }
        listing.clone()
    }
}

/// Lets the reflector list anew.
#[inline]
fn moved() -> Box<Status> {
    Box::new(Status::expired("the shards of this replica have changed"))
}

struct Items<T> {
    items: ItemStream<T>,
    share: Share,
    cover: Arc<Cover>,
}

impl<T> Items<T> {
    #[inline]
    fn ended(&self, meta: &ListMeta) {
        let is_cut = meta.shard_info.as_ref().is_some_and(|info| info.selector == self.share.selector);
        self.cover.cut.store(if is_cut { 1 } else { 2 }, Ordering::Relaxed);
        if meta.continue_.as_ref().is_some_and(|token| !token.is_empty()) {
            // Nothing is covered before the last page has come.
            return;
        }
        let version = meta.resource_version.clone().unwrap_or_default().into();
        *self.cover.listed.write().unwrap_or_else(PoisonError::into_inner) = (self.share.terms.clone(), version);
    }
}

impl<T: Object> Stream for Items<T> {
    type Item = Result<Listed<T>>;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let item = std::task::ready!(self.items.as_mut().poll_next(context));
            match &item {
                Some(Ok(Listed::Item(object))) if !self.share.has(object.uid()) => continue,
                Some(Err(Error::Undecodable(object))) if !self.share.has(&object.identity.uid) => continue,
                Some(Ok(Listed::End(meta))) => self.ended(meta),
                _ => {}
            }
            return Poll::Ready(item);
        }
    }
}

struct Events<T> {
    /// Absent once the share is another.
    events: Option<EventStream<T>>,
    share: Share,
    moved: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<T: Object> Stream for Events<T> {
    type Item = Result<WatchEvent<T>>;

    #[inline]
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
