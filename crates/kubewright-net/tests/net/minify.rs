//! Reduced kubeconfigs.

use kubewright_net::config::Kubeconfig;

use crate::directory::Directory;

const KUBECONFIG: &str = "
current-context: red
clusters: [{name: red, cluster: {server: 'https://red', certificate-authority: ca.pem}}, {name: blue, cluster: {server: b, proxy-url: 'http://user:s3cret@proxy:3128'}}]
users:
- {name: admin, user: {client-certificate: c.pem, client-key: k.pem, tokenFile: token}}
- {name: other, user: {token: s3cret, password: s3cret, client-key-data: czNjcmV0, client-certificate-data: QQ==,
    exec: {command: x, args: [s3cret], env: [{name: a, value: s3cret}]}, auth-provider: {name: oidc, config: {a: s3cret}}}}
contexts: [{name: red, context: {cluster: red, user: admin}}, {name: blue, context: {cluster: blue, user: other}}]
";

// KC-10
#[test]
fn minify_keeps_only_the_current_context() {
    let mut kubeconfig = Kubeconfig::parse(KUBECONFIG, None).expect("it is fine");
    kubeconfig.minify().expect("the context exists");
    assert_eq!(kubeconfig.clusters.keys().collect::<Vec<_>>(), ["red"]);
    assert_eq!(kubeconfig.users.keys().collect::<Vec<_>>(), ["admin"]);
    assert_eq!(kubeconfig.contexts.keys().collect::<Vec<_>>(), ["red"]);
    kubeconfig.current_context = Some("gone".to_owned());
    assert!(kubeconfig.minify().is_err());
    kubeconfig.current_context = None;
    assert!(kubeconfig.minify().is_err());
}

// KC-10
#[test]
fn flattened_it_needs_no_files() {
    let directory = Directory::new();
    let file = directory.write("config", KUBECONFIG);
    let mut kubeconfig = Kubeconfig::read(&file).expect("it is fine");
    let error = kubeconfig.clone().flatten().expect_err("there are no files").to_string();
    assert!(error.contains("clusters[\"red\"].certificate-authority: cannot read"), "{error}");
    for (name, text) in [("ca.pem", "CA"), ("c.pem", "C"), ("k.pem", "K")] {
        directory.write(name, text);
    }
    kubeconfig.flatten().expect("the files exist now");
    let (cluster, user) = (&kubeconfig.clusters["red"], &kubeconfig.users["admin"]);
    assert_eq!(cluster.certificate_authority_data.as_deref(), Some(&b"CA"[..]));
    assert!(cluster.certificate_authority.is_none() && user.client_key.is_none());
    assert_eq!(user.client_key_data.as_ref().map(|key| key.expose().to_vec()), Some(b"K".to_vec()));
    assert_eq!(user.token_file, Some(directory.path("token")));
}

// KC-10
#[test]
fn redacted_it_can_be_shown() {
    let mut kubeconfig = Kubeconfig::parse(KUBECONFIG, None).expect("it is fine");
    kubeconfig.redact();
    let shown = kubeconfig.to_yaml();
    assert!(!shown.contains("s3cret") && !shown.contains("czNjcmV0"), "{shown}");
    assert!(shown.contains("client-key-data: DATA+OMITTED") && shown.contains("token: REDACTED"), "{shown}");
    assert!(shown.contains("http://REDACTED@proxy:3128"), "{shown}");
}
