//! What follows when an object is created or updated that means something to the server: definitions of resources.

use kubewright_core::{Str, Time, Value};

use super::{Origin, Ownership, Part, Registry, UpdateRequest, Writer};
use crate::admission::approval;
use crate::catalog::{Resource, custom};
use crate::object::{Meta, StoredObject, tree};

impl Registry {
    pub(super) fn after_update(&self, resource: &Resource, object: &StoredObject) {
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") && !object.value.is_being_deleted() {
            self.establish(resource, object.value.name());
        }
    }

    /// Accepts the names of a definition, so that its resources are served.
    fn establish(&self, resource: &Resource, name: &str) {
        let catalog = self.catalog();
        // The status is the server's, as the managers of its fields say.
        let writer = Writer::new(Some("kube-apiserver"), "", "status");
        let request = UpdateRequest {
            resource,
            namespace: "",
            name,
            part: Part::Internal,
            origin: Origin::Patch,
            control: None,
            ownership: Ownership::Track(writer),
            dry_run: false,
        };
        // A definition that vanishes meanwhile needs no names.
        let _ = self.update(&request, |definition| {
            let mut definition = definition.clone();
            let conflict = conflicting_name(&catalog, &definition);
            let accepted = conflict.is_none();
            if accepted {
                let names = tree::get(&definition, &["spec", "names"]).cloned().unwrap_or_default();
                tree::set(&mut definition, &["status", "acceptedNames"], names);
            }
            let (status, reason, message) = match &conflict {
                None => ("True", "NoConflicts", "no conflicts found"),
                Some(message) => ("False", "ListKindConflict", message.as_str()),
            };
            set_condition(&mut definition, "NamesAccepted", status, reason, message);
            if accepted && !custom::is_established(&definition) {
                let message = "the initial names have been accepted";
                set_condition(&mut definition, "Established", "True", "InitialNamesAccepted", message);
            } else if !accepted && !custom::is_established(&definition) {
                set_condition(&mut definition, "Established", "False", "NotAccepted", "not all names are accepted");
            }
            if let Some((status, reason, message)) = approval::condition(&definition) {
                let kind = "KubernetesAPIApprovalPolicyConformant";
                set_condition(&mut definition, kind, status, reason, &message);
            }
            Ok(definition)
        });
    }
}

/// Another resource of the group that has one of the names already.
fn conflicting_name(catalog: &crate::catalog::Catalog, definition: &Value) -> Option<String> {
    let group = tree::text(definition, &["spec", "group"]);
    let (plural, kind) =
        (tree::text(definition, &["spec", "names", "plural"]), tree::text(definition, &["spec", "names", "kind"]));
    let others = catalog.stored().filter(|resource| resource.group == group);
    let mut others =
        others.filter(|resource| resource.custom.as_ref().is_none_or(|custom| custom.definition != definition.name()));
    others.find_map(|other| match (other.plural == plural, other.kind == kind) {
        (true, _) => Some(format!("{plural:?} is already in use")),
        (_, true) => Some(format!("{kind:?} is already in use")),
        _ => None,
    })
}

/// Sets a condition of a definition; the time of its last change moves with its status.
pub(crate) fn set_condition(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let conditions = tree::object(object, &["status"]).get_or_insert_with("conditions", || Value::Array([].into()));
    if conditions.as_array().is_none() {
        *conditions = Value::Array([].into());
    }
    let Value::Array(list) = conditions else { return };
    let mut condition = tree::map([
        ("type", kind.into()),
        ("status", status.into()),
        ("lastTransitionTime", Time::now().to_string().into()),
        ("reason", reason.into()),
        ("message", Str::from(message).into()),
    ]);
    match list.iter_mut().find(|have| tree::text(have, &["type"]) == kind) {
        Some(have) => {
            if tree::text(have, &["status"]) == status {
                let since = have.get("lastTransitionTime").cloned().unwrap_or_default();
                tree::set(&mut condition, &["lastTransitionTime"], since);
            }
            *have = condition;
        }
        None => list.push(condition),
    }
}
