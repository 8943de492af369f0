//! Servers that accept a request and then stall, for which client-go waits forever.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::ApiServer;
use kubewright_cache::{FactoryOptions, ListWatch, Reflector, ReflectorOptions, SharedInformerFactory, Store};
use kubewright_client::flowcontrol::TokenBucket;
use kubewright_client::transport::{Body, ResponseFuture};
use kubewright_client::{Api, Client};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::reflector::{Played, play_with};
use crate::script::{Script, half, listed, watched};

async fn play(script: Script, seconds: u64) -> Played {
    play_with(script, ReflectorOptions::default(), Duration::from_secs(seconds)).await
}

/// A fault for some requests; the server answers all others.
enum Fault {
    /// Never responds.
    Silence(Range<usize>),
    /// Answers the first with 429 and a Retry-After of this many seconds.
    Busy(u32),
}

/// A server with this fault for config maps, and the times of its requests.
async fn server(fault: Fault) -> (Client, Arc<Mutex<Vec<(u64, bool)>>>) {
    let server = ApiServer::in_memory().start().await.expect("it starts");
    let (asked, noted) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (log, began) = (asked.clone(), Instant::now());
    let client = Client::over(move |request: http::Request<bytes::Bytes>| -> ResponseFuture {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        log.lock().unwrap().push((began.elapsed().as_secs(), is_watch));
        match (noted.fetch_add(1, Ordering::Relaxed), &fault) {
            (at, Fault::Silence(unanswered)) if unanswered.contains(&at) => Box::pin(std::future::pending()),
            (0, Fault::Busy(seconds)) => {
                let body = Body::new(Nothing);
                let answer = http::Response::builder().status(429).header("retry-after", *seconds).body(body).unwrap();
                Box::pin(std::future::ready(Ok(answer)))
            }
            _ => server.client().transport().send(request),
        }
    });
    (client, asked)
}

/// An empty body.
struct Nothing;

impl futures_core::Stream for Nothing {
    type Item = Result<bytes::Bytes, kubewright_client::transport::TransportError>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(None)
    }
}

/// Reflects config maps for this many seconds; returns the number of completed lists.
async fn reflect(client: &Client, seconds: u64) -> u64 {
    let maps = ListWatch::new(Api::<ConfigMap>::all(client));
    let options = ReflectorOptions::default().without_streaming_lists();
    let reflector = Reflector::new(maps, Store::default(), options);
    let _ = timeout(Duration::from_secs(seconds), reflector.run(&CancellationToken::new())).await;
    reflector.health().lists
}

// RE-22
#[tokio::test(start_paused = true)]
async fn a_list_without_a_response_is_retried() {
    let (client, asked) = server(Fault::Silence(0..1)).await;
    assert_eq!(reflect(&client, 119).await, 0, "there are servers that take their time");
    assert_eq!(*asked.lock().unwrap(), [(0, false)]);
    let (client, asked) = server(Fault::Silence(0..2)).await;
    assert_eq!(reflect(&client, 300).await, 1);
    let asked: Vec<u64> = asked.lock().unwrap().iter().map(|(at, _)| *at).collect();
    assert!(asked[0] == 0 && (120..123).contains(&asked[1]) && (240..247).contains(&asked[2]), "{asked:?}");
}

// RE-22: an explicit timeout of the client takes precedence.
#[tokio::test(start_paused = true)]
async fn the_response_timeout_of_a_client_applies_to_caches() {
    let times = |asked: &Mutex<Vec<(u64, bool)>>| -> Vec<u64> {
        let asked = asked.lock().unwrap();
        asked.iter().map(|(at, _)| *at).take(2).collect()
    };
    for (seconds, again) in [(5, 5..8), (300, 300..303)] {
        let (client, asked) = server(Fault::Silence(0..1)).await;
        assert_eq!(reflect(&client.answer_timeout(Duration::from_secs(seconds)), 400).await, 1);
        let asked = times(&asked);
        assert!(asked[0] == 0 && again.contains(&asked[1]), "{asked:?}");
    }
    // A factory overrides the client's timeout only if it was configured to.
    for (options, again) in [
        (ReflectorOptions::default(), 300..303),
        (ReflectorOptions::default().response_timeout(Duration::from_secs(60)), 60..63),
    ] {
        let (client, asked) = server(Fault::Silence(0..1)).await;
        let client = client.answer_timeout(Duration::from_secs(300));
        let factory = SharedInformerFactory::new(&client, FactoryOptions::default().reflector(options));
        let _maps = factory.informer::<ConfigMap>();
        factory.start(&CancellationToken::new());
        factory.wait_for_cache_sync_within(Duration::from_secs(400)).await.expect("it is asked again");
        let asked = times(&asked);
        assert!(asked[0] == 0 && again.contains(&asked[1]), "{asked:?}");
    }
}

// RE-10, RE-13, RC-4
#[tokio::test(start_paused = true)]
async fn a_watch_that_never_begins_is_over() {
    let quick = |client: &Client, options| {
        let maps = ListWatch::new(Api::<ConfigMap>::all(client)).answer_timeout(Duration::from_secs(5));
        Reflector::new(maps, Store::default(), options)
    };
    for (unanswered, options, expected) in [
        // A stalled streaming list is requested again; so is a stalled list, whose watch has no
        // version to start from.
        (0..1, ReflectorOptions::default(), &[true, true][..]),
        (1..2, ReflectorOptions::default().without_streaming_lists(), &[false, true, false, true]),
    ] {
        let (client, asked) = server(Fault::Silence(unanswered)).await;
        let reflector = quick(&client, options);
        let _ = timeout(Duration::from_secs(20), reflector.run(&CancellationToken::new())).await;
        let watches: Vec<bool> = asked.lock().unwrap().iter().map(|(_, is_watch)| *is_watch).collect();
        assert_eq!(watches, expected);
        assert_eq!(reflector.health().failures, 0);
    }
}

// RE-10, RC-2, RC-3: waits of the client before it sends do not count as a stall of the server.
#[tokio::test(start_paused = true)]
async fn the_response_timeout_starts_when_the_request_is_sent() {
    let (client, asked) = server(Fault::Silence(0..0)).await;
    let client = client.rate_limit(TokenBucket::new(0.005, 1));
    client.rest().get().absolute_path("/healthz").send().await.unwrap();
    assert_eq!(reflect(&client, 250).await, 1);
    assert_eq!(asked.lock().unwrap()[1], (200, false), "it has had its turn");
    let (client, asked) = server(Fault::Busy(300)).await;
    assert_eq!(reflect(&client, 310).await, 1);
    assert_eq!(asked.lock().unwrap()[..2], [(0, false), (300, false)], "it has asked for so much");
}

// RE-22
#[tokio::test(start_paused = true)]
async fn a_stalled_list_is_retried() {
    let script = Script::new([half("a@1 b@2"), listed("10", "a@1"), watched("")]);
    let options = ReflectorOptions::default().response_timeout(Duration::from_secs(5));
    let played = play_with(script, options, Duration::from_secs(10)).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#, r#"list "0" limit 500"#, r#"watch "10""#]);
    assert_eq!(played.objects(), "a@1", "half of a list is none");
    assert!(played.errors[0].starts_with("cannot list"), "{:?}", played.errors);
}

// RE-3, RE-4
#[tokio::test(start_paused = true)]
async fn a_streaming_list_without_initial_events_is_retried() {
    let script = Script::new([watched("+a@1"), watched("+b@2 !9")]).streaming();
    let played = play(script, 200).await;
    assert_eq!(played.requests, [r#"watch "" from the start"#, r#"watch "" from the start"#]);
    assert_eq!(played.objects(), "b@2");
}

// RE-12
#[tokio::test(start_paused = true)]
async fn a_watch_that_outlives_its_time_is_resumed() {
    let script = Script::new([listed("10", "a@1"), watched("+b@12"), watched("+c@13")]);
    let played = play(script, 661).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#, r#"watch "10""#, r#"watch "12""#]);
    assert_eq!(played.objects(), "a@1 b@12 c@13");
    assert!(played.errors.is_empty(), "{:?}", played.errors);
}
