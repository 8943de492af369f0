//! The options of connect subresources as objects, which admission reviews.

use kubewright_core::meta::v1::Status;
use kubewright_core::options::QueryParameters;
use kubewright_core::{Str, Value, tree};

/// Whether this is a connect subresource, for any method.
pub fn is_connection(subresource: &str) -> bool {
    matches!(subresource, "exec" | "attach" | "portforward" | "proxy")
}

/// The options of a query, of this kind. `path` is that after `proxy`.
///
/// # Errors
/// 400 if a port is malformed.
pub fn of_query(
    subresource: &str,
    (api_version, kind): (&Str, &Str),
    query: &QueryParameters,
    path: &str,
) -> Result<Value, Box<Status>> {
    let mut options = tree::map([("kind", kind.clone().into()), ("apiVersion", api_version.clone().into())]);
    match subresource {
        "portforward" => {
            let ports = ports(query)?;
            if !ports.is_empty() {
                tree::set(&mut options, &["ports"], ports);
            }
        }
        "proxy" => {
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

/// The ports of a query: the parameter may be repeated, and may contain a comma-separated list.
fn ports(query: &QueryParameters) -> Result<Vec<Value>, Box<Status>> {
    let listed = query.all("ports").flat_map(|text| text.split(','));
    let port = |text: &str| {
        text.parse::<u16>().map(|port| Value::from(i32::from(port))).map_err(|error| {
            let problem = match error.kind() {
                std::num::IntErrorKind::PosOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let why = format!("cannot convert to []int32: strconv.ParseUint: parsing {text:?}: {problem}");
            Box::new(Status::bad_request(why))
        })
    };
    listed.map(port).collect()
}
