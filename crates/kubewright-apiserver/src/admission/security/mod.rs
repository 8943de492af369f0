//! Pod Security admission: enforces the pod security standard of each namespace's labels.
//!
//! `pod-security.kubernetes.io/enforce` rejects pods. `…/warn` sends warnings to the client for
//! pods and for workloads with a pod template. `…/audit` has no effect, because there is no audit
//! log. Version labels appear in messages; the checks are always those of the latest version.

mod baseline;
mod pod;
mod restricted;

use kubewright_core::Value;
use kubewright_core::meta::v1::{Status, StatusCause};

use super::control::Control;
use crate::admission::state::ClusterState;
use crate::catalog::Resource;
use crate::object::{Meta, text_map, tree};
use crate::rejection::Rejection;
use kubewright_storage::Key;
use pod::Pod;

const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];
const MODES: [&str; 3] = ["enforce", "audit", "warn"];

/// One violation: its description and the offending containers.
struct Violation {
    what: String,
    who: String,
}

impl Violation {
    fn new(what: &str, who: impl Into<String>) -> Self {
        Violation { what: what.to_owned(), who: who.into() }
    }
}

/// A standard as named by a label.
struct Standard {
    level: &'static str,
    version: String,
}

impl Standard {
    fn read(namespace: &Value, mode: &str) -> Standard {
        let labels = text_map(namespace.meta("labels"));
        let level = labels.get(&format!("pod-security.kubernetes.io/{mode}"));
        // An invalid level counts as the strictest one.
        let level = match level.map(|level| level.as_str()) {
            None | Some("") => "privileged",
            Some(level) => LEVELS.into_iter().find(|known| *known == level).unwrap_or("restricted"),
        };
        let version = labels.get(&format!("pod-security.kubernetes.io/{mode}-version"));
        Standard { level, version: version.map_or_else(|| "latest".to_owned(), |version| version.to_string()) }
    }

    /// The message about all violations of a pod.
    fn complaint(&self, pod: &Value) -> Option<String> {
        let pod = Pod::new(pod);
        let mut violations = Vec::new();
        if self.level != "privileged" {
            baseline::check(&pod, self.level == "restricted", &mut violations);
        }
        if self.level == "restricted" {
            restricted::check(&pod, &mut violations);
        }
        violations.sort_by_key(|(name, _)| *name);
        let texts: Vec<String> =
            violations.into_iter().map(|(_, Violation { what, who })| format!("{what} ({who})")).collect();
        (!texts.is_empty())
            .then(|| format!("violate PodSecurity \"{}:{}\": {}", self.level, self.version, texts.join(", ")))
    }
}

/// Rejects a pod that violates the enforced standard, and warns about the `warn` standard.
pub(crate) fn check(
    cluster: &dyn ClusterState,
    control: &Control<'_>,
    resource: &Resource,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Rejection> {
    let is_pod = resource.is("", "pods");
    let Some(pod) = pod_of(resource, new) else { return Ok(()) };
    match old.and_then(|old| pod_of(resource, old)) {
        Some(old) if is_pod && !Pod::new(pod).images_differ_from(&Pod::new(old)) => return Ok(()),
        Some(old) if !is_pod && old == pod => return Ok(()),
        _ => {}
    }
    let Some(namespace) = cluster.newest(&Key::cluster("namespaces", new.namespace())) else { return Ok(()) };
    let namespace = namespace.object.value();
    if is_pod && let Some(complaint) = Standard::read(namespace, "enforce").complaint(pod) {
        let why = complaint.replacen("violate", "violates", 1);
        return Err(Status::forbidden(&resource.group_resource(), new.name(), why).into());
    }
    if let Some(complaint) = Standard::read(namespace, "warn").complaint(pod) {
        control.warn(format!("would {complaint}"));
    }
    Ok(())
}

/// The pod of an object, or its pod template.
fn pod_of<'a>(resource: &Resource, value: &'a Value) -> Option<&'a Value> {
    match (&*resource.group, &*resource.plural) {
        _ if resource.is_custom() => None,
        ("", "pods") => Some(value),
        ("batch", "cronjobs") => tree::get(value, &["spec", "jobTemplate", "spec", "template"]),
        ("", "podtemplates") => value.get("template"),
        ("", "replicationcontrollers") | ("apps", _) | ("batch", "jobs") => tree::get(value, &["spec", "template"]),
        _ => None,
    }
}

/// Validates the pod security labels of a namespace.
pub(super) fn label_complaints(namespace: &Value) -> Vec<StatusCause> {
    let labels = text_map(namespace.meta("labels"));
    let mut causes = Vec::new();
    for mode in MODES {
        let name = format!("pod-security.kubernetes.io/{mode}");
        if let Some(level) = labels.get(&name).filter(|level| !LEVELS.contains(&level.as_str())) {
            let why = format!("must be one of {}", LEVELS.join(", "));
            causes.push(StatusCause::invalid(
                format!("metadata.labels[{name}]"),
                format!("{:?}", level.as_str()),
                &why,
            ));
        }
        let name = format!("{name}-version");
        let is_version = |text: &str| {
            let minor = text.strip_prefix("v1.");
            text == "latest"
                || minor.is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if let Some(version) = labels.get(&name).filter(|version| !is_version(version)) {
            let why = "must be \"latest\" or \"v1.x\"";
            causes.push(StatusCause::invalid(
                format!("metadata.labels[{name}]"),
                format!("{:?}", version.as_str()),
                why,
            ));
        }
    }
    causes
}
