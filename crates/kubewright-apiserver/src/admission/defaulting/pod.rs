//! Pods, and the templates of pods in all that makes them.

use kubewright_core::{Quantity, Value};

use crate::object::tree;

/// Fields of a pod's security context that used to lie in the pod itself.
const HOST_NAMESPACES: [&str; 3] = ["hostNetwork", "hostPID", "hostIPC"];

/// Fills in a pod.
pub(super) fn pod(value: &mut Value) {
    if let Some(spec) = tree::field_mut(value, "spec") {
        pod_spec(spec);
        requests(spec);
        tree::default(spec, "enableServiceLinks", true);
    }
}

/// Fills in what the containers of a pod ask for.
pub(in super::super) fn pod_requests(pod: &mut Value) {
    if let Some(spec) = tree::field_mut(pod, "spec") {
        requests(spec);
    }
}

/// Limits count as requests where none are given.
fn requests(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        tree::items_mut(spec, list).iter_mut().for_each(requests_from_limits);
    }
}

/// Fills in the template of pods at `spec.template` of a workload.
pub(super) fn template(workload: &mut Value) {
    let Some(template) = tree::field_mut(workload, "spec").and_then(|spec| tree::field_mut(spec, "template")) else {
        return;
    };
    if let Some(spec) = tree::field_mut(template, "spec") {
        pod_spec(spec);
    }
}

/// Fills in the specification of a pod.
pub(super) fn pod_spec(spec: &mut Value) {
    tree::default_zero(spec, "dnsPolicy", "ClusterFirst");
    tree::default_zero(spec, "restartPolicy", "Always");
    tree::default_zero(spec, "schedulerName", "default-scheduler");
    tree::default(spec, "securityContext", tree::map([]));
    tree::default(spec, "terminationGracePeriodSeconds", 30);
    if tree::int(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        tree::set(spec, &["terminationGracePeriodSeconds"], 1);
    }
    let is_on_host = tree::is_true(spec, &["hostNetwork"]);
    for field in HOST_NAMESPACES {
        if !tree::is_true(spec, &[field]) {
            tree::remove(spec, &[field]);
        }
    }
    service_account(spec);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in tree::items_mut(spec, list) {
            self::container(container, is_on_host);
        }
    }
    tree::items_mut(spec, "volumes").iter_mut().for_each(volume);
    for constraint in tree::items_mut(spec, "topologySpreadConstraints") {
        tree::default(constraint, "nodeAffinityPolicy", "Honor");
        tree::default(constraint, "nodeTaintsPolicy", "Ignore");
    }
}

/// The account under its two names.
fn service_account(spec: &mut Value) {
    let new = tree::text(spec, &["serviceAccountName"]).to_owned();
    let old = tree::text(spec, &["serviceAccount"]).to_owned();
    match (new.is_empty(), old.is_empty()) {
        (false, _) => tree::set(spec, &["serviceAccount"], new),
        (true, false) => tree::set(spec, &["serviceAccountName"], old),
        (true, true) => {}
    }
}

fn container(container: &mut Value, is_on_host: bool) {
    let policy = if is_latest(tree::text(container, &["image"])) { "Always" } else { "IfNotPresent" };
    tree::default_zero(container, "imagePullPolicy", policy);
    tree::default_zero(container, "terminationMessagePath", "/dev/termination-log");
    tree::default_zero(container, "terminationMessagePolicy", "File");
    tree::default(container, "resources", tree::map([]));
    for port in tree::items_mut(container, "ports") {
        tree::default_zero(port, "protocol", "TCP");
        if is_on_host && let Some(number) = tree::int(port, &["containerPort"]) {
            tree::default_zero(port, "hostPort", number);
        }
    }
    for variable in tree::items_mut(container, "env") {
        if let Some(reference) =
            tree::field_mut(variable, "valueFrom").and_then(|from| tree::field_mut(from, "fieldRef"))
        {
            tree::default_zero(reference, "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = tree::field_mut(container, probe) {
            self::probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        let hook = tree::field_mut(container, "lifecycle").and_then(|lifecycle| tree::field_mut(lifecycle, hook));
        if let Some(get) = hook.and_then(|hook| tree::field_mut(hook, "httpGet")) {
            http_get(get);
        }
    }
}

fn probe(probe: &mut Value) {
    for (field, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        tree::default_zero(probe, field, number);
    }
    if let Some(get) = tree::field_mut(probe, "httpGet") {
        http_get(get);
    }
    if let Some(grpc) = tree::field_mut(probe, "grpc") {
        tree::default(grpc, "service", "");
    }
}

fn http_get(get: &mut Value) {
    tree::default_zero(get, "path", "/");
    tree::default_zero(get, "scheme", "HTTP");
}

fn volume(volume: &mut Value) {
    const MODE: i64 = 0o644;
    let is_bare = volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name"));
    if is_bare {
        tree::set(volume, &["emptyDir"], tree::map([]));
    }
    for (source, field) in [
        ("secret", "defaultMode"),
        ("configMap", "defaultMode"),
        ("downwardAPI", "defaultMode"),
        ("projected", "defaultMode"),
    ] {
        if let Some(source) = tree::field_mut(volume, source) {
            tree::default(source, field, MODE);
        }
    }
    if let Some(path) = tree::field_mut(volume, "hostPath") {
        tree::default(path, "type", "");
    }
    if let Some(api) = tree::field_mut(volume, "downwardAPI") {
        tree::items_mut(api, "items").iter_mut().for_each(field_reference);
    }
    if let Some(projected) = tree::field_mut(volume, "projected") {
        for source in tree::items_mut(projected, "sources") {
            if let Some(token) = tree::field_mut(source, "serviceAccountToken") {
                tree::default(token, "expirationSeconds", 3600);
            }
            if let Some(api) = tree::field_mut(source, "downwardAPI") {
                tree::items_mut(api, "items").iter_mut().for_each(field_reference);
            }
        }
    }
    if let Some(claim) =
        tree::field_mut(volume, "ephemeral").and_then(|ephemeral| tree::field_mut(ephemeral, "volumeClaimTemplate"))
        && let Some(spec) = tree::field_mut(claim, "spec")
    {
        tree::default(spec, "volumeMode", "Filesystem");
    }
    if let Some(image) = tree::field_mut(volume, "image") {
        let policy = if is_latest(tree::text(image, &["reference"])) { "Always" } else { "IfNotPresent" };
        tree::default_zero(image, "pullPolicy", policy);
    }
    super::storage::source(volume);
}

fn field_reference(file: &mut Value) {
    if let Some(reference) = tree::field_mut(file, "fieldRef") {
        tree::default_zero(reference, "apiVersion", "v1");
    }
}

/// Whether an image is the latest of its name, because it has no tag or that one.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    name.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn requests_from_limits(container: &mut Value) {
    let limits = tree::get(container, &["resources", "limits"]).and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, amount) in limits.iter() {
        tree::object(container, &["resources", "requests"]).get_or_insert_with(name.clone(), || amount.clone());
    }
}

/// How a pod is treated when its node runs out of something.
pub(in super::super) fn quality_of_service(pod: &Value) -> &'static str {
    let containers = || ["initContainers", "containers"].into_iter().flat_map(|list| tree::items(pod, &["spec", list]));
    let amount = |container: &Value, kind: &str, name: &str| -> Option<Quantity> {
        let amount: Quantity = tree::text(container, &["resources", kind, name]).parse().ok()?;
        (!amount.is_zero()).then_some(amount)
    };
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let has_any = containers().any(|container| {
        COUNTED.iter().any(|name| amount(container, "limits", name).or(amount(container, "requests", name)).is_some())
    });
    if !has_any {
        return "BestEffort";
    }
    let is_guaranteed = containers().all(|container| {
        COUNTED.iter().all(|name| {
            let (limit, request) = (amount(container, "limits", name), amount(container, "requests", name));
            limit.is_some() && (request.is_none() || request == limit)
        })
    });
    if is_guaranteed { "Guaranteed" } else { "Burstable" }
}
