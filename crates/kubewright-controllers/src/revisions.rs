//! Template history: one `ControllerRevision` per version, for stateful and daemon sets.

use std::sync::Arc;

use kubewright_api::apps::v1::ControllerRevision;
use kubewright_api::core::v1::PodTemplateSpec;
use kubewright_cache::InformerHandle;
use kubewright_client::{Api, Client};
use kubewright_core::json::Writer;
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::{Decoder, GroupVersionKind, Kind, Object, ObjectKey, Selector, Str, Value, owner};

use crate::claim::{Claimant, claim};
use crate::deletion::delete_exactly;
use crate::deployment::template;
use crate::error::Error;
use crate::own_writes::OwnWrites;

/// The label with the revision of a pod.
#[doc(alias = "ControllerRevisionHashLabelKey")]
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

/// Maximum length of the owner's name in revision names.
const LONGEST_START: usize = 223;

/// The owner of a history.
pub(crate) struct Owner<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) meta: &'a ObjectMeta,
    pub(crate) kind: &'a GroupVersionKind,
    pub(crate) template: &'a PodTemplateSpec,
    /// The label with the hash of its revisions.
    pub(crate) hash_label: &'static str,
}

/// The revisions of all owners of a kind.
#[derive(Debug)]
pub(crate) struct Revisions {
    client: Client,
    revisions: InformerHandle<ControllerRevision>,
    own_writes: OwnWrites,
}

impl Revisions {
    pub(crate) fn new(client: &Client, revisions: &InformerHandle<ControllerRevision>) -> Self {
        Revisions { client: client.clone(), revisions: revisions.clone(), own_writes: OwnWrites::default() }
    }

    /// Whether the cache shows all writes for an owner.
    pub(crate) fn are_seen(&self, owner: &ObjectKey) -> bool {
        self.own_writes.are_seen(owner, self.revisions.store())
    }

    /// Removes the entry of a deleted owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.own_writes.forget(owner);
    }

    /// The revisions of an owner, oldest first, after adoptions and releases.
    #[doc(alias = "SortControllerRevisions")]
    pub(crate) async fn of<O: Kind>(
        &self,
        owner: &Owner<'_>,
        owners: &Api<O>,
        selector: &Selector,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let claimant = Claimant { meta: owner.meta, kind: owner.kind, owners, selector, finalizer: None };
        let mut revisions = claim(&claimant, &self.revisions.lister(), &self.api(owner), |_| true).await?;
        let age = |one: &ControllerRevision| (one.revision, one.creation_timestamp(), one.name().to_owned());
        revisions.sort_by_cached_key(|revision| age(revision));
        Ok(revisions)
    }

    /// The revision of the owner's current template: the last one of `known`, an older one that
    /// becomes the last on a rollback, or a new one. Counts name collisions.
    pub(crate) async fn present(
        &self,
        owner: &Owner<'_>,
        known: &[Arc<ControllerRevision>],
        collisions: &mut i32,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let next = known.last().map_or(0, |last| last.revision).saturating_add(1);
        let data = data(owner.template);
        let tree = Value::from_json(data.as_bytes()).ok();
        let is_present = |revision: &ControllerRevision| {
            revision.data.as_ref().and_then(|data| data.to_value().ok()).is_some_and(|data| Some(data) == tree)
        };
        let api = self.api(owner);
        if let Some(equal) = known.iter().rfind(|revision| is_present(revision)) {
            if equal.revision.saturating_add(1) == next {
                return Ok(equal.clone());
            }
            let renewed = api.update(&ControllerRevision { revision: next, ..(**equal).clone() }).await?;
            self.own_writes.written(owner.key, &renewed);
            return Ok(Arc::new(renewed));
        }
        loop {
            let revision = new_revision(owner, &data, next, *collisions);
            match api.create(&revision).await {
                Ok(made) => {
                    self.own_writes.written(owner.key, &made);
                    return Ok(Arc::new(made));
                }
                Err(error) if error.is_already_exists() => {
                    let taken = api.get(revision.name()).await?;
                    if owner::is_controlled_by(&taken.metadata, owner.meta) && is_present(&taken) {
                        return Ok(Arc::new(taken));
                    }
                    *collisions += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes the oldest unused revisions beyond the history limit.
    #[doc(alias = "truncateHistory")]
    pub(crate) async fn trim(
        &self,
        owner: &Owner<'_>,
        known: &[Arc<ControllerRevision>],
        limit: Option<i32>,
        is_used: impl Fn(&ControllerRevision) -> bool + Send,
    ) -> Result<(), Error> {
        let unused: Vec<_> = known.iter().filter(|revision| !is_used(revision)).cloned().collect();
        let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(usize::MAX);
        for revision in unused.iter().take(unused.len().saturating_sub(limit)) {
            delete_exactly(&self.api(owner), &**revision).await?;
            self.own_writes.deleted(owner.key, &**revision);
        }
        Ok(())
    }

    fn api(&self, owner: &Owner<'_>) -> Api<ControllerRevision> {
        Api::namespaced(&self.client, owner.key.namespace().clone())
    }
}

/// The template of a revision.
#[doc(alias = "ApplyRevision")]
pub(crate) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let data = revision.data.as_ref()?.to_value().ok()?;
    let template = data.get("spec")?.get("template")?.to_string();
    Decoder::new().json(template.as_bytes()).ok()
}

#[doc(alias = "NewControllerRevision")]
fn new_revision(owner: &Owner<'_>, data: &str, number: i64, collisions: i32) -> ControllerRevision {
    let hash: Str = hash(data, collisions).into();
    let mut revision = ControllerRevision { revision: number, data: data.parse().ok(), ..Default::default() };
    let name = owner.meta.name.as_deref().unwrap_or_default();
    // Names that are too long are truncated.
    let start: String = name.chars().take(LONGEST_START).collect();
    revision.metadata.name = Some(format!("{start}-{hash}").into());
    revision.metadata.namespace = owner.meta.namespace.clone();
    revision.metadata.labels = owner.template.metadata.labels.clone();
    revision.metadata.labels.insert(owner.hash_label, hash);
    // They include the change cause that `kubectl rollout history` shows.
    revision.metadata.annotations = owner.meta.annotations.clone();
    revision.metadata.owner_references = [owner::new_controller_ref(owner.meta, owner.kind)].into();
    revision
}

/// A strategic merge patch that restores the template, as used by `kubectl rollout undo`.
/// Byte-identical to Go's, because names depend on it.
#[doc(alias = "getPatch")]
fn data(template: &PodTemplateSpec) -> String {
    let mut json = Vec::new();
    Writer::new(&mut json).as_server().message(template);
    let mut tree = Value::from_json(&json).unwrap_or_default();
    if let Some(fields) = tree.as_object_mut() {
        fields.insert("$patch", Value::from("replace"));
    }
    let spec = Value::Object([("template", tree)].into());
    let text = Value::Object([("spec", spec)].into()).to_string();
    // Go escapes these characters for HTML; they occur in strings only.
    [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")].iter().fold(text, |text, (from, to)| text.replace(from, to))
}

#[doc(alias = "HashControllerRevision")]
fn hash(data: &str, collisions: i32) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in data.bytes().chain(collisions.to_string().bytes()) {
        hash = hash.wrapping_mul(0x0100_0193) ^ u32::from(byte);
    }
    template::safe_encode(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_hash_equals_gos() {
        // Written by a controller of Kubernetes 1.34 for this template.
        let written = concat!(
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"annotations":{"test":"value"},"labels":{"app":"foo"}},"#,
            r#""spec":{"containers":[{"image":"test","imagePullPolicy":"Always","name":"test","resources":{},"#,
            r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"#,
            r#""dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","#,
            r#""securityContext":{},"terminationGracePeriodSeconds":30}}}}"#
        );
        let mut revision = ControllerRevision { data: written.parse().ok(), ..Default::default() };
        assert_eq!(data(&template_of(&revision).unwrap()), written);
        assert_eq!(hash(written, 0), "776999688b");
        assert_ne!(hash(written, 1), "776999688b");
        revision.data = "[]".parse().ok();
        assert_eq!(template_of(&revision), None);
    }

    #[test]
    fn letters_of_html_are_escaped() {
        let mut template = PodTemplateSpec::default();
        template.metadata.annotations.insert("a", "<&>".into());
        assert!(data(&template).contains(r#""a":"\u003c\u0026\u003e""#));
    }
}
