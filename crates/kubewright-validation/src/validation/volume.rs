//! Validates pod volumes.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::dns1123_subdomain;

use super::metadata::quoted;
use super::{claim, number, projected, text, volume_source};

/// Volume sources of pods, in the order of validation.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

/// Validates the source of a volume. There must be exactly one.
pub(super) fn source(field: &str, volume: &Value, pod: Option<&Value>) -> Vec<StatusCause> {
    let mut found = SOURCES.into_iter().filter_map(|name| Some((name, volume.get(name)?)));
    let Some((name, source)) = found.next() else {
        if let Some(image) = volume.get("image") {
            return self::image(&format!("{field}.image"), image, pod.is_some());
        }
        return vec![StatusCause::required(field, "must specify a volume type")];
    };
    let inner = format!("{field}.{name}");
    let mut causes = match name {
        "configMap" | "secret" => projected::keys(&inner, name, source),
        "downwardAPI" => projected::downward(&inner, source),
        "projected" => projected::projected(&inner, source),
        "persistentVolumeClaim" => text::missing(&inner, source, &["claimName"]),
        "ephemeral" => ephemeral(field, volume, source, pod),
        "emptyDir" => empty_directory(&inner, source),
        name => volume_source::source(&inner, name, source),
    };
    let why = "may not specify more than 1 volume type";
    let more = found.map(|(name, _)| name).chain(volume.get("image").map(|_| "image"));
    causes.extend(more.map(|name| StatusCause::forbidden(format!("{field}.{name}"), why)));
    causes
}

fn empty_directory(field: &str, source: &Value) -> Vec<StatusCause> {
    let limit = source.get("sizeLimit").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let limit = limit.filter(|limit: &kubewright_core::Quantity| limit.signum() < 0);
    let why = "SizeLimit field must be a valid resource quantity";
    limit.map(|_| StatusCause::forbidden(format!("{field}.sizeLimit"), why)).into_iter().collect()
}

/// Validates an image volume. A template may omit the reference.
fn image(field: &str, image: &Value, is_pod: bool) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if is_pod && tree::text(image, &["reference"]).is_empty() {
        causes.push(StatusCause::required(format!("{field}.reference"), ""));
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    causes.extend(text::choice(&format!("{field}.pullPolicy"), tree::text(image, &["pullPolicy"]), &policies));
    causes
}

/// Validates an ephemeral volume. Its claim is named `pod-volume`, which must be a valid name.
fn ephemeral(field: &str, volume: &Value, source: &Value, pod: Option<&Value>) -> Vec<StatusCause> {
    let mut causes =
        claim::template(&format!("{field}.ephemeral.volumeClaimTemplate"), source.get("volumeClaimTemplate"));
    let (pod, volume) = (pod.map_or("", |pod| pod.name()), tree::text(volume, &["name"]));
    if !pod.is_empty() && !volume.is_empty() {
        let claim = format!("{pod}-{volume}");
        let complaints = dns1123_subdomain(&claim);
        causes.extend(complaints.iter().map(|why| {
            let why = format!("PVC name {claim:?}: {why}");
            StatusCause::invalid(format!("{field}.name"), quoted(volume), &why)
        }));
    }
    causes
}

/// Validates a host path.
pub(super) fn host_path(field: &str, source: &Value) -> Vec<StatusCause> {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let path = tree::text(source, &["path"]);
    if path.is_empty() {
        return vec![StatusCause::required(format!("{field}.path"), "")];
    }
    let kind = number::one_of(format!("{field}.type"), tree::text(source, &["type"]), &TYPES);
    text::no_parent_segments(&format!("{field}.path"), path).into_iter().chain(kind).collect()
}
