//! Failing servers and networks.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use http::{Request, Response, StatusCode};
use kubewright_client::{Client, Error};
use kubewright_net::transport::{Transport, TransportErrorKind};
use kubewright_net::{HttpTransport, Protocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::requests::{ask, get, text};
use crate::scripted::{Authority, Script, Scripted, config};

/// A transport to a server implemented by `serve`, which gets the number of the connection.
pub fn played<F>(protocol: Protocol, serve: impl Fn(usize, DuplexStream) -> F + Send + Sync + 'static) -> HttpTransport
where
    F: Future<Output = ()> + Send + 'static,
{
    let count = AtomicUsize::new(0);
    let open = move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tokio::spawn(serve(count.fetch_add(1, Ordering::Relaxed), theirs));
        async move { Ok(ours) }
    };
    config("http://server", None).connect_over(protocol, open).expect("fine")
}

type H2 = Connection<DuplexStream, Bytes>;

async fn accept(connection: &mut H2) -> Option<(String, SendResponse<Bytes>)> {
    let (request, respond) = connection.accept().await?.ok()?;
    Some((request.uri().path().to_owned(), respond))
}

fn ok(respond: &mut SendResponse<Bytes>, text: &'static str) {
    let mut body = respond.send_response(Response::new(()), false).expect("the stream is open");
    body.send_data(Bytes::from_static(text.as_bytes()), true).expect("the stream is open");
}

// TR-2
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_no_pings_is_given_up() {
    let transport = played(Protocol::Http2, |_, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        let (_, mut respond) = accept(&mut connection).await.expect("there is a request");
        let body = respond.send_response(Response::new(()), false).expect("the stream is open");
        // The response headers are sent, and then the connection is no longer driven.
        let _ = tokio::time::timeout(Duration::from_secs(1), accept(&mut connection)).await;
        std::future::pending::<()>().await;
        drop((body, connection));
    });
    let start = Instant::now();
    let mut body = transport.send(get("/api/v1/pods?watch=true")).await.expect("it answers").into_body();
    let error = body.chunk().await.expect_err("the server is gone");
    assert_eq!(error.kind(), TransportErrorKind::Disconnected);
    let waited = start.elapsed();
    assert!((Duration::from_secs(40)..=Duration::from_secs(60)).contains(&waited), "{waited:?}");
    assert!(body.chunk().await.expect("it has ended").is_none());
    crate::requests::settle(&transport, 0).await;
}

// TR-2
#[tokio::test(start_paused = true)]
async fn a_silent_server_that_answers_pings_is_kept() {
    let transport = played(Protocol::Http2, |_, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        let (_, mut respond) = accept(&mut connection).await.expect("there is a request");
        let mut body = respond.send_response(Response::new(()), false).expect("the stream is open");
        // Only pings arrive, which the connection answers while it waits.
        let asked = tokio::time::timeout(Duration::from_secs(3600), accept(&mut connection)).await;
        assert!(asked.is_err(), "the connection is open");
        body.send_data(Bytes::from_static(b"at last"), true).expect("the stream is open");
        let _ = accept(&mut connection).await;
    });
    let start = Instant::now();
    let mut body = transport.send(get("/api/v1/pods?watch=true")).await.expect("it answers").into_body();
    assert_eq!(body.chunk().await.expect("the server lives").as_deref(), Some(&b"at last"[..]));
    assert!(start.elapsed() >= Duration::from_secs(3600));
}

#[tokio::test]
async fn http1_connection_headers_are_not_sent_over_http2() {
    let transport = played(Protocol::Http2, |_, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let is_bare =
                !request.headers().contains_key("connection") && !request.headers().contains_key("keep-alive");
            ok(&mut respond, if is_bare { "bare" } else { "not bare" });
        }
    });
    let mut request = get("/");
    request.headers_mut().insert("connection", "keep-alive".parse().expect("a value"));
    request.headers_mut().insert("keep-alive", "timeout=5".parse().expect("a value"));
    assert_eq!(ask(&transport, request).await.1, "bare");
}

#[tokio::test]
async fn after_goaway_open_streams_finish_and_new_requests_use_another_connection() {
    let transport = played(Protocol::Http2, |number, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        let mut held = Vec::new();
        while let Some((path, mut respond)) = accept(&mut connection).await {
            match path.as_str() {
                "/slow" => held.push(respond),
                "/leave" => {
                    connection.graceful_shutdown();
                    ok(&mut respond, "leaving");
                    for mut respond in held.drain(..) {
                        tokio::spawn(async move {
                            tokio::time::sleep(Duration::from_millis(100)).await;
                            ok(&mut respond, "finished");
                        });
                    }
                }
                _ => ok(&mut respond, if number == 0 { "first" } else { "second" }),
            }
        }
    });
    assert_eq!(ask(&transport, get("/")).await.1, "first");
    let slow = tokio::spawn(transport.send(get("/slow")));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(ask(&transport, get("/leave")).await.1, "leaving");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(ask(&transport, get("/")).await.1, "second");
    let slow = slow.await.expect("no panic").expect("it is answered");
    assert_eq!(text(slow.into_body()).await, "finished");
}

#[tokio::test]
async fn a_refused_stream_is_retried_and_a_reset_one_is_not() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let transport = played(Protocol::Http2, move |_, stream| {
        let count = Arc::clone(&count);
        async move {
            let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
            while let Some((path, mut respond)) = accept(&mut connection).await {
                match (path.as_str(), count.fetch_add(1, Ordering::Relaxed)) {
                    ("/refused", 0) => respond.send_reset(h2::Reason::REFUSED_STREAM),
                    ("/broken", _) => respond.send_reset(h2::Reason::INTERNAL_ERROR),
                    _ => ok(&mut respond, "done"),
                }
            }
        }
    });
    let post = |path: &str| Request::post(path).body(Bytes::from_static(b"{}")).expect("fine");
    assert_eq!(ask(&transport, post("/refused")).await.1, "done");
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    let error = transport.send(post("/broken")).await.expect_err("it broke");
    assert_eq!(error.kind(), TransportErrorKind::Disconnected);
    assert_eq!(seen.load(Ordering::Relaxed), 3, "the server may have executed it, so it is sent once");
}

#[tokio::test]
async fn a_write_accepted_before_goaway_is_not_retried() {
    // RC-3
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let transport = played(Protocol::Http2, move |_, stream| {
            let count = Arc::clone(&count);
            async move {
                let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
                let Some((_, respond)) = accept(&mut connection).await else { return };
                count.fetch_add(1, Ordering::Relaxed);
                // GOAWAY names this stream as the last processed one, and the connection ends
                // without a response.
                connection.abrupt_shutdown(h2::Reason::NO_ERROR);
                let _ = accept(&mut connection).await;
                drop((connection, respond));
            }
        });
        let request = Request::builder().method(method).uri("/a").body(Bytes::from_static(b"{}")).expect("fine");
        let error = transport.send(request).await.expect_err("there is no answer");
        assert_eq!(error.kind(), TransportErrorKind::Disconnected, "{method}: {error:?}");
        assert_eq!(seen.load(Ordering::Relaxed), 1, "{method}");
    }
}

#[tokio::test]
async fn a_truncated_http2_response_is_an_error() {
    let transport = played(Protocol::Http2, |_, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        while let Some((path, mut respond)) = accept(&mut connection).await {
            let reason = match path.as_str() {
                "/cancelled" => h2::Reason::CANCEL,
                "/over" => h2::Reason::NO_ERROR,
                // The request is not read completely, which h2 reports after the response.
                _ => {
                    ok(&mut respond, "done");
                    continue;
                }
            };
            let mut body = respond.send_response(Response::new(()), false).expect("the stream is open");
            body.send_data(Bytes::from_static(b"half"), false).expect("the stream is open");
            tokio::spawn(async move {
                // Sent after the earlier data, which a reset would discard.
                tokio::time::sleep(Duration::from_millis(20)).await;
                body.send_reset(reason);
            });
        }
    });
    for path in ["/cancelled", "/over"] {
        let mut body = transport.send(get(path)).await.expect("it answers").into_body();
        assert_eq!(body.chunk().await.expect("it arrives").as_deref(), Some(&b"half"[..]));
        let error = body.chunk().await.expect_err("the rest is missing");
        assert_eq!(error.kind(), TransportErrorKind::Disconnected, "{path}");
        assert!(body.chunk().await.expect("it has ended").is_none());
    }
    let large = Request::post("/early").body(Bytes::from(vec![b'x'; 1 << 20])).expect("fine");
    assert_eq!(ask(&transport, large).await.1, "done");
    assert_eq!(transport.connections(), 1, "none of it harms the connection");
}

#[tokio::test]
async fn an_answer_without_a_body_may_name_a_compression() {
    let transport = played(Protocol::Http2, |_, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        while let Some((_, mut respond)) = accept(&mut connection).await {
            let head = Response::builder().header("content-encoding", "gzip").body(()).expect("fine");
            let mut body = respond.send_response(head, false).expect("the stream is open");
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                body.send_data(Bytes::new(), true).expect("the stream is open");
            });
        }
    });
    assert_eq!(ask(&transport, get("/")).await.1, "");
}

#[tokio::test]
async fn a_connection_opens_as_many_streams_as_the_server_allows() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let transport = played(Protocol::Http2, move |_, stream| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut builder = h2::server::Builder::new();
            builder.max_concurrent_streams(10);
            let mut connection: H2 = builder.handshake(stream).await.expect("the client greets");
            let mut held = Vec::new();
            while let Some((_, mut respond)) = accept(&mut connection).await {
                held.push(respond.send_response(Response::new(()), false).expect("the stream is open"));
            }
        }
    });
    let first = transport.send(get("/")).await.expect("it answers");
    let mut watches = vec![first];
    for _ in 0..24 {
        watches.push(transport.send(get("/")).await.expect("it answers"));
    }
    assert_eq!(connections.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn unread_responses_do_not_block_other_streams() {
    let transport = played(Protocol::Http2, |_, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        let mut held = Vec::new();
        while let Some((path, mut respond)) = accept(&mut connection).await {
            if path == "/small" {
                ok(&mut respond, "small");
                continue;
            }
            let mut body = respond.send_response(Response::new(()), false).expect("the stream is open");
            body.send_data(Bytes::from(vec![b'x'; 4 << 20]), false).expect("the stream is open");
            held.push(body);
        }
    });
    let mut unread = Vec::new();
    for _ in 0..20 {
        unread.push(transport.send(get("/large")).await.expect("it answers"));
    }
    assert_eq!(ask(&transport, get("/small")).await.1, "small");
    assert_eq!(transport.connections(), 1);
}

// TR-1
#[tokio::test(start_paused = true)]
async fn an_answer_that_drips_is_given_up_as_a_whole() {
    let transport = played(Protocol::Http1, |_, mut stream| async move {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n").await;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = stream.write_all(b"x").await;
        }
    });
    let mut request = get("/");
    request.extensions_mut().insert(kubewright_net::transport::RequestTimeout(Some(Duration::from_secs(10))));
    let start = Instant::now();
    let mut body = transport.send(request).await.expect("the head comes").into_body();
    let error = loop {
        match body.chunk().await {
            Ok(chunk) => assert!(chunk.is_some(), "it does not end"),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), start.elapsed()), (TransportErrorKind::Timeout, Duration::from_secs(10)));
}

#[tokio::test]
async fn a_cut_at_any_byte_of_an_answer_is_seen() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let transport = played(Protocol::Http1, |number, mut stream| async move {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(&ANSWER.as_bytes()[..number]).await;
    });
    for _ in 0..ANSWER.len() {
        let post = Request::post("/").body(Bytes::new()).expect("fine");
        let error = match transport.send(post).await {
            Err(error) => error,
            Ok(response) => {
                let mut body = response.into_body();
                loop {
                    match body.chunk().await {
                        Ok(chunk) => assert!(chunk.is_some(), "half an answer is no answer"),
                        Err(error) => break error,
                    }
                }
            }
        };
        assert_eq!(error.kind(), TransportErrorKind::Disconnected);
    }
    let post = Request::post("/").body(Bytes::new()).expect("fine");
    assert_eq!(ask(&transport, post).await.1, "hello");
}

#[tokio::test]
async fn a_stale_pooled_connection_fails_only_non_idempotent_requests() {
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let transport = played(Protocol::Http1, move |_, mut stream| {
        let count = Arc::clone(&count);
        async move {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            // The second request is read, and never answered.
            let _ = stream.read(&mut request).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(ask(&transport, get("/")).await.1, "ok");
    crate::requests::settle(&transport, 1).await;
    assert_eq!(ask(&transport, get("/")).await.1, "ok", "a read is sent again on a new connection");
    crate::requests::settle(&transport, 1).await;
    let post = Request::post("/").body(Bytes::new()).expect("fine");
    let error = transport.send(post).await.expect_err("the server may have executed it");
    assert_eq!(error.kind(), TransportErrorKind::Disconnected);
    assert_eq!(heard.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_unreachable_server_fails_all_waiting_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    drop(listener);
    let transport = config(&format!("https://{address}"), Some(&Authority::new())).connect().expect("fine");
    let (one, two) = tokio::join!(transport.send(get("/")), transport.send(get("/")));
    for error in [one.expect_err("no peer listens"), two.expect_err("no peer listens")] {
        assert_eq!(error.kind(), TransportErrorKind::Connect);
        let cause = std::error::Error::source(&error).expect("it has a cause");
        assert!(cause.to_string().contains("refused"), "{cause}");
    }
}

#[tokio::test]
async fn retries_stop_if_the_server_closes_every_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let plain = config(&format!("http://{address}"), None).connect().expect("fine");
    let played = played(Protocol::Http2, |_, mut stream| async move {
        // The server sends its settings, and then nothing.
        let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
    });
    for transport in [plain, played] {
        for _ in 0..3 {
            let asked = tokio::time::timeout(Duration::from_secs(5), transport.send(get("/"))).await;
            let error = asked.expect("it ends").expect_err("there is no response");
            assert!(matches!(error.kind(), TransportErrorKind::Connect | TransportErrorKind::Disconnected));
        }
    }
}

// TR-1
#[tokio::test]
async fn connecting_and_greeting_have_their_limits() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let mut config = config(&format!("https://{address}"), Some(&Authority::new()));
    assert_eq!((config.connect_timeout, config.tls_timeout), (Duration::from_secs(30), Duration::from_secs(10)));
    config.tls_timeout = Duration::from_millis(50);
    let error = config.connect().expect("fine").send(get("/")).await.expect_err("nobody greets");
    assert_eq!(error.kind(), TransportErrorKind::Connect);

    config.connect_timeout = Duration::from_millis(50);
    config.tls.authority = None;
    let never = || std::future::pending::<io::Result<DuplexStream>>();
    let transport = config.connect_over(Protocol::Http2, never).expect("fine");
    assert_eq!(transport.send(get("/")).await.expect_err("it never opens").kind(), TransportErrorKind::Connect);
}

#[tokio::test]
async fn a_server_without_a_trusted_certificate_is_rejected() {
    let authority = Authority::new();
    let expired = authority.sign_with("server", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    });
    let elsewhere = authority.sign_with("elsewhere", |params| params.subject_alt_names.drain(..2).for_each(drop));
    let answer = |_: Request<_>, _| async { Response::new(Script::text("ok")) };
    let expired = Scripted::start(Some(authority.server(&expired)), answer).await;
    let elsewhere = Scripted::start(Some(authority.server(&elsewhere)), answer).await;
    let stranger = Authority::new();
    let stranger = Scripted::start(Some(stranger.server(&stranger.sign("server"))), answer).await;
    for server in [&expired, &elsewhere, &stranger] {
        let transport = server.config(Some(&authority)).connect().expect("fine");
        let error = transport.send(get("/")).await.expect_err("the certificate is no good");
        assert_eq!(error.kind(), TransportErrorKind::Tls);
        let mut config = server.config(Some(&authority));
        (config.tls.authority, config.tls.insecure) = (None, true);
        assert_eq!(ask(&config.connect().expect("fine"), get("/")).await.0, StatusCode::OK, "who asked for it gets it");
    }
    let mut config = elsewhere.config(Some(&authority));
    config.tls.server_name = Some("elsewhere".to_owned());
    assert_eq!(ask(&config.connect().expect("fine"), get("/")).await.0, StatusCode::OK);
}

// TR-1
#[tokio::test]
async fn a_few_bytes_that_open_to_very_many_are_not_held() {
    let compressed = |length: usize| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &vec![b' '; length]).expect("a vector takes all");
        encoder.finish().expect("a vector takes all")
    };
    let bodies = Arc::new([compressed(64 << 20), compressed(1 << 10)]);
    assert!(bodies[0].len() < 100 << 10);
    let server = Scripted::start(None, move |request, _| {
        let body = bodies[usize::from(request.uri().path() != "/bomb")].clone();
        async move {
            let response = Response::builder().header("content-encoding", "gzip");
            response.body(Script::default().then(Duration::ZERO, body)).expect("fine")
        }
    })
    .await;
    let client = Client::try_from(server.config(None)).expect("fine").answer_limit(1 << 20);
    let ask =
        async |path: &str| client.rest().get().absolute_path(path).send().await.map(|answer| answer.bytes().len());
    let error = ask("/bomb").await.expect_err("it is too long");
    let Error::Decode(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("longer than 1048576 bytes"), "{error}");
    assert_eq!(ask("/").await.expect("it is short"), 1 << 10);
    let client = client.answer_limit(1 << 10);
    assert!(client.rest().get().absolute_path("/").send().await.is_ok(), "a limit may be reached");
    let client = client.answer_limit((1 << 10) - 1);
    assert!(client.rest().get().absolute_path("/").send().await.is_err(), "in one piece too");
}

// RC-3, RC-7
#[tokio::test(start_paused = true)]
async fn a_failure_with_an_endless_body_keeps_its_code() {
    let transport = played(Protocol::Http2, |_, stream| async move {
        let mut connection: H2 = h2::server::handshake(stream).await.expect("the client greets");
        let mut held = Vec::new();
        let mut asked = 0;
        while let Some((path, mut respond)) = accept(&mut connection).await {
            asked += 1;
            if asked == 2 {
                ok(&mut respond, "done");
                continue;
            }
            let head = Response::builder().status(if path == "/busy" { 503 } else { 500 });
            let head = if path == "/busy" { head.header("retry-after", "3") } else { head };
            let mut body = respond.send_response(head.body(()).expect("fine"), false).expect("the stream is open");
            body.send_data(Bytes::from_static(b"because"), false).expect("the stream is open");
            held.push(body);
        }
    });
    let client = Client::over(transport);
    let start = Instant::now();
    assert_eq!(client.rest().get().absolute_path("/busy").send().await.expect("asked again").text(), "done");
    assert_eq!(start.elapsed().as_secs(), 4, "a second for the text, and the three that were asked for");
    let error = client.rest().get().absolute_path("/broken").send().await.expect_err("it has failed");
    let Error::Status(status) = error else { panic!("{error:?}") };
    assert_eq!(status.code, Some(500));
    assert_eq!(start.elapsed().as_secs(), 14);
}
