//! Custom resources from the structs of their specs.
//!
//! `#[derive(CustomResource)]` generates the object type and its traits; this module contains the
//! support code, and
//! [`CustomResource::definition`]for users. Schemas come from schemars and are made structural
//! here, as API servers require.
//!
//! ```
//! use kubewright_core::Object;
//! use kubewright_runtime::custom::CustomResource;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
//! #[resource(group = "example.com", version = "v1", kind = "Foo", namespaced, status = FooStatus, short_names("fo"))]
//! #[serde(rename_all = "camelCase")]
//! struct FooSpec {
//!     deployment_name: String,
//!     replicas: Option<i32>,
//! }
//!
//! #[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
//! #[serde(rename_all = "camelCase")]
//! struct FooStatus {
//!     available_replicas: i32,
//! }
//!
//! let foo = Foo::new("a", FooSpec { deployment_name: "web".into(), replicas: Some(2) });
//! assert_eq!(foo.group_version_kind().to_string(), "example.com/v1, Kind=Foo");
//! assert_eq!(Foo::definition().name(), "foos.example.com");
//! ```

mod apply;
mod definition;
mod field_rules;
mod install;
#[cfg(feature = "validate")]
mod local_validation;
mod parts;
mod structural;
#[cfg(feature = "webhook")]
mod versions;

pub use definition::{Column, CustomResource, Details, MergeError, Rule, ScalePaths, merge_versions};
pub use field_rules::{immutable, list_atomic, list_map, list_set, map_atomic, rule};
pub use install::{InstallError, install, until_served};
pub use kubewright_derive::{Apply, CustomResource};
pub use structural::schema_of;
#[cfg(feature = "webhook")]
pub use versions::Versions;

#[doc(hidden)]
pub use {
    apply::{set_field, set_flattened},
    kubewright_client::{HasScale, HasStatus},
    kubewright_core::apply_configuration::{ApplyObject, ApplySchema, HasApply, setters},
    kubewright_core::json::{Reader, Writer},
    kubewright_core::meta::v1::{ObjectMeta, ObjectMetaApply},
    kubewright_core::scheme::KindInfo,
    kubewright_core::{
        ClusterScoped, DecodeError, Decoder, GroupVersionKind, Kind, Namespaced, Object, ResourceInfo, object_metadata,
    },
    kubewright_core::{apply_metadata, apply_part},
    parts::{FlatParts, NoStatus, Parts, serialize, serialize_flat, write_json},
    serde,
};

/// The verbs of custom resources.
#[doc(hidden)]
pub const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
