//! The wire encodings of objects.

/// The wire encoding of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON text.
    Json,
    /// Protobuf in the Kubernetes envelope.
    Protobuf,
}

impl Encoding {
    /// The media type.
    #[inline]
    pub const fn media_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}
