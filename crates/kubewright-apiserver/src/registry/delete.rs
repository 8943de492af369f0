//! Deletes objects: at once, after a grace period, or when the last finalizer is removed.

use std::{sync::Arc, time::Duration};

use kubewright_core::meta::v1::Status;
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use kubewright_core::{GroupResource, Str, Time, Value};
use kubewright_net::clock;

use super::{Registry, note_write, refusal, set_condition};
use crate::admission::control::{Attributes, Control, Operation};
use kubewright_objects::conversion;
use kubewright_objects::object::{Meta, ObjectDraft, StoredObject, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{EventKind, Key, VersionedValue, WriteError};

/// The finalizer of a foreground deletion. It blocks until all dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an orphaning deletion. It blocks until all dependents are released.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of definitions. It blocks until all their objects are deleted.
pub(crate) const CUSTOM_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Namespaces that cannot be deleted.
const SYSTEM_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Core resources whose deletion returns the object instead of a Status.
const ANSWERED_WITH_OBJECT: [&str; 7] = [
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourcequotas",
    "serviceaccounts",
    "services",
];

/// The outcome of a deletion.
pub(crate) enum DeleteOutcome {
    /// The object was removed. This is its last state.
    Gone(Arc<StoredObject>),
    /// The object is terminating. This is its current state.
    Pending(Arc<StoredObject>),
}

impl DeleteOutcome {
    /// The last or current state of the object.
    pub(crate) fn object(&self) -> &Arc<StoredObject> {
        match self {
            DeleteOutcome::Gone(object) | DeleteOutcome::Pending(object) => object,
        }
    }

    /// Whether the response is the object instead of a Status.
    pub(crate) fn is_answered_with_object(&self, resource: &Resource) -> bool {
        let keeps = resource.group.is_empty() && ANSWERED_WITH_OBJECT.contains(&resource.plural.as_str());
        matches!(self, DeleteOutcome::Pending(_)) || keeps
    }
}

impl Registry {
    /// Deletes an object, or marks it for deletion.
    pub(crate) fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        warnings: &mut Vec<String>,
        control: Option<&Control<'_>>,
    ) -> Result<DeleteOutcome, Rejection> {
        if resource.is("", "namespaces") && SYSTEM_NAMESPACES.contains(&name) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(&resource.group_resource(), name, why).into());
        }
        let policy = policy(resource, options, warnings);
        loop {
            let entry = self.newest(resource, namespace, name)?;
            let value = &*entry.object.tree();
            check_preconditions(resource, name, options, value)?;
            if let Some(control) = control {
                // Convert the object only if a webhook or policy may receive it.
                let seen = (resource.needs_webhook() && control.has_hooks())
                    .then(|| conversion::to_change(resource, value, Some(control)))
                    .transpose()?;
                let attributes = Attributes {
                    operation: Operation::Delete,
                    resource,
                    shown: None,
                    namespace,
                    name,
                    object: None,
                    old: Some(seen.as_deref().unwrap_or(value)),
                    dry_run: options.dry_run,
                };
                control.mutate(self, attributes, None)?;
                control.validate(self, &attributes)?;
            }
            let Some(plan) = plan(resource, value, options, policy) else {
                return Ok(DeleteOutcome::Pending(Arc::clone(&entry.object)));
            };
            if options.dry_run {
                return Ok(match plan {
                    DeletionPlan::Remove => DeleteOutcome::Gone(Arc::clone(&entry.object)),
                    DeletionPlan::Mark { value, then_remove } => {
                        let object = Arc::new(ObjectDraft::new(value).stamp(entry.revision));
                        if then_remove { DeleteOutcome::Gone(object) } else { DeleteOutcome::Pending(object) }
                    }
                });
            }
            if let Some(deleted) = self.execute(resource, namespace, name, &entry, plan)? {
                self.after_write(resource, &[&entry.object]);
                return Ok(deleted);
            }
        }
    }

    /// Removes an expired object if it still has this revision. Skips admission and finalizers.
    pub(crate) fn remove(&self, key: &Key, revision: u64) {
        let Some(entry) = self.store.newest(key) else { return };
        let last = ObjectDraft::new(entry.object.tree().into_owned());
        // A newer revision has a newer expiry time, so a conflict is fine.
        let _ = self.store.delete(key, revision, last);
    }

    /// Executes a plan. `None` after a write conflict.
    fn execute(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        entry: &VersionedValue<StoredObject>,
        plan: DeletionPlan,
    ) -> Result<Option<DeleteOutcome>, Rejection> {
        let key = resource.key(namespace, name);
        let Some(companions) = self.companions(resource, Some(&entry.object.tree()), None, None)? else {
            return Ok(None);
        };
        let remove = |entry: &VersionedValue<StoredObject>| {
            let draft = ObjectDraft::new(entry.object.tree().into_owned());
            let (expected, companions) = (Some(entry.revision), companions.clone());
            let deleted = self.store.write_together(EventKind::Deleted, &key, expected, draft, companions);
            deleted.inspect(note_write).map(|entry| DeleteOutcome::Gone(entry.object))
        };
        let outcome = match plan {
            DeletionPlan::Remove => remove(entry),
            DeletionPlan::Mark { value, then_remove } => {
                let draft = ObjectDraft::new(value);
                let marked = self.store.update(&key, entry.revision, draft);
                match marked.inspect(note_write) {
                    Ok(marked) if then_remove => match remove(&marked) {
                        // A concurrent writer must see the removal, too, so leave it to them.
                        Err(WriteError::Conflict { .. } | WriteError::Contended) => {
                            Ok(DeleteOutcome::Pending(marked.object))
                        }
                        // The kubelet may remove the pod as soon as it is marked. That is what the
                        // client asked for.
                        Err(WriteError::NotFound) => Ok(DeleteOutcome::Gone(marked.object)),
                        removed => removed,
                    },
                    marked => marked.map(|entry| DeleteOutcome::Pending(entry.object)),
                }
            }
        };
        match outcome.map_err(|error| refusal(resource, name, error)) {
            Ok(deleted) => Ok(Some(deleted)),
            Err(Some(rejection)) => Err(rejection),
            Err(None) => Ok(None),
        }
    }
}

/// The effect of a deletion on an object.
enum DeletionPlan {
    /// Remove the object now.
    Remove,
    /// Mark the object as terminating. Remove it afterwards if nothing blocks it.
    Mark { value: Value, then_remove: bool },
}

/// Plans the deletion. `None` if it is already under way and nothing changes.
fn plan(
    resource: &Resource,
    old: &Value,
    options: &DeleteOptions,
    policy: Option<PropagationPolicy>,
) -> Option<DeletionPlan> {
    let mut new = old.clone();
    if resource.is("", "namespaces") {
        if old.is_being_deleted() {
            return None;
        }
        new.set_meta("deletionTimestamp", clock::now().to_string());
        tree::set(&mut new, &["status", "phase"], "Terminating");
        let then_remove = tree::items(old, &["spec", "finalizers"]).is_empty() && old.finalizers().is_empty();
        return Some(DeletionPlan::Mark { value: new, then_remove });
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") && !old.is_being_deleted() {
        new.set_meta("deletionTimestamp", clock::now().to_string());
        let mut finalizers = old.finalizers();
        if !finalizers.iter().any(|have| have == CUSTOM_CLEANUP) {
            finalizers.push(CUSTOM_CLEANUP.into());
        }
        new.set_finalizers(&finalizers);
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        set_condition(&mut new, "Terminating", "True", "InstanceDeletionPending", message);
        return Some(DeletionPlan::Mark { value: new, then_remove: false });
    }
    let finalizers = finalizers(old, policy);
    let is_pod = resource.is("", "pods");
    let grace = if is_pod { pod_grace(old, options) } else { 0 };
    let previous = old.meta("deletionGracePeriodSeconds").and_then(Value::as_i64);
    match (old.is_being_deleted(), previous) {
        (true, Some(previous)) if is_pod && previous > 0 => {
            // The grace period can be shortened but not extended.
            let asked = options.grace_period_seconds.map(|asked| if asked < 0 { 1 } else { asked });
            let mut shorter = asked.filter(|asked| *asked < previous)?;
            let (until, now) = (old.meta_text("deletionTimestamp").parse().ok(), clock::now());
            let mut until = until.map_or(now, |until| shifted(until, shorter - previous));
            if until < now {
                // It has already expired. The kubelet still has to notice.
                (until, shorter) = (now, shorter.min(1));
            }
            new.set_meta("deletionTimestamp", until.to_string());
            new.set_meta("deletionGracePeriodSeconds", shorter);
        }
        (true, _) if finalizers.is_empty() => return Some(DeletionPlan::Remove),
        // Only finalizers block it. A different propagation policy can change them.
        (true, _) if finalizers == old.finalizers() => return None,
        (true, _) => new.set_meta("deletionGracePeriodSeconds", 0),
        (false, _) if !is_pod && finalizers.is_empty() => return Some(DeletionPlan::Remove),
        (false, _) => {
            new.set_meta("deletionTimestamp", shifted(clock::now(), grace).to_string());
            new.set_meta("deletionGracePeriodSeconds", grace);
            bump_generation(&mut new);
        }
    }
    new.set_finalizers(&finalizers);
    let is_over = new.meta("deletionGracePeriodSeconds").and_then(Value::as_i64) == Some(0);
    Some(DeletionPlan::Mark { value: new, then_remove: is_over && finalizers.is_empty() })
}

/// The finalizers of an object that is deleted with this policy.
fn finalizers(old: &Value, policy: Option<PropagationPolicy>) -> Vec<Str> {
    let mut finalizers = old.finalizers();
    let wanted = match policy {
        None => return finalizers,
        Some(PropagationPolicy::Background) => None,
        Some(PropagationPolicy::Foreground) => Some(FOREGROUND),
        Some(PropagationPolicy::Orphan) => Some(ORPHAN),
    };
    finalizers.retain(|have| !matches!(have.as_str(), FOREGROUND | ORPHAN) || Some(have.as_str()) == wanted);
    if let Some(wanted) = wanted.filter(|wanted| !finalizers.iter().any(|have| have == wanted)) {
        finalizers.push(wanted.into());
    }
    finalizers
}

/// The propagation policy. Old kinds orphan their dependents by default.
fn policy(resource: &Resource, options: &DeleteOptions, warnings: &mut Vec<String>) -> Option<PropagationPolicy> {
    if options.propagation_policy.is_some() {
        return options.propagation_policy;
    }
    if resource.is("batch", "jobs") {
        warnings.push(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning"
                .into(),
        );
        return Some(PropagationPolicy::Orphan);
    }
    resource.is("", "replicationcontrollers").then_some(PropagationPolicy::Orphan)
}

/// The grace period of a pod. 0 if it is not scheduled or has terminated.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let is_idle = tree::text(pod, &["spec", "nodeName"]).is_empty()
        || matches!(tree::text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    let own = || tree::int(pod, &["spec", "terminationGracePeriodSeconds"]).unwrap_or_default();
    match options.grace_period_seconds.unwrap_or_else(own) {
        _ if is_idle => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

fn shifted(time: Time, seconds: i64) -> Time {
    let span = Duration::from_secs(seconds.unsigned_abs());
    let shifted = if seconds < 0 { time.checked_sub(span) } else { time.checked_add(span) };
    shifted.unwrap_or(time)
}

fn bump_generation(value: &mut Value) {
    if value.generation() > 0 {
        value.set_meta("generation", value.generation() + 1);
    }
}

pub(super) fn check_preconditions(
    resource: &Resource,
    name: &str,
    options: &DeleteOptions,
    old: &Value,
) -> Result<(), Rejection> {
    let conflict = |what: &str, wanted: &Str, have: &str, hint: &str| {
        let why =
            format!("the {what} in the precondition ({wanted}) does not match the {what} in record ({have}). {hint}");
        // The real server puts the kind into the message here, not the resource.
        let kind = GroupResource::new(resource.group.clone(), resource.kind.clone());
        Err(Status::conflict(&kind, name, why).into())
    };
    match &options.preconditions.uid {
        Some(uid) if *uid != *old.uid() => {
            return conflict("UID", uid, old.uid(), "The object might have been deleted and then recreated");
        }
        _ => {}
    }
    match &options.preconditions.resource_version {
        Some(version) if *version != *old.resource_version() => {
            conflict("ResourceVersion", version, old.resource_version(), "The object might have been modified")
        }
        _ => Ok(()),
    }
}
