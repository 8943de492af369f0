//! The command, variables and files of a starting container.

use std::collections::BTreeMap;

use kubewright_api::core::v1::{Container, Pod};
use kubewright_core::Object;

use crate::files::Files;
use crate::image;

/// The command with its arguments, with `$(NAME)` replaced. Empty if the image determines it.
pub fn command(pod: &Pod, container: &Container) -> Vec<String> {
    let words = || container.command.iter().chain(&container.args);
    // Most commands have no variables.
    if !words().any(|word| word.contains('$')) {
        return words().map(ToString::to_string).collect();
    }
    let variables = variables(pod, container);
    words().map(|word| expanded(word, &variables)).collect()
}

/// The environment variables. Values of ConfigMaps and Secrets are absent.
pub fn variables(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = [
        ("HOME", "/root"),
        ("HOSTNAME", hostname(pod)),
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    for variable in &container.env {
        let field = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        let value = match (&variable.value, field) {
            (Some(value), _) => expanded(value, &variables),
            (None, Some(field)) => field_of(pod, &field.field_path),
            (None, None) if variable.value_from.is_some() => continue,
            (None, None) => String::new(),
        };
        variables.insert(variable.name.to_string(), value);
    }
    variables
}

/// The files of a new container.
pub fn files(pod: &Pod, container: &Container) -> Files {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap_or_default();
    let mounts = container.volume_mounts.iter().map(|mount| mount.mount_path.as_str());
    let mut files = Files::new(hostname(pod), address, mounts.chain(container.working_dir.as_deref()));
    image::create_files(pod, container, &mut files);
    files
}

fn hostname(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.hostname.as_deref()).unwrap_or(pod.name())
}

/// The value of a field that a variable refers to.
fn field_of(pod: &Pod, path: &str) -> String {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let keyed = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
    let value = match path {
        "metadata.name" => Some(pod.name()),
        "metadata.namespace" => Some(pod.namespace()),
        "metadata.uid" => Some(pod.uid()),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.as_deref()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.as_deref()),
        "status.podIP" => status.and_then(|status| status.pod_ip.as_deref()),
        "status.hostIP" => status.and_then(|status| status.host_ip.as_deref()),
        _ => match (keyed("metadata.labels['"), keyed("metadata.annotations['")) {
            (Some(label), _) => pod.labels().get(label),
            (_, Some(annotation)) => pod.annotations().get(annotation),
            _ => None,
        },
    };
    value.unwrap_or_default().to_owned()
}

/// Replaces `$(NAME)` by variables that exist. `$$` is a dollar sign.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        match reference.and_then(|(name, after)| Some((variables.get(name)?, after))) {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pod;

    #[test]
    fn variables_refer_to_others_and_to_fields() {
        let pod = pod(r#"{"metadata":{"name":"web","namespace":"shop","labels":{"app":"x"}},"spec":{"nodeName":"n",
            "containers":[{"name":"a","command":["echo","$(B)","$(C)","$$(A)","$"],"env":[{"name":"A","value":"1"},
            {"name":"B","value":"$(A)2"},{"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}},
            {"name":"L","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}},
            {"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}}"#);
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let variables = variables(&pod, container);
        let get = |name: &str| variables.get(name).map(String::as_str);
        assert_eq!((get("B"), get("N"), get("L"), get("S")), (Some("12"), Some("shop"), Some("x"), None));
        assert_eq!(get("HOSTNAME"), Some("web"));
        assert_eq!(command(&pod, container), ["echo", "12", "$(C)", "$(A)", "$"]);
    }
}
