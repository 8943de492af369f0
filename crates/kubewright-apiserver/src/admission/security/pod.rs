//! A pod as the standards look at it: itself and all of its containers, those that are added later included.

use kubewright_core::Value;

use crate::object::tree;

/// A pod, or a template of one.
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

    /// A field of the pod's security context.
    pub(super) fn context(&self, path: &[&str]) -> Option<&'a Value> {
        tree::get(self.spec.get("securityContext")?, path)
    }

    /// The names of containers that something is true of.
    pub(super) fn names(&self, is_true: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|one| is_true(one)).map(|one| tree::text(one, &["name"])).collect()
    }
}

/// A field of a container's security context.
pub(super) fn context<'a>(container: &'a Value, path: &[&str]) -> Option<&'a Value> {
    tree::get(container.get("securityContext")?, path)
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    counted("container", names)
}

/// A word, in its plural if there are several, and what it is about.
pub(super) fn counted(word: &str, names: &[&str]) -> String {
    format!("{word}{} {}", plural(names.len()), quoted(names))
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
