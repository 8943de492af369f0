//! Connect subresources: they pass admission, but there are no nodes to connect to.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::QueryParameters;

use super::ResourceRequest;
use crate::admission::control::Operation;
use crate::http::ApiResponse;
use kubewright_objects::object::tree;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Subresource;

/// Whether this is a connect subresource, for any method.
pub(super) fn is_connection(subresource: &str) -> bool {
    matches!(subresource, "exec" | "attach" | "portforward" | "proxy")
}

impl ResourceRequest<'_, '_> {
    /// Runs admission for the connect options in the query.
    ///
    /// As in the real server, admission precedes the lookup of the object.
    pub(super) async fn connect(&mut self, subresource: &Subresource) -> Result<ApiResponse, Rejection> {
        if self.call.query.all("dryRun").next().is_some() {
            return Err(Status::bad_request("dryRun is not supported").into());
        }
        let options = self.connect_options(subresource)?;
        let admit = |_| self.admit(Operation::Connect, &mut options.clone(), None, false);
        self.control.run_write(admit).await?;
        let name = match &*subresource.name {
            "proxy" => plain_name(&self.target.name),
            _ => &self.target.name,
        };
        self.call.registry.get(self.resource, &self.target.namespace, name)?;
        Err(Rejection::needs_node(&self.resource.plural, name, &subresource.name))
    }

    /// The options as an object.
    fn connect_options(&self, subresource: &Subresource) -> Result<Value, Rejection> {
        let query = self.call.query;
        let mut options = tree::map([
            ("kind", subresource.kind.clone().into()),
            ("apiVersion", subresource.api_version.clone().into()),
        ]);
        match &*subresource.name {
            "portforward" => {
                let ports = ports(query)?;
                if !ports.is_empty() {
                    tree::set(&mut options, &["ports"], ports);
                }
            }
            "proxy" => {
                let path = self.path_behind();
                if !path.is_empty() {
                    tree::set(&mut options, &["path"], path);
                }
            }
            name => {
                for flag in ["stdin", "stdout", "stderr", "tty"] {
                    if query.flag(flag) == Some(true) {
                        tree::set(&mut options, &[flag], true);
                    }
                }
                if let Some(container) = query.get("container").filter(|container| !container.is_empty()) {
                    tree::set(&mut options, &["container"], container);
                }
                if name == "exec" {
                    let command: Vec<Value> = query.all("command").map(Value::from).collect();
                    // `command` is always present, even if it is empty.
                    let command = if command.is_empty() { Value::Null } else { command.into() };
                    tree::set(&mut options, &["command"], command);
                }
            }
        }
        Ok(options)
    }

    /// The path after `proxy`, including a trailing slash.
    fn path_behind(&self) -> String {
        let mut path: String = self.target.rest.iter().map(|part| format!("/{part}")).collect();
        if self.call.info.path.ends_with('/') && !path.ends_with('/') {
            path.push('/');
        }
        path
    }
}

/// The name in `name`, `name:port` or `scheme:name:port`.
fn plain_name(name: &str) -> &str {
    let mut parts = name.split(':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(name), Some(_)) => name,
        (Some(name), ..) => name,
        _ => name,
    }
}

/// The ports of a query: the parameter may be repeated, and may contain a comma-separated list.
fn ports(query: &QueryParameters) -> Result<Vec<Value>, Rejection> {
    let listed = query.all("ports").flat_map(|text| text.split(','));
    let port = |text: &str| {
        text.parse::<u16>().map(|port| Value::from(i32::from(port))).map_err(|error| {
            let problem = match error.kind() {
                std::num::IntErrorKind::PosOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let why = format!("cannot convert to []int32: strconv.ParseUint: parsing {text:?}: {problem}");
            Status::bad_request(why).into()
        })
    };
    listed.map(port).collect()
}
