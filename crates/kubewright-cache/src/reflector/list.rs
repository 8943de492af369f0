//! Reads all objects by a list, in pages or in one piece.

use kubewright_client::Error;
use kubewright_core::options::ListOptions;
use kubewright_core::{ResourceVersion, Str};
use tokio::task::coop::consume_budget;

use super::ReflectorError;
use super::intake::{Heard, Intake, Purpose};
use super::rounds::Shared;

/// Objects of a page, where pages are worth it.
const PAGE: u32 = 500;

/// A list that has come.
struct Whole<'a> {
    objects: Box<dyn Intake + 'a>,
    version: ResourceVersion,
    is_paginated: bool,
}

impl Shared {
    /// Lists, and gives the store what there is.
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
        match self.choices.page_size {
            Some(size) => Some(size),
            None if self.progress().is_paginated => Some(PAGE),
            // A limit would have the server read from storage what it has in its watch cache.
            None if !matches!(version, "" | "0") => None,
            None => Some(PAGE),
        }
    }

    async fn list_from(&self, version: &str) -> Result<Whole<'_>, Error> {
        let first = ListOptions { resource_version: Some(version.into()), ..ListOptions::default() };
        let mut options = match self.page_size(version) {
            Some(size) => first.clone().limit(size),
            None => first.clone(),
        };
        let nothing = || self.subject.intake(Purpose::Gather);
        let mut whole = Whole { objects: nothing(), version: ResourceVersion::default(), is_paginated: false };
        loop {
            let token = match self.page(&options, &mut whole).await {
                Ok(token) => token,
                // The pages have become too old to go on: all in one piece then.
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

    /// Reads one page; returns where the next one begins.
    async fn page(&self, options: &ListOptions, whole: &mut Whole<'_>) -> Result<Option<Str>, Error> {
        let patience = self.choices.patience_or_default();
        whole.objects.list(options.clone());
        whole.objects.opened().await?;
        loop {
            let heard = whole.objects.next_within(patience).await;
            consume_budget().await;
            match heard {
                Heard::Object(object) => self.report(object.error),
                Heard::Listed(metadata) => {
                    whole.version = metadata.resource_version.unwrap_or_default().into();
                    return Ok(metadata.continue_.filter(|token| !token.is_empty()));
                }
                Heard::Failed(error) => return Err(error),
                Heard::Bookmark(_) | Heard::Status(_) | Heard::Closed => {
                    return Err(Error::InvalidRequest("a list ended without its metadata".to_owned()));
                }
            }
        }
    }
}
