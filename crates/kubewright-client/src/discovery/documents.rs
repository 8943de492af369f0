//! The large documents of discovery with their tags, so that what has not changed is not sent again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};

use super::disk::DiskCache;
use crate::error::{Error, Result};
use crate::rest::{Request, Response};

/// A document as it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) media_type: String,
    pub(super) body: Bytes,
    /// What the server calls this state of it; empty if it has no name for it.
    pub(super) tag: String,
}

/// The documents that a server has named the state of, by the name of their file.
#[derive(Debug, Default)]
pub(super) struct Documents {
    kept: Mutex<HashMap<&'static str, Document>>,
    disk: Option<DiskCache>,
}

impl Documents {
    /// Also keeps them on disk.
    #[inline]
    pub(super) fn on(disk: DiskCache) -> Self {
        Documents { disk: Some(disk), ..Documents::default() }
    }

    /// What `request` is answered with. Where the server says that nothing has changed, what is kept as `name`.
    #[inline]
    pub(super) async fn ask(&self, name: &'static str, request: Request<'_>) -> Result<Document> {
        let mut known = self.kept().get(name).cloned();
        if let (None, Some(disk)) = (&known, &self.disk) {
            known = disk.read_document(name).await;
        }
        let Some(known) = known else { return Ok(self.keep(name, request.send().await?).await) };
        match request.header(IF_NONE_MATCH, &known.tag).send().await {
            Ok(answer) => Ok(self.keep(name, answer).await),
            Err(error) if is_unchanged(&error) => Ok(known),
            Err(error) => Err(error),
        }
    }

    #[inline]
    async fn keep(&self, name: &'static str, answer: Response) -> Document {
        let document = Document::from(answer);
        if !document.tag.is_empty() {
            self.kept().insert(name, document.clone());
            if let Some(disk) = &self.disk {
                disk.write_document(name, &document).await;
            }
        }
        document
    }

    #[inline]
    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Document>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Document {
    /// The tag and the media type in a line each, and then the document.
    #[inline]
    pub(super) fn to_file(&self) -> Vec<u8> {
        [self.tag.as_bytes(), self.media_type.as_bytes(), &self.body].join(&b'\n')
    }

    #[inline]
    pub(super) fn from_file(file: &[u8]) -> Option<Self> {
        let mut parts = file.splitn(3, |byte| *byte == b'\n');
        let mut line = || String::from_utf8(parts.next()?.to_vec()).ok();
        let (tag, media_type) = (line()?, line()?);
        let body = Bytes::copy_from_slice(parts.next()?);
        // A tag that no header can hold was never one.
        http::HeaderValue::from_str(&tag).ok().filter(|tag| !tag.is_empty())?;
        Some(Document { media_type, body, tag })
    }
}

impl From<Response> for Document {
    #[inline]
    fn from(answer: Response) -> Self {
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (media_type, tag) = (header(CONTENT_TYPE).to_owned(), header(ETAG).to_owned());
        Document { media_type, body: answer.bytes(), tag }
    }
}

#[inline]
fn is_unchanged(error: &Error) -> bool {
    error.status().and_then(|status| status.code) == Some(i32::from(StatusCode::NOT_MODIFIED.as_u16()))
}
