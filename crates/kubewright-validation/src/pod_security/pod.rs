//! A pod as the pod security checks see it: the spec and all its containers, including ephemeral
//! ones.

use kubewright_core::{Value, tree};

/// A pod or a pod template.
pub(super) struct Pod<'a> {
    pub(super) pod: &'a Value,
    pub(super) spec: &'a Value,
    pub(super) containers: Vec<&'a Value>,
    pub(super) is_windows: bool,
}

impl<'a> Pod<'a> {
    pub(super) fn new(pod: &'a Value) -> Self {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let containers = lists.into_iter().flat_map(|list| tree::items(spec, &[list])).collect();
        Pod { pod, spec, containers, is_windows: tree::text(spec, &["os", "name"]) == "windows" }
    }

    /// Whether containers or images changed. No other mutable field matters to the standards.
    pub(super) fn images_differ_from(&self, old: &Pod<'_>) -> bool {
        let runs = |pod: &Pod<'_>| -> Vec<(String, String)> {
            let text = |one: &Value, field: &str| tree::text(one, &[field]).to_owned();
            pod.containers.iter().map(|one| (text(one, "name"), text(one, "image"))).collect()
        };
        runs(self) != runs(old)
    }

    /// A field of the pod's security context.
    pub(super) fn context(&self, path: &[&str]) -> Option<&'a Value> {
        tree::get(self.spec.get("securityContext")?, path)
    }

    /// The names of the containers for which `is_true` holds.
    pub(super) fn names(&self, is_true: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|one| is_true(one)).map(|one| tree::text(one, &["name"])).collect()
    }
}

/// Names the offenders: the pod, some of its containers, or both.
pub(super) fn offenders(is_pod: bool, names: &[&str]) -> Option<String> {
    let mut parts: Vec<String> = is_pod.then(|| "pod".to_owned()).into_iter().collect();
    if !names.is_empty() {
        parts.push(containers(names));
    }
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// A field of a container's security context.
pub(super) fn context<'a>(container: &'a Value, path: &[&str]) -> Option<&'a Value> {
    tree::get(container.get("securityContext")?, path)
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    counted("container", names)
}

/// A noun in singular or plural, followed by the quoted names.
pub(super) fn counted(word: &str, names: &[&str]) -> String {
    format!("{word}{} {}", plural(names.len()), quoted(names))
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
