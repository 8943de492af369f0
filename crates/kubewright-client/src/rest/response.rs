//! Answers: held whole, or read as they come.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use kubewright_core::json::Reader;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::Status;
use kubewright_core::protobuf::Envelope;
use kubewright_core::stream::Encoding;
use kubewright_core::{DecodeError, Decoder, GroupVersionResource, Object, ObjectList};

use super::attempt::collect;
use super::failure::status_in;
use super::negotiation::encoding_of;
use crate::error::{Error, Result};
use crate::transport::Body;

/// A successful answer, whole. Its `Debug` form does not show the body, which may be a secret.
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
        // One more tells that there is too much.
        let body = collect(body, limit.saturating_add(1)).await?;
        if body.len() > limit {
            return Err(DecodeError::new(format!("the answer is longer than {limit} bytes")).into());
        }
        Ok(Response { code: head.status, headers: head.headers, body, resource })
    }

    /// The code, from 200 to 206: 201 tells that something was created.
    #[doc(alias = "StatusCode")]
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// How the body is encoded.
    pub fn encoding(&self) -> Encoding {
        encoding_of(&self.headers)
    }

    /// The body as it came.
    #[doc(alias = "Raw")]
    #[inline]
    pub fn bytes(self) -> Bytes {
        self.body
    }

    /// The body as text; what is no text is replaced.
    #[inline]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The object in the body.
    ///
    /// # Errors
    /// When the body is empty or no such object. A `Status` that tells of a failure is that failure.
    #[doc(alias = "Into")]
    pub fn into<T: Object>(self) -> Result<T> {
        let encoding = self.encoding();
        self.check()?;
        decode(encoding, &self.body).map_err(Error::from)
    }

    /// The list in the body.
    ///
    /// # Errors
    /// As [`into`](Self::into).
    pub fn into_list<T: Object>(self) -> Result<ObjectList<T>> {
        let encoding = self.encoding();
        self.check()?;
        let mut decoder = Decoder::new();
        let list = match encoding {
            Encoding::Json => ObjectList::from_json(&self.body, &mut decoder),
            Encoding::Protobuf => ObjectList::from_protobuf(&self.body, &mut decoder),
        };
        list.map_err(Error::from)
    }

    /// The message in the body: what is no object, such as `APIResourceList`.
    ///
    /// # Errors
    /// As [`into`](Self::into).
    pub fn into_message<M: Message + Default>(self) -> Result<M> {
        let encoding = self.encoding();
        self.check()?;
        let mut decoder = Decoder::new();
        let message = match encoding {
            Encoding::Json => decoder.json(&self.body),
            Encoding::Protobuf => decoder.protobuf(&self.body),
        };
        message.map_err(Error::from)
    }

    /// The `Status` in the body, if that is what it is.
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

/// A successful answer whose body is still on its way.
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

    /// The code, from 200 to 206.
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// How the body is encoded.
    pub fn encoding(&self) -> Encoding {
        encoding_of(&self.headers)
    }

    /// The body, chunk by chunk. Dropping it gives the request up.
    pub fn into_body(self) -> Body {
        self.body
    }
}

/// One object of an answer.
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
    fn the_debug_form_tells_how_long_a_body_is_and_not_what_it_says() {
        let body = Bytes::from_static(br#"{"data":{"password":"s3cret"}}"#);
        let response = Response { code: StatusCode::OK, headers: HeaderMap::new(), body, resource: None };
        let text = format!("{response:?}");
        assert!(text.contains("200") && text.contains("30 bytes"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}
