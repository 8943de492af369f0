//! The endpoint `/kubewright/backup`, see [`crate::backup`].

use kubewright_core::meta::v1::Status;

use crate::backup::Backup;
use crate::call::Call;
use crate::http::Answer;
use crate::rejection::Rejection;
use kubewright_storage::{ListOptions, Scope};

/// Responds with a backup. Writes continue meanwhile.
pub(super) fn answer(call: &Call<'_>) -> Result<Answer, Rejection> {
    let unreadable = call.registry.unreadable.names_in(&Scope::everything());
    if !unreadable.is_empty() {
        let names = unreadable.join(", ");
        let why = format!("a backup would lack the objects that cannot be read: {names}. Delete them first");
        return Err(Status::internal(why).into());
    }
    let page = call.registry.store.list(&Scope::everything(), ListOptions::default());
    let page = page.map_err(|error| Status::internal(error.to_string()))?;
    Ok(Answer::streamed("application/x-ndjson", Backup::new(page)))
}
