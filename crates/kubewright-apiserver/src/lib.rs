//! A Kubernetes API server in a library.
//!
//! Start at [`ApiServer`], which builds a server. [`Service`] is the same without a socket.
//!
//! A request passes these modules in this order:
//!
//! 1. `serving`: connections; `http`: bodies and limits;
//! 2. `request`: path, verb and resource;
//! 3. `authentication` and `authorization`;
//! 4. `routes`: the handler;
//! 5. `kubewright_resources::decoding`: the object;
//! 6. `registry`: the verb;
//! 7. `admission`: policies, webhooks, limits and quotas. Defaults and validation are in the crate
//!    `kubewright-validation`, and expressions are evaluated by `kubewright-cel`;
//! 8. `kubewright_storage`: the write and its revision;
//! 9. `kubewright_objects::encoding`: the response.
//!
//! `housekeeping` follows the event log and runs the built-in controllers, such as the garbage
//! collector.
//!
//! ```
//! use kubewright_apiserver::ApiServer;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::in_memory().start().await?;
//! assert!(server.kubeconfig().contains("clusters:"));
//! server.stop().await;
//! # Ok(()) }
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod aggregation;
mod audit;
pub mod backup;
mod call;
mod channel_condition;
#[cfg(feature = "etcd")]
mod etcd;
mod faults;
mod feature_gates;
mod housekeeping;
mod http;
mod metrics;
mod non_resource;
mod offload;
mod patching;
mod registry;
mod request;
mod request_cost;
mod routes;
mod server;
mod service;
mod serving;
mod tunnel;
mod warnings;

pub use admission::plugins::{AdmissionPlugin, UnknownPlugin};
#[cfg(feature = "etcd")]
pub use etcd::EtcdOptions;
pub use faults::{Fault, Faults};
pub use feature_gates::FeatureGate;
pub use http::ResponseBody;
pub use kubewright_audit::{
    AuditLevel, AuditLog, AuditLogOptions, AuditPolicy, AuditSink, AuditWebhook, AuditWebhookOptions, PolicyError,
};
pub use kubewright_auth::authentication::{RequestHeaderOptions, ServiceAccountOptions, StaticTokens, TokenFileError};
pub use kubewright_auth::authorization::{
    AuthorizationMode, AuthorizationModes, AuthorizationWebhook, AuthorizationWebhookOptions,
};
pub use kubewright_objects::service_numbers::{ServiceAddresses, ServiceAddressesError};
pub use kubewright_resources::catalog::RuntimeConfig;
pub use non_resource::GIT_VERSION;
pub use server::{ApiServer, RunningServer, StartError};
pub use service::Service;
