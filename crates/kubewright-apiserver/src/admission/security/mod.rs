//! Pod security standards: what the labels of a namespace let the pods in it do.
//!
//! `pod-security.kubernetes.io/enforce` refuses pods, `…/warn` tells who makes them, or who makes what makes them, what would be refused.
//! `…/audit` has no effect, since nothing here keeps an audit log. Labels with a version are shown and otherwise the same: the
//! standards are those of the latest version.

mod baseline;
mod pod;
mod restricted;

use kubewright_core::Value;
use kubewright_core::meta::v1::{Status, StatusCause};

use super::control::Control;
use crate::catalog::Resource;
use crate::object::{Meta, text_map, tree};
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::storage::Key;
use pod::Pod;

const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];
const MODES: [&str; 3] = ["enforce", "audit", "warn"];

/// One thing that a standard does not allow: what it is called, and who does it.
struct Violation {
    what: String,
    who: String,
}

impl Violation {
    fn new(what: &str, who: impl Into<String>) -> Self {
        Violation { what: what.to_owned(), who: who.into() }
    }
}

/// A standard as a label names it.
struct Standard {
    level: &'static str,
    version: String,
}

impl Standard {
    fn read(namespace: &Value, mode: &str) -> Standard {
        let labels = text_map(namespace.meta("labels"));
        let level = labels.get(&format!("pod-security.kubernetes.io/{mode}"));
        // What nobody can read is taken for the strictest.
        let level = match level.map(|level| level.as_str()) {
            None | Some("") => "privileged",
            Some(level) => LEVELS.into_iter().find(|known| *known == level).unwrap_or("restricted"),
        };
        let version = labels.get(&format!("pod-security.kubernetes.io/{mode}-version"));
        Standard { level, version: version.map_or_else(|| "latest".to_owned(), |version| version.to_string()) }
    }

    /// What a pod does that the standard does not allow, in words.
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

/// Refuses a pod that its namespace does not allow, and warns of what it would not.
pub(crate) fn check(
    registry: &Registry,
    control: &Control<'_>,
    resource: &Resource,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Rejection> {
    let is_pod = resource.is("", "pods");
    let Some(pod) = pod_of(resource, new) else { return Ok(()) };
    match old.and_then(|old| pod_of(resource, old)) {
        Some(old) if is_pod && !Pod::new(pod).runs_something_else_than(&Pod::new(old)) => return Ok(()),
        Some(old) if !is_pod && old == pod => return Ok(()),
        _ => {}
    }
    let Some(namespace) = registry.store.get(&Key::cluster("namespaces", new.namespace())) else { return Ok(()) };
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

/// The pod that an object is, or the template of the pods that it makes.
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

/// What is wrong with the labels of a namespace.
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
