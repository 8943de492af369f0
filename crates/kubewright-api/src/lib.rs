//! Types of the stable Kubernetes API, made for caches.
//!
//! One module for each version of each group, one cargo feature for each group:
//! `kubewright_api::core::v1::Pod` is there with the feature `core`. Rarely set fields live in an
//! allocation of their own that a type dereferences to; strings are [`Str`](kubewright_core::Str),
//! lists [`List`](kubewright_core::List), maps [`Map`](kubewright_core::Map). All code here is
//! written by `cargo xtask generate` from the description in `api/`.
//!
//! ```
//! use kubewright_api::core::v1::ConfigMap;
//! use kubewright_core::Object;
//!
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".into());
//! map.data.insert("colour", "blue".into());
//! assert_eq!(map.group_version_kind().to_string(), "/v1, Kind=ConfigMap");
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod generated;
#[cfg(feature = "apiextensions")]
mod schema;

pub use generated::*;
pub use kubewright_core::meta;
