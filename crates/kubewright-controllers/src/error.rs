//! Why a controller could not do its work.

use kubewright_cache::{InformerStopped, NotSynced};
use kubewright_core::selector::SelectorError;

/// Why a controller could not start, or could not bring an object into order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request failed.
    #[error("request failed")]
    Request(#[from] kubewright_client::Error),
    /// An object's selector cannot be understood.
    #[error("invalid selector")]
    Selector(#[from] SelectorError),
    /// The caches have stopped.
    #[error("cannot follow the objects")]
    Stopped(#[from] InformerStopped),
    /// The caches never became complete.
    #[error("caches are incomplete")]
    NotSynced(#[from] NotSynced),
    /// The template of a deployment has the hash of another one; the next try takes another hash.
    #[error("the name {name} is taken by another template")]
    HashCollision {
        /// The name of the replica set.
        name: String,
    },
    /// A controller that was declared cannot be run as it is.
    #[error("the declared controller cannot run")]
    Hook(#[from] crate::hooks::HookError),
    /// An owner of which the cache still knows is gone, or going; nothing is done in its name.
    #[error("{owner} has just been deleted")]
    OwnerGone {
        /// The owner, by kind and name.
        owner: String,
    },
    /// What controls some pods is not known, or is another one than they name.
    #[error("found no controller {controller}")]
    NoController {
        /// The controller that the pods name, by kind and name.
        controller: String,
    },
    /// The claim of a pod's ephemeral volume was made for somebody else.
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    NotOfPod {
        /// The claim, by key.
        claim: String,
        /// The pod, by key.
        pod: String,
    },
    /// An object of the right name belongs to somebody else.
    #[error("{object} exists and is not managed by {owner}")]
    NotControlled {
        /// The object, by kind and key.
        object: String,
        /// Who would manage it.
        owner: String,
    },
}

impl Error {
    /// Whether another try is expected to succeed, since only the cache was behind.
    pub fn is_conflict(&self) -> bool {
        match self {
            Error::Request(error) => error.is_conflict(),
            Error::OwnerGone { .. } => true,
            _ => false,
        }
    }

    /// What people are told by an object that it happened to: all causes, but not that it was a request that failed.
    pub(crate) fn told(&self) -> String {
        match self {
            Error::Request(error) => chain(error),
            error => chain(error),
        }
    }

    /// Whether nothing can be created because the namespace goes away.
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Error::Request(error) if is_namespace_terminating(error))
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

/// Whether the server refused because the namespace goes away.
pub(crate) fn is_namespace_terminating(error: &kubewright_client::Error) -> bool {
    let causes = error.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
    causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason.as_deref() == Some("NamespaceTerminating")))
}
