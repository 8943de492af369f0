//! Defaults of Pods and pod templates.

use kubewright_core::{Quantity, Value, tree};

use super::{amounts, pod_amounts};

/// Security context fields that the v1 API keeps in the pod spec.
const HOST_NAMESPACES: [&str; 3] = ["hostNetwork", "hostPID", "hostIPC"];

/// Sets the defaults of a Pod, including those that templates do not get.
pub(super) fn pod(value: &mut Value) {
    if let Some(spec) = tree::field_mut(value, "spec") {
        pod_spec(spec);
        if tree::int(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
            tree::set(spec, &["terminationGracePeriodSeconds"], 1);
        }
        if tree::is_true(spec, &["hostNetwork"]) {
            host_ports(spec);
        }
        requests(spec);
        pod_amounts::complete(spec);
        tree::default(spec, "enableServiceLinks", true);
    }
}

/// With `hostNetwork`, host ports default to the container ports.
fn host_ports(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in tree::items_mut(spec, list) {
            for port in tree::items_mut(container, "ports") {
                if let Some(number) = tree::int(port, &["containerPort"]) {
                    tree::default_zero(port, "hostPort", number);
                }
            }
        }
    }
}

/// Sets the default requests of a pod and its containers.
pub fn pod_requests(pod: &mut Value) {
    if let Some(spec) = tree::field_mut(pod, "spec") {
        requests(spec);
        pod_amounts::complete(spec);
    }
}

/// Requests default to limits.
fn requests(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        tree::items_mut(spec, list).iter_mut().for_each(requests_from_limits);
    }
}

/// Sets the defaults of the pod template at `spec.template` of a workload.
pub(super) fn template(workload: &mut Value) {
    let Some(template) = tree::field_mut(workload, "spec").and_then(|spec| tree::field_mut(spec, "template")) else {
        return;
    };
    if let Some(spec) = tree::field_mut(template, "spec") {
        pod_spec(spec);
    }
}

/// Sets the defaults of a pod spec.
pub(super) fn pod_spec(spec: &mut Value) {
    tree::default_zero(spec, "dnsPolicy", "ClusterFirst");
    tree::default_zero(spec, "restartPolicy", "Always");
    tree::default_zero(spec, "schedulerName", "default-scheduler");
    tree::default(spec, "securityContext", tree::map([]));
    tree::default(spec, "terminationGracePeriodSeconds", 30);
    for field in HOST_NAMESPACES {
        if !tree::is_true(spec, &[field]) {
            tree::remove(spec, &[field]);
        }
    }
    service_account(spec);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        tree::items_mut(spec, list).iter_mut().for_each(container);
    }
    tree::items_mut(spec, "volumes").iter_mut().for_each(volume);
    amounts::round_up(spec, "overhead");
    if let Some(resources) = tree::field_mut(spec, "resources") {
        amounts::requirements(resources);
    }
}

/// Copies the service account name between its field and the deprecated alias.
fn service_account(spec: &mut Value) {
    let new = tree::text(spec, &["serviceAccountName"]).to_owned();
    let old = tree::text(spec, &["serviceAccount"]).to_owned();
    match (new.is_empty(), old.is_empty()) {
        (false, _) => tree::set(spec, &["serviceAccount"], new),
        (true, false) => tree::set(spec, &["serviceAccountName"], old),
        (true, true) => {}
    }
}

fn container(container: &mut Value) {
    let policy = if is_latest(tree::text(container, &["image"])) { "Always" } else { "IfNotPresent" };
    tree::default_zero(container, "imagePullPolicy", policy);
    tree::default_zero(container, "terminationMessagePath", "/dev/termination-log");
    tree::default_zero(container, "terminationMessagePolicy", "File");
    tree::default(container, "resources", tree::map([]));
    if let Some(resources) = tree::field_mut(container, "resources") {
        amounts::requirements(resources);
    }
    for port in tree::items_mut(container, "ports") {
        tree::default_zero(port, "protocol", "TCP");
    }
    for variable in tree::items_mut(container, "env") {
        let Some(from) = tree::field_mut(variable, "valueFrom") else { continue };
        if let Some(reference) = tree::field_mut(from, "fieldRef") {
            tree::default_zero(reference, "apiVersion", "v1");
        }
        if let Some(file) = tree::field_mut(from, "fileKeyRef") {
            tree::default(file, "optional", false);
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
        super::storage::claim_spec(spec);
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

/// Whether an image has the tag `latest`, or neither a tag nor a digest.
fn is_latest(image: &str) -> bool {
    let (image, has_digest) = match image.split_once('@') {
        Some((image, _)) => (image, true),
        None => (image, false),
    };
    let name = image.rsplit('/').next().unwrap_or_default();
    name.rsplit_once(':').map_or(!has_digest, |(_, tag)| tag == "latest")
}

fn requests_from_limits(container: &mut Value) {
    let limits = tree::get(container, &["resources", "limits"]).and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, amount) in limits.iter() {
        tree::object_mut(container, &["resources", "requests"]).get_or_insert_with(name.clone(), || amount.clone());
    }
}

/// The QoS class of a pod.
pub fn quality_of_service(pod: &Value) -> &'static str {
    let nothing = Value::default();
    let spec = pod.get("spec").unwrap_or(&nothing);
    // Pod-level resources replace those of the containers.
    let whole = std::slice::from_ref(spec).iter().filter(|spec| pod_amounts::has_pod_level_resources(spec));
    let lists: &[&str] =
        if pod_amounts::has_pod_level_resources(spec) { &[] } else { &["initContainers", "containers"] };
    let containers = || whole.clone().chain(lists.iter().flat_map(|list| tree::items(spec, &[*list])));
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
