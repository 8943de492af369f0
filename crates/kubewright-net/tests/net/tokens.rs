//! Bearer tokens: inline, and in files that change.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use kubewright_apiserver::{ApiServer, StaticTokens};
use kubewright_net::config::{Kubeconfig, Overrides};
use kubewright_net::transport::{Transport, TransportErrorKind};
use kubewright_net::{Config, Secret};

use crate::authorities::pass;
use crate::directory::Directory;
use crate::requests::{ask, get};
use crate::scripted::{Authority, Script, Scripted, echo};

async fn echoing(authority: &Authority) -> Scripted {
    let tls = authority.server(&authority.sign("server"));
    Scripted::start(Some(tls), |request, _| async move { echo(&request) }).await
}

async fn token_of(transport: &kubewright_net::HttpTransport) -> String {
    let heard = ask(transport, get("/")).await.1;
    let line = heard.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
    line.unwrap_or("none").to_owned()
}

// TR-3
#[tokio::test]
async fn a_token_file_is_reread_every_minute() {
    let authority = Authority::new();
    let server = echoing(&authority).await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.token_file = Some(directory.write("token", " first\n"));
    let transport = config.connect().expect("fine");
    assert_eq!(token_of(&transport).await, "first");
    directory.write("token", "second");
    pass(Duration::from_secs(30)).await;
    assert_eq!(token_of(&transport).await, "first", "it is not looked at more often");
    pass(Duration::from_secs(30)).await;
    assert_eq!(token_of(&transport).await, "second");
    for content in [Some("  \n"), None] {
        match content {
            Some(content) => drop(directory.write("token", content)),
            None => std::fs::remove_file(directory.path("token")).expect("it is there"),
        }
        pass(Duration::from_secs(60)).await;
        assert_eq!(token_of(&transport).await, "second", "the last token stays in force");
    }
}

// TR-3
#[tokio::test]
async fn a_stalled_file_system_does_not_delay_requests() {
    let authority = Authority::new();
    let server = echoing(&authority).await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.token_file = Some(directory.write("token", "first"));
    let transport = config.connect().expect("fine");
    assert_eq!(token_of(&transport).await, "first");
    std::fs::remove_file(directory.path("token")).expect("it is there");
    // Opening a pipe for reading blocks until another thread opens it for writing.
    let pipe = directory.pipe("token");
    pass(Duration::from_secs(60)).await;
    let reading = tokio::spawn({
        let transport = transport.clone();
        async move { token_of(&transport).await }
    });
    tokio::task::yield_now().await;
    let others = async {
        for _ in 0..3 {
            assert_eq!(token_of(&transport).await, "first");
        }
    };
    tokio::time::timeout(Duration::from_millis(900), others).await.expect("they do not wait for the file");
    assert_eq!(reading.await.expect("no panic"), "first", "it waits a second, and then uses what it has");
    let written = tokio::task::spawn_blocking(move || std::fs::write(pipe, "second"));
    written.await.expect("no panic").expect("the peer reads");
    let mut token = String::new();
    for _ in 0..500 {
        token = token_of(&transport).await;
        if token == "second" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(token, "second", "what was read late counts as well");
}

// TR-3, KC-6
#[tokio::test]
async fn a_file_wins_over_a_given_token_once_it_can_be_read() {
    let authority = Authority::new();
    let server = echoing(&authority).await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.token = Some("given".into());
    config.credentials.token_file = Some(directory.path("token"));
    let transport = config.connect().expect("fine");
    assert_eq!(token_of(&transport).await, "given");
    directory.write("token", "file");
    assert_eq!(token_of(&transport).await, "file");

    config.credentials.token = None;
    config.credentials.token_file = Some(directory.path("missing"));
    let error = config.connect().expect("fine").send(get("/")).await.expect_err("there is no token");
    assert_eq!(error.kind(), TransportErrorKind::Credentials);
    let cause = std::error::Error::source(&error).expect("it has a cause").to_string();
    assert!(cause.contains("missing"), "{cause}");
}

// TR-3
#[tokio::test]
async fn a_rejected_token_is_reread_and_the_request_retried() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("server"));
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&heard);
    let server = Scripted::start(Some(tls), move |request: Request<Incoming>, _| {
        let token = request.headers()["authorization"].to_str().unwrap_or_default().to_owned();
        log.lock().expect("no panic").push(token.clone());
        async move {
            let mut response = Response::new(Script::text("ok"));
            if token == "Bearer old" {
                *response.status_mut() = StatusCode::UNAUTHORIZED;
            }
            response
        }
    })
    .await;
    let directory = Directory::new();
    let mut config = server.config(Some(&authority));
    config.credentials.token_file = Some(directory.write("token", "old"));
    let transport = config.connect().expect("fine");
    assert_eq!(ask(&transport, get("/")).await.0, StatusCode::UNAUTHORIZED, "there is no other token");
    directory.write("token", "new");
    assert_eq!(ask(&transport, get("/")).await.0, StatusCode::OK);
    assert_eq!(*heard.lock().expect("no panic"), ["Bearer old", "Bearer old", "Bearer new"]);
}

#[tokio::test]
async fn tokens_passwords_and_anonymous_access_at_the_embedded_server() {
    let tokens = StaticTokens::from_csv("s3cret,jane,1,system:masters").expect("a line");
    let server = ApiServer::in_memory().listen("127.0.0.1:0".parse().expect("an address")).tokens(tokens);
    let server = server.start().await.expect("a free port");
    let kubeconfig = Kubeconfig::parse(&server.kubeconfig(), None).expect("it is fine");
    let config = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect("it is fine").anonymous();
    for (token, expected) in [(None, 403), (Some("s3cret"), 200), (Some("wrong"), 401)] {
        let mut config = config.clone();
        config.credentials.token = token.map(Secret::from);
        assert_eq!(ask(&config.connect().expect("fine"), get("/api/v1/pods")).await.0.as_u16(), expected);
    }
}

#[tokio::test]
async fn basic_authentication_is_sent_as_such() {
    let authority = Authority::new();
    let server = echoing(&authority).await;
    let mut config = server.config(Some(&authority));
    config.credentials.username = Some("jane".to_owned());
    config.credentials.password = Some("s3cret".into());
    let heard = ask(&config.connect().expect("fine"), get("/")).await.1;
    assert!(heard.contains("authorization: Basic amFuZTpzM2NyZXQ=\n"), "{heard}");
}
