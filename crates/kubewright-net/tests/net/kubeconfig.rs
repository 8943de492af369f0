//! Parsing of kubeconfigs and its errors.

use std::path::Path;

use kubewright_net::config::{Config, ConfigError, InteractiveMode, Kubeconfig, Overrides, ProxyChoice};

const FULL: &str = r#"
apiVersion: v1
kind: Config
current-context: one
colour: blue
preferences: {colors: true}
clusters:
- name: one
  cluster:
    server: https://one.example:6443/prefix
    tls-server-name: inner.example
    certificate-authority-data: Q0E=
    proxy-url: socks5://proxy.example
    disable-compression: true
    flavour: sweet
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: x}
users:
- name: admin
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: get-token
      args: ["--secret", "s3cret-argument"]
      env: [{name: A, value: s3cret-value}]
      interactiveMode: IfAvailable
      provideClusterInfo: true
- name: other
  user: {token: s3cret-token, password: s3cret-password, client-key-data: czNjcmV0LWtleQ==}
contexts:
- name: one
  context: {cluster: one, user: admin, namespace: shop}
"#;

fn parse(text: &str) -> Result<Kubeconfig, ConfigError> {
    Kubeconfig::parse(text, Some(Path::new("/etc/kube/config")))
}

// KC-10
#[test]
fn every_field_is_read() {
    let kubeconfig = parse(FULL).expect("all is well");
    let cluster = &kubeconfig.clusters["one"];
    assert_eq!(cluster.tls_server_name.as_deref(), Some("inner.example"));
    assert_eq!(cluster.certificate_authority_data.as_deref(), Some(&b"CA"[..]));
    assert!(cluster.disable_compression);
    assert_eq!(cluster.extensions["client.authentication.k8s.io/exec"].to_string(), r#"{"audience":"x"}"#);
    let exec = kubeconfig.users["admin"].exec.as_ref().expect("it has one");
    assert_eq!(exec.command.as_deref(), Some("get-token"));
    assert_eq!(exec.interactive_mode, Some(InteractiveMode::IfAvailable));
    assert_eq!(exec.env[0].name, "A");

    let config = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect("all is well");
    assert_eq!(config.server, "https://one.example:6443/prefix");
    assert_eq!(config.tls.server_name.as_deref(), Some("inner.example"));
    assert_eq!(config.default_namespace, "shop");
    assert!(config.disable_compression);
    assert_eq!(config.proxy, ProxyChoice::Url("socks5://proxy.example".into()));
    let told = &config.credentials.exec.as_ref().expect("it has one").cluster;
    assert_eq!(
        told.to_string(),
        r#"{"certificate-authority-data":"Q0E=","config":{"audience":"x"},"disable-compression":true,"#.to_owned()
            + r#""proxy-url":"socks5://proxy.example","server":"https://one.example:6443/prefix","tls-server-name":"inner.example"}"#
    );
}

#[test]
fn json_is_read_as_well_and_nothing_at_all_is_an_empty_kubeconfig() {
    let text =
        "{\n\t\"apiVersion\": \"v1\",\n\t\"clusters\": [{\"name\": \"a\", \"cluster\": {\"server\": \"https://a\"}}]}";
    assert_eq!(parse(text).expect("JSON").clusters["a"].server.as_deref(), Some("https://a"));
    assert!(parse("").expect("nothing").is_empty());
    assert!(parse("# only a comment\n").expect("nothing").is_empty());
}

#[test]
fn a_kubeconfig_round_trips_even_with_invalid_values() {
    let kubeconfig = parse(FULL).expect("all is well");
    let written = kubeconfig.to_yaml();
    assert!(written.contains("colour: blue") && written.contains("flavour: sweet"), "{written}");
    assert_eq!(parse(&written).expect("we wrote it"), kubeconfig);
}

#[test]
fn an_error_names_file_entry_and_field() {
    for (text, expected) in [
        ("clusters: [{name: a, cluster: {server: 5}}]", "clusters[\"a\"].server: expected text, found"),
        ("users: [{name: u, user: {exec: {command: [x]}}}]", "users[\"u\"].exec.command: expected text, found"),
        ("users: [{name: u, user: {client-key-data: '?'}}]", "users[\"u\"].client-key-data: is not base64"),
        ("users: [{name: u, user: {exec: {interactiveMode: Maybe}}}]", "users[\"u\"].exec.interactiveMode: expected"),
        ("users: [{name: u, user: {as-user-extra: {a: b}}}]", "users[\"u\"].as-user-extra.a: expected a list"),
        (
            "users: [{name: u, user: {exec: {env: [{name: A, value: x}, {name: B, value: 5}]}}}]",
            "users[\"u\"].exec.env[1].value: expected text, found",
        ),
        ("users: [{name: u, user: {exec: {env: [{name: true}]}}}]", "users[\"u\"].exec.env[0].name: expected text"),
        ("users: [{name: u, user: {exec: {env: [A]}}}]", "users[\"u\"].exec.env[0]: expected a map"),
        ("users: [{name: u, user: {exec: {args: [a, 5]}}}]", "users[\"u\"].exec.args[1]: expected text"),
        ("contexts: [{context: {}}]", "contexts[0]: has no name"),
        ("clusters: [{name: a}, {name: a}]", "clusters[1]: there is another cluster \"a\" in the list"),
        ("users: [{name: a}, {name: b}, {name: a}]", "users[2]: there is another user \"a\" in the list"),
        ("contexts: [{name: a}, {name: a}]", "contexts[1]: there is another context \"a\" in the list"),
        ("extensions: [{name: a}, {name: a}]", "extensions: there are two extensions \"a\""),
        ("contexts: {}", "contexts: expected a list"),
        ("kind: Pod", "kind: expected Config, found"),
        ("apiVersion: v2", "apiVersion: expected v1, found"),
        ("current-context: [a]", "current-context: expected text"),
        ("- a", ": expected a map, found"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.starts_with("/etc/kube/config: ") && error.contains(expected), "{text}: {error}");
    }
    let error = parse("a: [").expect_err("no YAML");
    assert!(error.to_string().contains("/etc/kube/config"));
    assert!(std::error::Error::source(&error).expect("it has a cause").to_string().contains("line"));
}

// RC-11
#[test]
fn no_debug_form_shows_a_secret() {
    let kubeconfig = parse(FULL).expect("all is well");
    let config = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect("all is well");
    let mut basic = Config::new("https://a").expect("a URL");
    basic.credentials.token = Some("s3cret".into());
    basic.credentials.password = Some("s3cret".into());
    basic.proxy = ProxyChoice::Url("http://user:s3cret@proxy".into());
    let proxied = parse("clusters: [{name: a, cluster: {server: 'https://a', proxy-url: 'http://user:s3cret@proxy'}}]");
    let proxied = proxied.expect("all is well");
    let overrides = Overrides { cluster: proxied.clusters["a"].clone(), ..Overrides::default() };
    assert!(proxied.to_yaml().contains("http://user:s3cret@proxy"), "it is written as it was read");
    let with_plugin = parse(
        "clusters: [{name: a, cluster: {server: 'https://a', proxy-url: 'http://user:s3cret@proxy'}}]
users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never, provideClusterInfo: true}}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a",
    );
    let with_plugin = with_plugin.expect("all is well");
    let with_plugin = Config::from_kubeconfig(&with_plugin, &Overrides::default()).expect("all is well");
    assert!(with_plugin.credentials.exec.is_some());
    let shown = [format!("{kubeconfig:?}"), format!("{config:#?}"), format!("{basic:?}")];
    for shown in shown.into_iter().chain([format!("{proxied:?}"), format!("{overrides:?}"), format!("{with_plugin:?}")])
    {
        assert!(!shown.contains("s3cret") && !shown.contains("czNjcmV0"), "{shown}");
        assert!(shown.contains("REDACTED"));
    }
    let anonymous = basic.anonymous();
    assert!(anonymous.credentials.is_empty() && anonymous.impersonation.is_none());
    assert_eq!(anonymous.server, basic.server);
}

// RC-10
#[test]
fn the_user_agent_names_program_version_and_system() {
    let config = Config::new("https://a").expect("a URL");
    let (program, rest) = config.user_agent.split_once('/').expect("a version");
    assert!(program.starts_with("net"), "{program}");
    assert!(rest.starts_with('v') && rest.contains(" (linux/") && rest.contains(") kubernetes/"), "{rest}");
    assert_eq!(rest.rsplit('/').next().map(str::len), Some(7));
}

#[test]
fn servers_without_a_scheme_get_one() {
    for (cluster, expected) in [
        ("server: 'localhost:8080'", "http://localhost:8080/"),
        ("{server: 'a:6443', insecure-skip-tls-verify: true}", "https://a:6443/"),
        ("server: https://a/", "https://a/"),
    ] {
        let indented = if cluster.starts_with('{') { cluster.to_owned() } else { format!("{{{cluster}}}") };
        let text = format!(
            "clusters: [{{name: a, cluster: {indented}}}]\ncontexts: [{{name: a, context: {{cluster: a}}}}]\ncurrent-context: a"
        );
        let config = Config::from_kubeconfig(&parse(&text).expect("all is well"), &Overrides::default());
        assert_eq!(config.expect("all is well").server, expected);
    }
    for bad in ["ftp://a", "https://", "https://a?b=c", "https://user:password@a", "a b"] {
        let error = Config::new(bad).expect_err(bad).to_string();
        assert!(!error.contains("password"), "{error}");
    }
}

// KC-10
#[test]
fn tls_settings_are_ignored_for_plain_http() {
    let connect = |cluster: &str, overrides: &Overrides| {
        let text = format!(
            "clusters: [{{name: a, cluster: {{{cluster}}}}}]\ncontexts: [{{name: a, context: {{cluster: a}}}}]\ncurrent-context: a"
        );
        let config = Config::from_kubeconfig(&parse(&text).expect("all is well"), overrides).expect("all is well");
        assert!(!config.is_secure());
        config.connect().expect("plain HTTP needs no TLS settings");
    };
    for tls in ["certificate-authority-data: Q0E=", "insecure-skip-tls-verify: true", "tls-server-name: b"] {
        connect(&format!("server: 'http://a', {tls}"), &Overrides::default());
        let mut elsewhere = Overrides::default();
        elsewhere.cluster.server = Some("http://b".to_owned());
        connect(&format!("server: 'https://a', {tls}"), &elsewhere);
    }
}
