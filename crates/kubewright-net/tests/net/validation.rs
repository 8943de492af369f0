//! Validation of kubeconfigs.

use std::path::Path;

use kubewright_net::config::{Config, ConfigError, Kubeconfig, Overrides};

use crate::directory::Directory;

fn validate(clusters: &str, users: &str, contexts: &str) -> String {
    let text = format!("clusters: [{clusters}]\nusers: [{users}]\ncontexts: [{contexts}]\n");
    let kubeconfig = Kubeconfig::parse(&text, Some(Path::new("/etc/kubeconfig"))).expect("it can be read");
    kubeconfig.validate().err().map(|error| error.to_string()).unwrap_or_default()
}

fn user(fields: &str) -> String {
    validate("{name: c, cluster: {server: 'https://c'}}", &format!("{{name: u, user: {{{fields}}}}}"), "")
}

fn cluster(fields: &str) -> String {
    validate(&format!("{{name: c, cluster: {{{fields}}}}}"), "", "")
}

// KC-7
#[test]
fn invalid_users_are_named() {
    let exec = "apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never";
    for (fields, expected) in [
        ("token: t, username: u", "users[\"u\"].token: conflicts with username"),
        ("tokenFile: /t, password: u", "users[\"u\"].token: conflicts with"),
        ("client-certificate-data: QQ==", "users[\"u\"].client-key: is missing"),
        ("client-certificate-data: QQ==, client-certificate: /x, client-key-data: QQ==", "conflicts with"),
        (
            "client-key-data: QQ==, client-key: /x, client-certificate-data: QQ==",
            "users[\"u\"].client-key: conflicts with",
        ),
        ("client-certificate: /no/file, client-key: /no/file", "users[\"u\"].client-certificate: cannot read /no/file"),
        (
            "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}",
            "users[\"u\"].exec.command: is not",
        ),
        ("exec: {command: x, interactiveMode: Never}", "users[\"u\"].exec.apiVersion: is not given"),
        ("exec: {command: x, interactiveMode: Never, apiVersion: v1}", "users[\"u\"].exec.apiVersion: \"v1\" is not"),
        (
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: x}",
            "users[\"u\"].exec.interactiveMode: is not",
        ),
        (&format!("exec: {{{exec}, env: [{{value: x}}]}}"), "users[\"u\"].exec.env: a variable has no name"),
        (&format!("exec: {{{exec}}}, auth-provider: {{name: oidc}}"), "users[\"u\"].exec: conflicts with"),
        ("as-groups: [a]", "users[\"u\"].as: is missing"),
        ("as-uid: a", "users[\"u\"].as: is missing"),
        ("as-user-extra: {a: [b]}", "users[\"u\"].as: is missing"),
    ] {
        let error = user(fields);
        assert!(error.contains("/etc/kubeconfig: ") && error.contains(expected), "{fields}: {error}");
    }
    for fields in [
        "",
        "token: t, tokenFile: /t",
        "username: u, password: p",
        // A key alone is ignored, as in Go.
        "client-key-data: QQ==",
        "client-key: /no/file, token: t",
        "as: jane, as-groups: [a]",
        &format!("exec: {{{exec}}}"),
        "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x}",
    ] {
        assert_eq!(user(fields), "", "{fields}");
    }
}

// KC-7
#[test]
fn invalid_clusters_are_named() {
    for (fields, expected) in [
        ("", "clusters[\"c\"].server: is not given"),
        ("server: 'ftp://x'", "clusters[\"c\"].server: "),
        ("server: 'https://c', proxy-url: 'gopher://p'", "clusters[\"c\"].proxy-url: is neither"),
        ("server: 'https://c', certificate-authority: /no/file", "clusters[\"c\"].certificate-authority: cannot read"),
        ("server: 'https://c', certificate-authority: /x, certificate-authority-data: QQ==", "conflicts with"),
        (
            "server: 'https://c', insecure-skip-tls-verify: true, certificate-authority-data: QQ==",
            "insecure-skip-tls-verify",
        ),
    ] {
        let error = cluster(fields);
        assert!(error.contains(expected), "{fields}: {error}");
    }
}

// KC-7
#[test]
fn contexts_have_to_lead_somewhere() {
    for (fields, expected) in [
        ("cluster: c, user: x", "contexts[\"x\"].user: there is no user \"x\""),
        ("cluster: x, user: u", "contexts[\"x\"].cluster: there is no cluster \"x\""),
        ("user: u", "contexts[\"x\"].cluster: is not given"),
        ("cluster: c", "contexts[\"x\"].user: is not given"),
        ("cluster: c, user: u, namespace: Not_A_Name", "contexts[\"x\"].namespace: "),
    ] {
        let context = format!("{{name: x, context: {{{fields}}}}}");
        let error = validate("{name: c, cluster: {server: 'https://c'}}", "{name: u}", &context);
        assert!(error.contains(expected), "{fields}: {error}");
    }
    let missing = Kubeconfig { current_context: Some("gone".into()), ..Kubeconfig::default() };
    assert!(missing.validate().is_err_and(|error| error.to_string().contains("context \"gone\"")));
}

// KC-7
#[test]
fn all_problems_are_reported_together() {
    let error = validate("{name: a, cluster: {}}, {name: b, cluster: {}}", "{name: u, user: {as-uid: x}}", "");
    assert!(error.contains("clusters[\"a\"]") && error.contains("clusters[\"b\"]") && error.contains("users[\"u\"]"));
}

// KC-7
#[test]
fn nothing_configured_is_an_error_of_its_own() {
    let empty = Kubeconfig::default();
    assert!(empty.validate().is_err_and(|error| error.is_empty()));
    assert!(Config::from_kubeconfig(&empty, &Overrides::default()).is_err_and(|error| error.is_empty()));
}

// KC-7
#[test]
fn only_entries_in_use_are_validated() {
    let directory = Directory::new();
    let text = "current-context: good
clusters: [{name: good, cluster: {server: 'https://c'}}, {name: bad, cluster: {}}]
users: [{name: good}, {name: bad, user: {as-uid: x}}]
contexts: [{name: good, context: {cluster: good, user: good}}, {name: bad, context: {cluster: good, user: bad}}]";
    let kubeconfig = Kubeconfig::read(&directory.write("config", text)).expect("it can be read");
    assert!(Config::from_kubeconfig(&kubeconfig, &Overrides::default()).is_ok());
    let bad = Overrides { current_context: Some("bad".into()), ..Overrides::default() };
    let error = Config::from_kubeconfig(&kubeconfig, &bad).expect_err("the user is bad");
    assert!(matches!(&error, ConfigError::Entry(entry) if entry.field == "as" && entry.file.is_some()), "{error}");
}
