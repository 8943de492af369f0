//! `kubewright export`: the objects of a cluster as YAML that another cluster can import.
//!
//! Only declared state is exported. The controllers and the server of the other cluster create the
//! rest: status, uids, addresses, and objects with a controller.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use kubewright_client::Client;
use kubewright_core::{GroupVersion, Selector, Value};
use kubewright_yaml as yaml;

use crate::connection::Connection;
use crate::private_file::PrivateFile;

/// Number of objects per page.
const PAGE: usize = 500;

/// Resources that a cluster creates itself, as group and plural.
const OWN_RESOURCES: [(&str, &str); 10] = [
    ("", "componentstatuses"),
    ("", "endpoints"),
    ("", "events"),
    ("", "nodes"),
    ("apiregistration.k8s.io", "apiservices"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "volumeattachments"),
];

/// Metadata that only servers set.
const SERVER_METADATA: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// The objects to export, and the file for them.
#[derive(Debug, Args)]
pub struct ExportOptions {
    /// Only objects of this namespace; by default of all, plus cluster-scoped objects.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Only objects with these labels.
    #[arg(long, short = 'l')]
    selector: Option<Selector>,
    /// The file to write, which only its owner can read; by default standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

/// A resource to export.
struct ExportedResource {
    version: GroupVersion,
    plural: String,
    kind: String,
    namespaced: bool,
}

/// Writes the objects, one YAML document each.
pub async fn export(options: &ExportOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let resources = resources(&client, options.namespace.is_some()).await?;
    match &options.output {
        None => write_all(options, &client, &resources, &mut io::stdout().lock()).await,
        Some(path) => {
            let unwritten = |error| format!("cannot write {}: {error}", path.display());
            let mut file = PrivateFile::create(path).map_err(unwritten)?;
            write_all(options, &client, &resources, &mut file).await?;
            Ok(file.publish().map_err(unwritten)?)
        }
    }
}

/// The resources of the cluster, dependencies first.
async fn resources(client: &Client, only_namespaced: bool) -> Result<Vec<ExportedResource>, Box<dyn Error>> {
    let found = client.discovery().discover().await?;
    if let Some(failure) = found.failures.first() {
        return Err(failure.clone().into());
    }
    let wanted = found.preferred_resources().filter(|(version, resource)| {
        let is_own = OWN_RESOURCES.contains(&(&*version.group, &*resource.plural));
        let can_be_copied = resource.has_verb("list") && resource.has_verb("create");
        can_be_copied && !is_own && (resource.namespaced || !only_namespaced)
    });
    let mut resources: Vec<ExportedResource> = wanted
        .map(|(version, resource)| ExportedResource {
            version,
            plural: resource.plural.to_string(),
            kind: resource.kind.kind.to_string(),
            namespaced: resource.namespaced,
        })
        .collect();
    resources.sort_by_key(|resource| (rank(&resource.kind, resource.namespaced), resource.plural.clone()));
    Ok(resources)
}

/// The position of a kind in a file: definitions and namespaces first, pods last.
pub fn rank(kind: &str, namespaced: bool) -> u8 {
    match kind {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        "ServiceAccount" | "ConfigMap" | "Secret" | "LimitRange" => 3,
        "Pod" => 5,
        _ if !namespaced => 2,
        _ => 4,
    }
}

async fn write_all(
    options: &ExportOptions,
    client: &Client,
    resources: &[ExportedResource],
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    for resource in resources {
        let mut continue_token = None;
        loop {
            let page = page(options, client, resource, continue_token.as_deref()).await?;
            for object in page.get("items").and_then(Value::as_array).into_iter().flatten() {
                let Some(object) = declared(object, resource) else { continue };
                let mut text = String::from("---\n");
                yaml::write(&object, &mut text);
                out.write_all(text.as_bytes())?;
            }
            let next = text(&page, &["metadata", "continue"]);
            if next.is_empty() {
                break;
            }
            continue_token = Some(next.to_owned());
        }
    }
    Ok(out.flush()?)
}

async fn page(
    options: &ExportOptions,
    client: &Client,
    resource: &ExportedResource,
    continue_token: Option<&str>,
) -> Result<Value, Box<dyn Error>> {
    let rest = client.rest().group_version(resource.version.clone());
    let mut request = rest.get().resource(resource.plural.clone()).parameter("limit", PAGE);
    if let Some(namespace) = &options.namespace {
        request = request.namespace(namespace.clone());
    }
    if let Some(selector) = &options.selector {
        request = request.parameter("labelSelector", selector);
    }
    if let Some(token) = continue_token {
        request = request.parameter("continue", token);
    }
    Ok(Value::from_json(&request.send().await?.bytes())?)
}

/// The declared part of an object; `None` if the cluster creates the object itself.
fn declared(object: &Value, resource: &ExportedResource) -> Option<Value> {
    let name = text(object, &["metadata", "name"]);
    let namespace = text(object, &["metadata", "namespace"]);
    let is_own = match (&*resource.version.group, &*resource.kind) {
        ("", "Namespace") => matches!(name, "default" | "kube-node-lease" | "kube-public" | "kube-system"),
        ("", "ServiceAccount") => name == "default",
        ("", "Service") => (namespace, name) == ("default", "kubernetes"),
        ("", "ConfigMap") => name == "kube-root-ca.crt" || namespace == "kube-system",
        ("", "Secret") => text(object, &["type"]) == "kubernetes.io/service-account-token",
        ("scheduling.k8s.io", "PriorityClass") => name.starts_with("system-"),
        ("rbac.authorization.k8s.io", _) => {
            let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
            labels.is_some_and(|labels| labels.get("kubernetes.io/bootstrapping").is_some())
        }
        _ => false,
    };
    let metadata = object.get("metadata")?;
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let is_controlled = owners.into_iter().any(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    let is_deleted = metadata.get("deletionTimestamp").is_some();
    if is_own || is_controlled || is_deleted {
        return None;
    }
    let mut object = object.clone();
    let fields = object.as_object_mut()?;
    fields.insert("apiVersion", resource.version.to_string().into());
    fields.insert("kind", resource.kind.as_str().into());
    fields.remove("status");
    let metadata = fields.get_mut("metadata")?.as_object_mut()?;
    for field in SERVER_METADATA {
        metadata.remove(field);
    }
    // Owners have other uids in another cluster, so its garbage collector would delete this object.
    metadata.remove("ownerReferences");
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        match (&*resource.version.group, &*resource.kind) {
            ("", "Service") if spec.get("clusterIP").and_then(Value::as_str) != Some("None") => {
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
            ("", "Pod") => drop(spec.remove("nodeName")),
            ("", "PersistentVolume") => {
                if let Some(claim) = spec.get_mut("claimRef").and_then(Value::as_object_mut) {
                    claim.remove("uid");
                    claim.remove("resourceVersion");
                }
            }
            _ => {}
        }
    }
    Some(object)
}

/// The text at a path, or nothing.
fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    let found = path.iter().try_fold(value, |value, field| value.get(field));
    found.and_then(Value::as_str).unwrap_or_default()
}
