//! Where an API server finds what a connect subresource leads to: the kubelet of a pod, the pod
//! itself, or a node. Messages are those of kube-apiserver.

use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::options::QueryParameters;
use kubewright_core::tree::{self, Meta};
use kubewright_core::{GroupKind, Value};

/// The port of kubelets that name no other.
const KUBELET_PORT: i64 = 10250;

/// The address and path of a request to a kubelet or a pod, with its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Host and port.
    pub authority: String,
    /// The path with its query.
    pub path: String,
}

impl Location {
    /// The URL.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// The parts of a name in a proxy path: `name`, `name:port` or `scheme:name:port`.
///
/// # Errors
/// 400 if it has another form.
pub fn split_name<'a>(kind: &str, text: &'a str) -> Result<(&'static str, &'a str, &'a str), Box<Status>> {
    let parts: Vec<&str> = text.split(':').collect();
    let split = match parts[..] {
        [name] => ("http", name, ""),
        [name, port] => ("http", name, port),
        ["http" | "", name, port] => ("http", name, port),
        ["https", name, port] => ("https", name, port),
        _ => ("http", "", ""),
    };
    if split.1.is_empty() {
        return Err(Box::new(Status::bad_request(format!("invalid {kind} request {text:?}"))));
    }
    Ok(split)
}

/// Host and port of the kubelet of a node.
pub fn kubelet(node: &Value) -> String {
    let port = tree::int(node, &["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).unwrap_or(KUBELET_PORT);
    format!("{}:{port}", node.name())
}

/// The port of a kubelet, as text.
pub fn kubelet_port(node: &Value) -> String {
    kubelet(node).rsplit(':').next().unwrap_or_default().to_owned()
}

/// The node of a pod.
///
/// # Errors
/// 400 if it has none.
pub fn node_of(pod: &Value) -> Result<&str, Box<Status>> {
    match tree::text(pod, &["spec", "nodeName"]) {
        "" => Err(Box::new(Status::bad_request(format!("pod {} does not have a host assigned", pod.name())))),
        node => Ok(node),
    }
}

/// The container of a request: the wanted one, or the only one.
///
/// # Errors
/// 400 if there is no such container, or several.
pub fn container<'a>(pod: &'a Value, wanted: &str) -> Result<&'a str, Box<Status>> {
    let names = |list: &str| tree::items(pod, &["spec", list]).iter().map(|one| tree::text(one, &["name"]));
    let all = || names("initContainers").chain(names("containers")).chain(names("ephemeralContainers"));
    let refuse = |message: String| Err(Box::new(Status::bad_request(message)));
    if !wanted.is_empty() {
        return match all().find(|name| *name == wanted) {
            Some(name) => Ok(name),
            None => refuse(format!("container {wanted} is not valid for pod {}", pod.name())),
        };
    }
    let mut containers = names("containers");
    match (containers.next(), containers.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => refuse(format!("a container name must be specified for pod {}", pod.name())),
        _ => {
            let choice: Vec<&str> = all().collect();
            let (name, choice) = (pod.name(), choice.join(" "));
            refuse(format!("a container name must be specified for pod {name}, choose one of: [{choice}]"))
        }
    }
}

/// The path of `exec` or `attach` at the kubelet.
///
/// # Errors
/// As [`container`].
pub fn command_path(subresource: &str, pod: &Value, query: &QueryParameters) -> Result<String, Box<Status>> {
    let container = container(pod, query.get("container").unwrap_or_default())?;
    let mut parameters = Vec::new();
    for (flag, parameter) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if query.flag(flag) == Some(true) {
            parameters.push((parameter, "1".to_owned()));
        }
    }
    if subresource == "exec" {
        parameters.extend(query.all("command").map(|word| ("command", word.to_owned())));
    }
    let path = format!("/{subresource}/{}/{}/{container}", pod.namespace(), pod.name());
    Ok(with_query(path, &parameters))
}

/// The path of `portforward` at the kubelet.
pub fn port_forward_path(pod: &Value, query: &QueryParameters) -> String {
    let ports: Vec<&str> = query.all("ports").collect();
    let parameters = if ports.is_empty() { Vec::new() } else { vec![("port", ports.join(","))] };
    with_query(format!("/portForward/{}/{}", pod.namespace(), pod.name()), &parameters)
}

/// The path of `log` at the kubelet.
///
/// # Errors
/// 400 as [`container`], 422 for options that are not valid.
pub fn log_path(pod: &Value, query: &QueryParameters) -> Result<String, Box<Status>> {
    let (tail, limit, since) =
        (query.integer("tailLines")?, query.integer("limitBytes")?, query.integer("sinceSeconds")?);
    let since_time = query.get("sinceTime").filter(|time| !time.is_empty());
    let stream = query.get("stream").filter(|stream| !stream.is_empty()).unwrap_or("All");
    let mut causes = Vec::new();
    if let Some(tail) = tail.filter(|tail| *tail < 0) {
        causes.push(StatusCause::invalid("tailLines", tail, "must be greater than or equal to 0"));
    }
    if let Some(limit) = limit.filter(|limit| *limit < 1) {
        causes.push(StatusCause::invalid("limitBytes", limit, "must be greater than 0"));
    }
    match since {
        Some(_) if since_time.is_some() => {
            causes.push(StatusCause::forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
        }
        Some(since) if since < 1 => causes.push(StatusCause::invalid("sinceSeconds", since, "must be greater than 0")),
        _ => {}
    }
    if !matches!(stream, "All" | "Stdout" | "Stderr") {
        causes.push(StatusCause::not_supported("stream", format!("{stream:?}"), &["All", "Stderr", "Stdout"]));
    } else if stream != "All" && tail.is_some() {
        causes.push(StatusCause::forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now"));
    }
    if !causes.is_empty() {
        return Err(Box::new(Status::invalid(&GroupKind::new("", "PodLogOptions"), pod.name(), causes)));
    }
    let container = container(pod, query.get("container").unwrap_or_default())?;
    let mut parameters = Vec::new();
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag) == Some(true) {
            parameters.push((flag, "true".to_owned()));
        }
    }
    for name in ["sinceSeconds", "sinceTime", "tailLines", "limitBytes"] {
        parameters.extend(query.get(name).filter(|value| !value.is_empty()).map(|value| (name, value.to_owned())));
    }
    parameters.push(("stream", stream.to_owned()));
    Ok(with_query(format!("/containerLogs/{}/{}/{container}", pod.namespace(), pod.name()), &parameters))
}

/// Host and port of a pod. Without a port it is the first one of its containers.
///
/// # Errors
/// 400 if it has no address.
pub fn pod_authority(pod: &Value, port: &str) -> Result<String, Box<Status>> {
    let address = tree::text(pod, &["status", "podIP"]);
    let parsed: Option<std::net::IpAddr> = address.parse().ok();
    // Connections to the server's own machine are not for users of the cluster.
    if parsed.is_none_or(|ip| ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || is_link_local(ip)) {
        return Err(Box::new(Status::bad_request("address not allowed")));
    }
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    if !port.is_empty() {
        return Ok(format!("{host}:{port}"));
    }
    let containers = tree::items(pod, &["spec", "containers"]).iter();
    let first = containers.filter_map(|container| tree::items(container, &["ports"]).first()).next();
    match first.and_then(|port| tree::int(port, &["containerPort"])) {
        Some(port) => Ok(format!("{host}:{port}")),
        None => Ok(host),
    }
}

fn is_link_local(ip: std::net::IpAddr) -> bool {
    match ip {
        std::net::IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        std::net::IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn with_query(path: String, parameters: &[(&str, String)]) -> String {
    if parameters.is_empty() {
        return path;
    }
    let mut query = QueryWriter::new();
    parameters.iter().for_each(|(name, value)| query.add(name, value));
    format!("{path}?{}", query.0)
}

struct QueryWriter(String);

impl QueryWriter {
    fn new() -> Self {
        QueryWriter(String::new())
    }

    fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => self.0.push(byte.into()),
                byte => self.0.push_str(&format!("%{byte:02X}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_core::json;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"nodeName": "n", "initContainers": [{"name": "i"}],
                "containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}]}]},
            "status": {"podIP": "10.0.0.7"},
        })
    }

    fn message<T>(result: Result<T, Box<Status>>) -> String {
        result.err().and_then(|status| status.message.clone()).unwrap_or_default().to_string()
    }

    #[test]
    fn a_container_has_to_be_named_if_there_are_several() {
        let pod = pod();
        assert_eq!(container(&pod, "i").unwrap(), "i");
        assert_eq!(
            message(container(&pod, "")),
            "a container name must be specified for pod p, choose one of: [i a b]"
        );
        assert_eq!(message(container(&pod, "x")), "container x is not valid for pod p");
        let single = json!({"metadata": {"name": "p"}, "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}});
        assert_eq!(container(&single, "").unwrap(), "a");
        assert_eq!(message(node_of(&single)), "pod p does not have a host assigned");
    }

    #[test]
    fn options_become_those_of_the_kubelet() {
        let query = QueryParameters::parse("container=a&command=echo&command=a%20b&stdin=true&stdout=1&tty=false");
        let path = command_path("exec", &pod(), &query).unwrap();
        assert_eq!(path, "/exec/ns/p/a?input=1&output=1&command=echo&command=a%20b");
        assert_eq!(
            port_forward_path(&pod(), &QueryParameters::parse("ports=80,81&ports=9")),
            "/portForward/ns/p?port=80%2C81%2C9"
        );
        let query = QueryParameters::parse("container=b&follow=true&tailLines=5&sinceTime=2024-01-01T00:00:00Z");
        let path = log_path(&pod(), &query).unwrap();
        assert_eq!(path, "/containerLogs/ns/p/b?follow=true&sinceTime=2024-01-01T00%3A00%3A00Z&tailLines=5&stream=All");
    }

    #[test]
    fn options_of_logs_are_validated() {
        let refused = |query: &str| message(log_path(&pod(), &QueryParameters::parse(query)));
        assert_eq!(
            refused("tailLines=-1&limitBytes=0"),
            "PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0]"
        );
        assert!(refused("sinceSeconds=1&sinceTime=2024-01-01T00:00:00Z").contains("at most one of"));
        assert!(refused("stream=x").contains("supported values"));
    }

    #[test]
    fn names_and_addresses_are_those_of_proxies() {
        assert_eq!(split_name("pod", "p").unwrap(), ("http", "p", ""));
        assert_eq!(split_name("pod", "https:p:web").unwrap(), ("https", "p", "web"));
        assert_eq!(message(split_name("pod", "ftp:p:1")), "invalid pod request \"ftp:p:1\"");
        assert_eq!(pod_authority(&pod(), "").unwrap(), "10.0.0.7:8080");
        assert_eq!(pod_authority(&pod(), "9").unwrap(), "10.0.0.7:9");
        for address in ["", "127.0.0.1", "169.254.169.254", "0.0.0.0", "::1"] {
            let pod = json!({"status": {"podIP": address}});
            assert_eq!(message(pod_authority(&pod, "")), "address not allowed", "{address}");
        }
        assert_eq!(kubelet(&json!({"metadata": {"name": "n"}})), "n:10250");
    }
}
