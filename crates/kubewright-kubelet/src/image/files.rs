//! The images whose HTTP server serves files, and the files that they bring.
//!
//! An unknown image may serve anything. The annotation `http-files` names its folder.

use kubewright_api::core::v1::{Container, Pod};
use kubewright_core::Object;

use super::reference::Reference;
use crate::behaviour::Behaviour;
use crate::files::Files;

/// A file server with its configuration.
struct FileServer {
    /// The folder that it serves.
    folder: &'static str,
    /// Where another configuration could be mounted.
    configuration: &'static str,
}

/// The folder whose files the HTTP server of a container serves, if it serves files.
pub(crate) fn served_folder(pod: &Pod, container: &Container) -> Option<String> {
    let annotated = Behaviour::of(pod, &container.name).http_files;
    annotated.or_else(|| Some(file_server(container)?.folder.to_owned()))
}

/// The server of a well-known image, unless its command or its volumes may change what it serves.
fn file_server(container: &Container) -> Option<FileServer> {
    let reference = Reference::parse(container.image.as_deref()?).ok()?;
    let words: Vec<&str> = container.command.iter().chain(&container.args).map(AsRef::as_ref).collect();
    let server = match (reference.base_name(), &words[..]) {
        ("httpd", []) => FileServer { folder: "/usr/local/apache2/htdocs", configuration: "/usr/local/apache2/conf" },
        ("nginx", []) => FileServer { folder: "/usr/share/nginx/html", configuration: "/etc/nginx" },
        ("agnhost", ["test-webserver", ..] | ["/agnhost", "test-webserver", ..]) => {
            FileServer { folder: "/", configuration: "" }
        }
        _ => return None,
    };
    let changes = |folder: &str| {
        let is_in = |inner: &str, outer: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        let mounts = || container.volume_mounts.iter().map(|mount| mount.mount_path.trim_end_matches('/'));
        folder.len() > 1 && mounts().any(|mount| is_in(mount, folder) || is_in(folder, mount))
    };
    (!changes(server.folder) && !changes(server.configuration)).then_some(server)
}

/// Creates the files that a well-known image brings.
pub(crate) fn create_files(pod: &Pod, container: &Container, files: &mut Files) {
    let Some(server) = file_server(container) else { return };
    let name = if server.folder == "/" { "/localhost.crt".to_owned() } else { format!("{}/index.html", server.folder) };
    // There is room in a new container.
    let _ = files.create_folders(server.folder);
    let _ = files.write(&name, format!("{}\n", pod.name()).into(), 0o644);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pod;

    #[test]
    fn well_known_images_serve_files_unless_they_are_configured() {
        for (container, want) in [
            (r#""image":"nginx:1.29""#, Some("/usr/share/nginx/html")),
            (r#""image":"ghcr.io/a/httpd""#, Some("/usr/local/apache2/htdocs")),
            (r#""image":"registry.k8s.io/e2e-test-images/agnhost:2","args":["test-webserver"]"#, Some("/")),
            (r#""image":"agnhost","args":["pause"]"#, None),
            (r#""image":"nginx","args":["-c","/my.conf"]"#, None),
            (r#""image":"nginx","volumeMounts":[{"name":"v","mountPath":"/etc/nginx/conf.d"}]"#, None),
            (r#""image":"nginx","volumeMounts":[{"name":"v","mountPath":"/usr/share/nginx/"}]"#, None),
            (r#""image":"nginx","volumeMounts":[{"name":"v","mountPath":"/data"}]"#, Some("/usr/share/nginx/html")),
            (r#""image":"app""#, None),
        ] {
            let pod = pod(&format!(r#"{{"spec":{{"containers":[{{"name":"a",{container}}}]}}}}"#));
            let found = served_folder(&pod, &pod.spec.as_ref().unwrap().containers[0]);
            assert_eq!(found.as_deref(), want, "{container}");
        }
    }
}
