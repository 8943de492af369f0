//! Errors of calls.

use std::io;

/// gRPC: the operation cannot be executed in the current state, such as a compacted revision.
const OUT_OF_RANGE: u32 = 11;
/// gRPC: a limit is exceeded. etcd rejects the request before it is executed.
const RESOURCE_EXHAUSTED: u32 = 8;
/// gRPC: the server cannot answer now.
const UNAVAILABLE: u32 = 14;
/// gRPC: the item does not exist.
const NOT_FOUND: u32 = 5;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The request did not reach a member.
    #[error("cannot reach etcd at {endpoint}")]
    Unreachable {
        /// The address of the member.
        endpoint: String,
        /// The reason.
        source: io::Error,
    },
    /// etcd rejected the request.
    #[error("{message}")]
    Rejected {
        /// The gRPC status code.
        code: u32,
        /// The message of etcd.
        message: String,
    },
    /// The connection broke before the response was complete.
    #[error("the connection to etcd broke during the request")]
    Interrupted(#[source] io::Error),
    /// There was no response in time.
    #[error("etcdserver: request timed out")]
    TimedOut,
    /// A response is not a message of etcd.
    #[error("etcd sent a malformed response: {problem}")]
    Malformed {
        /// The problem.
        problem: String,
    },
}

impl EtcdError {
    /// Whether etcd has certainly not executed the request, so that a write may be repeated.
    pub fn is_unexecuted(&self) -> bool {
        match self {
            EtcdError::Unreachable { .. } => true,
            EtcdError::Rejected { code: RESOURCE_EXHAUSTED, .. } => true,
            // With `hasleader`, a member without a leader rejects a call before it proposes it.
            EtcdError::Rejected { code: UNAVAILABLE, message } => message == "etcdserver: no leader",
            _ => false,
        }
    }

    /// Whether another member, or the same one later, may answer.
    pub fn is_transient(&self) -> bool {
        match self {
            EtcdError::Unreachable { .. } | EtcdError::Interrupted(_) | EtcdError::TimedOut => true,
            EtcdError::Rejected { code, .. } => *code == UNAVAILABLE,
            EtcdError::Malformed { .. } => false,
        }
    }

    /// Whether the requested revision has been compacted.
    pub fn is_compacted(&self) -> bool {
        matches!(self, EtcdError::Rejected { code: OUT_OF_RANGE, message } if message.contains("compacted"))
    }

    /// Whether the lease does not exist.
    pub fn is_lease_not_found(&self) -> bool {
        matches!(self, EtcdError::Rejected { code: NOT_FOUND, message } if message.contains("lease"))
    }

    pub(crate) fn malformed(problem: impl ToString) -> Self {
        EtcdError::Malformed { problem: problem.to_string() }
    }
}
