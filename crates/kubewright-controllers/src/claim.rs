//! Adopts matching objects, and releases those that no longer match.

use std::sync::Arc;

use kubewright_cache::Lister;
use kubewright_client::Api;
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::options::Patch;
use kubewright_core::{GroupVersionKind, Kind, Map, Object, Selector, Str, StringMap};

use crate::error::Error;
use crate::indices;

/// The adopting owner.
pub(crate) struct Claimant<'a, O> {
    /// Its cached metadata.
    pub(crate) meta: &'a ObjectMeta,
    pub(crate) kind: &'a GroupVersionKind,
    /// Reads it once more before an adoption, since it may have been deleted.
    pub(crate) owners: &'a Api<O>,
    pub(crate) selector: &'a Selector,
    /// The finalizer that an owned object has, if any.
    pub(crate) finalizer: Option<&'a str>,
}

/// The objects of the claimant, after adoptions and releases; `may_claim` filters candidates.
///
/// # Errors
/// If a request fails, and if the claimant turns out to be deleted before an adoption: nothing must
/// be created for it then.
#[doc(alias = "ControllerRefManager")]
pub(crate) async fn claim<O: Kind, T: Kind>(
    claimant: &Claimant<'_, O>,
    lister: &Lister<T>,
    objects: &Api<T>,
    may_claim: impl Fn(&T) -> bool + Send,
) -> Result<Vec<Arc<T>>, Error> {
    let uid = claimant.meta.uid.clone().unwrap_or_default();
    let is_going = claimant.meta.deletion_timestamp.is_some();
    let mut claimed = Vec::new();
    for object in indices::controlled_by(lister, &uid) {
        if selects(claimant.selector, &*object) {
            claimed.push(object);
        } else if !is_going && (!object.is_being_deleted() || claimant.finalizer.is_some()) {
            release(claimant, objects, &*object).await?;
        }
    }
    let mut is_asked = false;
    for object in indices::orphans(lister, claimant.meta.namespace.as_deref().unwrap_or_default()) {
        let wanted = !is_going && !object.is_being_deleted() && may_claim(&object);
        if !wanted || !selects(claimant.selector, &*object) {
            continue;
        }
        if !std::mem::replace(&mut is_asked, true) {
            let name = claimant.meta.name.as_deref().unwrap_or_default();
            let owner = claimant.owners.get_opt(name).await?;
            if !owner.is_some_and(|owner| owner.uid() == uid && !owner.is_being_deleted()) {
                return Err(Error::OwnerGone { owner: format!("{} {name}", claimant.kind.kind) });
            }
        }
        if let Some(adopted) = adopt(claimant, objects, &*object).await? {
            claimed.push(Arc::new(adopted));
        }
    }
    Ok(claimed)
}

/// Whether an object's labels match the selector.
pub(crate) fn selects(selector: &Selector, object: &impl Object) -> bool {
    match object.labels() {
        StringMap::Map(labels) => selector.matches(labels),
        _ => selector.matches(&Map::<Str>::new()),
    }
}

async fn adopt<O, T: Kind>(claimant: &Claimant<'_, O>, objects: &Api<T>, object: &T) -> Result<Option<T>, Error> {
    let held = claimant.finalizer.map(|finalizer| format!(r#","finalizers":["{finalizer}"]"#)).unwrap_or_default();
    let patch = format!(
        r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"{}","kind":"{}","name":"{}","uid":"{}","controller":true,"blockOwnerDeletion":true}}],"uid":"{}"{held}}}}}"#,
        claimant.kind.api_version(),
        claimant.kind.kind,
        claimant.meta.name.as_deref().unwrap_or_default(),
        claimant.meta.uid.as_deref().unwrap_or_default(),
        object.uid(),
    );
    tracing::debug!(object = %object.key(), owner = ?claimant.meta.name, "adopting");
    gone_is_fine(objects.patch(object.name(), Patch::Strategic(patch.into_bytes())).await)
}

async fn release<O, T: Kind>(claimant: &Claimant<'_, O>, objects: &Api<T>, object: &T) -> Result<(), Error> {
    let deletion = |finalizer: &str| format!(r#","$deleteFromPrimitiveList/finalizers":["{finalizer}"]"#);
    let release = claimant.finalizer.map(deletion).unwrap_or_default();
    let patch = format!(
        r#"{{"metadata":{{"ownerReferences":[{{"$patch":"delete","uid":"{}"}}],"uid":"{}"{release}}}}}"#,
        claimant.meta.uid.as_deref().unwrap_or_default(),
        object.uid(),
    );
    tracing::debug!(object = %object.key(), owner = ?claimant.meta.name, "releasing");
    gone_is_fine(objects.patch(object.name(), Patch::Strategic(patch.into_bytes())).await).map(drop)
}

/// A deleted or replaced object needs no owner.
fn gone_is_fine<T>(result: kubewright_client::Result<T>) -> Result<Option<T>, Error> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() || error.is_invalid() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
