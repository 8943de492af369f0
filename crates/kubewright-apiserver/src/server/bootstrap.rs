//! Creates the system objects and the preloaded objects at startup.

use kubewright_core::Value;
use kubewright_net::clock;
use kubewright_yaml as yaml;

use super::{StartError, roles};
use crate::aggregation::{self, FrontProxy};
use crate::registry::{CreateRequest, Ownership, Registry};
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_objects::service_numbers::ServiceAddresses;
use kubewright_resources::decoding::{self, ExpectedType};

/// The ConfigMap that tells aggregated API servers how to authenticate requests.
const AUTHENTICATION: &str = "extension-apiserver-authentication";

/// The system namespaces.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Other system objects: the system priority classes, the ConfigMap that tracks legacy tokens,
/// the network of Services, and the Service of the API server. `{network}` and `{address}` stand
/// for the addresses.
const OBJECTS: &str = r"
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: system-cluster-critical}
value: 2000000000
description: Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: system-node-critical}
value: 2000001000
description: Used for system critical pods that must not be moved from their current node.
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-apiserver-legacy-service-account-token-tracking, namespace: kube-system}
data: {since: '2026-01-01'}
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: ['{network}']}
---
apiVersion: v1
kind: Service
metadata:
  name: kubernetes
  namespace: default
  labels: {component: apiserver, provider: kubernetes}
spec:
  type: ClusterIP
  clusterIP: {address}
  ports: [{name: https, protocol: TCP, port: 443, targetPort: 6443}]
";

/// Creates the system objects.
pub(super) fn create_system_objects(registry: &Registry, addresses: ServiceAddresses) -> Result<(), StartError> {
    for name in NAMESPACES {
        preload(registry, &format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"))?;
    }
    let objects = OBJECTS.replace("{network}", &addresses.to_string());
    preload(registry, &objects.replace("{address}", &addresses.first().to_string()))?;
    registry.store_missing_allocations().map_err(failed)?;
    mark_service_network_ready(registry)?;
    aggregation::register_all(registry);
    roles::reconcile_roles(registry)
}

/// Reports that the network of Services is in use. A controller of kube-apiserver does this.
fn mark_service_network_ready(registry: &Registry) -> Result<(), StartError> {
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage("servicecidrs.networking.k8s.io") else { return Ok(()) };
    let condition = tree::map([
        ("type", "Ready".into()),
        ("status", "True".into()),
        ("reason", "".into()),
        ("message", "Kubernetes default Service CIDR is ready".into()),
        ("lastTransitionTime", clock::now().to_string().into()),
    ]);
    let add_condition = |old: &Value| {
        let mut new = old.clone();
        if tree::items(old, &["status", "conditions"]).is_empty() {
            tree::set(&mut new, &["status", "conditions"], Value::Array([condition.clone()].into_iter().collect()));
        }
        Ok(new)
    };
    let changed = registry.change(resource, "", "kubernetes", add_condition);
    changed.map(drop).map_err(|rejection| StartError::Preload { message: in_words(rejection) })
}

/// Creates the identity of this server towards aggregated API servers, and publishes how they
/// recognize it.
pub(super) fn publish_front_proxy(registry: &Registry, client_authority: &str) -> Result<FrontProxy, StartError> {
    let front_proxy = FrontProxy::generate().map_err(|error| StartError::Certificates(Box::new(error)))?;
    let refused = |message| StartError::Preload { message };
    let metadata = tree::map([("name", AUTHENTICATION.into()), ("namespace", "kube-system".into())]);
    let data = front_proxy.configuration(client_authority);
    let configuration = tree::map([
        ("apiVersion", "v1".into()),
        ("kind", "ConfigMap".into()),
        ("metadata", metadata),
        ("data", data.clone()),
    ]);
    create(registry, &configuration).map_err(refused)?;
    // It exists since an earlier start, whose certificates are gone.
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage("configmaps") else { return Ok(front_proxy) };
    let changed = registry.change(resource, "kube-system", AUTHENTICATION, |old| {
        let mut new = old.clone();
        tree::set(&mut new, &["data"], data.clone());
        Ok(new)
    });
    changed.map_err(|rejection| refused(in_words(rejection)))?;
    Ok(front_proxy)
}

/// Creates the objects of YAML documents. A list stands for its items.
pub(super) fn preload(registry: &Registry, documents: &str) -> Result<(), StartError> {
    let refused = |message: String| StartError::Preload { message };
    for document in yaml::parse_all(documents).map_err(|error| refused(error.to_string()))? {
        let is_list = tree::text(&document.value, &["kind"]) == "List";
        let items: Vec<&Value> =
            if is_list { tree::items(&document.value, &["items"]).iter().collect() } else { vec![&document.value] };
        for item in items {
            create(registry, item).map_err(refused)?;
        }
    }
    Ok(())
}

pub(super) fn create(registry: &Registry, value: &Value) -> Result<(), String> {
    let (api_version, kind) = (tree::text(value, &["apiVersion"]), tree::text(value, &["kind"]));
    let catalog = registry.catalog();
    let resource =
        catalog.of_kind(api_version, kind).ok_or_else(|| format!("unknown kind {kind:?} in {api_version:?}"))?;
    let decoded = decoding::normalize(ExpectedType::from(&**resource), value).map_err(|status| status.to_string())?;
    let namespace = match (resource.namespaced, value.namespace()) {
        (false, _) => "",
        (true, "") => "default",
        (true, namespace) => namespace,
    };
    if !value.name().is_empty() && registry.newest(resource, namespace, value.name()).is_ok() {
        // The object exists since an earlier start.
        return Ok(());
    }
    let request = CreateRequest {
        resource,
        namespace,
        value: decoded.value,
        control: None,
        ownership: Ownership::Keep,
        dry_run: false,
    };
    match registry.create(request) {
        Ok(_) => Ok(()),
        // Another server over the same database has created it meanwhile.
        Err(Rejection::Status(status)) if status.is_already_exists() => Ok(()),
        Err(rejection) => Err(in_words(rejection)),
    }
}

/// A write of the server that was rejected.
pub(super) fn failed(rejection: Rejection) -> StartError {
    StartError::Preload { message: in_words(rejection) }
}

fn in_words(rejection: Rejection) -> String {
    match rejection {
        Rejection::Status(status) => status.to_string(),
        Rejection::NoSuchPage => "not found".to_owned(),
        // The server calls no webhooks for its own objects.
        Rejection::NeedsWebhook | Rejection::NeedsAuthorization(_) => "a webhook was not called".to_owned(),
    }
}
