//! Overrides from command-line flags.

use kubewright_net::config::{
    AuthInfo, CertificateSource, Cluster, Config, ConfigError, Context, EnvironmentVariables, InCluster, Kubeconfig,
    LoadingRules, Overrides,
};
use kubewright_net::credentials::KeySource;

use crate::directory::Directory;

const KUBECONFIG: &str = "
current-context: red
clusters:
- {name: red, cluster: {server: 'https://red', tls-server-name: inner, certificate-authority-data: Q0E=}}
- {name: blue, cluster: {server: 'https://blue'}}
- {name: plain, cluster: {server: 'http://plain'}}
users:
- {name: admin, user: {token: t, as: jane, as-groups: [dev]}}
- {name: other, user: {username: o, password: p}}
contexts:
- {name: red, context: {cluster: red, user: admin, namespace: shop}}
- {name: blue, context: {cluster: blue, user: other}}
- {name: plain, context: {cluster: plain, user: admin}}
- {name: lost, context: {cluster: nowhere, user: admin}}
- {name: nobody, context: {cluster: red, user: nobody}}
";

fn resolve(overrides: &Overrides) -> Result<Config, ConfigError> {
    Config::from_kubeconfig(&Kubeconfig::parse(KUBECONFIG, None).expect("it is fine"), overrides)
}

fn cluster(change: impl FnOnce(&mut Cluster)) -> Overrides {
    let mut overrides = Overrides::default();
    change(&mut overrides.cluster);
    overrides
}

// KC-4
#[test]
fn another_server_has_another_name_in_its_certificate() {
    assert_eq!(resolve(&Overrides::default()).expect("fine").tls.server_name.as_deref(), Some("inner"));
    let config = resolve(&cluster(|cluster| cluster.server = Some("https://green".into()))).expect("fine");
    assert_eq!((config.server.host(), config.tls.server_name), (Some("green"), None));
    let both = cluster(|cluster| {
        cluster.server = Some("https://green".into());
        cluster.tls_server_name = Some("given".into());
    });
    assert_eq!(resolve(&both).expect("fine").tls.server_name.as_deref(), Some("given"));
}

// KC-4
#[test]
fn trust_is_replaced_as_a_whole() {
    let config = resolve(&cluster(|cluster| cluster.insecure_skip_tls_verify = true)).expect("fine");
    assert!(config.tls.insecure && config.tls.authority.is_none());
    let config = resolve(&cluster(|cluster| cluster.certificate_authority_data = Some("X".into()))).expect("fine");
    assert_eq!(config.tls.authority, Some(CertificateSource::Data("X".into())));
    assert!(!config.tls.insecure);
}

// KC-4
#[test]
fn names_that_do_not_exist_are_errors() {
    for (overrides, expected) in [
        (Overrides { current_context: Some("x".into()), ..Overrides::default() }, "context \"x\""),
        (
            Overrides { context: Context { cluster: Some("x".into()), ..Context::default() }, ..Overrides::default() },
            "cluster \"x\"",
        ),
        (
            Overrides { context: Context { user: Some("x".into()), ..Context::default() }, ..Overrides::default() },
            "user \"x\"",
        ),
        (Overrides { current_context: Some("lost".into()), ..Overrides::default() }, "cluster \"nowhere\""),
        (Overrides { current_context: Some("nobody".into()), ..Overrides::default() }, "user \"nobody\""),
    ] {
        let error = resolve(&overrides).expect_err("it does not exist").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

// KC-4
#[test]
fn contexts_clusters_users_and_namespaces_can_be_chosen() {
    let config = resolve(&Overrides { current_context: Some("blue".into()), ..Overrides::default() }).expect("fine");
    assert_eq!((config.server.host(), config.default_namespace.as_str()), (Some("blue"), "default"));
    assert_eq!(config.credentials.username.as_deref(), Some("o"));
    let context = Context { cluster: Some("blue".into()), namespace: Some("n".into()), ..Context::default() };
    let config = resolve(&Overrides { context, ..Overrides::default() }).expect("fine");
    assert_eq!((config.server.host(), config.default_namespace.as_str()), (Some("blue"), "n"));
    assert_eq!(config.credentials.token, Some("t".into()));
}

// KC-4, KC-6
#[test]
fn credentials_are_replaced_in_pairs() {
    let user = AuthInfo { token: Some("mine".into()), ..AuthInfo::default() };
    let config = resolve(&Overrides { user, ..Overrides::default() }).expect("fine");
    assert_eq!(config.credentials.token, Some("mine".into()));
    let impersonation = config.impersonation.expect("the kubeconfig has one");
    assert_eq!((impersonation.user.as_str(), &impersonation.groups[..]), ("jane", &["dev".to_owned()][..]));
    let user = AuthInfo { token: Some("t".into()), token_file: Some("/f".into()), ..AuthInfo::default() };
    let config = resolve(&Overrides { user, ..Overrides::default() }).expect("both may be given");
    assert_eq!((config.credentials.token, config.credentials.token_file), (Some("t".into()), Some("/f".into())));
}

// KC-4
#[test]
fn a_file_and_its_data_are_replaced_together() {
    let directory = Directory::new();
    let (certificate, key) = (directory.write("c.pem", "certificate"), directory.write("k.pem", "key"));
    let text = format!(
        "current-context: a
clusters: [{{name: a, cluster: {{server: 'https://a', certificate-authority: {}}}}}]
users: [{{name: a, user: {{client-certificate: {}, client-key: {}}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]",
        certificate.display(),
        certificate.display(),
        key.display()
    );
    let kubeconfig = Kubeconfig::parse(&text, None).expect("it is fine");
    let resolve = |overrides: &Overrides| Config::from_kubeconfig(&kubeconfig, overrides).expect("one of each is left");
    let shown = |config: &Config| {
        let pair = config.credentials.client_certificate.as_ref().expect("it has one");
        let key = match &pair.key {
            KeySource::File(file) => CertificateSource::File(file.clone()),
            KeySource::Data(data) => CertificateSource::Data(data.expose().clone()),
        };
        (pair.certificate.clone(), key)
    };
    let file = |path: &std::path::Path| CertificateSource::File(path.to_owned());
    assert_eq!(shown(&resolve(&Overrides::default())), (file(&certificate), file(&key)));
    let user = AuthInfo {
        client_certificate_data: Some("new".into()),
        client_key_data: Some(kubewright_net::Secret::new("newer".into())),
        ..AuthInfo::default()
    };
    let mut overrides = Overrides { user, ..Overrides::default() };
    overrides.cluster.certificate_authority_data = Some("CA".into());
    let config = resolve(&overrides);
    let data = |text: &str| CertificateSource::Data(text.into());
    assert_eq!(shown(&config), (data("new"), data("newer")));
    assert_eq!(config.tls.authority, Some(data("CA")));
}

// KC-5
#[test]
fn without_tls_there_are_no_credentials() {
    let config = resolve(&Overrides { current_context: Some("plain".into()), ..Overrides::default() }).expect("fine");
    assert!(config.credentials.is_empty());
    assert!(config.impersonation.is_some(), "this is no secret");
}

#[test]
fn without_a_current_context_the_error_lists_the_contexts() {
    let text = KUBECONFIG.replace("current-context: red", "");
    let kubeconfig = Kubeconfig::parse(&text, None).expect("it is fine");
    let error = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect_err("which one?");
    assert!(error.is_empty(), "a pod may be tried instead");
    let told = "no context is selected; available: blue, lost, nobody, plain, red";
    assert_eq!(error.to_string(), told);
    let none = Config::from_kubeconfig(&Kubeconfig::default(), &Overrides::default()).expect_err("nothing is there");
    assert_eq!(none.to_string(), "no configuration has been provided");
}

#[test]
fn without_configuration_the_error_lists_the_searched_places() {
    let pod = InCluster::at(EnvironmentVariables::of::<String, String>([]), "/nowhere");
    let told = |variables: &[(&str, &str)]| {
        let rules = LoadingRules::from_environment(&EnvironmentVariables::of(variables.iter().copied()));
        let error = Config::infer_from(&rules, &Overrides::default(), &pod).expect_err("there is nothing");
        assert!(error.is_empty());
        error.to_string()
    };
    let (start, end) = ("no configuration has been provided: ", ", and this process does not run in a pod");
    assert_eq!(told(&[("KUBECONFIG", "/no/a")]), format!("{start}nothing in /no/a{end}"));
    assert_eq!(told(&[]), format!("{start}KUBECONFIG is not set, there is no home directory{end}"));
}
