//! Parses the attributes of a request from its method, path and query.

use hyper::Method;
use kubewright_core::options::{QueryParameters, WatchOptions};
use kubewright_core::{FieldSelector, Selector, Str};
use percent_encoding::percent_decode_str;

use kubewright_auth::authorization::{Action, ResourceAction};

use crate::backup;

/// The verb and target of a request, parsed before the resource is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The verb for authorization: `list`, `deletecollection`, …, or the lower-case method for
    /// other paths.
    pub(crate) verb: &'static str,
    pub(crate) path: Str,
    /// The resource, if the path has the form of a resource path.
    pub(crate) target: Option<ResourcePath>,
}

/// A resource path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourcePath {
    pub(crate) group: Str,
    pub(crate) version: Str,
    /// Empty if the path has no namespace.
    pub(crate) namespace: Str,
    pub(crate) resource: Str,
    /// Empty for a collection.
    pub(crate) name: Str,
    pub(crate) subresource: Str,
    /// The path after the subresource, which only proxies accept.
    pub(crate) rest: Vec<Str>,
    /// Whether the path starts with the deprecated `watch/`.
    pub(crate) is_watch_path: bool,
}

impl RequestInfo {
    /// Parses path, method and query.
    pub(crate) fn new(method: &Method, path: &str, query: &QueryParameters) -> Self {
        let target = ResourcePath::parse(path);
        let verb = match &target {
            Some(target) => target.verb(method, query),
            None => plain_verb(method),
        };
        RequestInfo { verb, path: path.into(), target }
    }

    /// Whether the request may run for long: a watch, a connection to a pod, or a backup.
    pub(crate) fn is_long_running(&self) -> bool {
        if self.path == backup::PATH {
            return true;
        }
        let subresource = self.target.as_ref().map_or("", |target| &*target.subresource);
        self.verb == "watch" || matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy")
    }

    /// Whether a read must show all writes acknowledged before: unless it accepts any state, or
    /// goes on from a state that the client has seen.
    pub(crate) fn reads_newest(&self, query: &QueryParameters) -> bool {
        let version = query.get("resourceVersion").unwrap_or_default();
        let continues = query.get("continue").is_some_and(|token| !token.is_empty());
        match self.verb {
            _ if self.target.is_none() || continues => false,
            "watch" => version.is_empty(),
            _ => version != "0",
        }
    }

    /// The action to authorize.
    pub(crate) fn action<'a>(&'a self, selectors: &'a RequestSelectors) -> Action<'a> {
        match &self.target {
            Some(target) => Action::Resource(ResourceAction {
                verb: self.verb,
                group: &target.group,
                version: &target.version,
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: target.authorized_namespace(),
                name: self.authorized_name(selectors.name()),
                field_selector: selectors.field.as_ref(),
                label_selector: selectors.label.as_ref(),
            }),
            None => Action::Path { verb: self.verb, path: &self.path },
        }
    }

    /// The name for authorization: from the path, or the name that the field selector of a list
    /// requires.
    pub(crate) fn authorized_name<'a>(&'a self, selected: &'a str) -> &'a str {
        match (&self.target, self.verb) {
            (Some(target), "list" | "watch" | "deletecollection") if target.name.is_empty() => selected,
            (Some(target), _) => &target.name,
            (None, _) => "",
        }
    }
}

/// The selectors of a request on a collection, for authorization.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestSelectors {
    field: Option<FieldSelector>,
    label: Option<Selector>,
}

impl RequestSelectors {
    /// The selectors in the query. Malformed ones restrict nothing, and are rejected later.
    pub(crate) fn new(info: &RequestInfo, query: &QueryParameters) -> Self {
        if !matches!(info.verb, "list" | "watch" | "deletecollection") {
            return RequestSelectors::default();
        }
        RequestSelectors {
            field: query.get("fieldSelector").and_then(|text| text.parse().ok()),
            label: query.get("labelSelector").and_then(|text| text.parse().ok()),
        }
    }

    /// The name that the field selector requires. Empty if it requires none.
    fn name(&self) -> &str {
        self.field.as_ref().and_then(|selector| selector.requires_exact_match("metadata.name")).unwrap_or_default()
    }
}

impl ResourcePath {
    fn parse(path: &str) -> Option<Self> {
        let all: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, mut parts) = match &all[..] {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return None,
        };
        let is_watch_path = parts.first() == Some(&"watch");
        if is_watch_path {
            parts = &parts[1..];
            parts.first()?;
        }
        let mut namespace = "";
        if let ["namespaces", name, rest @ ..] = parts
            && let [first, ..] = rest
            && !matches!(*first, "status" | "finalize")
        {
            (namespace, parts) = (name, rest);
        }
        // An empty name before a subresource must not turn the path into a collection path. Only
        // the path after a proxy may have empty segments.
        let rest = parts.get(3..).unwrap_or_default();
        if all[..all.len() - rest.len()].contains(&"") {
            return None;
        }
        let part = |index: usize| parts.get(index).copied().map(Str::from).unwrap_or_default();
        Some(ResourcePath {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            resource: part(0),
            name: part(1),
            subresource: part(2),
            rest: rest.iter().copied().map(Str::from).collect(),
            is_watch_path,
        })
    }

    fn verb(&self, method: &Method, query: &QueryParameters) -> &'static str {
        let is_collection = self.name.is_empty();
        match *method {
            Method::GET | Method::HEAD if self.is_watch_path => "watch",
            Method::GET | Method::HEAD if is_collection && WatchOptions::is_watch(query) => "watch",
            Method::GET | Method::HEAD if is_collection => "list",
            Method::DELETE if is_collection => "deletecollection",
            Method::GET | Method::HEAD => "get",
            Method::POST => "create",
            Method::PUT => "update",
            _ => plain_verb(method),
        }
    }

    /// The namespace for authorization. A Namespace is in itself.
    pub(crate) fn authorized_namespace(&self) -> &str {
        if self.resource == "namespaces" && self.group.is_empty() { &self.name } else { &self.namespace }
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "unknown",
    }
}

/// Decodes percent escapes. Malformed ones stay, and then match no route.
pub(crate) fn unescape(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, url: &str) -> (&'static str, Vec<String>) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::new(&method, path, &QueryParameters::parse(query));
        let parts = info.target.map(|target| {
            [target.group, target.namespace, target.resource, target.name, target.subresource]
                .map(String::from)
                .to_vec()
        });
        (info.verb, parts.unwrap_or_default())
    }

    #[test]
    fn paths_name_resources() {
        assert_eq!(info(Method::GET, "/api/v1/pods"), ("list", ["", "", "pods", "", ""].map(Into::into).to_vec()));
        let pods = ["", "a", "pods", "", ""].map(Into::into).to_vec();
        assert_eq!(info(Method::GET, "/api/v1/namespaces/a/pods?watch=1"), ("watch", pods.clone()));
        assert_eq!(info(Method::DELETE, "/api/v1/namespaces/a/pods"), ("deletecollection", pods.clone()));
        assert_eq!(info(Method::GET, "/api/v1/watch/namespaces/a/pods"), ("watch", pods));
        let scale = ["apps", "a", "deployments", "d", "scale"].map(Into::into).to_vec();
        assert_eq!(info(Method::PUT, "/apis/apps/v1/namespaces/a/deployments/d/scale"), ("update", scale));
    }

    #[test]
    fn a_namespace_and_its_own_parts_are_not_in_a_namespace() {
        assert_eq!(
            info(Method::GET, "/api/v1/namespaces/a"),
            ("get", ["", "", "namespaces", "a", ""].map(Into::into).to_vec())
        );
        let finalize = ["", "", "namespaces", "a", "finalize"].map(Into::into).to_vec();
        assert_eq!(info(Method::PUT, "/api/v1/namespaces/a/finalize"), ("update", finalize));
    }

    #[test]
    fn a_subresource_needs_a_name() {
        for path in ["/api/v1/namespaces/a/pods//exec", "/api/v1/namespaces//pods", "/apis//v1/pods", "/api//pods"] {
            assert_eq!(info(Method::POST, path), ("post", vec![]), "{path}");
        }
        let proxy = ["", "a", "pods", "p", "proxy"].map(Into::into).to_vec();
        assert_eq!(info(Method::GET, "/api/v1/namespaces/a/pods/p/proxy/x//y"), ("get", proxy));
    }

    #[test]
    fn other_paths_are_not_resource_paths() {
        for path in ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/version/x/y", "/api/v1/watch"] {
            assert_eq!(info(Method::GET, path), ("get", vec![]), "{path}");
        }
    }
}
