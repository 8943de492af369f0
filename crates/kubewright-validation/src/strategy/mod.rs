//! The create and update strategies of kinds: server-controlled fields, generation and status.

mod match_label_keys;

use std::collections::HashMap;

use kubewright_core::tree::{self, Meta};
use kubewright_core::{Map, Value};

use crate::Part;
use crate::ValidatedResource;

/// Built-in kinds whose generation counts spec changes.
const WITH_GENERATION: [(&str, &str); 27] = [
    ("", "pods"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("networking.k8s.io", "servicecidrs"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
];

/// Blocks the deletion of a claim while a pod uses it.
pub const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Blocks the deletion of a volume while a claim uses it.
pub const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

fn counts_generation(resource: &ValidatedResource<'_>) -> bool {
    resource.is_custom() || WITH_GENERATION.contains(&(resource.group, resource.plural))
}

const MAX_UNAVAILABLE: [&str; 4] = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];

/// Sets the initial state of a new object.
pub fn prepare_create(resource: &ValidatedResource<'_>, value: &mut Value) {
    if counts_generation(resource) {
        value.set_meta("generation", 1);
    }
    // Kubelets register nodes together with their status.
    if resource.has_status && !resource.is("", "nodes") {
        reset(value, "status", resource.initial_status);
    }
    if resource.is_custom() {
        return;
    }
    match (resource.group, resource.plural) {
        ("", "namespaces") => {
            tree::set(value, &["status"], tree::map([("phase", "Active".into())]));
            let mut finalizers = tree::texts(tree::get(value, &["spec", "finalizers"]));
            if !finalizers.iter().any(|have| have == "kubernetes") {
                finalizers.push("kubernetes".into());
            }
            tree::set(value, &["spec", "finalizers"], tree::list(finalizers.iter().map(|one| one.as_str())));
        }
        ("", "pods") => {
            let class = crate::defaulting::quality_of_service(value);
            tree::set(value, &["status"], tree::map([("phase", "Pending".into()), ("qosClass", class.into())]));
            if !tree::items(value, &["spec", "schedulingGates"]).is_empty() {
                tree::set(value, &["status", "conditions"], Value::from(vec![gated_condition()]));
            }
            match_label_keys::resolve(value);
        }
        ("", plural @ ("persistentvolumeclaims" | "persistentvolumes")) => {
            tree::set(value, &["status"], tree::map([("phase", "Pending".into())]));
            let protection = if plural == "persistentvolumes" { PV_PROTECTION } else { PVC_PROTECTION };
            let mut finalizers = value.finalizers();
            if !finalizers.iter().any(|have| have == protection) {
                finalizers.push(protection.into());
                value.set_finalizers(&finalizers);
            }
            if plural == "persistentvolumeclaims" {
                crate::data_source::normalize(value, None);
            }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            // The first one. Validation reports further storage versions as missing here.
            let mut versions = tree::items(value, &["spec", "versions"]).iter();
            let stored = versions.find(|version| tree::is_true(version, &["storage"]));
            let stored: Vec<Value> = stored.and_then(|version| version.get("name").cloned()).into_iter().collect();
            let names = tree::map([("plural", "".into()), ("kind", "".into())]);
            let status = [("conditions", Value::Null), ("acceptedNames", names), ("storedVersions", stored.into())];
            tree::set(value, &["status"], tree::map(status));
        }
        ("apps", "statefulsets") => drop_max_unavailable(value),
        ("batch", "jobs") => select_by_uid(value),
        _ => {}
    }
}

/// Drops a field whose feature gate, MaxUnavailableStatefulSet, is off by default in Kubernetes.
fn drop_max_unavailable(set: &mut Value) {
    tree::remove(set, &MAX_UNAVAILABLE);
}

/// The condition of a pod that is not scheduled because of its scheduling gates.
fn gated_condition() -> Value {
    tree::map([
        ("type", "PodScheduled".into()),
        ("status", "False".into()),
        ("lastProbeTime", Value::Null),
        ("lastTransitionTime", Value::Null),
        ("reason", "SchedulingGated".into()),
        ("message", "Scheduling is blocked due to non-empty scheduling gates".into()),
    ])
}

/// Generates a selector by the UID of a job, so that it selects no other pods. Labels that the
/// client set are kept and validated later.
fn select_by_uid(job: &mut Value) {
    const UID: &str = "batch.kubernetes.io/controller-uid";
    let (uid, name) = (job.uid().to_owned(), job.name().to_owned());
    let Some(spec) = tree::field_mut(job, "spec").filter(|spec| !tree::is_true(spec, &["manualSelector"])) else {
        return;
    };
    let labels = tree::object_mut(spec, &["template", "metadata", "labels"]);
    let generated =
        [("controller-uid", &uid), (UID, &uid), ("job-name", &name), ("batch.kubernetes.io/job-name", &name)];
    for (key, text) in generated {
        if !labels.contains_key(key) {
            labels.insert(key, text.as_str().into());
        }
    }
    let labels = Value::Object(labels.clone());
    let chosen = tree::object_mut(spec, &["selector", "matchLabels"]);
    if !chosen.contains_key(UID) {
        chosen.insert(UID, uid.into());
    }
    if job.meta("labels").is_none() {
        job.set_meta("labels", labels);
    }
}

/// Keeps immutable fields that an update may omit.
pub fn carry_over(resource: &ValidatedResource<'_>, old: &Value, new: &mut Value) {
    if resource.is("", "services") {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if let (None, Some(value)) = (tree::get(new, &["spec", field]), tree::get(old, &["spec", field])) {
                tree::set(new, &["spec", field], value.clone());
            }
        }
        // A changed `clusterIP` also replaces an unchanged list.
        let [now, before] = [&*new, old].map(|service| tree::text(service, &["spec", "clusterIP"]).to_owned());
        let list = ["spec", "clusterIPs"];
        if now != before && !now.is_empty() && tree::get(new, &list) == tree::get(old, &list) {
            tree::set(new, &list, tree::list([now.as_str()]));
        }
    }
}

/// Drops fields of the former type of a Service, unless the request sets them again.
fn drop_obsolete(old: &Value, new: &mut Value) {
    let kind = |service: &Value| tree::text(service, &["spec", "type"]).to_owned();
    let is_balancer = |service: &Value| kind(service) == "LoadBalancer";
    let is_outside = |service: &Value| match &*kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !tree::items(service, &["spec", "externalIPs"]).is_empty(),
        _ => false,
    };
    let is_checked =
        |service: &Value| is_balancer(service) && tree::text(service, &["spec", "externalTrafficPolicy"]) == "Local";
    for (field, had, has) in [
        ("healthCheckNodePort", is_checked(old), is_checked(new)),
        ("allocateLoadBalancerNodePorts", is_balancer(old), is_balancer(new)),
        ("loadBalancerClass", is_balancer(old), is_balancer(new)),
        ("externalTrafficPolicy", is_outside(old), is_outside(new)),
    ] {
        if had && !has && tree::get(old, &["spec", field]) == tree::get(new, &["spec", field]) {
            tree::remove(new, &["spec", field]);
        }
    }
}

/// Resets the parts that this request may not change, and increments the generation.
pub fn prepare_update(resource: &ValidatedResource<'_>, old: &Value, new: &mut Value, part: Part) {
    match part {
        Part::Internal => return,
        Part::Main if resource.has_status => reset(new, "status", old.get("status")),
        Part::Main => {}
        Part::Status => keep_all_but_status(resource, old, new),
        Part::Ephemeral | Part::Resize => {}
        Part::Approval => {
            let conditions = tree::get(new, &["status", "conditions"]).cloned();
            reset(new, "status", old.get("status"));
            reset_at(new, &["status", "conditions"], conditions.as_ref());
        }
    }
    if resource.is("", "namespaces") && part == Part::Main {
        reset_at(new, &["spec", "finalizers"], tree::get(old, &["spec", "finalizers"]));
    }
    if resource.is("", "services") && part == Part::Main {
        drop_obsolete(old, new);
    }
    // A set that was stored with the field keeps it.
    if resource.is("apps", "statefulsets") && part == Part::Main && tree::get(old, &MAX_UNAVAILABLE).is_none() {
        drop_max_unavailable(new);
    }
    if resource.is("", "persistentvolumeclaims") && part == Part::Main {
        crate::data_source::normalize(new, Some(old));
    }
    // The spec of a CertificateSigningRequest is immutable.
    if resource.is("certificates.k8s.io", "certificatesigningrequests") {
        reset(new, "spec", old.get("spec"));
    }
    // A status update may change the stored versions, but not remove all of them.
    let lacks_stored_versions = || tree::items(new, &["status", "storedVersions"]).is_empty();
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions")
        && (part == Part::Main || lacks_stored_versions())
    {
        add_stored_version(new);
    }
    if matches!(part, Part::Status | Part::Approval) || !counts_generation(resource) {
        return;
    }
    let is_content = |field: &str| match field {
        "metadata" | "apiVersion" => false,
        "status" => !resource.has_status,
        _ => true,
    };
    let differs = || {
        let fields = |value: &Value| {
            let fields = value.as_object().into_iter().flat_map(Map::iter);
            fields.filter(|(name, _)| is_content(name)).count()
        };
        let mut old_fields = old.as_object().into_iter().flat_map(Map::iter).filter(|(name, _)| is_content(name));
        fields(old) != fields(new) || old_fields.any(|(name, value)| new.get(name) != Some(value))
    };
    // Annotations of a deployment count for its generation, too.
    let annotated = resource.is("apps", "deployments") && old.meta("annotations") != new.meta("annotations");
    if annotated || differs() {
        new.set_meta("generation", old.generation() + 1);
    }
}

/// Adds the storage version to the stored versions of a definition.
fn add_stored_version(definition: &mut Value) {
    let mut versions = tree::items(definition, &["spec", "versions"]).iter();
    let stored = versions.find(|version| tree::is_true(version, &["storage"])).and_then(|version| version.get("name"));
    let Some(stored) = stored.cloned() else { return };
    let mut known = tree::items(definition, &["status", "storedVersions"]).to_vec();
    if !known.contains(&stored) {
        known.push(stored);
        tree::set(definition, &["status", "storedVersions"], known);
    }
}

fn keep_all_but_status(resource: &ValidatedResource<'_>, old: &Value, new: &mut Value) {
    let status = new.get("status").cloned();
    let metadata = new.get("metadata").cloned().unwrap_or_default();
    *new = old.clone();
    reset(new, "status", status.as_ref());
    if resource.is_custom() {
        // The managed fields are the only metadata that a status update of a custom resource
        // changes.
        reset_at(new, &["metadata", "managedFields"], metadata.get("managedFields"));
        return;
    }
    tree::set(new, &["metadata"], metadata);
    if resource.is("apps", "deployments") {
        reset_at(new, &["metadata", "labels"], old.meta("labels"));
    }
    if resource.is("", "pods") {
        reset_at(new, &["metadata", "ownerReferences"], old.meta("ownerReferences"));
        keep_unknown_status_fields(old, new);
    }
    if resource.is("certificates.k8s.io", "certificatesigningrequests") {
        ["Approved", "Denied"].iter().for_each(|kind| keep_conditions(old, new, kind));
    }
}

/// Keeps status fields that older kubelets do not know and therefore omit.
fn keep_unknown_status_fields(old: &Value, new: &mut Value) {
    for field in ["qosClass", "observedGeneration"] {
        let path = ["status", field];
        if tree::get(new, &path).is_none()
            && let Some(before) = tree::get(old, &path)
        {
            tree::set(new, &path, before.clone());
        }
    }
    let before = tree::items(old, &["status", "conditions"]);
    let Some(status) = tree::field_mut(new, "status") else { return };
    // The first condition of each type counts.
    let kind = |condition: &Value| condition.get("type").map(Value::to_string);
    let before_of: HashMap<_, _> = before.iter().rev().map(|condition| (kind(condition), condition)).collect();
    for condition in tree::items_mut(status, "conditions") {
        let same = before_of.get(&kind(condition));
        if condition.get("observedGeneration").is_none()
            && let Some(generation) = same.and_then(|same| same.get("observedGeneration"))
        {
            tree::set(condition, &["observedGeneration"], generation.clone());
        }
    }
}

/// Restores the conditions of a type, unless their number changed.
fn keep_conditions(old: &Value, new: &mut Value, kind: &str) {
    let has_kind = |condition: &Value| tree::text(condition, &["type"]) == kind;
    let before = tree::items(old, &["status", "conditions"]).iter().filter(|one| has_kind(one));
    let before: Vec<Value> = before.cloned().collect();
    let Some(status) = tree::field_mut(new, "status") else { return };
    let now = tree::items_mut(status, "conditions");
    if now.iter().filter(|one| has_kind(one)).count() == before.len() {
        now.iter_mut().filter(|one| has_kind(one)).zip(before).for_each(|(now, before)| *now = before);
    }
}

fn reset(value: &mut Value, field: &str, to: Option<&Value>) {
    reset_at(value, &[field], to);
}

fn reset_at(value: &mut Value, path: &[&str], to: Option<&Value>) {
    match to {
        Some(to) => tree::set(value, path, to.clone()),
        None => drop(tree::remove(value, path)),
    }
}
