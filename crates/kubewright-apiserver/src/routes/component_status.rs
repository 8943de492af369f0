//! ComponentStatuses: the health of the parts of a cluster, as the API server sees them.
//!
//! They are computed for each request. This server has one part, its store, which takes the place
//! of etcd and has its name.

use std::sync::Arc;

use hyper::StatusCode;
use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::ListOptions;

use super::ResourceRequest;
use crate::http::ApiResponse;
use crate::registry::{ListPage, Selectors};
use kubewright_objects::encoding::ListMeta;
use kubewright_objects::object::{ObjectDraft, StoredObject, tree};
use kubewright_objects::rejection::Rejection;

/// The name of the store.
const STORE: &str = "etcd-0";

impl ResourceRequest<'_, '_> {
    pub(super) async fn list_components(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let options = ListOptions::from_query(self.call.query)?;
        let selection = Selectors::new(self.resource, options.label_selector.clone(), options.field_selector.clone())?;
        let objects = [store_status()].into_iter().filter(|status| selection.matches(status)).collect();
        let revision = self.call.registry.store.current_revision();
        self.encoded(wanted, ListPage { objects, meta: ListMeta { revision, ..ListMeta::default() } }).await
    }

    pub(super) async fn get_component(&mut self) -> Result<ApiResponse, Rejection> {
        let wanted = self.wanted()?;
        let name = &self.target.name;
        if name != STORE {
            let mut status = Status::not_found(&self.resource.group_resource(), name);
            // The real server uses the singular here.
            status.message = Some(format!("componentstatus {:?} not found", name.as_str()).into());
            if let Some(details) = &mut status.details {
                details.kind = Some("componentstatus".into());
            }
            return Err(status.into());
        }
        self.stored(StatusCode::OK, wanted, &store_status()).await
    }
}

/// The store is healthy while it answers.
fn store_status() -> Arc<StoredObject> {
    let healthy = tree::map([("type", "Healthy".into()), ("status", "True".into()), ("message", "ok".into())]);
    let status = tree::map([
        ("apiVersion", "v1".into()),
        ("kind", "ComponentStatus".into()),
        ("metadata", tree::map([("name", STORE.into())])),
        ("conditions", Value::Array([healthy].into_iter().collect())),
    ]);
    Arc::new(ObjectDraft::new(status).unstamped(""))
}
