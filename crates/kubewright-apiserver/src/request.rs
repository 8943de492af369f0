//! What a request is about, from its method, path and query: a resource, or something beside them.

use hyper::Method;
use hyper::http::request::Parts;
use kubewright_core::options::{Query, WatchOptions};
use kubewright_core::{FieldSelector, Str};

use crate::http::RequestBody;

/// A request whose body may still have to be read.
pub(crate) struct Asked {
    pub(crate) parts: Parts,
    pub(crate) query: Query,
    pub(crate) info: RequestInfo,
    pub(crate) body: RequestBody,
}

impl Asked {
    pub(crate) fn new(parts: Parts, body: RequestBody) -> Self {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::new(&parts.method, &unescape(parts.uri.path()), &query);
        Asked { parts, query, info, body }
    }

    /// Whether the answer is about one object, and so soon there.
    pub(crate) fn is_about_one(&self) -> bool {
        self.info.target.is_some() && !matches!(self.info.verb, "list" | "watch" | "deletecollection")
    }
}

/// What a request wants, before anybody looks whether it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The verb that authorization decides about: `list`, `deletecollection`, …, or the method in lower case.
    pub(crate) verb: &'static str,
    pub(crate) path: Str,
    /// What the path names, if it is of the form that resources have.
    pub(crate) target: Option<Target>,
}

/// The resource that a path names, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Target {
    pub(crate) group: Str,
    pub(crate) version: Str,
    /// Empty where the path names none.
    pub(crate) namespace: Str,
    pub(crate) resource: Str,
    /// Empty where the path names a collection.
    pub(crate) name: Str,
    pub(crate) subresource: Str,
    /// What follows the subresource, which only proxies allow.
    pub(crate) rest: Vec<Str>,
    /// Whether the path is one of the old ones that begin with `watch/`.
    pub(crate) is_watch_path: bool,
}

impl RequestInfo {
    /// Reads the path as the API has it, and the verb from method and query.
    pub(crate) fn new(method: &Method, path: &str, query: &Query) -> Self {
        let target = Target::parse(path);
        let verb = match &target {
            Some(target) => target.verb(method, query),
            None => plain_verb(method),
        };
        RequestInfo { verb, path: path.into(), target }
    }

    /// Whether the request may take longer than others: a watch, or a connection to a pod.
    pub(crate) fn is_long_running(&self) -> bool {
        let subresource = self.target.as_ref().map_or("", |target| &*target.subresource);
        self.verb == "watch" || matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy")
    }

    /// The name that authorization decides about: of the path, or the only one that a list can have.
    pub(crate) fn authorized_name<'a>(&'a self, selected: &'a str) -> &'a str {
        match (&self.target, self.verb) {
            (Some(target), "list" | "watch" | "deletecollection") if target.name.is_empty() => selected,
            (Some(target), _) => &target.name,
            (None, _) => "",
        }
    }
}

/// The one name that a field selector allows, or none.
pub(crate) fn selected_name(query: &Query) -> Option<Str> {
    let selector: FieldSelector = query.get("fieldSelector")?.parse().ok()?;
    selector.requires_exact_match("metadata.name").filter(|name| !name.is_empty()).map(Str::from)
}

impl Target {
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
        // Nothing lies behind a part without a name: a subresource of nobody must not become the collection. Only what is behind
        // a proxy has paths of its own.
        let rest = parts.get(3..).unwrap_or_default();
        if all[..all.len() - rest.len()].contains(&"") {
            return None;
        }
        let part = |index: usize| parts.get(index).copied().map(Str::from).unwrap_or_default();
        Some(Target {
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

    fn verb(&self, method: &Method, query: &Query) -> &'static str {
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

    /// The namespace that authorization decides about: a namespace is in itself.
    pub(crate) fn authorized_namespace(&self) -> &str {
        match self.resource == "namespaces" && self.group.is_empty() {
            true => &self.name,
            false => &self.namespace,
        }
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

/// A path without percent escapes; what is malformed stays as it is and leads nowhere.
pub(crate) fn unescape(path: &str) -> String {
    if !path.contains('%') {
        return path.to_owned();
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, url: &str) -> (&'static str, Vec<String>) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::new(&method, path, &Query::parse(query));
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
    fn nothing_lies_behind_a_part_without_a_name() {
        for path in ["/api/v1/namespaces/a/pods//exec", "/api/v1/namespaces//pods", "/apis//v1/pods", "/api//pods"] {
            assert_eq!(info(Method::POST, path), ("post", vec![]), "{path}");
        }
        let proxy = ["", "a", "pods", "p", "proxy"].map(Into::into).to_vec();
        assert_eq!(info(Method::GET, "/api/v1/namespaces/a/pods/p/proxy/x//y"), ("get", proxy));
    }

    #[test]
    fn other_paths_name_nothing() {
        for path in ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/version/x/y", "/api/v1/watch"] {
            assert_eq!(info(Method::GET, path), ("get", vec![]), "{path}");
        }
    }
}
