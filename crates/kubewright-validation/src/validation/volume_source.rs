//! Validates volume sources by kind of storage.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, text_map};
use kubewright_core::validation::{dns1123_label, dns1123_subdomain};

use super::metadata::quoted;
use super::{number, text, volume};

const PARTITION_RULE: &str = "must be between 0 and 255, inclusive";
const PAIRS_RULE: &str = "must be a host:port pair or multiple pairs separated by commas";

/// Validates the source `name` of a pod volume or a PersistentVolume.
pub(super) fn source(field: &str, name: &str, source: &Value) -> Vec<StatusCause> {
    let required = |parts: &[&str]| text::missing(field, source, parts);
    match name {
        "hostPath" => volume::host_path(field, source),
        "gitRepo" => {
            let mut causes = required(&["repository"]);
            causes.extend(text::descending(&format!("{field}.directory"), tree::text(source, &["directory"])));
            causes
        }
        "gcePersistentDisk" => with_partition(field, source, "pdName"),
        "awsElasticBlockStore" => with_partition(field, source, "volumeID"),
        "nfs" => {
            let mut causes = required(&["server", "path"]);
            let path = tree::text(source, &["path"]);
            if !path.starts_with('/') {
                let why = "must be an absolute path";
                causes.push(StatusCause::invalid(format!("{field}.path"), quoted(path), why));
            }
            causes
        }
        "iscsi" => iscsi(field, source, "must be valid format starting with iqn, eui, or naa"),
        "glusterfs" => required(&["endpoints", "path"]),
        "flocker" => flocker(field, source),
        "rbd" => {
            let mut causes = monitors(field, source);
            causes.extend(required(&["image"]));
            causes
        }
        "cinder" => {
            let mut causes = required(&["volumeID"]);
            causes.extend(secret(field, source, &["name"]));
            causes
        }
        "cephfs" => monitors(field, source),
        "quobyte" => quobyte(field, source),
        "fc" => fibre_channel(field, source),
        "flexVolume" => flex(field, source),
        "azureFile" => required(&["secretName", "shareName"]),
        "vsphereVolume" => required(&["volumePath"]),
        "photonPersistentDisk" => required(&["pdID"]),
        "portworxVolume" => required(&["volumeID"]),
        "azureDisk" => azure_disk(field, source),
        "storageos" => storage_os(field, source, &["name"]),
        "scaleIO" => required(&["gateway", "system", "volumeName"]),
        "csi" => {
            let mut causes = driver(&format!("{field}.driver"), tree::text(source, &["driver"]));
            if source.get("nodePublishSecretRef").is_some() {
                match tree::text(source, &["nodePublishSecretRef", "name"]) {
                    "" => causes.push(StatusCause::required(format!("{field}.nodePublishSecretRef.name"), "")),
                    name => causes.extend(text::check(&format!("{field}.name"), name, dns1123_subdomain)),
                }
            }
            causes
        }
        _ => Vec::new(),
    }
}

/// Validates a PersistentVolume source, including the rules that differ from pod volumes.
pub(super) fn persistent_volume_source(field: &str, name: &str, source: &Value, volume: &str) -> Vec<StatusCause> {
    match name {
        "glusterfs" => {
            let mut causes = self::source(field, name, source);
            if let Some(namespace) = source.get("endpointsNamespace").and_then(Value::as_str) {
                let field = format!("{field}.endpointsNamespace");
                if namespace.is_empty() {
                    let why = "if the endpointnamespace is set, it must be a valid namespace name";
                    causes.push(StatusCause::invalid(field, quoted(""), why));
                } else {
                    causes.extend(text::check(&field, namespace, dns1123_label));
                }
            }
            causes
        }
        "iscsi" => {
            let portal = tree::text(source, &["targetPortal"]);
            let mut causes = iscsi(field, source, "must be valid format");
            if source.get("initiatorName").is_some() && volume.len() + 1 + portal.len() > 64 {
                let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                           iscsi.initiatorName is specified.";
                let at = usize::from(portal.is_empty());
                causes.insert(at, StatusCause::invalid(format!("{field}.targetportal"), quoted(portal), why));
            }
            causes.extend(secret(field, source, &["name"]));
            causes
        }
        "cinder" => {
            let mut causes = text::missing(field, source, &["volumeID"]);
            causes.extend(secret(field, source, &["name", "namespace"]));
            causes
        }
        "azureFile" => {
            let mut causes = self::source(field, name, source);
            if source.get("secretNamespace").and_then(Value::as_str) == Some("") {
                causes.push(StatusCause::required(format!("{field}.secretNamespace"), ""));
            }
            causes
        }
        "storageos" => storage_os(field, source, &["name", "namespace"]),
        "local" => match tree::text(source, &["path"]) {
            "" => vec![StatusCause::required(format!("{field}.path"), "")],
            path => text::no_parent_segments(&format!("{field}.path"), path).into_iter().collect(),
        },
        "csi" => {
            let mut causes = driver(&format!("{field}.driver"), tree::text(source, &["driver"]));
            causes.extend(text::missing(field, source, &["volumeHandle"]));
            for part in [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ] {
                let Some(reference) = source.get(part) else { continue };
                let (field, text_of) = (format!("{field}.{part}"), |part: &str| tree::text(reference, &[part]));
                causes.extend(text::required(&format!("{field}.name"), text_of("name"), dns1123_subdomain));
                causes.extend(text::required(&format!("{field}.namespace"), text_of("namespace"), dns1123_label));
            }
            causes
        }
        name => self::source(field, name, source),
    }
}

/// Validates a driver name.
pub(super) fn driver(field: &str, name: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if name.is_empty() {
        causes.push(StatusCause::required(field, ""));
    }
    if name.len() > 63 {
        causes.push(StatusCause::too_long(field, 63));
    }
    causes.extend(text::check(field, name, |name| dns1123_subdomain(&name.to_lowercase())));
    causes
}

fn with_partition(field: &str, source: &Value, name: &str) -> Vec<StatusCause> {
    let mut causes = text::missing(field, source, &[name]);
    if let Some(partition) = tree::int(source, &["partition"]).filter(|number| !(0..=255).contains(number)) {
        causes.push(StatusCause::invalid(format!("{field}.partition"), partition, PARTITION_RULE));
    }
    causes
}

fn monitors(field: &str, source: &Value) -> Vec<StatusCause> {
    let is_empty = tree::items(source, &["monitors"]).is_empty();
    is_empty.then(|| StatusCause::required(format!("{field}.monitors"), "")).into_iter().collect()
}

fn secret(field: &str, source: &Value, parts: &[&str]) -> Vec<StatusCause> {
    let reference = source.get("secretRef").into_iter();
    reference.flat_map(|reference| text::missing(&format!("{field}.secretRef"), reference, parts)).collect()
}

fn iscsi(field: &str, source: &Value, prefix_rule: &str) -> Vec<StatusCause> {
    let mut causes = text::missing(field, source, &["targetPortal"]);
    let name_causes = |field: String, name: &str| {
        let why = match name.get(..3) {
            Some("iqn" | "eui" | "naa") if is_initiator(name) => return None,
            Some("iqn" | "eui" | "naa") => "must be valid format",
            _ => prefix_rule,
        };
        Some(StatusCause::invalid(field, quoted(name), why))
    };
    match tree::text(source, &["iqn"]) {
        "" => causes.push(StatusCause::required(format!("{field}.iqn"), "")),
        name => causes.extend(name_causes(format!("{field}.iqn"), name)),
    }
    if let Some(number) = tree::int(source, &["lun"]).filter(|number| !(0..=255).contains(number)) {
        causes.push(StatusCause::invalid(format!("{field}.lun"), number, PARTITION_RULE));
    }
    let needs_secret = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|part| tree::is_true(source, &[part]));
    if needs_secret && source.get("secretRef").is_none() {
        causes.push(StatusCause::required(format!("{field}.secretRef"), ""));
    }
    if let Some(name) = source.get("initiatorName").and_then(Value::as_str) {
        causes.extend(name_causes(format!("{field}.initiatorname"), name));
    }
    causes
}

/// Whether this is an iSCSI qualified name in one of its three formats.
fn is_initiator(name: &str) -> bool {
    let is_hex =
        |text: &str, lengths: &[usize]| lengths.contains(&text.len()) && text.bytes().all(|c| c.is_ascii_hexdigit());
    if let Some(rest) = name.strip_prefix("eui.") {
        return is_hex(rest, &[16]);
    }
    if let Some(rest) = name.strip_prefix("naa.") {
        return is_hex(rest, &[16, 32]);
    }
    let Some(rest) = name.strip_prefix("iqn.") else { return false };
    let bytes = rest.as_bytes();
    let date = bytes.len() > 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5..7].iter().all(u8::is_ascii_digit)
        && bytes[7] == b'.';
    let is_host = |c: u8| c.is_ascii_alphanumeric() || c == b'.' || c == b'-';
    let host = &rest[rest.len().min(8)..];
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    date && !host.is_empty()
        && host.bytes().all(is_host)
        && !host.starts_with(['.', '-'])
        && !host.ends_with(['.', '-'])
        && !rest.contains(' ')
}

fn flocker(field: &str, source: &Value) -> Vec<StatusCause> {
    let (name, id) = (tree::text(source, &["datasetName"]), tree::text(source, &["datasetUUID"]));
    let mut causes = Vec::new();
    match (name.is_empty(), id.is_empty()) {
        (true, true) => causes.push(StatusCause::required(field, "one of datasetName and datasetUUID is required")),
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            causes.push(StatusCause::invalid(field, quoted("resource"), why));
        }
        _ => {}
    }
    if name.contains('/') {
        causes.push(StatusCause::invalid(format!("{field}.datasetName"), quoted(name), "must not contain '/'"));
    }
    causes
}

fn quobyte(field: &str, source: &Value) -> Vec<StatusCause> {
    let registry = tree::text(source, &["registry"]);
    let mut causes = Vec::new();
    if registry.is_empty() {
        causes.push(StatusCause::required(format!("{field}.registry"), PAIRS_RULE));
    } else if tree::text(source, &["tenant"]).len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        causes.push(StatusCause::required(format!("{field}.tenant"), why));
    } else {
        let is_pair =
            |pair: &str| pair.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let wrong = registry.split(',').filter(|pair| !is_pair(pair));
        causes.extend(wrong.map(|_| StatusCause::invalid(format!("{field}.registry"), quoted(registry), PAIRS_RULE)));
    }
    causes.extend(text::missing(field, source, &["volume"]));
    causes
}

fn fibre_channel(field: &str, source: &Value) -> Vec<StatusCause> {
    let (names, ids) = (tree::items(source, &["targetWWNs"]), tree::items(source, &["wwids"]));
    let mut causes = Vec::new();
    if names.is_empty() && ids.is_empty() {
        let why = "must specify either targetWWNs or wwids, but not both";
        causes.push(StatusCause::required(format!("{field}.targetWWNs"), why));
    }
    if !names.is_empty() && !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        causes.push(StatusCause::invalid(format!("{field}.targetWWNs"), Value::from(names.to_vec()), why));
    }
    if !names.is_empty() {
        match tree::int(source, &["lun"]) {
            None => {
                let why = "lun is required if targetWWNs is specified";
                causes.push(StatusCause::required(format!("{field}.lun"), why));
            }
            Some(number) if !(0..=255).contains(&number) => {
                causes.push(StatusCause::invalid(format!("{field}.lun"), number, PARTITION_RULE));
            }
            Some(_) => {}
        }
    }
    causes
}

fn flex(field: &str, source: &Value) -> Vec<StatusCause> {
    let mut causes = text::missing(field, source, &["driver"]);
    for (key, _) in text_map(source.get("options")).iter() {
        let domain = format!(".{}", key.split('/').next().unwrap_or(key).to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            causes.push(StatusCause::invalid(format!("{field}.options[{key}]"), quoted(key), why));
        }
    }
    causes
}

fn azure_disk(field: &str, source: &Value) -> Vec<StatusCause> {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let mut causes = text::missing(field, source, &["diskName", "diskURI"]);
    let modes = ["None", "ReadOnly", "ReadWrite"];
    causes.extend(text::optional_choice(&format!("{field}.cachingMode"), source.get("cachingMode"), &modes));
    let kinds = ["Dedicated", "Managed", "Shared"];
    causes.extend(text::optional_choice(&format!("{field}.kind"), source.get("kind"), &kinds));
    let (address, wanted) = (tree::text(source, &["diskURI"]), source.get("kind").and_then(Value::as_str));
    let is_wrong = match wanted {
        Some("Managed") => !address.starts_with("/subscriptions/"),
        Some(_) => !address.starts_with("https://"),
        None => false,
    };
    if is_wrong {
        let form = if wanted == Some("Managed") { MANAGED } else { BLOB };
        causes.extend(number::one_of(format!("{field}.diskURI"), address, &[form]));
    }
    causes
}

fn storage_os(field: &str, source: &Value, reference: &[&str]) -> Vec<StatusCause> {
    let text_of = |part: &str| tree::text(source, &[part]);
    let mut causes = text::required(&format!("{field}.volumeName"), text_of("volumeName"), dns1123_label);
    causes.extend(text::check_optional(&format!("{field}.volumeNamespace"), text_of("volumeNamespace"), dns1123_label));
    causes.extend(secret(field, source, reference));
    causes
}
