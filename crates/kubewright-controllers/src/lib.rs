//! The controllers of a cluster.
//!
//! Start at [`ControllerSet`], which runs all of them; each can also be run separately. They are
//! written like client-go's: informers queue keys, workers take them (`worker`), and a function
//! reconciles one object. They use only the public API of the other crates, so they also serve as
//! examples.
//!
//! ```
//! use kubewright_apiserver::ApiServer;
//! use kubewright_controllers::{ControllerSet, NodeOptions};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::in_memory().start().await?;
//! let controllers = ControllerSet::new(&server.client()).nodes(NodeOptions::default().count(3)).start();
//! // … create a deployment and watch it roll out …
//! controllers.stop().await?;
//! # Ok(()) }
//! ```

mod activity;
mod batches;
mod catalogue;
pub mod certificates;
mod claim;
mod context;
pub mod cronjob;
pub mod daemonset;
mod deletion;
pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod ephemeral_volumes;
mod error;
mod hook_error;
pub mod hooks;
pub mod horizontal_pod_autoscaler;
mod indices;
pub mod ingress_manager;
pub mod job;
pub mod load_balancers;
pub mod metrics_server;
pub mod node_lifecycle;
pub mod nodes;
mod own_writes;
mod owner_events;
mod placement;
mod pod_control;
mod pods;
pub mod replicaset;
mod revisions;
pub mod root_ca_cert_publisher;
pub mod sample;
pub mod service_accounts;
mod set;
mod signing_authority;
pub mod statefulset;
pub mod token_secrets;
pub mod volumes;
mod worker;

pub use activity::{Activity, ControllerActivity, FinishedReconcile};
pub use catalogue::{Shipped, UnknownController};
pub use context::ControllerContext;
pub use error::Error;
pub use hook_error::HookError;
pub use metrics_server::MetricsServer;
pub use nodes::NodeOptions;
pub use set::{ControllerSet, RunningControllers};
pub use signing_authority::{InvalidAuthority, SigningAuthority};
