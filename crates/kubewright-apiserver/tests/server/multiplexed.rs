//! Watches that share an HTTP/2 connection.

use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use hyper::Request;
use kubewright_apiserver::{ApiServer, RunningServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::client::{CONFIG_MAPS, config_map};

/// A server and a connection with a window of 64 KiB per stream, and a connection window larger
/// than these tests need.
async fn server() -> (RunningServer, SendRequest<Bytes>) {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut builder = Builder::new();
    builder.initial_window_size(64 << 10).initial_connection_window_size(8 << 20);
    let (sender, connection) = builder.handshake(server.connect()).await.expect("the server answers");
    tokio::spawn(connection);
    (server, sender)
}

async fn ask(sender: &SendRequest<Bytes>, method: &str, path: &str, body: String) -> RecvStream {
    let mut sender = sender.clone().ready().await.expect("the connection is open");
    let request = Request::builder().method(method).uri(format!("http://test{path}"));
    let request = request.header("content-type", "application/json").body(()).expect("a valid request");
    let (response, mut stream) = sender.send_request(request, body.is_empty()).expect("a stream is free");
    if !body.is_empty() {
        stream.send_data(body.into(), true).expect("the server takes it");
    }
    let response = response.await.expect("the server answers");
    assert!(response.status().is_success() && response.headers().contains_key("date"), "{response:?}");
    response.into_body()
}

async fn watch(sender: &SendRequest<Bytes>) -> RecvStream {
    ask(sender, "GET", &format!("{CONFIG_MAPS}?watch=1"), String::new()).await
}

/// Reads until the text arrives, or to the end.
async fn read(stream: &mut RecvStream, last: &str) -> String {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(last) {
        let Some(bytes) = stream.data().await else { break };
        let bytes = bytes.expect("the server does not break off");
        all.extend_from_slice(&bytes);
        stream.flow_control().release_capacity(bytes.len()).expect("so much has come");
    }
    String::from_utf8(all).expect("text")
}

async fn watchers(sender: &SendRequest<Bytes>) -> Option<String> {
    let page = read(&mut ask(sender, "GET", "/metrics", String::new()).await, "\u{0}").await;
    page.lines().find_map(|line| line.strip_prefix("kubewright_store_watchers ")).map(str::to_owned)
}

#[tokio::test]
async fn all_watches_of_a_connection_see_an_event_and_a_dropped_watch_ends() {
    let (server, sender) = server().await;
    let before = watchers(&sender).await.expect("a number").parse::<usize>().expect("a number");
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(watch(&sender).await);
    }
    for name in ["first", "second"] {
        drop(ask(&sender, "POST", CONFIG_MAPS, config_map(name, "")).await);
        for stream in &mut watches {
            assert!(read(stream, name).await.contains(&format!("\"name\":\"{name}\"")));
        }
    }
    watches.truncate(2);
    // No event happens that could wake the watches.
    let all_have_left = async {
        while watchers(&sender).await != Some((before + 2).to_string()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_have_left).await.expect("three have left");
    server.stop().await;
    for stream in &mut watches {
        assert_eq!(read(stream, "\u{0}").await, "", "it ends, and nothing has happened before");
    }
}

#[tokio::test]
async fn an_unread_watch_waits_and_resumes() {
    let (_server, sender) = server().await;
    let (mut slow, mut quick) = (watch(&sender).await, watch(&sender).await);
    let large = format!(r#","annotations":{{"large":"{}"}}"#, "x".repeat(10 << 10));
    for number in 0..50 {
        let name = format!("large-{number}-");
        drop(ask(&sender, "POST", CONFIG_MAPS, config_map(&format!("{name}x"), &large)).await);
        assert!(read(&mut quick, &name).await.contains(&name));
    }
    let all = read(&mut slow, "large-49-").await;
    let places: Vec<_> = (0..50).map(|number| all.find(&format!("large-{number}-"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted());
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let (_server, sender) = server().await;
    let mut stream = ask(&sender, "HEAD", "/healthz", String::new()).await;
    assert!(stream.is_end_stream() && stream.data().await.is_none());
    assert_eq!(read(&mut ask(&sender, "GET", "/healthz", String::new()).await, "\u{0}").await, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_and_one_with_a_watch_is_not() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let (watching, connection) = h2::client::handshake(server.connect()).await.expect("the server answers");
    let watching_ended = tokio::spawn(connection);
    let (idle, connection) = h2::client::handshake(server.connect()).await.expect("the server answers");
    let idle_ended = tokio::spawn(connection);
    let mut events = watch(&watching).await;
    drop(ask(&idle, "GET", "/healthz", String::new()).await);
    let start = Instant::now();
    idle_ended.await.expect("no panic").expect("it ends in order");
    let after = start.elapsed();
    assert!((Duration::from_secs(90)..=Duration::from_secs(120)).contains(&after), "{after:?}");
    assert!(idle.clone().ready().await.is_err(), "its client knows");

    tokio::time::sleep(Duration::from_secs(1200)).await;
    drop(ask(&watching, "POST", CONFIG_MAPS, config_map("late", "")).await);
    assert!(read(&mut events, "late").await.contains("late"));
    drop(events);
    let start = Instant::now();
    watching_ended.await.expect("no panic").expect("it ends in order");
    assert!(start.elapsed() >= Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn an_unread_response_is_aborted_and_the_connection_stays_usable() {
    let (_server, sender) = server().await;
    let large = format!(r#","annotations":{{"large":"{}"}}"#, "x".repeat(100 << 10));
    drop(ask(&sender, "POST", CONFIG_MAPS, config_map("large", &large)).await);
    let path = format!("{CONFIG_MAPS}/large");
    let mut slow = ask(&sender, "GET", &path, String::new()).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(read(&mut slow, "\u{0}").await.len() > 100 << 10);
    let mut stalled = ask(&sender, "GET", &path, String::new()).await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    let mut result = Ok(());
    while let Some(data) = stalled.data().await {
        match data {
            Ok(bytes) => stalled.flow_control().release_capacity(bytes.len()).expect("so much has come"),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    assert_eq!(result.expect_err("it was given up").reason(), Some(h2::Reason::CANCEL));
    assert_eq!(read(&mut ask(&sender, "GET", "/healthz", String::new()).await, "\u{0}").await, "ok");
}

#[tokio::test(start_paused = true)]
async fn unread_small_responses_do_not_keep_a_connection_open() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut builder = Builder::new();
    builder.initial_window_size(0);
    let (sender, connection) = builder.handshake::<_, Bytes>(server.connect()).await.expect("the server answers");
    let ended = tokio::spawn(connection);
    let mut responses = Vec::new();
    for _ in 0..10 {
        responses.push(ask(&sender, "GET", "/healthz", String::new()).await);
    }
    let start = Instant::now();
    let _ = ended.await.expect("no panic");
    assert!(start.elapsed() <= Duration::from_secs(150), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_no_longer_answers_is_given_up() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let mut silent = server.connect();
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("there is room");
    let start = Instant::now();
    let mut said = Vec::new();
    silent.read_to_end(&mut said).await.expect("it is closed");
    assert!(start.elapsed() <= Duration::from_secs(150) && !said.is_empty(), "{:?}", start.elapsed());
}
