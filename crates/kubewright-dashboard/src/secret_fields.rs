//! The parts of objects that the page does not show.

/// The annotation in which `kubectl apply` keeps the whole object.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
