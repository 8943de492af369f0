//! Merges Kubernetes objects as kube-apiserver does: [`patch`] has JSON patch, merge patch and
//! strategic merge patch, and with the feature `apply` the module `apply` has server-side apply
//! with its field managers.
//!
//! All of it works on trees ([`Value`](kubewright_core::Value)), guided by the tables of types.
//!
//! ```
//! use kubewright_core::Value;
//! use kubewright_merge::patch::json_patch;
//!
//! let target: Value = r#"{"args":["a","b"]}"#.parse()?;
//! let patch: Value = r#"[{"op":"add","path":"/args/-","value":"c"}]"#.parse()?;
//! assert_eq!(json_patch(&target, &patch)?.to_string(), r#"{"args":["a","b","c"]}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "apply")]
pub mod apply;
pub mod patch;
