//! The parts of an object that requests update separately.

/// The part of an object that an update may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything except a status that has its own subresource.
    Main,
    /// The status subresource.
    Status,
    /// The approval subresource of a CertificateSigningRequest.
    Approval,
    /// The ephemeral containers of a pod.
    Ephemeral,
    /// The resources of a running pod.
    Resize,
    /// A change by the server itself, stored without checks.
    Internal,
}
