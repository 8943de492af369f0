//! Reads all objects by a list, in pages or in one piece.

use std::sync::Arc;

use kubewright_client::Error;
use kubewright_core::options::ListOptions;
use kubewright_core::{GroupVersionKind, Object, ResourceVersion, Str};
use tokio::task::coop::consume_budget;

use super::{Reflector, ReflectorError};
use crate::lister_watcher::{Listed, next_within};
use crate::queue::transformed;

/// Objects of a page, where pages are worth it.
const PAGE: u32 = 500;

/// A list that has come.
struct Whole<T> {
    objects: Vec<Arc<T>>,
    version: ResourceVersion,
    is_paginated: bool,
}

impl<T: Object> Reflector<T> {
    /// Lists, and gives the store what there is.
    pub(super) async fn list_all(&self) -> Result<(), ReflectorError> {
        let version = self.version_to_list_from();
        let mut result = self.list_from(&version).await;
        if let Err(error) = &result
            && (error.is_expired() || error.is_too_large_resource_version())
        {
            self.progress().is_version_unavailable = true;
            result = self.list_from("").await;
        }
        let whole = result.map_err(ReflectorError::List)?;
        if version == "0" && whole.is_paginated {
            self.progress().is_paginated = true;
        }
        self.shared.store.replace(whole.objects, whole.version.clone())?;
        self.synced(whole.version);
        Ok(())
    }

    /// Anything the server has at hand the first time, then never older than what was seen, unless that cannot be had.
    fn version_to_list_from(&self) -> Str {
        let progress = self.progress();
        match progress.version.as_str() {
            _ if progress.is_version_unavailable => Str::new(),
            "" => Str::from_static("0"),
            version => version.into(),
        }
    }

    /// How many objects to ask for at a time.
    fn page_size(&self, version: &str) -> Option<u32> {
        match self.shared.options.page_size {
            Some(size) => Some(size),
            None if self.progress().is_paginated => Some(PAGE),
            // A limit would have the server read from storage what it has in its watch cache.
            None if !matches!(version, "" | "0") => None,
            None => Some(PAGE),
        }
    }

    async fn list_from(&self, version: &str) -> Result<Whole<T>, Error> {
        let first = ListOptions { resource_version: Some(version.into()), ..ListOptions::default() };
        let mut options = match self.page_size(version) {
            Some(size) => first.clone().limit(size),
            None => first.clone(),
        };
        let mut whole = Whole { objects: Vec::new(), version: ResourceVersion::default(), is_paginated: false };
        loop {
            let token = match self.page(&options, &mut whole).await {
                Ok(token) => token,
                // The pages have become too old to go on: all in one piece then.
                Err(error) if error.is_expired() && options.continue_token.is_some() => {
                    whole.objects.clear();
                    options = first.clone();
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(token) = token else { return Ok(whole) };
            whole.is_paginated = true;
            options = options.continue_from(token);
        }
    }

    /// Reads one page; returns where the next one begins.
    async fn page(&self, options: &ListOptions, whole: &mut Whole<T>) -> Result<Option<Str>, Error> {
        let patience = self.shared.options.patience_or_default();
        let mut items = self.shared.lister_watcher.list(options.clone()).await?;
        while let Some(item) = next_within(patience, &mut items).await {
            consume_budget().await;
            match item {
                Ok(Listed::Item(object)) => whole.objects.extend(self.incoming(object)),
                Ok(Listed::End(metadata)) => {
                    whole.version = metadata.resource_version.unwrap_or_default().into();
                    return Ok(metadata.continue_.filter(|token| !token.is_empty()));
                }
                Err(error @ Error::Decode(_)) => self.skipped(ReflectorError::Undecodable(error)),
                Err(error) => return Err(error),
            }
        }
        Err(Error::InvalidRequest("a list ended without its metadata".to_owned()))
    }

    /// An object that a list contains: the one that the store has, if it is the same, or else this one, transformed.
    pub(super) fn incoming(&self, object: T) -> Option<Arc<T>> {
        if !self.is_expected(&object) {
            return None;
        }
        if let Some(known) = self.shared.store.known(&object)
            && !object.resource_version().is_empty()
            && known.resource_version() == object.resource_version()
            && known.uid() == object.uid()
        {
            return Some(known);
        }
        self.transformed(object)
    }

    /// An object from the server on its way in, or nothing if it cannot be transformed.
    pub(super) fn transformed(&self, object: T) -> Option<Arc<T>> {
        match transformed(&self.shared.options.transform, Arc::new(object)) {
            Ok(object) => Some(object),
            Err(error) => {
                self.skipped(error.into());
                None
            }
        }
    }

    /// Whether an object is of the kind that was asked for, and has a name; others are left out.
    pub(super) fn is_expected(&self, object: &T) -> bool {
        let kind_fits = |kind: &GroupVersionKind| object.group_version_kind() == *kind;
        let is_expected = !object.name().is_empty() && self.shared.options.expected_kind.as_ref().is_none_or(kind_fits);
        if !is_expected {
            let kind = object.group_version_kind().to_string();
            self.skipped(ReflectorError::Unexpected { kind, key: object.key() });
        }
        is_expected
    }
}
