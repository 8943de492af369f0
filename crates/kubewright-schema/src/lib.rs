//! Structural schemas: the `openAPIV3Schema` of CustomResourceDefinitions.
//!
//! - [`validate_schema`] checks that a schema is structural, and that its CEL rules compile and
//!   stay within their cost limits.
//! - [`Schema::parse`] reads a schema. [`Schema::prune`] removes unknown fields,
//!   [`Schema::apply_defaults`] adds defaults, and [`Schema::validate`] checks an object.
//! - Validation ratchets: a value that an update leaves unchanged is not checked again, so that a
//!   stricter schema does not block other changes. Its broken rules become warnings.
//! - [`openapi`] converts schemas to the documents that an API server publishes.
//!
//! Causes have the messages and the order of kube-apiserver. The crate works on JSON values. It
//! knows neither requests nor storage. CEL rules are evaluated by `kubewright-cel`.
//!
//! ```
//! use kubewright_core::json;
//! use kubewright_schema::{Schema, validate_schema};
//!
//! let definition = json!({
//!     "type": "object",
//!     "properties": {"spec": {
//!         "type": "object",
//!         "properties": {
//!             "replicas": {"type": "integer", "default": 1, "minimum": 0},
//!             "maxReplicas": {"type": "integer"},
//!         },
//!         "x-kubernetes-validations": [{
//!             "rule": "!has(self.maxReplicas) || self.replicas <= self.maxReplicas",
//!             "message": "replicas must not exceed maxReplicas",
//!         }],
//!     }},
//! });
//! assert!(validate_schema("openAPIV3Schema", &definition).is_empty());
//! let schema = Schema::parse(&definition);
//!
//! let mut object = json!({"spec": {"maxReplicas": 5, "colour": "red"}});
//! assert_eq!(schema.prune(&mut object), ["spec.colour"]);
//! schema.apply_defaults(&mut object);
//! assert_eq!(object, json!({"spec": {"maxReplicas": 5, "replicas": 1}}));
//! assert!(schema.validate(&object, None).causes.is_empty());
//!
//! let too_many = json!({"spec": {"maxReplicas": 5, "replicas": 9}});
//! for cause in schema.validate(&too_many, None).causes {
//!     println!("{}: {}", cause.field.unwrap_or_default(), cause.message.unwrap_or_default());
//! }
//! ```

mod cause;
mod cel_type;
mod compatibility;
#[cfg(test)]
mod cost_tests;
mod defaulting;
mod embedded_resource;
mod enum_values;
mod field_path;
mod list_type;
pub mod openapi;
mod parse;
mod pattern;
mod pruning;
mod rule;
mod rule_cost;
mod rule_evaluation;
mod rule_validation;
pub mod scale;
mod schema;
mod size_limits;
mod structural;
#[cfg(test)]
mod tests;
mod unsupported;
mod validation;
mod value_validation;
mod value_validator;

pub use compatibility::{Incompatibility, incompatibilities};
pub use schema::Schema;
pub use structural::validate_schema;
pub use validation::Validation;
