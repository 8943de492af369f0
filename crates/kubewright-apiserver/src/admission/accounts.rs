//! Service accounts of pods: each pod has one, which has to be there, has its secrets for pulling images, and finds a token of it in its
//! containers.
//!
//! Off unless the owner of the server wants it, as in the test environments that people come from: without the controllers
//! of a cluster nobody would make the accounts.

use kubewright_core::meta::v1::Status;
use kubewright_core::{Str, Value};

use super::control::Control;
use crate::catalog::Resource;
use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::rejection::Rejection;

/// The account that each namespace has.
pub(crate) const DEFAULT: &str = "default";
/// Where containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// How long a token in a pod is good for: an hour, and time to fetch the next one.
const TOKEN_SECONDS: i64 = 3607;

/// Gives a new pod its account.
pub(crate) fn assign(
    registry: &Registry,
    resource: &Resource,
    namespace: &str,
    pod: &mut Value,
    control: &Control<'_>,
) -> Result<(), Rejection> {
    // Mirrors of what a node runs by itself have none.
    let is_mirror = || tree::get(pod, &["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some();
    if !registry.assigns_accounts || !resource.is("", "pods") || is_mirror() {
        return Ok(());
    }
    if tree::text(pod, &["spec", "serviceAccountName"]).is_empty() {
        tree::set(pod, &["spec", "serviceAccountName"], DEFAULT);
    }
    let name = Str::from(tree::text(pod, &["spec", "serviceAccountName"]));
    tree::set(pod, &["spec", "serviceAccount"], name.clone());
    let catalog = registry.catalog();
    let accounts = catalog.of_storage("serviceaccounts").ok_or_else(Rejection::no_such_resource)?;
    let account = registry.get(accounts, namespace, &name).map_err(|_| {
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

/// Creates the account that each namespace has, unless it is there.
pub(crate) fn create_default(registry: &Registry, namespace: &str) {
    use crate::registry::{CreateRequest, Ownership};
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage("serviceaccounts").filter(|_| registry.assigns_accounts) else { return };
    let value = tree::map([
        ("apiVersion", "v1".into()),
        ("kind", "ServiceAccount".into()),
        ("metadata", tree::map([("name", DEFAULT.into())])),
    ]);
    let (control, ownership, dry_run) = (None, Ownership::Keep, false);
    // One that is there already is as good, and a namespace that is going needs none.
    let _ = registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run });
}

/// Mounts a token into all containers that have nothing else in that place.
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
