//! Stored objects of the embedded API server, as all parts of the server see them.
//!
//! - [`object`]: an object as JSON text and tree, before and after the store assigns its revision.
//! - [`lookup`]: how parts below the registry read stored objects.
//! - [`conversion`]: objects in other versions of their resource, also by webhook.
//! - [`continue_token`]: where a list continues.
//! - [`encoding`]: objects, lists and watch events in the form that a client accepts.
//! - [`generic_webhook`]: the client of a webhook that a kubeconfig describes.
//! - [`selection`]: label and field selectors of lists and watches.
//! - [`service_numbers`]: the cluster IPs and node ports in use.
//! - [`rejection`]: the error of a request.
//!
//! Made for `kubewright-apiserver`; the API may change with it.
//!
//! ```
//! use kubewright_core::json;
//! use kubewright_objects::object::ObjectDraft;
//!
//! let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
//! let stored = ObjectDraft::new(map).stamp(7);
//! assert!(String::from_utf8_lossy(stored.json()).contains(r#""resourceVersion":"7""#));
//! ```

pub mod continue_token;
pub mod conversion;
pub mod encoding;
pub mod etcd;
pub mod generic_webhook;
pub mod lookup;
pub mod object;
pub mod random;
pub mod rejection;
pub mod selection;
pub mod service_numbers;
pub mod webhook_client;
