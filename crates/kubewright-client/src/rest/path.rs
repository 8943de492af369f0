//! Request paths, validated before sending.

use http::Method;
use kubewright_core::{GroupResource, GroupVersion, GroupVersionResource, NamespaceScope, Str};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The target of a request: a resource and subresources, or an absolute path.
#[derive(Debug, Clone)]
pub(super) struct RequestPath {
    pub(super) group_version: GroupVersion,
    absolute: Option<String>,
    namespace: Option<NamespaceScope>,
    resource: Option<Str>,
    name: Option<Str>,
    subresources: Vec<Str>,
}

impl RequestPath {
    pub(super) fn new(group_version: GroupVersion) -> Self {
        RequestPath {
            group_version,
            absolute: None,
            namespace: None,
            resource: None,
            name: None,
            subresources: Vec::new(),
        }
    }

    /// Sets an absolute path; subresources are still appended.
    #[inline]
    pub(super) fn set_absolute(&mut self, path: &str) -> Result<(), String> {
        let path = path.trim_end_matches('/');
        if !path.is_empty() && !path.starts_with('/') {
            return Err(format!("the path {path:?} does not begin with a slash"));
        }
        set_once(&mut self.absolute, "path", path.to_owned())
    }

    pub(super) fn set_namespace(&mut self, namespace: NamespaceScope) -> Result<(), String> {
        if let NamespaceScope::Named(name) = &namespace {
            if name.is_empty() {
                return Err("the name of the namespace is empty; AllNamespaces selects all".to_owned());
            }
            check_segment("namespace", name)?;
        }
        set_once(&mut self.namespace, "namespace", namespace)
    }

    pub(super) fn set_resource(&mut self, resource: Str) -> Result<(), String> {
        if resource.is_empty() {
            return Err("resource may not be empty".to_owned());
        }
        check_segment("resource", &resource)?;
        set_once(&mut self.resource, "resource", resource.to_lowercase().into())
    }

    #[inline]
    pub(super) fn set_name(&mut self, name: Str) -> Result<(), String> {
        if name.is_empty() {
            return Err("resource name may not be empty".to_owned());
        }
        check_segment("resource name", &name)?;
        set_once(&mut self.name, "resource name", name)
    }

    #[inline]
    pub(super) fn push_subresource(&mut self, subresource: Str) -> Result<(), String> {
        check_segment("subresource", &subresource)?;
        self.subresources.push(subresource);
        Ok(())
    }

    /// Rejects paths that a server would reject or misinterpret: an empty name would turn one
    /// object into all.
    pub(super) fn check(&self, method: &Method) -> Result<(), String> {
        if self.absolute.is_some() || self.namespace != Some(NamespaceScope::All) {
            return Ok(());
        }
        match (method, &self.name) {
            (&Method::POST, _) => Err("a new object needs one namespace, not all".to_owned()),
            (_, Some(_)) => Err("an object of this name needs one namespace, not all".to_owned()),
            _ => Ok(()),
        }
    }

    pub(super) fn resource(&self) -> GroupResource {
        GroupResource::new(self.group_version.group.clone(), self.resource.clone().unwrap_or_default())
    }

    /// The key for remembered encodings.
    pub(super) fn key(&self) -> Option<GroupVersionResource> {
        if self.absolute.is_some() {
            return None;
        }
        self.resource.clone().map(|resource| self.group_version.with_resource(resource))
    }

    #[inline]
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(super) fn write(&self) -> String {
        let mut out = match &self.absolute {
            Some(path) => path.clone(),
            None => self.group_version.api_path(),
        };
        if let Some(NamespaceScope::Named(namespace)) = &self.namespace {
            push_segment(&mut out, "namespaces");
            push_segment(&mut out, namespace);
        }
        for segment in self.resource.iter().chain(&self.name).chain(&self.subresources) {
            push_segment(&mut out, segment);
        }
        if out.is_empty() { "/".to_owned() } else { out }
    }
}

fn set_once<T>(place: &mut Option<T>, what: &str, value: T) -> Result<(), String> {
    if place.is_some() {
        return Err(format!("{what} already set"));
    }
    *place = Some(value);
    Ok(())
}

/// Rejects segments that would change the path.
fn check_segment(what: &str, text: &str) -> Result<(), String> {
    match text {
        "." | ".." => Err(format!("invalid {what} {text:?}: may not be {text:?}")),
        text if text.contains(['/', '%']) => Err(format!("invalid {what} {text:?}: may not contain '/' or '%'")),
        _ => Ok(()),
    }
}

/// Escaped in parameters: everything but the unreserved characters.
const PARAMETER: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Escaped in path segments, as Go does.
const SEGMENT: &AsciiSet = &PARAMETER.remove(b':').remove(b'@').remove(b'$').remove(b'+');

fn push_segment(out: &mut String, segment: &str) {
    out.push('/');
    out.extend(utf8_percent_encode(segment, SEGMENT));
}

/// Adds a parameter to a query, escaped.
pub(super) fn append_parameter(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.extend(utf8_percent_encode(name, PARAMETER));
    query.push('=');
    query.extend(utf8_percent_encode(value, PARAMETER));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> RequestPath {
        let mut path = RequestPath::new(GroupVersion::new("", "v1"));
        path.set_resource("Pods".into()).unwrap();
        path
    }

    #[test]
    fn paths_are_built_from_their_parts() {
        // RC-5
        let mut path = pods();
        assert_eq!(path.write(), "/api/v1/pods");
        path.set_namespace("default".into()).unwrap();
        path.set_name("system:node ü".into()).unwrap();
        path.push_subresource("status".into()).unwrap();
        assert_eq!(path.write(), "/api/v1/namespaces/default/pods/system:node%20%C3%BC/status");
        let mut path = RequestPath::new(GroupVersion::new("apps", "v1"));
        assert_eq!(path.write(), "/apis/apps/v1");
        path.set_absolute("/livez/").unwrap();
        assert_eq!(path.write(), "/livez");
    }

    #[test]
    fn parts_are_set_once_and_cannot_leave_their_place() {
        // RC-5
        let mut path = pods();
        assert_eq!(path.set_resource("nodes".into()), Err("resource already set".into()));
        for name in [".", "..", "a/b", "a%2fb", ""] {
            assert!(pods().set_name(name.into()).is_err(), "{name:?}");
            assert!(pods().set_namespace(name.into()).is_err(), "{name:?}");
        }
    }

    #[test]
    fn all_namespaces_with_a_name_are_refused() {
        // RC-6
        let mut path = pods();
        path.set_namespace(NamespaceScope::All).unwrap();
        assert_eq!(path.check(&Method::GET), Ok(()), "a list of all namespaces");
        assert!(path.check(&Method::POST).is_err());
        path.set_name("web".into()).unwrap();
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            assert!(path.check(&method).is_err());
        }
    }
}
