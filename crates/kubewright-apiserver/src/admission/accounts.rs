//! The ServiceAccount admission plugin: sets the account of a pod, adds the account's image pull
//! secrets, and mounts a token into the containers.
//!
//! Off by default, as in envtest: without the controllers of a cluster, nothing creates the
//! accounts.

use kubewright_core::meta::v1::Status;
use kubewright_core::{Str, Value};

use super::control::Control;
use crate::admission::plugins::AdmissionPlugin;
use crate::admission::state::ClusterState;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// The default account of each namespace.
pub(crate) const DEFAULT: &str = "default";
/// Mount path of the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Token lifetime: one hour, plus time for the rotation.
const TOKEN_SECONDS: i64 = 3607;

/// Sets the service account of a new pod.
pub(crate) fn assign(
    cluster: &dyn ClusterState,
    resource: &Resource,
    namespace: &str,
    pod: &mut Value,
    control: &Control<'_>,
) -> Result<(), Rejection> {
    // Mirror pods have no service account.
    let is_mirror = || tree::get(pod, &["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some();
    if !cluster.has_plugin(AdmissionPlugin::ServiceAccount) || !resource.is("", "pods") || is_mirror() {
        return Ok(());
    }
    if tree::text(pod, &["spec", "serviceAccountName"]).is_empty() {
        tree::set(pod, &["spec", "serviceAccountName"], DEFAULT);
    }
    let name = Str::from(tree::text(pod, &["spec", "serviceAccountName"]));
    tree::set(pod, &["spec", "serviceAccount"], name.clone());
    let catalog = cluster.catalog();
    let accounts = catalog.of_storage("serviceaccounts").ok_or_else(Rejection::no_such_resource)?;
    let account = cluster.newest(&accounts.key(namespace, &name)).ok_or_else(|| {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {:?} not found", &*name);
        Status::forbidden(&resource.group_resource(), pod.name(), why)
    })?;
    let secrets = tree::items(account.object.value(), &["imagePullSecrets"]);
    if tree::items(pod, &["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        let name = |secret| tree::map([("name", tree::text(secret, &["name"]).into())]);
        tree::set(pod, &["spec", "imagePullSecrets"], secrets.iter().map(name).collect::<Vec<_>>());
    }
    let wants = |value: &Value, path: &[&str]| tree::get(value, path).and_then(Value::as_bool);
    let is_mounted = wants(pod, &["spec", "automountServiceAccountToken"])
        .or_else(|| wants(account.object.value(), &["automountServiceAccountToken"]));
    if is_mounted != Some(false) {
        mount(pod, &format!("{VOLUME_PREFIX}{}", control.letters()));
    }
    Ok(())
}

/// Mounts the token into all containers that mount nothing else at its path.
fn mount(pod: &mut Value, volume: &str) {
    let Some(spec) = tree::field_mut(pod, "spec") else { return };
    let has_one =
        tree::items(spec, &["volumes"]).iter().any(|have| tree::text(have, &["name"]).starts_with(VOLUME_PREFIX));
    if has_one {
        return;
    }
    let mut is_used = false;
    for field in ["containers", "initContainers"] {
        for container in tree::items_mut(spec, field) {
            let mounts = tree::items(container, &["volumeMounts"]);
            if mounts.iter().any(|mount| tree::text(mount, &["mountPath"]) == MOUNT_PATH) {
                continue;
            }
            let mount =
                tree::map([("name", volume.into()), ("readOnly", true.into()), ("mountPath", MOUNT_PATH.into())]);
            push(container, "volumeMounts", mount);
            is_used = true;
        }
    }
    if !is_used {
        return;
    }
    let token = tree::map([("expirationSeconds", TOKEN_SECONDS.into()), ("path", "token".into())]);
    let item = |key: &str| vec![tree::map([("key", key.into()), ("path", key.into())])];
    let authority = tree::map([("name", "kube-root-ca.crt".into()), ("items", Value::from(item("ca.crt")))]);
    let field = tree::map([("apiVersion", "v1".into()), ("fieldPath", "metadata.namespace".into())]);
    let namespace = tree::map([("path", "namespace".into()), ("fieldRef", field)]);
    let sources = vec![
        tree::map([("serviceAccountToken", token)]),
        tree::map([("configMap", authority)]),
        tree::map([("downwardAPI", tree::map([("items", Value::from(vec![namespace]))]))]),
    ];
    let projected = tree::map([("sources", Value::from(sources)), ("defaultMode", 420.into())]);
    push(spec, "volumes", tree::map([("name", volume.into()), ("projected", projected)]));
}

fn push(value: &mut Value, field: &str, item: Value) {
    let Some(object) = value.as_object_mut() else { return };
    if let Value::Array(list) = object.get_or_insert_with(field, || Value::Array([].into())) {
        list.push(item);
    }
}
