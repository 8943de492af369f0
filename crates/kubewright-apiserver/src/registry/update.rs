//! Updates and patches objects and their subresources.

use std::sync::{Arc, PoisonError};

use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::{GroupKind, Str, Value};

use super::create::check_namespace;
use super::ownership::{is_unchanged, track};
use super::{Ownership, Registry, check_depth, note_write, refusal};
use crate::admission;
use crate::admission::Part;
use crate::admission::control::{Attributes, Control, Operation};
use crate::admission::quota::QuotaPermit;
use kubewright_auth::authorization;
use kubewright_objects::conversion;
use kubewright_objects::object::{Meta, ObjectDraft, StoredObject};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{EventKind, WriteError};

/// Metadata that only the server writes.
const SYSTEM_FIELDS: [&str; 7] =
    ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

/// The kind of update, which affects some error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    /// A `PUT`.
    Put,
    /// A patch of the stored object.
    Patch,
}

/// The arguments of an update.
pub(crate) struct UpdateRequest<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) part: Part,
    pub(crate) origin: UpdateKind,
    /// The admission control of the request. `None` for the server's own writes.
    pub(crate) control: Option<&'a Control<'a>>,
    pub(crate) ownership: Ownership,
    pub(crate) dry_run: bool,
}

impl Registry {
    /// Replaces an object by the result of `change`.
    ///
    /// `change` receives the stored object in the version of the resource. It runs again after a
    /// write conflict.
    pub(crate) fn update(
        &self,
        request: &UpdateRequest<'_>,
        mut change: impl FnMut(&Value) -> Result<Value, Rejection>,
    ) -> Result<Arc<StoredObject>, Rejection> {
        let UpdateRequest { resource, namespace, name, part, .. } = *request;
        let key = resource.key(namespace, name);
        loop {
            let entry = self.newest(resource, namespace, name)?;
            let old = &*entry.object.tree();
            let seen = conversion::to_change(resource, old, request.control.map(Control::conversions))?;
            let mut new = change(&seen)?;
            check_identity(request, old, &new)?;
            let control = request.control.filter(|_| part != Part::Internal);
            let attributes = Attributes {
                operation: Operation::Update,
                resource,
                shown: None,
                namespace,
                name,
                object: None,
                old: Some(&seen),
                dry_run: request.dry_run,
            };
            // Hooks have already received a subresource kind such as `Scale`.
            let hooks = control.filter(|control| control.is_about_object(resource));
            if let Some(control) = hooks {
                control.mutate(self, attributes, Some(&mut new))?;
            }
            let managers = match &request.ownership {
                Ownership::Keep => old.meta("managedFields").cloned(),
                Ownership::Given => new.meta("managedFields").cloned(),
                Ownership::Track(writer) => track(resource, writer, Some(&seen), &new),
            };
            let is_conditional = !new.resource_version().is_empty();
            new = conversion::to_stored(resource, new);
            keep_system_fields(old, &mut new, part);
            match managers {
                Some(managers) => new.set_meta("managedFields", managers),
                None => drop(new.remove_meta("managedFields")),
            }
            let _turn =
                resource.is("", "services").then(|| self.allocation.lock().unwrap_or_else(PoisonError::into_inner));
            if part != Part::Internal {
                // Custom objects are validated in the version of the request.
                let before = if resource.is_custom() { &seen } else { old };
                let mut warnings = Vec::new();
                let checked = admission::update(self, resource, before, &mut new, part, &mut warnings);
                if let Some(control) = control {
                    warnings.into_iter().for_each(|warning| control.warn(warning));
                }
                checked?;
                if let Some(control) = control {
                    self.permit(control, resource, part, old, &new)?;
                }
                if let Some(control) = hooks {
                    control.validate(self, &Attributes { object: Some(&new), ..attributes })?;
                }
                if let Some(control) = control.filter(|_| part == Part::Main) {
                    admission::warnings(resource, Some(before), &new)
                        .into_iter()
                        .for_each(|warning| control.warn(warning));
                }
            }
            let permit = match control {
                Some(_) => admission::quota::check(self, resource, Some(old), &new)?,
                None => None,
            };
            conversion::settle(resource, &mut new, request.control.map(Control::conversions))?;
            check_depth(&new)?;
            new.set_meta("resourceVersion", old.resource_version());
            let is_outdated = self.database.as_ref().is_some_and(|database| database.is_outdated(&key));
            if !is_outdated && is_unchanged(old, &new) {
                return Ok(entry.object);
            }
            let draft = ObjectDraft::new(new);
            // The server's own changes are small and must succeed for every stored object.
            if part != Part::Internal {
                draft.check_size()?;
            }
            if request.dry_run {
                return Ok(Arc::new(draft.stamp(entry.revision)));
            }
            let is_removal = draft.is_finished();
            let after = (!is_removal).then(|| draft.value());
            let Some(companions) = self.companions(resource, Some(old), after, permit.as_ref())? else { continue };
            let result = if is_removal {
                // The last finalizer was removed, so delete the object instead of storing the
                // change. The response shows the old version. Watches receive the last stored
                // state.
                let (answer, last) = (draft.stamp(entry.revision), ObjectDraft::new(old.clone()));
                let expected = Some(entry.revision);
                let deleted = self.store.write_together(EventKind::Deleted, &key, expected, last, companions);
                deleted.inspect(note_write).map(|_| Arc::new(answer))
            } else {
                let expected = Some(entry.revision);
                let updated = self.store.write_together(EventKind::Modified, &key, expected, draft, companions);
                updated.inspect(note_write).map(|entry| entry.object)
            };
            if matches!(result, Err(WriteError::Contended)) {
                continue;
            }
            match result.map_err(|error| refusal(resource, name, error)) {
                Ok(object) => {
                    permit.iter().for_each(QuotaPermit::update_status);
                    self.after_write(resource, &[&entry.object, &object]);
                    if part != Part::Internal {
                        self.after_update(resource, &object);
                    }
                    return Ok(object);
                }
                Err(Some(rejection)) => return Err(rejection),
                Err(None) if is_conditional && request.origin == UpdateKind::Put => {
                    return Err(Status::modified(&resource.group_resource(), name).into());
                }
                Err(None) => {}
            }
        }
    }

    /// Checks privilege escalation, signers, LimitRanges, classes and pod security.
    fn permit(
        &self,
        control: &Control<'_>,
        resource: &Resource,
        part: Part,
        old: &Value,
        new: &Value,
    ) -> Result<(), Rejection> {
        authorization::check_escalation_by(self, control.user, resource, old, new)?;
        admission::check_signer(self, control.user, resource, part, old, new)?;
        // Pod resources change through resize only. A claim may grow.
        let is_limited = part == Part::Resize || (part == Part::Main && !resource.is("", "pods"));
        if is_limited && !old.is_being_deleted() {
            admission::limits::check(self, resource, new)?;
        }
        if part == Part::Main {
            admission::classes::check_growth(self, resource, old, new)?;
        }
        if matches!(part, Part::Main | Part::Ephemeral) {
            admission::security::check(self, control, resource, Some(old), new)?;
        }
        Ok(())
    }

    /// Changes an object on behalf of the server, without admission.
    pub(crate) fn change(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        change: impl FnMut(&Value) -> Result<Value, Rejection>,
    ) -> Result<Arc<StoredObject>, Rejection> {
        let (part, origin) = (Part::Internal, UpdateKind::Patch);
        let request = UpdateRequest {
            resource,
            namespace,
            name,
            part,
            origin,
            control: None,
            ownership: Ownership::Keep,
            dry_run: false,
        };
        self.update(&request, change)
    }
}

/// Checks that name and namespace equal those of the path.
pub(crate) fn check_target(resource: &Resource, namespace: &str, name: &str, new: &Value) -> Result<(), Rejection> {
    let in_body = new.name();
    if in_body != name {
        let message = match in_body {
            "" => format!("the name of the object ({name} based on URL) was undeterminable: name must be provided"),
            other => format!("the name of the object ({other}) does not match the name on the URL ({name})"),
        };
        return Err(Status::bad_request(message).into());
    }
    if resource.namespaced { check_namespace(namespace, new) } else { Ok(()) }
}

/// Checks UID and resource version preconditions in the new object.
fn check_identity(request: &UpdateRequest<'_>, old: &Value, new: &Value) -> Result<(), Rejection> {
    let UpdateRequest { resource, namespace, name, origin, .. } = *request;
    check_target(resource, namespace, name, new)?;
    let (version, uid) = (new.resource_version(), new.uid());
    let is_other = !uid.is_empty() && uid != old.uid();
    if is_other && origin == UpdateKind::Put {
        return Err(wrong_uid(resource, namespace, name, uid, old.uid()));
    }
    let seen = match version {
        "" => 0,
        version => version.parse::<u64>().map_err(|_| unreadable_version(version))?,
    };
    if seen == 0 && wants_version(resource) && request.part != Part::Internal {
        let cause = StatusCause::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let kind = GroupKind::new(resource.group.clone(), resource.plural.clone());
        return Err(Status::invalid(&kind, name, [cause]).into());
    }
    if is_other {
        return Err(immutable_meta(resource, name, "uid", uid));
    }
    if seen != 0 && version != old.resource_version() {
        return Err(Status::modified(&resource.group_resource(), name).into());
    }
    let deleted_at = new.meta_text("deletionTimestamp");
    if !deleted_at.is_empty() && !old.is_being_deleted() && request.part != Part::Internal {
        return Err(immutable_meta(resource, name, "deletionTimestamp", deleted_at));
    }
    Ok(())
}

/// 409: the stored object has a different UID. A missing object has an empty `uid`.
pub(crate) fn wrong_uid(resource: &Resource, namespace: &str, name: &str, meant: &str, uid: &str) -> Rejection {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {meant}, UID in object meta: {uid}",
        storage_key(resource, namespace, name)
    );
    Status::conflict(&resource.group_resource(), name, why).into()
}

/// The etcd key of the real server, which appears in its messages.
fn storage_key(resource: &Resource, namespace: &str, name: &str) -> String {
    let group = if resource.is_custom() { format!("{}/", resource.group) } else { String::new() };
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!("/registry/{group}{}/{namespace}{name}", resource.plural)
}

/// 500: the real server reports an unparsable version as an internal error.
pub(crate) fn unreadable_version(version: &str) -> Rejection {
    Rejection::unexpected(format!("strconv.ParseUint: parsing {version:?}: invalid syntax"))
}

/// Whether updates of the resource require a resource version.
fn wants_version(resource: &Resource) -> bool {
    let is_built_in = matches!(
        (&*resource.group, &*resource.plural),
        ("admissionregistration.k8s.io", _)
            | ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("apiregistration.k8s.io", "apiservices")
            | ("coordination.k8s.io", "leases")
            | ("node.k8s.io", "runtimeclasses")
            | ("policy", "poddisruptionbudgets")
            | ("storage.k8s.io", "csidrivers" | "csinodes" | "volumeattachments")
    );
    resource.is_custom() || is_built_in
}

/// 422: a patch tried to change identifying metadata.
fn immutable_meta(resource: &Resource, name: &str, field: &str, value: &str) -> Rejection {
    let cause = StatusCause::invalid(format!("metadata.{field}"), format!("{value:?}"), "field is immutable");
    Status::invalid(&resource.group_kind(), name, [cause]).into()
}

/// Restores metadata that only the server writes.
fn keep_system_fields(old: &Value, new: &mut Value, part: Part) {
    if part == Part::Internal {
        return;
    }
    for field in SYSTEM_FIELDS {
        match old.meta(field) {
            Some(value) => new.set_meta(field, value.clone()),
            None => drop(new.remove_meta(field)),
        }
    }
    new.remove_meta("selfLink");
    if let Some(prefix) = old.meta("generateName") {
        let prefix: Str = prefix.as_str().unwrap_or_default().into();
        new.set_meta("generateName", prefix);
    }
}
