//! Errors name the responsible entry of the kubeconfig.

use kubewright_core::ByteString;
use kubewright_net::Config;
use kubewright_net::config::{ConfigError, EnvironmentVariables, Kubeconfig, Overrides};
use kubewright_net::transport::{Transport, TransportErrorKind};

use crate::directory::Directory;
use crate::requests::get;
use crate::scripted::{Authority, Pair, Script, Scripted};

/// A kubeconfig for a server, with these fields of the cluster and of the user.
fn config(directory: &Directory, server: &str, cluster: &str, user: &str) -> Result<Config, ConfigError> {
    let text = format!(
        "clusters: [{{name: red, cluster: {{server: '{server}', {cluster}}}}}]\n\
         users: [{{name: jane, user: {{{user}}}}}]\n\
         contexts: [{{name: work, context: {{cluster: red, user: jane}}}}]\ncurrent-context: work\n"
    );
    let kubeconfig = Kubeconfig::read(&directory.write("config", text))?;
    let mut config = Config::from_kubeconfig(&kubeconfig, &Overrides::default())?;
    config.environment = EnvironmentVariables::of::<String, String>([]);
    Ok(config)
}

fn data(name: &str, text: &str) -> String {
    format!("{name}: {}", ByteString::from(text).to_base64())
}

fn pair(certificate: &str, key: &str) -> String {
    format!("{}, {}", data("client-certificate-data", certificate), data("client-key-data", key))
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", chain(source)))
}

#[test]
fn certificates_that_cannot_be_used_are_named_by_their_entry() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let (jane, bob): (Pair, Pair) = (authority.sign("jane"), authority.sign("bob"));
    let (file, key) = (directory.write("jane.pem", "s3cret"), directory.write("jane.key", &jane.key));
    let files = format!("client-certificate: {}, client-key: {}", file.display(), key.display());
    let (bad, ours) =
        (data("certificate-authority-data", "s3cret"), data("certificate-authority-data", &authority.pem()));
    let user = format!("users[\"jane\"] of {}", directory.path("config").display());
    let cluster = format!("clusters[\"red\"] of {}", directory.path("config").display());
    let file_and_user = format!("jane.pem ({user})");
    for (of_cluster, of_user, expected) in [
        (&bad, String::new(), &cluster),
        (&ours, pair("s3cret", &jane.key), &user),
        (&ours, pair(&jane.certificate, "s3cret"), &user),
        (&ours, pair(&jane.certificate, &bob.key), &user),
        (&ours, files, &file_and_user),
    ] {
        let error = config(&directory, "https://server", of_cluster, &of_user).and_then(|config| config.connect());
        let error = chain(&error.expect_err("it is no good"));
        assert!(error.contains(expected.as_str()), "{expected} in {error}");
        assert!(!error.contains("s3cret") && !error.contains("PRIVATE"), "{error}");
    }
    // The error names one of the two files.
    directory.write("jane.pem", &jane.certificate);
    directory.write("jane.key", "s3cret");
    let files = format!("client-certificate: {}, client-key: {}", file.display(), key.display());
    let error = config(&directory, "https://server", &ours, &files).and_then(|config| config.connect());
    let error = chain(&error.expect_err("it is no good"));
    assert!(error.contains("the key of") && error.contains("jane.key (users"), "{error}");
}

#[tokio::test]
async fn untrusted_servers_and_rejected_clients_are_distinguished() {
    let (authority, stranger, directory) = (Authority::new(), Authority::new(), Directory::new());
    let tls = authority.server(&authority.sign("server"));
    let server = Scripted::start(Some(tls), |_, _| async { http::Response::new(Script::text("ok")) }).await;
    let url = format!("https://{}", server.address);
    let theirs = data("certificate-authority-data", &stranger.pem());
    let error = config(&directory, &url, &theirs, "").expect("fine").connect().expect("fine");
    let error = error.send(get("/")).await.expect_err("another authority signs its certificates");
    assert_eq!(error.kind(), TransportErrorKind::Tls);
    let expected = format!(
        "no secure connection to the server {} (clusters[\"red\"] of {})",
        server.address,
        directory.path("config").display()
    );
    assert_eq!(error.to_string(), expected);

    let jane = stranger.sign("jane");
    let config = config(&directory, &url, "insecure-skip-tls-verify: true", &pair(&jane.certificate, &jane.key));
    for variable in ["DISABLE_HTTP2", "NOTHING"] {
        let mut config = config.as_ref().expect("fine").clone();
        config.environment = EnvironmentVariables::of([(variable, "1")]);
        let error = config.connect().expect("fine").send(get("/api/v1/pods")).await.expect_err("it is not believed");
        assert_eq!(error.kind(), TransportErrorKind::Tls, "{error:?}");
        assert!(error.to_string().contains("(users[\"jane\"] of "), "{error}");
    }
}

// AU-1
#[tokio::test]
async fn credentials_that_cannot_be_had_are_named_by_their_entry() {
    let directory = Directory::new();
    let exec = "exec: {command: ./missing, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}";
    for user in [exec, "tokenFile: missing"] {
        let config = config(&directory, "https://127.0.0.1:1", "insecure-skip-tls-verify: true", user).expect("fine");
        let error = config.connect().expect("fine").send(get("/")).await.expect_err("there are none");
        assert_eq!(error.kind(), TransportErrorKind::Credentials);
        let shown = chain(&error);
        assert!(shown.contains("(users[\"jane\"] of ") && shown.contains("missing"), "{shown}");
    }
}
