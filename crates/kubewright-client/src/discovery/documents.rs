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

    /// What `request` is answered with, as `read` understands it. Where the server says that nothing has changed, what is
    /// kept as `name`.
    ///
    /// What cannot be read is not kept, and what is kept but cannot be read any more is asked for again as if it were not:
    /// the server would confirm it by its tag for ever.
    #[inline]
    pub(super) async fn ask<R>(
        &self,
        name: &'static str,
        request: impl Fn() -> Request<'static>,
        read: impl Fn(&Document) -> Result<R>,
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

    /// What is kept as `name`, in memory or else on disk.
    #[inline]
    async fn known(&self, name: &'static str) -> Option<Document> {
        let known = self.kept().get(name).cloned();
        match (known, &self.disk) {
            (None, Some(disk)) => disk.read_document(name).await,
            (known, _) => known,
        }
    }

    #[inline]
    async fn keep<R>(&self, name: &'static str, answer: Response, read: impl Fn(&Document) -> Result<R>) -> Result<R> {
        let document = Document::from(answer);
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
    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Document>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Document {
    /// A checksum, the tag and the media type in a line each, and then the document.
    ///
    /// The checksum is of all that follows: a file that is damaged, or that the machine lost the end of, is told by it.
    #[inline]
    pub(super) fn to_file(&self) -> Vec<u8> {
        let rest = [self.tag.as_bytes(), self.media_type.as_bytes(), &self.body].join(&b'\n');
        [checksum(&rest).as_bytes(), &rest].join(&b'\n')
    }

    #[inline]
    pub(super) fn from_file(file: &[u8]) -> Option<Self> {
        let end = file.iter().position(|byte| *byte == b'\n')?;
        let (sum, rest) = (&file[..end], &file[end + 1..]);
        if sum != checksum(rest).as_bytes() {
            return None;
        }
        let mut parts = rest.splitn(3, |byte| *byte == b'\n');
        let mut line = || String::from_utf8(parts.next()?.to_vec()).ok();
        let (tag, media_type) = (line()?, line()?);
        let body = Bytes::copy_from_slice(parts.next()?);
        // A tag that no header can hold was never one.
        http::HeaderValue::from_str(&tag).ok().filter(|tag| !tag.is_empty())?;
        Some(Document { media_type, body, tag })
    }
}

/// Against accidents, not against people: whoever can write the file can write its checksum.
#[inline]
fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_what_was_written_is_no_document() {
        // DI-4
        let document = Document {
            media_type: "application/json".into(),
            body: Bytes::from_static(b"{\n\"items\": []\n}"),
            tag: "\"1\"".into(),
        };
        let file = document.to_file();
        assert_eq!(Document::from_file(&file), Some(document));
        for length in 0..file.len() {
            assert_eq!(Document::from_file(&file[..length]), None, "cut after {length} bytes");
        }
        for place in 0..file.len() {
            let mut damaged = file.clone();
            damaged[place] ^= 1;
            assert_eq!(Document::from_file(&damaged), None, "another byte {place}");
        }
    }
}
