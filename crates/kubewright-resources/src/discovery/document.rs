//! A discovery document and its encodings.

use std::fmt;

use kubewright_core::json::Writer;
use kubewright_core::message::Message;
use kubewright_core::protobuf::Envelope;

/// A discovery document.
pub struct DiscoveryDocument {
    message: Box<dyn Message>,
    kind: &'static str,
    /// Empty for documents of the core group: their first clients expected none.
    api_version: &'static str,
}

impl DiscoveryDocument {
    /// A document with the kind and version of its type.
    pub(super) fn new(message: impl Message + 'static) -> Self {
        let info = message.scheme().kind.as_ref().expect("documents have a kind");
        DiscoveryDocument { kind: info.kind, api_version: info.api_version, message: Box::new(message) }
    }

    /// The same document without an `apiVersion`.
    pub(super) fn without_version(self) -> Self {
        DiscoveryDocument { api_version: "", ..self }
    }

    /// The document as JSON, with its fields in Go's order.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(format!(r#"{{"kind":"{}""#, self.kind).as_bytes());
        if !self.api_version.is_empty() {
            out.extend_from_slice(format!(r#","apiVersion":"{}""#, self.api_version).as_bytes());
        }
        let start = out.len();
        Writer::new(&mut out).as_server().message(&*self.message);
        // The fields follow the kind, in the same object.
        out[start] = b',';
        out
    }

    /// The document as protobuf, in its envelope.
    pub fn to_protobuf(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        Envelope::encode_with(self.api_version, self.kind, &mut out, |encoder| encoder.message(&*self.message));
        out
    }
}

impl fmt::Debug for DiscoveryDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryDocument").field("kind", &self.kind).finish_non_exhaustive()
    }
}
