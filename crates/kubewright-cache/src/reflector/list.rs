//! Reads all objects with a list, paginated or not.

use kubewright_client::Error;
use kubewright_core::options::ListOptions;
use kubewright_core::{ResourceVersion, Str};
use tokio::task::coop::consume_budget;

use super::ReflectorError;
use super::intake::{Intake, Purpose, StreamItem};
use super::retry_loop::ReflectorLoop;

/// Default page size.
const PAGE: u32 = 500;

/// The accumulated list.
struct AccumulatedList<'a> {
    objects: Box<dyn Intake + 'a>,
    version: ResourceVersion,
    is_paginated: bool,
}

impl ReflectorLoop {
    /// Lists, and passes the result to the store.
    pub(super) async fn list_all(&self) -> Result<(), ReflectorError> {
        let version = self.version_to_list_from();
        let mut result = self.list_from(&version).await;
        if let Err(error) = result {
            if !error.is_expired() && !error.is_too_large_resource_version() {
                return Err(ReflectorError::List(error));
            }
            self.progress().is_version_unavailable = true;
            self.tell(ReflectorError::List(error));
            result = self.list_from("").await;
        }
        let mut whole = result.map_err(ReflectorError::List)?;
        if version == "0" && whole.is_paginated {
            self.progress().is_paginated = true;
        }
        whole.objects.replace(whole.version.clone()).into_iter().for_each(|error| self.skipped(error));
        self.synced(whole.version);
        Ok(())
    }

    /// The version to list from. First "0" (any version), then at least the last seen one, unless
    /// that is unavailable.
    fn version_to_list_from(&self) -> Str {
        let progress = self.progress();
        match progress.version.as_str() {
            _ if progress.is_version_unavailable => Str::new(),
            "" => Str::from_static("0"),
            version => version.into(),
        }
    }

    /// The page size, if the list is paginated.
    fn page_size(&self, version: &str) -> Option<u32> {
        match self.common.page_size {
            Some(size) => Some(size),
            None if self.progress().is_paginated => Some(PAGE),
            // A limit would make the server read from etcd instead of its watch cache.
            None if !matches!(version, "" | "0") => None,
            None => Some(PAGE),
        }
    }

    async fn list_from(&self, version: &str) -> Result<AccumulatedList<'_>, Error> {
        let first = ListOptions { resource_version: Some(version.into()), ..ListOptions::default() };
        let mut options = match self.page_size(version) {
            Some(size) => first.clone().limit(size),
            None => first.clone(),
        };
        let nothing = || self.pipeline.intake(Purpose::Gather);
        let mut whole =
            AccumulatedList { objects: nothing(), version: ResourceVersion::default(), is_paginated: false };
        loop {
            let token = match self.page(&options, &mut whole).await {
                Ok(token) => token,
                // The continue token expired: restart without pagination.
                Err(error) if error.is_expired() && options.continue_token.is_some() => {
                    self.tell(ReflectorError::List(error));
                    whole.objects = nothing();
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

    /// Reads one page; returns the continue token.
    async fn page(&self, options: &ListOptions, whole: &mut AccumulatedList<'_>) -> Result<Option<Str>, Error> {
        let response_timeout = self.common.response_timeout_or_default();
        whole.objects.list(options.clone());
        whole.objects.opened().await?;
        loop {
            let heard = whole.objects.next_within(response_timeout).await;
            consume_budget().await;
            match heard {
                StreamItem::Object(object) => self.report(object.error),
                StreamItem::Listed(metadata) => {
                    whole.version = metadata.resource_version.unwrap_or_default().into();
                    return Ok(metadata.continue_.filter(|token| !token.is_empty()));
                }
                StreamItem::Failed(error) => return Err(error),
                StreamItem::Bookmark(_) | StreamItem::Status(_) | StreamItem::Closed => {
                    return Err(Error::InvalidRequest("a list ended without its metadata".to_owned()));
                }
            }
        }
    }
}
