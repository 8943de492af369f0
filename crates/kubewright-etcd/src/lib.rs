//! A client of etcd v3.
//!
//! [`Client`] calls the members of one etcd: ranges, transactions, compaction, leases and watches.
//! It keeps one HTTP/2 connection for each member that it uses, and goes on to the next member when
//! one fails. On top of it are what servers over one etcd share: [leases](SharedLeases), an
//! [election](Leadership), [compaction](compact_regularly), and the [encryption](Encryption) of
//! values.
//!
//! # Repeated calls
//!
//! A write whose response was lost may have been executed. The client repeats a write only if etcd
//! has certainly not executed it; otherwise it returns the [error](EtcdError), for which
//! [`EtcdError::is_unexecuted`] is false. Reads are repeated on other members until
//! [`ClientOptions::timeout`].
//!
//! # Why no gRPC crate
//!
//! etcd needs four unary calls and two streams. The messages of these take 400 lines on top of the
//! protobuf codec of `kubewright-core`, and gRPC itself takes 150 on top of h2. The crate
//! `etcd-client` brings tonic, tower and prost, and needs `protoc` to build.
//!
//! ```
//! use kubewright_etcd::{Encryption, prefix_end};
//!
//! // The end of the range of all keys with a prefix.
//! assert_eq!(prefix_end(b"/registry/"), b"/registry0");
//! let secrets = "{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration,
//!     resources: [{resources: [secrets], providers: [{identity: {}}]}]}";
//! assert!(Encryption::parse(secrets).is_ok());
//! ```

mod channel;
mod client;
mod compaction;
mod encryption;
mod endpoint;
mod error;
mod frames;
mod leadership;
mod messages;
mod revision_reader;
mod shared_leases;
mod tls;
mod watch;

pub use client::{Client, ClientOptions};
pub use compaction::compact_regularly;
pub use encryption::{ConfigurationError, Encryption, EncryptionError};
pub use endpoint::{Endpoint, InvalidEndpoint};
pub use error::EtcdError;
pub use leadership::Leadership;
pub use messages::request::{Comparison, Operation, RangeRequest, Transaction, WatchRequest};
pub use messages::response::{KeyValue, RangeResponse, StatusResponse, TransactionResponse, WatchEvent, WatchResponse};
pub use revision_reader::RevisionReader;
pub use shared_leases::SharedLeases;
pub use tls::TlsFiles;
pub use watch::Watch;

/// The end of the range of all keys that start with `prefix`.
///
/// ```
/// assert_eq!(kubewright_etcd::prefix_end(b"/registry/"), b"/registry0");
/// ```
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All keys: etcd's name for "no end".
    vec![0]
}
