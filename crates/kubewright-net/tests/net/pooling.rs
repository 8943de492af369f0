//! Connection pooling.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode};
use kubewright_apiserver::ApiServer;
use kubewright_net::Config;
use kubewright_net::config::{LoadingRules, Overrides};
use kubewright_net::transport::{Transport, TransportErrorKind};
use kubewright_net::{HttpTransport, Protocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::faults::played;
use crate::requests::{ask, get, secure_server, settle, text, through_memory};
use crate::scripted::{Script, Scripted, config, echo};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watches_need_at_most_eight_connections() {
    let (_server, config) = secure_server().await;
    assert!(hold_a_thousand_watches(&config).await <= 8);
}

/// Runs if `KUBEWRIGHT_TEST_KUBECONFIG` names a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooled_connections_work_with_a_real_server() {
    let Some(file) = std::env::var_os("KUBEWRIGHT_TEST_KUBECONFIG") else { return };
    let kubeconfig = LoadingRules::explicit(file).load().expect("it is fine");
    let config = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect("it is fine");
    // The stream limit is up to that server; Go's default is 250, and 100 is common.
    assert!(hold_a_thousand_watches(&config).await <= 20);
}

/// Returns the number of connections used.
async fn hold_a_thousand_watches(config: &Config) -> usize {
    // A watch of this kind sends an event even without objects.
    const WATCH: &str = "/api/v1/namespaces?watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
        &resourceVersionMatch=NotOlderThan";
    let transport = config.connect().expect("certificates are fine");
    let mut opening = JoinSet::new();
    for _ in 0..1000 {
        let transport = transport.clone();
        opening.spawn(async move { transport.send(get(WATCH)).await });
    }
    let mut watches = Vec::new();
    while let Some(watch) = opening.join_next().await {
        let response = watch.expect("no panic").expect("the server answers");
        assert_eq!(response.status(), StatusCode::OK);
        watches.push(response.into_body());
    }
    let connections = transport.connections();
    for watch in &mut watches {
        assert!(watch.chunk().await.expect("it lives").is_some());
    }
    // Streams of dropped watches are free again, and no further connection is needed.
    drop(watches);
    assert_eq!(ask(&transport, get("/version")).await.0, StatusCode::OK);
    // A server may close connections at any time, but no additional one is needed.
    assert!(transport.connections() <= connections, "{} after {connections}", transport.connections());
    connections
}

#[tokio::test]
async fn a_request_on_http1_uses_a_connection_that_another_has_finished_with() {
    let server = Scripted::start(None, |request, _| async move { echo(&request) }).await;
    let transport = server.config(None).connect().expect("fine");
    for _ in 0..10 {
        ask(&transport, get("/")).await;
        settle(&transport, 1).await;
    }
    assert_eq!(server.connections(), 1);
    let both = tokio::join!(ask(&transport, get("/")), ask(&transport, get("/")));
    assert_eq!((both.0.0, both.1.0), (StatusCode::OK, StatusCode::OK));
    assert!(server.connections() <= 2);
}

#[tokio::test]
async fn dropping_a_partial_http1_body_closes_its_connection() {
    let answer = |_: Request<_>, _| async { http::Response::new(Script::text("a").hang()) };
    let server = Scripted::start(None, answer).await;
    let transport = server.config(None).connect().expect("fine");
    for _ in 0..3 {
        let mut body = transport.send(get("/")).await.expect("it answers").into_body();
        assert!(body.chunk().await.expect("fine").is_some());
        drop(body);
    }
    assert_eq!((server.connections(), transport.connections()), (3, 0));
}

/// An HTTP/1.1 server that writes `count` chunks at once, then one per notification of `more`.
fn chunked(count: usize, more: &Arc<Notify>) -> HttpTransport {
    let more = Arc::clone(more);
    played(Protocol::Http1, move |_, mut stream| {
        let more = Arc::clone(&more);
        async move {
            let mut request = [0; 4096];
            while stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                let chunks = "1\r\na\r\n".repeat(count);
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(format!("{head}{chunks}").as_bytes()).await.expect("the peer reads");
                more.notified().await;
                stream.write_all(b"0\r\n\r\n").await.expect("the peer reads");
            }
        }
    })
}

#[tokio::test]
async fn chunks_that_have_arrived_over_http1_wait_for_no_other_task() {
    let more = Arc::new(Notify::new());
    let transport = chunked(100, &more);
    for _ in 0..2 {
        let mut body = transport.send(get("/")).await.expect("it answers").into_body();
        assert!(body.chunk().await.expect("fine").is_some());
        // Nothing else runs: there is one thread, and this does not await.
        for _ in 1..100 {
            assert!(body.chunk().now_or_never().expect("it is there").expect("fine").is_some());
        }
        assert!(body.chunk().now_or_never().is_none());
        more.notify_one();
        assert!(body.chunk().await.expect("fine").is_none());
        settle(&transport, 1).await;
    }
}

#[tokio::test]
async fn a_body_ends_when_all_connections_are_closed_though_its_reader_drives_its_own() {
    let more = Arc::new(Notify::new());
    let transport = chunked(3, &more);
    let mut body = transport.send(get("/")).await.expect("it answers").into_body();
    for _ in 0..3 {
        assert!(body.chunk().await.expect("fine").is_some());
    }
    assert!(body.chunk().now_or_never().is_none());
    transport.close_connections();
    assert!(body.chunk().await.is_err());
}

// TR-1
#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = ApiServer::in_memory().start().await.expect("nothing can fail");
        let transport = through_memory(server, &config("http://server", None), protocol);
        ask(&transport, get("/version")).await;
        settle(&transport, 1).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(transport.connections(), 1);
        tokio::time::sleep(Duration::from_secs(160)).await;
        assert_eq!(transport.connections(), 0);
        assert_eq!(ask(&transport, get("/version")).await.0, StatusCode::OK, "a new one is made");
    }
}

// TR-1
#[tokio::test]
async fn at_most_twenty_five_idle_http1_connections_are_kept() {
    let all_are_here = Arc::new(tokio::sync::Barrier::new(30));
    let server = Scripted::start(None, move |request, _| {
        let all_are_here = Arc::clone(&all_are_here);
        async move {
            all_are_here.wait().await;
            echo(&request)
        }
    })
    .await;
    let transport = server.config(None).connect().expect("fine");
    let mut asking = JoinSet::new();
    for _ in 0..30 {
        let transport = transport.clone();
        asking.spawn(async move { ask(&transport, get("/")).await.0 });
    }
    while let Some(answered) = asking.join_next().await {
        assert_eq!(answered.expect("no panic"), StatusCode::OK);
    }
    assert_eq!(server.connections(), 30);
    settle(&transport, 25).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(transport.connections(), 25, "and no more of them have come back");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_no_unused_connection() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail");
    let transport = through_memory(server, &config("http://server", None), Protocol::Http2);
    let response = transport.send(get("/api/v1/configmaps?watch=true")).await.expect("it answers");
    let mut body = response.into_body();
    let quiet = tokio::time::timeout(Duration::from_secs(1200), async {
        while body.chunk().await.expect("it lives").is_some() {}
    })
    .await;
    assert!(quiet.is_err(), "it still goes on after twenty minutes");
    assert_eq!(transport.connections(), 1);
}

#[tokio::test]
async fn a_cancelled_caller_does_not_affect_waiters_for_the_same_connection() {
    let opened = Arc::new(AtomicUsize::new(0));
    let server = ApiServer::in_memory().start().await.expect("nothing can fail");
    let count = Arc::clone(&opened);
    let open = move || {
        count.fetch_add(1, Ordering::Relaxed);
        let stream = server.connect();
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(stream)
        }
    };
    let transport = config("http://server", None).connect_over(Protocol::Http2, open).expect("fine");
    let first = tokio::time::timeout(Duration::from_millis(5), transport.send(get("/version")));
    let second = transport.send(get("/version"));
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_err(), "it gave up");
    assert!(text(second.expect("it answers").into_body()).await.contains("gitVersion"));
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_panic_while_connecting_is_retried() {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail");
    let opened = AtomicUsize::new(0);
    let open = move || {
        let (number, stream) = (opened.fetch_add(1, Ordering::Relaxed), server.connect());
        async move {
            assert!(number > 0, "the first one never comes about");
            Ok(stream)
        }
    };
    let transport = config("http://server", None).connect_over(Protocol::Http2, open).expect("fine");
    let asked = tokio::time::timeout(Duration::from_secs(5), ask(&transport, get("/version"))).await;
    assert_eq!(asked.expect("it ends").0, StatusCode::OK);

    let panics = || async { panic!("none ever comes about") };
    let open = move || -> BoxFuture<'static, std::io::Result<DuplexStream>> { Box::pin(panics()) };
    let transport = config("http://server", None).connect_over(Protocol::Http2, open).expect("fine");
    let asked = tokio::time::timeout(Duration::from_secs(5), transport.send(get("/version"))).await;
    assert_eq!(asked.expect("it ends").expect_err("there is no connection").kind(), TransportErrorKind::Connect);
}

/// A runtime with a paused clock.
fn paused_runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

#[test]
fn a_request_outside_of_a_runtime_is_the_end_of_no_other() {
    let runtime = paused_runtime();
    let config = Config::new("http://127.0.0.1:1").expect("fine");
    let open = || async { Err::<DuplexStream, _>(std::io::Error::other("no peer listens")) };
    let transport = config.connect_over(Protocol::Http2, open).expect("fine");
    let polled = std::panic::catch_unwind(AssertUnwindSafe(|| transport.send(get("/")).now_or_never().is_some()));
    assert!(polled.is_err(), "there is nowhere to put its task");
    let error = runtime.block_on(transport.send(get("/"))).expect_err("no peer listens");
    assert_eq!(error.kind(), TransportErrorKind::Connect);
}

#[test]
fn a_dropped_runtime_does_not_break_requests_of_others() {
    async fn serve(stream: DuplexStream) {
        let mut connection = h2::server::handshake(stream).await.expect("the client greets");
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            respond.send_response(http::Response::new(()), true).expect("the stream is open");
        }
    }
    let opened = AtomicUsize::new(0);
    let open = move || {
        let number = opened.fetch_add(1, Ordering::Relaxed);
        async move {
            if number == 0 {
                return std::future::pending().await;
            }
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            tokio::spawn(serve(theirs));
            Ok(ours)
        }
    };
    let transport = config("http://server", None).connect_over(Protocol::Http2, open).expect("fine");
    // The first connection is still being made when its runtime ends.
    let first = paused_runtime();
    let unanswered = async { tokio::time::timeout(Duration::from_millis(20), transport.send(get("/"))).await };
    assert!(first.block_on(unanswered).is_err(), "there is no response");
    drop(first);
    for _ in 0..2 {
        paused_runtime().block_on(async {
            let asked = tokio::time::timeout(Duration::from_secs(5), ask(&transport, get("/"))).await;
            assert_eq!(asked.expect("it ends").0, StatusCode::OK);
            assert_eq!(transport.connections(), 1);
            tokio::time::sleep(Duration::from_secs(300)).await;
            assert_eq!(transport.connections(), 0, "idle connections are closed");
        });
    }
}

#[tokio::test]
async fn a_transport_that_is_dropped_leaves_no_task_behind() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = ApiServer::in_memory().start().await.expect("nothing can fail");
        let transport = through_memory(server, &config("http://server", None), protocol);
        let mut watch = transport.send(get("/api/v1/namespaces?watch=true")).await.expect("it answers").into_body();
        ask(&transport, get("/version")).await;
        drop(transport);
        assert!(watch.chunk().await.is_ok(), "an answer can still be read");
        drop(watch);
        for _ in 0..400 {
            if tasks() == before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(tasks(), before, "{protocol:?}");
    }
}

// TR-6: there is no hidden cache of transports. To share connections, clone the handle; they are
// closed with the last clone, so nothing grows without bound.
#[tokio::test]
async fn clones_share_connections_and_the_last_one_closes_them() {
    let answer = |request: Request<_>, _| async move { echo(&request) };
    let server = Scripted::start(None, answer).await;
    let config = server.config(None);
    let transport = config.connect().expect("fine");
    let (first, second) = (transport.clone(), transport.clone());
    assert_eq!(ask(&first, get("/")).await.0, StatusCode::OK);
    settle(&second, 1).await;
    assert_eq!(ask(&second, get("/")).await.0, StatusCode::OK);
    assert_eq!(server.connections(), 1, "clones share them");
    drop((transport, first));
    settle(&second, 1).await;
    assert_eq!(ask(&second, get("/")).await.0, StatusCode::OK);
    assert_eq!(server.connections(), 1, "they live as long as one of them");
    // The same configuration creates another transport.
    for more in 2..=4 {
        let another = config.connect().expect("fine");
        assert_eq!(ask(&another, get("/")).await.0, StatusCode::OK);
        assert_eq!(server.connections(), more);
        settle(&another, 1).await;
    }
}
