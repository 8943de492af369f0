//! The endpoint `/kubewright/backup`, see [`crate::backup`].

use kubewright_core::meta::v1::Status;

use crate::backup::Backup;
use crate::call::Call;
use crate::http::ApiResponse;
use kubewright_objects::rejection::Rejection;
use kubewright_storage::{KeyRange, StoreListOptions};

/// Responds with a backup. Writes continue meanwhile.
pub(super) fn answer(call: &Call<'_>) -> Result<ApiResponse, Rejection> {
    let unreadable = call.registry.unreadable.names_in(&KeyRange::everything());
    if !unreadable.is_empty() {
        let names = unreadable.join(", ");
        let why = format!("a backup would lack the objects that cannot be read: {names}. Delete them first");
        return Err(Status::internal(why).into());
    }
    let page = call.registry.store.list(&KeyRange::everything(), StoreListOptions::default());
    let page = page.map_err(|error| Status::internal(error.to_string()))?;
    Ok(ApiResponse::streamed("application/x-ndjson", Backup::new(page)))
}
