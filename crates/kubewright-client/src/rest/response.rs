//! Responses: buffered or streaming.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use kubewright_core::json::Reader;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::Status;
use kubewright_core::protobuf::Envelope;
use kubewright_core::stream::Encoding;
use kubewright_core::{DecodeError, Decoder, GroupVersionResource, Object, ObjectList};

use super::failure::status_in;
use super::negotiation::encoding_of;
use super::whole_body::collect;
use crate::error::{Error, Result};
use kubewright_net::transport::Body;

/// A successful, buffered response. Its `Debug` output omits the body, which may be secret.
#[doc(alias = "Result")]
pub struct Response {
    code: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    resource: Option<GroupVersionResource>,
}

impl Response {
    pub(super) async fn collect(
        answer: http::Response<Body>,
        resource: Option<GroupVersionResource>,
        limit: usize,
    ) -> Result<Self> {
        let (head, body) = answer.into_parts();
        // One more byte shows that the limit is exceeded.
        let body = collect(body, limit.saturating_add(1)).await?;
        if body.len() > limit {
            return Err(DecodeError::new(format!("the answer is longer than {limit} bytes")).into());
        }
        Ok(Response { code: head.status, headers: head.headers, body, resource })
    }

    /// The status code, from 200 to 206; 201 means created.
    #[doc(alias = "StatusCode")]
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The encoding of the body.
    pub fn encoding(&self) -> Encoding {
        encoding_of(&self.headers)
    }

    /// The raw body.
    #[doc(alias = "Raw")]
    #[inline]
    pub fn bytes(self) -> Bytes {
        self.body
    }

    /// The body as text; invalid UTF-8 is replaced.
    #[inline]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Decodes the object in the body.
    ///
    /// # Errors
    /// If the body is empty or not such an object. A failure `Status` is returned as that failure.
    #[doc(alias = "Into")]
    pub fn decode<T: Object>(self) -> Result<T> {
        let encoding = self.encoding();
        self.check()?;
        decode(encoding, &self.body).map_err(Error::from)
    }

    /// Decodes the list in the body.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_list<T: Object>(self) -> Result<ObjectList<T>> {
        let encoding = self.encoding();
        self.check()?;
        let mut decoder = Decoder::new();
        let list = match encoding {
            Encoding::Json => ObjectList::from_json(&self.body, &mut decoder),
            Encoding::Protobuf => ObjectList::from_protobuf(&self.body, &mut decoder),
        };
        list.map_err(Error::from)
    }

    /// Decodes the message in the body, for types that are not objects, such as `APIResourceList`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_message<M: Message + Default>(self) -> Result<M> {
        let encoding = self.encoding();
        self.check()?;
        let mut decoder = Decoder::new();
        let message = match encoding {
            Encoding::Json => decoder.json(&self.body),
            Encoding::Protobuf => decoder.protobuf(&self.body),
        };
        message.map_err(Error::from)
    }

    /// The `Status` in the body, if it is one.
    pub fn status(&self) -> Option<Status> {
        status_in(self.encoding(), &self.body)
    }

    #[inline]
    fn check(&self) -> Result<()> {
        if self.body.is_empty() {
            let what = self.resource.as_ref().map(|resource| format!(", of {resource}")).unwrap_or_default();
            return Err(DecodeError::new(format!("the body is empty{what}")).into());
        }
        match self.status().filter(Status::is_failure) {
            Some(status) => Err(status.into()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("code", &self.code)
            .field("headers", &self.headers)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("resource", &self.resource)
            .finish()
    }
}

/// A successful response whose body is still being received.
#[derive(Debug)]
pub struct Streaming {
    code: StatusCode,
    headers: HeaderMap,
    body: Body,
}

impl Streaming {
    pub(super) fn new(answer: http::Response<Body>) -> Self {
        let (head, body) = answer.into_parts();
        Streaming { code: head.status, headers: head.headers, body }
    }

    /// The status code, from 200 to 206.
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The encoding of the body.
    pub fn encoding(&self) -> Encoding {
        encoding_of(&self.headers)
    }

    /// The body, chunk by chunk. Dropping it cancels the request.
    pub fn into_body(self) -> Body {
        self.body
    }
}

/// Decodes one object of a response.
fn decode<T: Object>(encoding: Encoding, bytes: &[u8]) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new();
    match encoding {
        Encoding::Json => {
            let mut reader = Reader::new(bytes, &mut decoder);
            let object = T::from_json(&mut reader)?;
            reader.end()?;
            Ok(object)
        }
        Encoding::Protobuf => {
            let envelope = Envelope::decode(bytes)?;
            let object = T::from_protobuf(envelope.raw, &mut decoder)
                .ok_or_else(|| DecodeError::new("the type has no protobuf form"))??;
            envelope.check_kind(&object.group_version_kind())?;
            Ok(object)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_form_shows_the_length_of_a_body_and_not_its_content() {
        let body = Bytes::from_static(br#"{"data":{"password":"s3cret"}}"#);
        let response = Response { code: StatusCode::OK, headers: HeaderMap::new(), body, resource: None };
        let text = format!("{response:?}");
        assert!(text.contains("200") && text.contains("30 bytes"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}
