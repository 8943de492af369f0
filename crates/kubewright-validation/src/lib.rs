//! Defaults and validation of Kubernetes objects.
//!
//! An API server passes a written object through these modules in this order:
//!
//! 1. [`defaulting`] sets the fields that the caller left out;
//! 2. [`strategy`] sets or restores the fields that the server controls, such as `generation`;
//! 3. [`validation`] checks the result;
//! 4. [`warnings()`] lists what is valid but suspicious;
//! 5. [`pod_security`] checks pods against the Pod Security Standards.
//!
//! Causes have the messages and the order of kube-apiserver. The crate works on JSON trees, one
//! object at a time. It knows neither requests nor storage. Rules that need other objects, such as
//! quotas, stay in the server. The schemas of custom resources are validated by
//! `kubewright-schema`.
//!
//! ```
//! use kubewright_core::{json, tree};
//! use kubewright_validation::{ValidatedResource, defaulting, validation};
//!
//! let services = ValidatedResource::built_in("", "services", true);
//! let mut service = json!({
//!     "metadata": {"name": "web", "namespace": "default"},
//!     "spec": {"ports": [{"port": 80}, {"port": 80}]},
//! });
//! defaulting::apply(&services, &mut service);
//! assert_eq!(tree::text(&service, &["spec", "type"]), "ClusterIP");
//!
//! let causes = validation::create(&services, &service);
//! assert_eq!(causes[0].field.as_deref(), Some("spec.ports[0].name"));
//! ```

pub mod admission_policy;
pub mod approval;
mod data_source;
pub mod defaulting;
mod part;
pub mod pod_security;
pub mod pod_totals;
mod resource;
pub mod strategy;
pub mod validation;
mod warnings;

pub use part::Part;
pub use resource::{CustomProperties, ValidatedResource};
pub use warnings::warnings;
