//! The three forms in which objects travel.

use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;
use kubewright_core::meta::v1::Status;

use crate::rejection::Rejection;

/// A form in which objects travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaType {
    /// The default, in both directions.
    Json,
    /// What people write.
    Yaml,
    /// What typed clients of built-in kinds prefer.
    Protobuf,
}

impl MediaType {
    /// All of them, the preferred first.
    pub(crate) const ALL: [MediaType; 3] = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];
    /// Their names, as messages list them.
    pub(crate) const TEXTS: &'static [&'static str] =
        &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

    /// The name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            MediaType::Json => "application/json",
            MediaType::Yaml => "application/yaml",
            MediaType::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The form of a body. Without a word about it, it is JSON.
    pub(crate) fn of_body(headers: &HeaderMap) -> Result<MediaType, Rejection> {
        let Some(header) = headers.get(CONTENT_TYPE) else { return Ok(MediaType::Json) };
        let text = header.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let found = MediaType::ALL.into_iter().find(|media_type| media_type.as_str().eq_ignore_ascii_case(text));
        match found {
            Some(media_type) => Ok(media_type),
            None if text.is_empty() => Ok(MediaType::Json),
            None => Err(Status::unsupported_media_type(MediaType::TEXTS).into()),
        }
    }
}
