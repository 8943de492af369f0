//! Deletes an object by uid.

use kubewright_client::{Api, Result};
use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

/// Deletes the object with this uid. A missing object, or another one of its name, is not an error.
pub(crate) async fn delete_exactly<T: Object, O: Object>(api: &Api<T>, object: &O) -> Result<()> {
    match api.delete_with(object.name(), &DeleteOptions::default().uid(object.uid())).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
