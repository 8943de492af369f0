//! Exec plugins.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use kubewright_client::rest::PrometheusMetrics;
use kubewright_core::{ByteString, Value};
use kubewright_net::Config;
use kubewright_net::HttpTransport;
use kubewright_net::authentication::ExecError;
use kubewright_net::config::{ExecConfig, ExecEnv, InteractiveMode};
use kubewright_net::credentials::{Exec, ExecPolicy};
use kubewright_net::transport::{Transport, TransportError, TransportErrorKind, TransportObserver, Upgrade};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
#[cfg(target_os = "linux")]
use tokio::net::unix::pipe;

use crate::authorities::pass;
use crate::directory::Directory;
use crate::requests::{ask, get};
use crate::scripted::{Authority, Peer, Script, Scripted, echo};

const V1: &str = "client.authentication.k8s.io/v1";

/// A plugin that runs `script`, and counts its runs in the file `runs`.
fn plugin(directory: &Directory, script: &str) -> Exec {
    let counted = format!("echo run >> '{}'\n{script}", directory.path("runs").display());
    let command = directory.script("plugin", &counted).to_string_lossy().into_owned();
    let config = ExecConfig {
        command: Some(command),
        api_version: Some(V1.to_owned()),
        interactive_mode: Some(InteractiveMode::Never),
        ..ExecConfig::default()
    };
    Exec::new(config, Value::Null)
}

fn runs(directory: &Directory) -> usize {
    directory.read("runs").lines().count()
}

/// Prints a credential with this status, in which `$` is expanded by the shell.
fn print(status: &str) -> String {
    format!("cat <<END\n{{\"apiVersion\":\"{V1}\",\"kind\":\"ExecCredential\",\"status\":{{{status}}}}}\nEND")
}

/// A server that accepts any token except `old`.
async fn server(authority: &Authority) -> Scripted {
    let tls = authority.server(&authority.sign("server"));
    Scripted::start(Some(tls), |request: Request<Incoming>, _: Peer| async move {
        let mut response = echo(&request);
        if request.headers().get("authorization").is_some_and(|token| token == "Bearer old") {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        response
    })
    .await
}

fn with(mut config: Config, exec: Exec) -> HttpTransport {
    config.credentials.exec = Some(exec);
    config.connect().expect("fine")
}

async fn failure(exec: Exec) -> String {
    let authority = Authority::new();
    let config = crate::scripted::config("https://127.0.0.1:1", Some(&authority));
    let error: TransportError = with(config, exec).send(get("/")).await.expect_err("there are no credentials");
    assert_eq!(error.kind(), TransportErrorKind::Credentials);
    std::error::Error::source(&error).expect("it has a cause").to_string()
}

// AU-1
#[tokio::test]
async fn a_plugin_gets_its_input_and_its_token_is_sent() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let info = directory.path("info");
    let script = format!("printf '%s' \"$KUBERNETES_EXEC_INFO\" > '{}'\n", info.display());
    let mut exec = plugin(&directory, &(script + &print("\"token\":\"$1-$EXTRA\"")));
    exec.config.args = kubewright_net::Secret::new(vec!["argument".to_owned()]);
    exec.config.env = vec![ExecEnv { name: "EXTRA".to_owned(), value: "variable".into() }];
    exec.cluster = r#"{"server":"https://a"}"#.parse().expect("JSON");
    let transport = with(server.config(Some(&authority)), exec.clone());
    assert!(ask(&transport, get("/")).await.1.contains("authorization: Bearer argument-variable\n"));
    let told = format!(r#"{{"apiVersion":"{V1}","kind":"ExecCredential","spec":{{"interactive":false}}}}"#);
    assert_eq!(directory.read("info"), told);

    exec.config.provide_cluster_info = true;
    ask(&with(server.config(Some(&authority)), exec), get("/")).await;
    assert!(directory.read("info").contains(r#""cluster":{"server":"https://a"}"#));
}

// AU-1
#[tokio::test]
async fn concurrent_requests_share_one_plugin_run_until_its_credential_expires() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let expiry = "$(date -u -d '+100 seconds' +%Y-%m-%dT%H:%M:%SZ)";
    let exec = plugin(&directory, &print(&format!("\"token\":\"t\",\"expirationTimestamp\":\"{expiry}\"")));
    let transport = with(server.config(Some(&authority)), exec);
    let requests: Vec<_> = (0..20).map(|_| tokio::spawn(transport.send(get("/")))).collect();
    for request in requests {
        assert_eq!(request.await.expect("no panic").expect("it answers").status(), StatusCode::OK);
    }
    assert_eq!(runs(&directory), 1);
    pass(Duration::from_secs(101)).await;
    ask(&transport, get("/")).await;
    assert_eq!(runs(&directory), 2);
}

// AU-1
#[tokio::test]
async fn concurrent_requests_share_one_failure_and_the_next_retries() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let transport = with(server.config(Some(&authority)), plugin(&directory, "exit 3"));
    let requests: Vec<_> = (0..20).map(|_| tokio::spawn(transport.send(get("/")))).collect();
    for request in requests {
        let error = request.await.expect("no panic").expect_err("there are no credentials");
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<ExecError>());
        assert!(matches!(cause, Some(ExecError::Failed { code: Some(3), .. })), "{error:?}");
    }
    assert_eq!(runs(&directory), 1, "the cached result is used");
    transport.send(get("/")).await.expect_err("there are still none");
    assert_eq!(runs(&directory), 2);
}

// AU-1
#[tokio::test]
async fn a_rejected_token_runs_the_plugin_again() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let once = format!("if [ $(wc -l < '{}') = 1 ]; then T=old; else T=new; fi\n", directory.path("runs").display());
    let transport = with(server.config(Some(&authority)), plugin(&directory, &(once + &print("\"token\":\"$T\""))));
    let (status, heard) = ask(&transport, get("/")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(heard.contains("Bearer new"), "{heard}");
    assert_eq!(runs(&directory), 2);
    ask(&transport, get("/")).await;
    assert_eq!(runs(&directory), 2);
}

// AU-1
#[tokio::test]
async fn space_around_a_token_does_not_hide_that_it_is_the_refused_one() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let once = format!("if [ $(wc -l < '{}') = 1 ]; then T=old; else T=new; fi\n", directory.path("runs").display());
    let script = once + &print("\"token\":\" $T\\\\n\"");
    let transport = with(server.config(Some(&authority)), plugin(&directory, &script));
    let (status, heard) = ask(&transport, get("/")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(heard.contains("Bearer new\n"), "{heard}");
}

// AU-1
#[tokio::test]
async fn a_token_rejected_during_an_upgrade_runs_the_plugin_again() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("server"));
    let server = Scripted::start(Some(tls), |request: Request<Incoming>, _: Peer| async move {
        let code = if request.headers()["authorization"] == "Bearer new" { 101 } else { 401 };
        let response = Response::builder().status(code).header("connection", "upgrade").header("upgrade", "echo");
        response.body(Script::default()).expect("fine")
    })
    .await;
    let directory = Directory::new();
    let once = format!("if [ $(wc -l < '{}') = 1 ]; then T=old; else T=new; fi\n", directory.path("runs").display());
    let transport = with(server.config(Some(&authority)), plugin(&directory, &(once + &print("\"token\":\"$T\""))));
    let request = Request::get("/").header("connection", "upgrade").header("upgrade", "echo");
    let upgrade = transport.upgrade(request.body(Bytes::new()).expect("fine")).await.expect("it answers");
    assert!(matches!(upgrade, Upgrade::Switched(..)), "{upgrade:?}");
    assert_eq!(runs(&directory), 2);

    // A credential that is rejected again is reported.
    let directory = Directory::new();
    let transport = with(server.config(Some(&authority)), plugin(&directory, &print("\"token\":\"old\"")));
    let request = Request::get("/").header("connection", "upgrade").header("upgrade", "echo");
    let upgrade = transport.upgrade(request.body(Bytes::new()).expect("fine")).await.expect("it answers");
    assert!(matches!(upgrade, Upgrade::Refused(answer) if answer.status() == StatusCode::UNAUTHORIZED));
    assert_eq!(runs(&directory), 2);
}

// AU-1
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_plugin_run_continues_after_its_request_is_dropped() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    // Both ends of the pipes are ours, so that opening them does not block.
    let both = || pipe::OpenOptions::new().read_write(true).clone();
    let mut begun = both().open_receiver(directory.pipe("begun")).expect("a pipe");
    let mut go = both().open_sender(directory.pipe("go")).expect("a pipe");
    let script = format!("cd '{}'\necho > begun\nread go < go\n", directory.root().display());
    let transport = with(server.config(Some(&authority)), plugin(&directory, &(script + &print("\"token\":\"t\""))));
    let request = tokio::spawn(transport.send(get("/")));
    begun.read_u8().await.expect("it is being run");
    request.abort();
    assert!(request.await.is_err_and(|error| error.is_cancelled()));
    go.write_all(b"\n").await.expect("it waits");
    assert!(ask(&transport, get("/")).await.1.contains("authorization: Bearer t\n"));
    assert_eq!(runs(&directory), 1, "the one that was begun");
}

// AU-1
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_plugin_run_ends_with_the_last_user_of_its_credentials() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let mut begun = pipe::OpenOptions::new().read_write(true).open_receiver(directory.pipe("begun")).expect("a pipe");
    let mut life = pipe::OpenOptions::new().open_receiver(directory.pipe("life")).expect("a pipe");
    let script =
        format!("cd '{}'\nexec 3> life\necho alive >&3\necho > begun\nexec sleep 300", directory.root().display());
    let config = crate::scripted::config("https://127.0.0.1:1", Some(&authority));
    let transport = with(config, plugin(&directory, &script));
    let request = tokio::spawn(transport.send(get("/")));
    begun.read_u8().await.expect("it is being run");
    drop(transport);
    request.abort();
    let mut last_words = String::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), life.read_to_string(&mut last_words)).await;
    ended.expect("it is gone").expect("it was there");
    assert_eq!(last_words, "alive\n");
}

// AU-1
#[tokio::test]
async fn a_new_certificate_makes_new_connections_and_a_new_token_does_not() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("server"));
    let server = Scripted::start(Some(tls), crate::certificates::who).await;
    let directory = Directory::new();
    let json = |text: &str| Value::from(text).to_string();
    for name in ["jane", "bob"] {
        let pair = authority.sign(name);
        let (certificate, key) = (json(&pair.certificate), json(&pair.key));
        let status = format!("\"clientCertificateData\":{certificate},\"clientKeyData\":{key},");
        directory.write(name, format!("{{\"apiVersion\":\"{V1}\",\"kind\":\"ExecCredential\",\"status\":{{{status}"));
    }
    let expiry = "\"token\":\"%s\",\"expirationTimestamp\":\"%s\"}}' \"$(wc -l < runs)\" \"$(date -u -d '+60 seconds' +%Y-%m-%dT%H:%M:%SZ)\"";
    let script = format!("cd '{}'\ncat current\nprintf '{expiry}", directory.root().display());
    directory.write("current", directory.read("jane"));
    let transport = with(server.config(Some(&authority)), plugin(&directory, &script));
    assert_eq!(ask(&transport, get("/")).await.1, "jane");
    pass(Duration::from_secs(61)).await;
    assert_eq!(ask(&transport, get("/")).await.1, "jane");
    assert_eq!((runs(&directory), server.connections()), (2, 1), "only the token is new");
    let mut watch = transport.send(get("/watch")).await.expect("it answers").into_body();
    assert!(watch.chunk().await.expect("fine").is_some());
    directory.write("current", directory.read("bob"));
    pass(Duration::from_secs(61)).await;
    assert_eq!(ask(&transport, get("/")).await.1, "bob");
    assert_eq!(server.connections(), 2);
    assert!(watch.chunk().await.is_err(), "its connection was closed");
}

// AU-1
#[tokio::test]
async fn an_added_or_removed_certificate_makes_new_connections() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("server"));
    let server = Scripted::start(Some(tls), crate::certificates::who).await;
    let directory = Directory::new();
    let json = |text: &str| Value::from(text).to_string();
    let pair = authority.sign("jane");
    let certificate =
        format!("\"clientCertificateData\":{},\"clientKeyData\":{},", json(&pair.certificate), json(&pair.key));
    let expiry =
        "\"token\":\"t\",\"expirationTimestamp\":\"%s\"}}' \"$(date -u -d '+60 seconds' +%Y-%m-%dT%H:%M:%SZ)\"";
    let script = format!("cd '{}'\ncat current\nprintf '{expiry}", directory.root().display());
    let give = |certificate: &str| {
        let head = format!("{{\"apiVersion\":\"{V1}\",\"kind\":\"ExecCredential\",\"status\":{{{certificate}");
        directory.write("current", head);
    };
    give("");
    let transport = with(server.config(Some(&authority)), plugin(&directory, &script));
    let nobody = ask(&transport, get("/")).await.1;
    assert_ne!(nobody, "jane");
    for (given, name) in [(certificate.as_str(), "jane"), ("", nobody.as_str())] {
        give(given);
        pass(Duration::from_secs(61)).await;
        assert_eq!(ask(&transport, get("/")).await.1, name);
    }
    assert_eq!((runs(&directory), server.connections()), (3, 3));
}

// AU-1
#[tokio::test]
async fn an_invalid_credential_is_rejected_without_being_printed() {
    let directory = Directory::new();
    let pem = ByteString::from("s3cret").to_base64();
    for (output, expected) in [
        ("echo s3cret".to_owned(), "not JSON"),
        ("echo '{\"kind\":\"s3cret\"}'".to_owned(), "not an ExecCredential"),
        (print("\"token\":\"s3cret\"").replace("/v1", "/v1beta1"), "of version"),
        (print(""), "neither a token nor a certificate"),
        (print("\"clientKeyData\":\"s3cret\""), "without"),
        (print(&format!("\"clientCertificateData\":\"{pem}\",\"clientKeyData\":\"s3cret\"")), "certificate"),
        (print("\"token\":\"s3cret\",\"expirationTimestamp\":\"s3cret\""), "no time"),
        (print("\"token\":\"s3cret\\nx\""), "header"),
        ("echo s3cret; exit 3".to_owned(), "exit status: 3"),
        ("yes s3cret".to_owned(), "failed with"),
    ] {
        let error = failure(plugin(&directory, &output)).await;
        assert!(error.contains(expected) && !error.contains("s3cret"), "{output}: {error}");
    }
}

// AU-1
#[tokio::test]
async fn a_certificate_with_the_key_of_another_is_no_credential() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let json = |text: &str| Value::from(text).to_string();
    let (jane, bob) = (authority.sign("jane"), authority.sign("bob"));
    let (certificate, key) = (json(&jane.certificate), json(&bob.key));
    let status = format!("\"clientCertificateData\":{certificate},\"clientKeyData\":{key},\"token\":\"t\"");
    let answer = format!("{{\"apiVersion\":\"{V1}\",\"kind\":\"ExecCredential\",\"status\":{{{status}}}}}");
    let file = directory.write("answer", answer);
    let error = failure(plugin(&directory, &format!("cat '{}'", file.display()))).await;
    assert!(error.contains("the certificate of the answer cannot be used"), "{error}");
}

// AU-1
#[tokio::test]
async fn hanging_plugins_are_killed_and_forbidden_ones_are_not_started() {
    let directory = Directory::new();
    let mut slow = plugin(&directory, "exec sleep 60");
    slow.timeout = Duration::from_millis(100);
    assert!(failure(slow).await.contains("did not finish within 100ms"));

    let mut denied = plugin(&directory, &print("\"token\":\"t\""));
    denied.policy = ExecPolicy::DenyAll;
    assert!(failure(denied).await.contains("not allowed"));
    assert_eq!(runs(&directory), 1, "only the first was run");

    let mut lonely = plugin(&directory, "");
    lonely.config.interactive_mode = Some(InteractiveMode::Always);
    if !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        assert!(failure(lonely).await.contains("needs a terminal"));
    }
}

// AU-1
#[tokio::test]
async fn the_plugin_policy_checks_the_program_that_runs() {
    let authority = Authority::new();
    let directory = Directory::new();
    for name in ["true", "no-such-program"] {
        let mut exec = plugin(&directory, &print("\"token\":\"stolen\""));
        std::fs::copy(directory.path("plugin"), directory.path(name)).expect("it is ours");
        exec.config.command = Some(name.to_owned());
        // A kubeconfig that tries to run its own program under an allowed name.
        let path = format!("{}:/usr/bin:/bin", directory.root().display());
        exec.config.env = vec![ExecEnv { name: "PATH".to_owned(), value: path.into() }];
        exec.policy = ExecPolicy::Allow(vec![name.into()]);
        let config = crate::scripted::config("https://127.0.0.1:1", Some(&authority));
        let error = with(config, exec).send(get("/")).await.expect_err("there are no credentials");
        assert_eq!(error.kind(), TransportErrorKind::Credentials, "{error:?}");
        assert!(!directory.path("runs").exists(), "{name} of the directory was run");
    }
}

// AU-1, KC-10
#[tokio::test]
async fn a_missing_plugin_is_reported_with_its_install_hint() {
    let mut missing = plugin(&Directory::new(), "");
    missing.config.install_hint = Some("get it \u{1b}[31mhere".to_owned());
    let error = failure(missing).await;
    assert!(error.ends_with("not found: get it [31mhere"), "{error:?}");
}

// AU-1
#[tokio::test]
async fn a_program_is_not_run_where_other_credentials_are_given() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.token = Some("given".into());
    let transport = with(config, plugin(&directory, &print("\"token\":\"printed\"")));
    assert!(ask(&transport, get("/")).await.1.contains("Bearer given"));
    assert!(!directory.path("runs").exists());
}

// AU-1
#[test]
fn other_versions_of_the_exchange_are_refused() {
    for version in [None, Some("client.authentication.k8s.io/v1alpha1")] {
        let mut exec = plugin(&Directory::new(), "");
        exec.config.api_version = version.map(str::to_owned);
        let mut config = crate::scripted::config("https://server", Some(&Authority::new()));
        config.credentials.exec = Some(exec);
        assert!(config.connect().expect_err("it is not known").to_string().contains("v1beta1"));
    }
}

// RC-13
#[tokio::test]
async fn runs_and_look_ups_are_counted() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let server = server(&authority).await;
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = PrometheusMetrics::register(&mut registry, "here");
    let mut config = server.config(Some(&authority));
    config.observer = Some(TransportObserver::new(metrics));
    assert_eq!(
        ask(&with(config.clone(), plugin(&directory, &print(r#""token":"new""#))), get("/")).await.0,
        StatusCode::OK
    );
    assert!(with(config.clone(), plugin(&directory, "exit 7")).send(get("/")).await.is_err());
    assert!(with(config.clone(), plugin(&directory, "echo nonsense")).send(get("/")).await.is_err());
    let mut missing = plugin(&directory, "");
    missing.config.command = Some(directory.path("nothing").to_string_lossy().into_owned());
    assert!(with(config, missing).send(get("/")).await.is_err());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("it is text");
    for line in [
        r#"rest_client_exec_plugin_call_total{code="0",call_status="no_error"} 1"#,
        r#"rest_client_exec_plugin_call_total{code="7",call_status="plugin_execution_error"} 1"#,
        r#"rest_client_exec_plugin_call_total{code="1",call_status="client_internal_error"} 1"#,
        r#"rest_client_exec_plugin_call_total{code="1",call_status="plugin_not_found_error"} 1"#,
        r#"rest_client_dns_resolution_duration_seconds_count{host="127.0.0.1"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
