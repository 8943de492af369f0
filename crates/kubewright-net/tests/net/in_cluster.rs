//! In-cluster configuration.

use kubewright_net::Config;
use kubewright_net::config::{
    AuthInfo, CertificateSource, Cluster, ConfigError, Context, EnvironmentVariables, InCluster, LoadingRules,
    Overrides,
};

use crate::directory::Directory;
use crate::requests::{ask, get};
use crate::scripted::{Authority, Scripted, echo};

fn pod(directory: &Directory, variables: &[(&str, &str)]) -> InCluster {
    let service = [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
    let variables = service.iter().chain(variables).map(|&(name, value)| (name, value));
    InCluster::at(EnvironmentVariables::of(variables), directory.root())
}

fn mounted() -> Directory {
    let directory = Directory::new();
    directory.write("token", "s3cret\n");
    directory.write("ca.crt", Authority::new().pem());
    directory.write("namespace", "shop\n");
    directory
}

// RC-14
#[test]
fn a_pod_finds_server_token_authorities_and_namespace() {
    let directory = mounted();
    let config = pod(&directory, &[]).config().expect("all is mounted");
    assert_eq!(config.server, "https://10.0.0.1:443/");
    assert_eq!(config.tls.authority, Some(CertificateSource::File(directory.path("ca.crt"))));
    assert_eq!(config.credentials.token_file, Some(directory.path("token")));
    assert_eq!(config.default_namespace, "shop");
    let ipv6 = pod(&directory, &[("KUBERNETES_SERVICE_HOST", "fd00::1")]).config().expect("all is mounted");
    assert_eq!(ipv6.server, "https://[fd00::1]:443/");
}

// RC-14
#[test]
fn without_variables_token_or_authorities_there_is_no_configuration() {
    let directory = mounted();
    let outside = InCluster::at(EnvironmentVariables::of::<String, String>([]), directory.root());
    assert!(matches!(outside.config(), Err(ConfigError::NotInCluster(_))) && !outside.is_possible());
    std::fs::remove_file(directory.path("ca.crt")).expect("it is there");
    let error = pod(&directory, &[]).config().expect_err("the system's authorities are no substitute").to_string();
    assert!(error.contains("ca.crt"), "{error}");
    directory.write("ca.crt", "this is no certificate");
    let error = pod(&directory, &[]).config().expect("it can be read").connect().expect_err("but not used").to_string();
    assert!(error.contains("ca.crt"), "{error}");
    directory.write("ca.crt", Authority::new().pem());
    std::fs::remove_file(directory.path("token")).expect("it is there");
    assert!(pod(&directory, &[]).config().is_err());
}

// KC-8
#[test]
fn the_pod_counts_where_no_kubeconfig_does() {
    let directory = mounted();
    let pod = pod(&directory, &[]);
    let nothing = LoadingRules::from_environment(&EnvironmentVariables::of([("KUBECONFIG", "/no/such/file")]));
    let config = Config::infer_from(&nothing, &Overrides::default(), &pod).expect("the pod will do");
    assert_eq!(config.server.host(), Some("10.0.0.1"));

    let text = "clusters: [{name: a, cluster: {server: 'https://a'}}]
users: [{name: a}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a";
    let file = directory.write("kubeconfig", text);
    let config = Config::infer_from(&LoadingRules::explicit(&file), &Overrides::default(), &pod).expect("fine");
    assert_eq!((config.server.host(), config.default_namespace.as_str()), (Some("a"), "shop"));
    directory.write("kubeconfig", text.replace("user: a}", "user: a, namespace: own}"));
    let config = Config::infer_from(&LoadingRules::explicit(&file), &Overrides::default(), &pod).expect("fine");
    assert_eq!(config.default_namespace, "own");

    // A context without a cluster configures nothing.
    let without_context = text.replace("current-context: a", "");
    let only_user = "users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {user: a, namespace: own}}]
current-context: a";
    for (text, namespace) in [(&*without_context, "shop"), (only_user, "own")] {
        directory.write("kubeconfig", text);
        let config = Config::infer_from(&LoadingRules::explicit(&file), &Overrides::default(), &pod).expect("fine");
        assert_eq!((config.server.host(), config.default_namespace.as_str()), (Some("10.0.0.1"), namespace), "{text}");
        assert_eq!(config.credentials.token_file, Some(directory.path("token")));
    }
    let server = Cluster { server: Some("https://b".into()), ..Cluster::default() };
    let overrides = Overrides { cluster: server, ..Overrides::default() };
    let config = Config::infer_from(&LoadingRules::explicit(&file), &overrides, &pod).expect("fine");
    assert_eq!(config.server.host(), Some("b"), "a server that is asked for counts");
    // A context with a missing cluster is an error, and a requested name must exist.
    directory.write("kubeconfig", text.replace("cluster: a,", "cluster: gone,"));
    let dangling = Config::infer_from(&LoadingRules::explicit(&file), &Overrides::default(), &pod);
    let dangling = dangling.unwrap_err().to_string();
    assert_eq!(dangling, format!("there is no cluster \"gone\" in {}, only a", file.display()));
    let gone = Overrides { current_context: Some("gone".into()), ..Overrides::default() };
    let missing = Config::infer_from(&nothing, &gone, &pod);
    assert_eq!(missing.unwrap_err().to_string(), "there is no context \"gone\" in the kubeconfig, which has none");

    directory.write("kubeconfig", "clusters: [");
    let broken = Config::infer_from(&LoadingRules::explicit(&file), &Overrides::default(), &pod);
    assert!(broken.is_err(), "a broken kubeconfig is not passed over");
    let outside = InCluster::at(EnvironmentVariables::of::<String, String>([]), "/no/such/directory");
    assert!(Config::infer_from(&nothing, &Overrides::default(), &outside).is_err_and(|error| error.is_empty()));
}

// KC-8
#[test]
fn namespaces_come_from_the_flag_then_the_variable_then_the_mount() {
    let directory = mounted();
    let nothing = LoadingRules::from_environment(&EnvironmentVariables::of([("KUBECONFIG", "/no/such/file")]));
    let namespace = |pod: &InCluster, overrides: &Overrides| {
        Config::infer_from(&nothing, overrides, pod).expect("the pod will do").default_namespace
    };
    let flag = Context { namespace: Some("flag".to_owned()), ..Context::default() };
    let overrides = Overrides { context: flag, ..Overrides::default() };
    let with_variable = pod(&directory, &[("POD_NAMESPACE", "variable")]);
    assert_eq!(namespace(&with_variable, &overrides), "flag");
    assert_eq!(namespace(&with_variable, &Overrides::default()), "variable");
    assert_eq!(namespace(&pod(&directory, &[]), &Overrides::default()), "shop");
    std::fs::remove_file(directory.path("namespace")).expect("it is there");
    assert_eq!(namespace(&pod(&directory, &[]), &Overrides::default()), "default");
    let user = AuthInfo { token: Some("mine".into()), ..AuthInfo::default() };
    let overrides = Overrides { user, ..Overrides::default() };
    let config = Config::infer_from(&nothing, &overrides, &with_variable).expect("the pod will do");
    assert_eq!((config.credentials.token, config.credentials.token_file), (Some("mine".into()), None));
}

// RC-14
#[tokio::test]
async fn a_pod_reaches_its_server() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("server"));
    let server = Scripted::start(Some(tls), |request, _| async move { echo(&request) }).await;
    let directory = mounted();
    directory.write("ca.crt", authority.pem());
    let port = server.address.port().to_string();
    let service = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", port.as_str())];
    let mut config = pod(&directory, &service).config().expect("all is mounted");
    config.environment = EnvironmentVariables::of::<String, String>([]);
    let heard = ask(&config.connect().expect("fine"), get("/")).await.1;
    assert!(heard.contains("authorization: Bearer s3cret\n"), "{heard}");
}
