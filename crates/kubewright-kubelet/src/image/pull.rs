//! Decides whether the image of a container can be pulled.
//!
//! No image is ever fetched, so almost all are said to exist. Those that cannot are named by an
//! annotation, by the tag `404`, or by a registry in `.invalid`, a domain that never resolves
//! (RFC 2606).

use kubewright_api::core::v1::{Container, Pod};

use super::reference::Reference;
use crate::behaviour::{Behaviour, ImagePull};

/// Why an image is not there, in the words of a kubelet and its container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullError {
    /// Its name is malformed.
    InvalidName(String),
    /// The registry does not give it.
    Failed(String),
}

/// Why the image of a container cannot be pulled. `None` if it can.
pub fn pull_error(pod: &Pod, container: &Container) -> Option<PullError> {
    let image = container.image.as_deref().unwrap_or_default();
    let annotated = match Behaviour::of(pod, &container.name).image_pull {
        Some(ImagePull::Succeeds) => return None,
        annotated => annotated,
    };
    // A template without an image is a pod that was never validated.
    if image.is_empty() {
        return None;
    }
    let reference = match Reference::parse(image) {
        Ok(reference) => reference,
        Err(why) => {
            let message = format!("Failed to apply default image tag {image:?}: {why}");
            return Some(PullError::InvalidName(message));
        }
    };
    let host = reference.registry.rsplit_once(':').map_or(&*reference.registry, |(host, _)| host);
    let name = reference.full_name();
    let failed = format!("failed to pull and unpack image {name:?}: failed to resolve reference {name:?}");
    let message = match annotated {
        Some(ImagePull::Denied) => format!(
            "rpc error: code = Unknown desc = {failed}: pull access denied, repository does not exist or may require \
             authorization: server message: insufficient_scope: authorization failed"
        ),
        None if host.ends_with(".invalid") => {
            let Reference { registry, repository, version, .. } = &reference;
            format!(
                "rpc error: code = Unknown desc = {failed}: failed to do request: Head \
                 \"https://{registry}/v2/{repository}/manifests/{version}\": dial tcp: lookup {host}: no such host"
            )
        }
        None if reference.version != "404" => return None,
        _ => format!("rpc error: code = NotFound desc = {failed}: {name}: not found"),
    };
    Some(PullError::Failed(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pod;

    fn error(annotations: &str, image: &str) -> Option<PullError> {
        let pod = pod(&format!(
            r#"{{"metadata":{{"annotations":{annotations}}},"spec":{{"containers":[{{"name":"a","image":"{image}"}}]}}}}"#
        ));
        pull_error(&pod, &pod.spec.as_ref().unwrap().containers[0])
    }

    #[test]
    fn images_exist_unless_their_name_says_otherwise() {
        assert_eq!(error("{}", "nginx"), None);
        assert_eq!(error("{}", "localhost:5000/controller:dev"), None);
        let name = "docker.io/library/webserver:404";
        let text = format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image \"{name}\": failed to resolve \
             reference \"{name}\": {name}: not found"
        );
        assert_eq!(error("{}", "webserver:404"), Some(PullError::Failed(text)));
        let Some(PullError::Failed(text)) = error("{}", "registry.invalid:5000/app:1") else { panic!("not failed") };
        assert!(text.ends_with(
            "Head \"https://registry.invalid:5000/v2/app/manifests/1\": dial tcp: lookup registry.invalid: no such host"
        ));
        let text =
            "Failed to apply default image tag \"a b\": couldn't parse image name \"a b\": invalid reference format";
        assert_eq!(error("{}", "a b"), Some(PullError::InvalidName(text.to_owned())));
    }

    #[test]
    fn annotations_decide_about_images() {
        assert_eq!(error(r#"{"kubewright.dev/image-pull":"ok"}"#, "webserver:404"), None);
        let texts = [("not-found", "library/nginx:latest: not found"), ("denied", "authorization failed")];
        for (value, end) in texts {
            let annotation = format!(r#"{{"image-pull.kubewright.dev/a":"{value}"}}"#);
            let Some(PullError::Failed(text)) = error(&annotation, "nginx") else { panic!("not failed") };
            assert!(text.ends_with(end), "{text}");
        }
        assert_eq!(error(r#"{"image-pull.kubewright.dev/b":"denied"}"#, "nginx"), None);
    }
}
