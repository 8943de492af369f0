//! The large discovery documents with their ETags, to avoid transferring unchanged ones.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::StatusCode;
use http::header::IF_NONE_MATCH;

use super::disk::DiskCache;
use super::document::DiscoveryDocument;
use crate::error::{Error, Result};
use crate::rest::{Request, Response};

/// Documents with ETags, by file name.
#[derive(Debug, Default)]
pub(super) struct Documents {
    kept: Mutex<HashMap<&'static str, DiscoveryDocument>>,
    disk: Option<DiskCache>,
}

impl Documents {
    /// Also stores them on disk.
    #[inline]
    pub(super) fn on(disk: DiskCache) -> Self {
        Documents { disk: Some(disk), ..Documents::default() }
    }

    /// The response to `request`, parsed by `read`. If the server reports that it is unchanged, the
    /// stored document of this name.
    ///
    /// Unreadable documents are not stored. A stored document that has become unreadable is
    /// requested without its ETag: otherwise the server would confirm it forever.
    pub(super) async fn ask<R>(
        &self,
        name: &'static str,
        request: impl Fn() -> Request<'static>,
        read: impl Fn(&DiscoveryDocument) -> Result<R>,
    ) -> Result<R> {
        if let Some(known) = self.known(name).await {
            match request().header(IF_NONE_MATCH, &known.tag).send().await {
                Ok(answer) => return self.keep(name, answer, read).await,
                Err(error) if !is_unchanged(&error) => return Err(error),
                Err(_) => {}
            }
            match read(&known) {
                Ok(found) => return Ok(found),
                Err(error) => tracing::debug!(name, %error, "a document of discovery that was kept cannot be read"),
            }
        }
        self.keep(name, request().send().await?, read).await
    }

    /// The stored document of this name, from memory or disk.
    #[inline]
    async fn known(&self, name: &'static str) -> Option<DiscoveryDocument> {
        let known = self.kept().get(name).cloned();
        match (known, &self.disk) {
            (None, Some(disk)) => disk.read_document(name).await,
            (known, _) => known,
        }
    }

    async fn keep<R>(
        &self,
        name: &'static str,
        answer: Response,
        read: impl Fn(&DiscoveryDocument) -> Result<R>,
    ) -> Result<R> {
        let document = DiscoveryDocument::from(answer);
        let found = read(&document)?;
        if !document.tag.is_empty() {
            self.kept().insert(name, document.clone());
            if let Some(disk) = &self.disk {
                disk.write_document(name, &document).await;
            }
        }
        Ok(found)
    }

    #[inline]
    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, DiscoveryDocument>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[inline]
fn is_unchanged(error: &Error) -> bool {
    error.status().and_then(|status| status.code) == Some(i32::from(StatusCode::NOT_MODIFIED.as_u16()))
}
