//! Controller errors.

use kubewright_cache::{InformerStopped, NotSynced};
use kubewright_core::selector::SelectorError;

/// Why a controller could not start, or could not reconcile an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request failed.
    #[error("request failed")]
    Request(#[from] kubewright_client::Error),
    /// A selector is invalid.
    #[error("invalid selector")]
    Selector(#[from] SelectorError),
    /// The caches have stopped.
    #[error("cannot follow the objects")]
    Stopped(#[from] InformerStopped),
    /// The caches did not sync.
    #[error("caches are incomplete")]
    NotSynced(#[from] NotSynced),
    /// The hash of a template collides; the next attempt uses another hash.
    #[error("the name {name} is taken by another template")]
    HashCollision {
        /// The name of the replica set.
        name: String,
    },
    /// A declared controller cannot be run.
    #[error("the declared controller cannot run")]
    Hook(#[from] crate::hook_error::HookError),
    /// The owner is deleted, although the cache still shows it; nothing is done for it.
    #[error("{owner} has just been deleted")]
    OwnerGone {
        /// The owner, by kind and name.
        owner: String,
    },
    /// The controller of some pods is unknown, or differs from their owner reference.
    #[error("found no controller {controller}")]
    NoController {
        /// The controller in the owner references, by kind and name.
        controller: String,
    },
    /// The claim of an ephemeral volume belongs to another owner.
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    NotOfPod {
        /// The claim, by key.
        claim: String,
        /// The pod, by key.
        pod: String,
    },
    /// An object of the expected name belongs to another owner.
    #[error("{object} exists and is not managed by {owner}")]
    NotControlled {
        /// The object, by kind and key.
        object: String,
        /// The expected owner.
        owner: String,
    },
}

impl Error {
    /// Whether a retry is expected to succeed, because only the cache was stale.
    pub fn is_conflict(&self) -> bool {
        match self {
            Error::Request(error) => error.is_conflict(),
            Error::OwnerGone { .. } => true,
            _ => false,
        }
    }

    /// The message for events: all causes, without "request failed".
    pub(crate) fn event_message(&self) -> String {
        match self {
            Error::Request(error) => chain(error),
            error => chain(error),
        }
    }

    /// Whether nothing can be created because the namespace is terminating.
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Error::Request(error) if is_namespace_terminating(error))
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

/// Whether the server refused because the namespace is terminating.
pub(crate) fn is_namespace_terminating(error: &kubewright_client::Error) -> bool {
    let causes = error.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
    causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason.as_deref() == Some("NamespaceTerminating")))
}
