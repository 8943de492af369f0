//! Reactions to writes of CustomResourceDefinitions.

use std::collections::HashSet;

use kubewright_core::{Str, Value};
use kubewright_net::clock;

use super::{FieldManager, Ownership, Registry, UpdateKind, UpdateRequest};
use crate::admission::Part;
use kubewright_objects::lookup::IndexTerm;
use kubewright_objects::object::{Meta, StoredObject, texts, tree};
use kubewright_resources::catalog::{Resource, custom};
use kubewright_storage::Key;
use kubewright_validation::approval;

impl Registry {
    pub(super) fn after_update(&self, resource: &Resource, object: &StoredObject) {
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") && !object.value().is_being_deleted() {
            self.establish(resource, object.value().name());
        }
    }

    /// Accepts the names of a definition, so that its resources are served.
    fn establish(&self, resource: &Resource, name: &str) {
        // The server itself manages the status fields.
        let writer = FieldManager::new(Some("kube-apiserver"), "", "status");
        let request = UpdateRequest {
            resource,
            namespace: "",
            name,
            part: Part::Internal,
            origin: UpdateKind::Patch,
            control: None,
            ownership: Ownership::Track(writer),
            dry_run: false,
        };
        // If the definition was deleted meanwhile, there is nothing to do.
        let _ = self.update(&request, |definition| {
            let mut definition = definition.clone();
            let (names, conflict) = self.accepted_names(&definition);
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

    /// Assigns released names to definitions of the group that wait for them.
    pub(crate) fn reconsider_names(&self, resource: &Resource, group: &str) {
        let waiting = IndexTerm::WaitingForNames { group: group.into() };
        let waiting: Vec<Key> = self.indices.terms().keys(&waiting).cloned().collect();
        for key in waiting {
            if self.store.newest(&key).is_some_and(|entry| !entry.object.value().is_being_deleted()) {
                self.establish(resource, key.name());
            }
        }
    }

    /// The names that a definition can have, and the conflict if some are taken.
    fn accepted_names(&self, definition: &Value) -> (Value, Option<(&'static str, String)>) {
        let group = Str::from(tree::text(definition, &["spec", "group"]));
        let is_taken = |term: IndexTerm| {
            let terms = self.indices.terms();
            terms.keys(&term).any(|key| key.name() != definition.name())
        };
        let is_taken_name = |name: &Str| is_taken(IndexTerm::ResourceName { group: group.clone(), name: name.clone() });
        let is_taken_kind = |name: &Str| is_taken(IndexTerm::Kind { group: group.clone(), name: name.clone() });
        let wanted = tree::get(definition, &["spec", "names"]).cloned().unwrap_or_default();
        let mut names = tree::get(definition, &["status", "acceptedNames"]).cloned().unwrap_or_default();
        let mut conflict = None;
        type IsTaken<'a> = &'a dyn Fn(&Str) -> bool;
        let checks: [(_, _, IsTaken<'_>); 5] = [
            ("plural", "PluralConflict", &is_taken_name),
            ("singular", "SingularConflict", &is_taken_name),
            ("shortNames", "ShortNamesConflict", &is_taken_name),
            ("kind", "KindConflict", &is_taken_kind),
            ("listKind", "ListKindConflict", &is_taken_kind),
        ];
        for (field, reason, is_taken) in checks {
            let have: HashSet<Str> = texts(names.get(field)).into_iter().collect();
            let asked: Vec<Str> = match wanted.get(field) {
                Some(Value::String(name)) => vec![name.clone()],
                list => texts(list),
            };
            let is_own = |name: &Str| have.contains(name) || tree::text(&names, &[field]) == name.as_str();
            let lost: Vec<String> = asked
                .iter()
                .filter(|name| !is_own(name) && is_taken(name))
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

/// Sets a condition of an object. `lastTransitionTime` changes with the status only.
pub(crate) fn set_condition(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let conditions = tree::object_mut(object, &["status"]).get_or_insert_with("conditions", || Value::Array([].into()));
    if conditions.as_array().is_none() {
        *conditions = Value::Array([].into());
    }
    let Value::Array(list) = conditions else { return };
    let mut condition = tree::map([
        ("type", kind.into()),
        ("status", status.into()),
        ("lastTransitionTime", clock::now().to_string().into()),
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
