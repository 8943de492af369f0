//! Objects in etcd, which several servers share.
//!
//! The store is then a watch cache. A [follower] applies all writes under the prefix, of this
//! server and of others, in the order of etcd's revisions. A write of this server is a transaction
//! that compares the revision of the key ([`primary`]). It returns when the store shows its result,
//! so that clients read their own writes.
//!
//! # Blocking writes
//!
//! The registry's writes are plain functions that end with a write to the store. Over etcd, that
//! write waits for a transaction, so it blocks its thread. All requests that write, the
//! housekeeping and the bootstrap therefore run on threads that may block
//! ([`Offload`](crate::offload::Offload)), at most 256 at a time. A write on any other thread is
//! rejected, because it could block the follower that it waits for. Async writes would spread over
//! the registry and admission, whose locks and closures are written for plain functions.
//!
//! # Consistent reads
//!
//! A request that must see all writes acknowledged before waits at a
//! [barrier](crate::registry::SharedDatabase::barrier). It asks etcd for its revision, together
//! with all requests that wait at that time. Then it waits until the store has reached it. Requests
//! for `resourceVersion=0`, and watches from a revision, do not wait.
//!
//! # Interoperation
//!
//! Keys and values are those of kube-apiserver (`kubewright_objects::etcd`), and so are leases and
//! the protocol by which servers agree on who compacts (`kubewright_etcd`).

mod database;
mod follower;
mod list;
mod primary;

use std::time::Duration;

use kubewright_etcd::{ClientOptions, Encryption};

pub(crate) use database::EtcdDatabase;
pub(crate) use follower::follow;
pub(crate) use primary::EtcdPrimary;

/// How to store objects in etcd.
#[derive(Debug)]
pub struct EtcdOptions {
    client: ClientOptions,
    prefix: String,
    encryption: Encryption,
    compaction_interval: Duration,
}

impl EtcdOptions {
    /// Objects in the etcd of this client, below `/registry`.
    pub fn new(client: ClientOptions) -> Self {
        let compaction_interval = Duration::from_secs(300);
        EtcdOptions { client, prefix: "/registry".to_owned(), encryption: Encryption::default(), compaction_interval }
    }

    /// The prefix of all keys. `/registry` by default.
    #[doc(alias = "etcd-prefix")]
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Encrypts values. By default they are stored as they are.
    #[doc(alias = "encryption-provider-config")]
    #[must_use]
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = encryption;
        self
    }

    pub(crate) fn interval(&self) -> Duration {
        self.compaction_interval
    }

    /// The interval in which old revisions are compacted; zero leaves that to others. Five minutes
    /// by default.
    #[doc(alias = "etcd-compaction-interval")]
    #[must_use]
    pub fn compaction_interval(mut self, interval: Duration) -> Self {
        self.compaction_interval = interval;
        self
    }
}
