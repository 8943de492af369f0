//! Lists: at which moment, in which pages, of which objects.

use std::{sync::Arc, time::Duration};

use kubewright_core::meta::v1::Status;
use kubewright_core::options::{ListOptions, ResourceVersionMatch};

use super::continue_token::ContinueToken;
use super::{Registry, Selection};
use crate::catalog::Resource;
use crate::conversion::webhook::in_version;
use crate::encoding::ListMeta;
use crate::object::StoredObject;
use crate::rejection::Rejection;
use crate::storage::{Key, ListOptions as Paging, ReadError, Scope, Store};

/// How long a read waits for a version that is still to come.
const PATIENCE: Duration = Duration::from_secs(3);

/// Resources with more objects are read on a blocking thread. Reading so many takes about a
/// millisecond if they are chosen by labels, and longer if they are chosen by fields.
const OFFLOADED: usize = 1000;

/// A page of the store, without keys.
pub(super) struct ObjectPage {
    pub(super) objects: Vec<Arc<StoredObject>>,
    pub(super) revision: u64,
    resume: Option<Key>,
    remaining: usize,
}

/// A page of a list.
pub(crate) struct Listed {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    pub(crate) meta: ListMeta,
}

impl Registry {
    /// Lists objects as the options say.
    pub(crate) async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selection: &Selection,
        options: &ListOptions,
    ) -> Result<Listed, Rejection> {
        // Whoever takes any version is served from a cache by the real server, which gives all at once.
        let takes_any = options.resource_version.as_deref() == Some("0");
        let limit = options.limit.filter(|limit| *limit > 0 && !takes_any).unwrap_or_default();
        let limit = usize::try_from(limit).unwrap_or_default();
        let mut paging = Paging::default().limit(limit);
        let token = options.continue_token.as_deref().filter(|token| !token.is_empty());
        let token = token.map(|token| ContinueToken::decode(token, resource, namespace)).transpose()?;
        if let Some(token) = &token {
            paging = paging.after(token.after.clone());
            if let Some(revision) = token.revision {
                paging = paging.at(revision);
            }
        } else if let Some(revision) = self.moment(options).await? {
            paging = paging.at(revision);
        }
        // A single object is found without looking at all others.
        let scope = match selection.name() {
            Some(name) if !(resource.namespaced && namespace.is_empty()) => {
                Scope::object(&resource.key(namespace, name))
            }
            _ => resource.scope(namespace),
        };
        if selection.needs_webhook(resource) {
            return self.list_converted(resource, namespace, selection, (&scope, paging, limit), token).await;
        }
        let page = self.read_page(&scope, paging, selection).await?;
        let page = page.map_err(|error| self.too_old(error, namespace, token))?;
        let next = page.resume.map(|after| ContinueToken { revision: Some(page.revision), after });
        let meta = ListMeta {
            revision: page.revision,
            remaining: next.as_ref().filter(|_| selection.is_everything()).map(|_| page.remaining),
            continue_token: next.map(|next| next.encode(namespace)),
        };
        Ok(Listed { objects: page.objects, meta })
    }

    /// The objects of a page that are selected. Many objects are read on a blocking thread.
    pub(super) async fn read_page(
        &self,
        scope: &Scope,
        paging: Paging,
        selection: &Selection,
    ) -> Result<Result<ObjectPage, ReadError>, Rejection> {
        if self.store.resource_len(scope) <= OFFLOADED {
            return Ok(object_page(&self.store, scope, paging, selection));
        }
        let (store, scope, selection) = (self.store.clone(), scope.clone(), selection.clone());
        self.offload.run(move || object_page(&store, &scope, paging, &selection)).await
    }

    /// Lists objects that are converted before it is known whether they are meant.
    async fn list_converted(
        &self,
        resource: &Resource,
        namespace: &str,
        selection: &Selection,
        (scope, mut paging, limit): (&Scope, Paging, usize),
        mut token: Option<ContinueToken>,
    ) -> Result<Listed, Rejection> {
        let (maybe, mut objects) = (selection.without_fields(), Vec::new());
        loop {
            // Never more at a time than are still wanted, so that the next page begins where this one ends.
            let wanted = if limit == 0 { 0 } else { limit - objects.len() };
            let page = self.read_page(scope, paging.clone().limit(wanted), &maybe).await?;
            let page = page.map_err(|error| self.too_old(error, namespace, token.take()))?;
            let converted = in_version(resource, page.objects).await?;
            objects.extend(converted.into_iter().filter(|object| selection.matches(object)));
            let next = page.resume.map(|after| ContinueToken { revision: Some(page.revision), after });
            match next {
                Some(next) if objects.len() < limit => {
                    paging = Paging::default().at(page.revision).after(next.after.clone());
                    token = Some(next);
                }
                next => {
                    let continue_token = next.map(|next| next.encode(namespace));
                    let meta = ListMeta { revision: page.revision, remaining: None, continue_token };
                    return Ok(Listed { objects, meta });
                }
            }
        }
    }

    /// The past moment that a list should show, after waiting for the least that it must show; none is the present.
    async fn moment(&self, options: &ListOptions) -> Result<Option<u64>, Rejection> {
        let version = options.resource_version.as_deref().unwrap_or_default();
        if matches!(version, "" | "0") {
            return Ok(None);
        }
        let revision =
            parse_version(version).map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        self.reach(revision).await?;
        let is_exact = match options.resource_version_match {
            Some(ResourceVersionMatch::Exact) => true,
            Some(ResourceVersionMatch::NotOlderThan) => false,
            // A page of a past moment can only be of exactly this moment.
            None => options.limit.unwrap_or_default() > 0,
        };
        Ok(is_exact.then_some(revision))
    }

    /// Waits until the store has reached a revision, for a while.
    pub(crate) async fn reach(&self, revision: u64) -> Result<(), Rejection> {
        if revision <= self.store.current_revision() {
            return Ok(());
        }
        match tokio::time::timeout(PATIENCE, self.store.wait_until(revision)).await {
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
                status.metadata.continue_ = Some(ContinueToken { revision: None, ..token }.encode(namespace));
                status.into()
            }
        }
    }
}

fn object_page(
    store: &Store<StoredObject>,
    scope: &Scope,
    paging: Paging,
    selection: &Selection,
) -> Result<ObjectPage, ReadError> {
    let page = store.list_where(scope, paging, |_, entry| selection.matches(&entry.object))?;
    let mut objects: Vec<_> = page.entries.into_iter().map(|(_, entry)| entry.object).collect();
    // A list may wait long for a slow client, and has the room of its keys.
    objects.shrink_to_fit();
    Ok(ObjectPage { objects, revision: page.revision, resume: page.resume, remaining: page.remaining })
}

/// A version of a request as a revision, or what is wrong with it.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
    })
}
