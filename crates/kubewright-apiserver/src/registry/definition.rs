//! What follows when an object is created or updated that means something to the server: definitions of resources.

use kubewright_core::{Str, Time, Value};

use super::{Origin, Ownership, Part, Registry, UpdateRequest, Writer};
use crate::admission::approval;
use crate::catalog::{Resource, custom};
use crate::object::{Meta, StoredObject, texts, tree};
use crate::storage::Scope;

impl Registry {
    pub(super) fn after_update(&self, resource: &Resource, object: &StoredObject) {
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") && !object.value().is_being_deleted() {
            self.establish(resource, object.value().name());
        }
    }

    /// Accepts the names of a definition, so that its resources are served.
    fn establish(&self, resource: &Resource, name: &str) {
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
            let (names, conflict) = self.accepted_names(resource, &definition);
            let is_accepted = conflict.is_none();
            tree::set(&mut definition, &["status", "acceptedNames"], names);
            let (status, reason, message) = match &conflict {
                None => ("True", "NoConflicts", "no conflicts found"),
                Some((reason, message)) => ("False", *reason, message.as_str()),
            };
            set_condition(&mut definition, "NamesAccepted", status, reason, message);
            if is_accepted && !custom::is_established(&definition) {
                let message = "the initial names have been accepted";
                set_condition(&mut definition, "Established", "True", "InitialNamesAccepted", message);
            } else if !is_accepted && !custom::is_established(&definition) {
                set_condition(&mut definition, "Established", "False", "NotAccepted", "not all names are accepted");
            }
            if let Some((status, reason, message)) = approval::condition(&definition) {
                let kind = "KubernetesAPIApprovalPolicyConformant";
                set_condition(&mut definition, kind, status, reason, &message);
            }
            Ok(definition)
        });
    }

    /// Gives names that have become free to definitions of the group that wait for them.
    pub(crate) fn reconsider_names(&self, resource: &Resource, group: &str) {
        for entry in self.all(&Scope::resource(resource.storage.clone())) {
            let definition = entry.object.value();
            let waits =
                tree::get(definition, &["spec", "names"]) != tree::get(definition, &["status", "acceptedNames"]);
            if waits && tree::text(definition, &["spec", "group"]) == group && !definition.is_being_deleted() {
                self.establish(resource, definition.name());
            }
        }
    }

    /// The names that a definition can have, and why it cannot have all that it asks for.
    fn accepted_names(&self, resource: &Resource, definition: &Value) -> (Value, Option<(&'static str, String)>) {
        let group = tree::text(definition, &["spec", "group"]);
        let (mut resources, mut kinds) = (Vec::new(), Vec::new());
        for entry in self.all(&Scope::resource(resource.storage.clone())) {
            let other = entry.object.value();
            if other.name() == definition.name() || tree::text(other, &["spec", "group"]) != group {
                continue;
            }
            let names = tree::get(other, &["status", "acceptedNames"]).cloned().unwrap_or_default();
            resources.extend(["plural", "singular"].map(|field| Str::from(tree::text(&names, &[field]))));
            resources.extend(texts(names.get("shortNames")));
            kinds.extend(["kind", "listKind"].map(|field| Str::from(tree::text(&names, &[field]))));
        }
        let wanted = tree::get(definition, &["spec", "names"]).cloned().unwrap_or_default();
        let mut names = tree::get(definition, &["status", "acceptedNames"]).cloned().unwrap_or_default();
        let mut conflict = None;
        let is_taken = |name: &str, taken: &[Str]| taken.iter().any(|other| other.as_str() == name);
        for (field, reason, taken) in [
            ("plural", "PluralConflict", &resources),
            ("singular", "SingularConflict", &resources),
            ("shortNames", "ShortNamesConflict", &resources),
            ("kind", "KindConflict", &kinds),
            ("listKind", "ListKindConflict", &kinds),
        ] {
            let have = texts(names.get(field));
            let asked: Vec<Str> = match wanted.get(field) {
                Some(Value::String(name)) => vec![name.clone()],
                list => texts(list),
            };
            let is_own = |name: &Str| have.contains(name) || tree::text(&names, &[field]) == name.as_str();
            let lost: Vec<String> = asked
                .iter()
                .filter(|name| !is_own(name) && is_taken(name, taken))
                .map(|name| format!("{:?} is already in use", name.as_str()))
                .collect();
            match (lost.as_slice(), wanted.get(field)) {
                ([], Some(value)) => tree::set(&mut names, &[field], value.clone()),
                ([], None) => drop(tree::remove(&mut names, &[field])),
                ([one], _) => conflict = Some((reason, one.clone())),
                (many, _) => conflict = Some((reason, format!("[{}]", many.join(", ")))),
            }
        }
        match wanted.get("categories") {
            Some(categories) => tree::set(&mut names, &["categories"], categories.clone()),
            None => drop(tree::remove(&mut names, &["categories"])),
        }
        (names, conflict)
    }
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
