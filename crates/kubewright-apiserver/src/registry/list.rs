//! Lists objects: at which revision, in which pages, with which selectors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_core::options::{ListOptions, ResourceVersionMatch};

use super::{PastPage, Registry, Selectors};
use kubewright_objects::continue_token::ContinueToken;
use kubewright_objects::conversion::webhook::in_version;
use kubewright_objects::encoding::ListMeta;
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{Compacted, Key, KeyRange, ReadError, Store, StoreListOptions as Paging};

/// How long a read waits for a future revision.
const REVISION_TIMEOUT: Duration = Duration::from_secs(3);

/// Lists of more objects run on a blocking thread. Filtering this many by labels takes about a
/// millisecond.
const OFFLOAD_THRESHOLD: usize = 1000;
/// So do lists by fields, if the objects have more bytes. They are scanned at about 1 GB/s.
const OFFLOAD_BYTES: usize = 1 << 20;

/// The oldest revision that clients may list at. Each advance takes effect with the next one.
///
/// In a cluster, etcd is compacted every five minutes to the revision of five minutes ago. Continue
/// tokens expire here in the same way, so that clients meet that case in their tests.
#[derive(Default)]
pub(crate) struct ListHorizon {
    oldest: AtomicU64,
    next: AtomicU64,
}

impl ListHorizon {
    pub(crate) fn advance(&self, current: u64) {
        self.oldest.store(self.next.swap(current, Ordering::AcqRel), Ordering::Release);
    }

    fn check(&self, revision: Option<u64>) -> Result<(), ReadError> {
        let oldest = self.oldest.load(Ordering::Acquire);
        match revision.filter(|revision| *revision < oldest) {
            Some(revision) => Err(ReadError::Compacted(Compacted { requested: revision, oldest })),
            None => Ok(()),
        }
    }
}

/// A page of stored objects.
pub(super) struct ObjectPage {
    pub(super) objects: Vec<Arc<StoredObject>>,
    pub(super) revision: u64,
    resume: Option<Key>,
    remaining: usize,
}

impl ObjectPage {
    /// The token of the next page, if there is one.
    fn next(&self) -> Option<ContinueToken> {
        let after = self.resume.clone()?;
        Some(ContinueToken { revision: Some(self.revision), after, remaining: Some(self.remaining) })
    }
}

/// A page of a list.
pub(crate) struct ListPage {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    pub(crate) meta: ListMeta,
}

impl Registry {
    /// Lists objects.
    pub(crate) async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selection: &Selectors,
        options: &ListOptions,
    ) -> Result<ListPage, Rejection> {
        // Resource version 0 means any version. The real server answers it from its cache and
        // ignores the limit.
        let takes_any = options.resource_version.as_deref() == Some("0");
        let limit = options.limit.filter(|limit| *limit > 0 && !takes_any).unwrap_or_default();
        let limit = usize::try_from(limit).unwrap_or_default();
        let mut paging = Paging::default().limit(limit);
        let at;
        let token = options.continue_token.as_deref().filter(|token| !token.is_empty());
        let token = token.map(|token| ContinueToken::decode(token, resource, namespace)).transpose()?;
        if let Some(token) = &token {
            paging = paging.after(token.after.clone());
            at = token.revision;
            if let Some(remaining) = token.remaining {
                paging = paging.remaining(remaining);
            }
        } else {
            at = self.read_revision(options).await?;
        }
        if let Err(error) = self.list_horizon.check(at)
            && self.database.is_none()
        {
            return Err(self.too_old(error, namespace, token));
        }
        if let Some(revision) = at {
            paging = paging.at(revision);
        }
        let scope = selection.scope(resource, namespace);
        if selection.needs_webhook(resource) {
            return self.list_converted(resource, namespace, selection, (&scope, paging, limit), token).await;
        }
        let page = self.read_page(&scope, paging, selection).await?;
        let page = page.map_err(|error| self.too_old(error, namespace, token))?;
        let next = page.next();
        let meta = ListMeta {
            revision: page.revision,
            remaining: next.as_ref().filter(|_| selection.is_everything()).map(|_| page.remaining),
            continue_token: next.map(|next| next.encode(namespace)),
        };
        Ok(ListPage { objects: page.objects, meta })
    }

    /// Reads the selected objects of a page, in the database if the log does not have the revision.
    async fn read_page(
        &self,
        scope: &KeyRange,
        paging: Paging,
        selection: &Selectors,
    ) -> Result<Result<ObjectPage, ReadError>, Rejection> {
        let (at, ..) = paging.parts();
        let known = match self.list_horizon.check(at) {
            Ok(()) => self.read_stored(scope, paging.clone(), selection).await?,
            Err(expired) => Err(expired),
        };
        if let (Err(ReadError::Compacted(_)), Some(revision)) = (&known, at)
            && let Some(page) = self.read_past(scope, revision, &paging, selection).await?
        {
            return Ok(Ok(page));
        }
        Ok(known)
    }

    /// Reads a page in the database. `None` if there is none, or it has forgotten the revision.
    async fn read_past(
        &self,
        scope: &KeyRange,
        revision: u64,
        paging: &Paging,
        selection: &Selectors,
    ) -> Result<Option<ObjectPage>, Rejection> {
        let Some(database) = &self.database else { return Ok(None) };
        let (_, after, limit) = paging.parts();
        let (mut after, mut objects, catalog) = (after.cloned(), Vec::new(), self.catalog());
        loop {
            let part = database.read_past(scope, revision, after.as_ref(), limit, &catalog).await?;
            let Some(PastPage { entries, count: mut remaining }) = part else { return Ok(None) };
            let is_empty = entries.is_empty();
            for (key, object) in entries {
                remaining = remaining.saturating_sub(1);
                objects.extend(object.filter(|object| selection.matches(object)));
                if limit > 0 && objects.len() == limit && remaining > 0 {
                    return Ok(Some(ObjectPage { objects, revision, resume: Some(key), remaining }));
                }
                after = Some(key);
            }
            if remaining == 0 || is_empty {
                return Ok(Some(ObjectPage { objects, revision, resume: None, remaining: 0 }));
            }
        }
    }

    /// Reads the selected objects of a page. Large reads run on a blocking thread.
    async fn read_stored(
        &self,
        scope: &KeyRange,
        paging: Paging,
        selection: &Selectors,
    ) -> Result<Result<ObjectPage, ReadError>, Rejection> {
        if !is_heavy(&self.store, scope, selection) {
            return Ok(object_page(&self.store, scope, paging, selection));
        }
        let (store, scope, selection) = (self.store.clone(), scope.clone(), selection.clone());
        self.offload.run(move || object_page(&store, &scope, paging, &selection)).await
    }

    /// Lists objects that a webhook must convert before field selectors can be evaluated.
    async fn list_converted(
        &self,
        resource: &Resource,
        namespace: &str,
        selection: &Selectors,
        (scope, mut paging, limit): (&KeyRange, Paging, usize),
        mut token: Option<ContinueToken>,
    ) -> Result<ListPage, Rejection> {
        let (by_labels, mut objects) = (selection.without_fields(), Vec::new());
        loop {
            // Never read more than the remaining limit, so that the next page starts where this one
            // ends.
            let wanted = if limit == 0 { 0 } else { limit - objects.len() };
            let page = self.read_page(scope, paging.clone().limit(wanted), &by_labels).await?;
            let page = page.map_err(|error| self.too_old(error, namespace, token.take()))?;
            let next = page.next();
            let converted = in_version(&self.webhook_clients, resource, page.objects).await?;
            objects.extend(converted.into_iter().filter(|object| selection.matches(object)));
            match next {
                Some(next) if objects.len() < limit => {
                    paging = Paging::default().at(page.revision).after(next.after.clone()).remaining(page.remaining);
                    token = Some(next);
                }
                next => {
                    let continue_token = next.map(|next| next.encode(namespace));
                    let meta = ListMeta { revision: page.revision, remaining: None, continue_token };
                    return Ok(ListPage { objects, meta });
                }
            }
        }
    }

    /// The past revision to read at, or `None` for the newest state. Waits for the minimum revision
    /// first.
    async fn read_revision(&self, options: &ListOptions) -> Result<Option<u64>, Rejection> {
        let version = options.resource_version.as_deref().unwrap_or_default();
        if matches!(version, "" | "0") {
            return Ok(None);
        }
        let revision =
            parse_version(version).map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        self.wait_for_revision(revision).await?;
        let is_exact = match options.resource_version_match {
            Some(ResourceVersionMatch::Exact) => true,
            Some(ResourceVersionMatch::NotOlderThan) => false,
            // Without a match rule, a paged list at a revision is exact.
            None => options.limit.unwrap_or_default() > 0,
        };
        Ok(is_exact.then_some(revision))
    }

    /// Waits until the store reaches a revision, up to [`REVISION_TIMEOUT`].
    pub(crate) async fn wait_for_revision(&self, revision: u64) -> Result<(), Rejection> {
        if revision <= self.store.current_revision() {
            return Ok(());
        }
        match tokio::time::timeout(REVISION_TIMEOUT, self.store.wait_until(revision)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Status::too_large_resource_version(revision, self.store.current_revision(), 1).into()),
        }
    }

    fn too_old(&self, error: ReadError, namespace: &str, token: Option<ContinueToken>) -> Rejection {
        match (error, token) {
            (ReadError::Future { requested, current }, _) => {
                Status::too_large_resource_version(requested, current, 1).into()
            }
            (_, None) => Status::expired("The resourceVersion for the provided list is too old.").into(),
            (_, Some(token)) => {
                let mut status = Status::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a \
                     new list without the continue parameter, or use the continue token in this response to retrieve \
                     the remainder of the results. Continuing with the provided token results in an inconsistent \
                     list - objects that were created, modified, or deleted between the time the first chunk was \
                     returned and now may show up in the list.",
                );
                status.metadata.continue_ =
                    Some(ContinueToken { revision: None, remaining: None, ..token }.encode(namespace));
                status.into()
            }
        }
    }
}

/// Whether filtering the objects of a scope may take many milliseconds.
pub(super) fn is_heavy(store: &Store<StoredObject>, scope: &KeyRange, selection: &Selectors) -> bool {
    if store.resource_len(scope) > OFFLOAD_THRESHOLD {
        return true;
    }
    if !selection.reads_text() {
        return false;
    }
    let mut bytes = 0;
    // Stops at the object that exceeds the limit. The rest need not be counted.
    let first_excess = Paging::default().limit(1).remaining(0);
    let page = store.list_where(scope, first_excess, |_, entry| {
        bytes += entry.object.json().len();
        bytes > OFFLOAD_BYTES
    });
    page.is_ok_and(|page| !page.entries.is_empty())
}

fn object_page(
    store: &Store<StoredObject>,
    scope: &KeyRange,
    paging: Paging,
    selection: &Selectors,
) -> Result<ObjectPage, ReadError> {
    let page = store.list_where(scope, paging, |_, entry| selection.matches(&entry.object))?;
    let mut objects: Vec<_> = page.entries.into_iter().map(|(_, entry)| entry.object).collect();
    // The response may outlive this call by far if the client is slow, so release the excess
    // capacity.
    objects.shrink_to_fit();
    Ok(ObjectPage { objects, revision: page.revision, resume: page.resume, remaining: page.remaining })
}

/// Parses a resource version.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
    })
}
