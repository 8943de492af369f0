//! OpenAPI schemas of custom resources, as an API server publishes them.
//!
//! ```
//! use kubewright_core::{GroupVersionKind, json, tree};
//! use kubewright_schema::openapi;
//!
//! let definition = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
//! let kind = GroupVersionKind::new("example.com", "v1", "Foo");
//! let published = openapi::object_schema(Some(&definition), &kind);
//! assert!(tree::get(&published, &["properties", "metadata", "allOf"]).is_some());
//! assert_eq!(openapi::schema_name(&kind), "com.example.v1.Foo");
//! ```

mod names;
mod publish;
mod v2;

pub use names::{META_PACKAGE, kind_extension, reference, referenced_name, schema_name};
pub use publish::{SELECTABLE_FIELDS, list_schema, object_schema};
pub use v2::{definition_to_v2, schema_to_v2};
