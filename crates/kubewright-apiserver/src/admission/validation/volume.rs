//! Volumes of pods: where each comes from.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::metadata::quoted;
use super::number;
use crate::object::tree;

/// What is wrong with the source of a volume, of which there is exactly one.
pub(super) fn source(field: &str, volume: &Value) -> Vec<StatusCause> {
    let fields = volume.as_object().into_iter().flat_map(|fields| fields.iter());
    let sources: Vec<(&str, &Value)> =
        fields.map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| *name != "name").collect();
    let mut causes = Vec::new();
    let [(name, source), more @ ..] = &sources[..] else {
        return vec![StatusCause::required(field, "must specify a volume type")];
    };
    // Those that every source of the kind needs, and nothing works without.
    let required: &[&str] = match *name {
        "hostPath" => &["path"],
        "configMap" => &["name"],
        "secret" => &["secretName"],
        "persistentVolumeClaim" => &["claimName"],
        "nfs" => &["server", "path"],
        "csi" => &["driver"],
        _ => &[],
    };
    let missing = required.iter().filter(|part| tree::text(source, &[part]).is_empty());
    causes.extend(missing.map(|part| StatusCause::required(format!("{field}.{name}.{part}"), "")));
    if *name == "hostPath" {
        causes.extend(host_path(&format!("{field}.hostPath"), source));
    }
    if let Some(mode) = tree::int(source, &["defaultMode"]).filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.push(StatusCause::invalid(format!("{field}.{name}.defaultMode"), mode, why));
    }
    let why = "may not specify more than 1 volume type";
    causes.extend(more.iter().map(|(name, _)| StatusCause::forbidden(format!("{field}.{name}"), why)));
    causes
}

fn host_path(field: &str, source: &Value) -> Vec<StatusCause> {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let path = tree::text(source, &["path"]);
    let mut causes = Vec::new();
    if path.split('/').any(|part| part == "..") {
        causes.push(StatusCause::invalid(format!("{field}.path"), quoted(path), "must not contain '..'"));
    }
    causes.extend(number::one_of(format!("{field}.type"), tree::text(source, &["type"]), &TYPES));
    causes
}
