//! Writes the kubeconfig of a server.

use kubewright_core::ByteString;

use super::certificates::Admin;

/// The administrator's credentials. `Debug` must not print them.
pub(super) enum AdminCredentials {
    /// None: the connection is trusted.
    None,
    /// A client certificate.
    Certificate(Box<Admin>),
}

/// A kubeconfig for a server at this URL.
pub(super) fn write(url: &str, credentials: &AdminCredentials) -> String {
    let (authority, user) = match credentials {
        AdminCredentials::None => (String::new(), "{}".to_owned()),
        AdminCredentials::Certificate(admin) => (
            format!("\n    certificate-authority-data: {}", base64(&admin.server_authority)),
            format!(
                "\n    client-certificate-data: {}\n    client-key-data: {}",
                base64(&admin.certificate),
                base64(&admin.key)
            ),
        ),
    };
    let separator = if user.starts_with('{') { " " } else { "" };
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: kubewright\n  cluster:\n    server: {url}{authority}\n\
         users:\n\
         - name: kubewright-admin\n  user:{separator}{user}\n\
         contexts:\n\
         - name: kubewright\n  context:\n    cluster: kubewright\n    user: kubewright-admin\n\
         current-context: kubewright\n"
    )
}

fn base64(text: &str) -> String {
    ByteString::from(text.as_bytes()).to_base64()
}
