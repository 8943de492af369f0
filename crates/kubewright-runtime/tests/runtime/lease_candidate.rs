//! Candidates of coordinated elections, over a server with one object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kubewright_client::Client;
use kubewright_client::transport::{Body, ResponseFuture};
use kubewright_core::{ObjectKey, Value};
use kubewright_runtime::election::LeaseCandidate;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::seconds;

#[tokio::test(start_paused = true)]
async fn a_lease_candidate_is_renewed_every_five_minutes_and_when_pinged() {
    // LE-14
    let object = Arc::new(Mutex::new(None::<Value>));
    let (kept, asked) = (object.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = asked.clone();
    let (watching, reads) =
        (Arc::new(Mutex::new(None::<mpsc::UnboundedSender<String>>)), Arc::new(AtomicUsize::new(0)));
    let (watched, counted) = (watching.clone(), reads.clone());
    // The test server does not serve the kind, so a fake with one object is used.
    let client = Client::over(move |request: http::Request<bytes::Bytes>| {
        let mut kept = kept.lock().unwrap();
        let is_read = request.method() == http::Method::GET;
        if is_read {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        if request.uri().query().is_some_and(|query| query.contains("watch=")) {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("fieldSelector=metadata.name%3Dme"), "{query}");
            let (sender, receiver) = mpsc::unbounded_channel();
            *watched.lock().unwrap() = Some(sender);
            let lines =
                futures_util::stream::unfold(receiver, |mut receiver: mpsc::UnboundedReceiver<String>| async move {
                    let line = receiver.recv().await?;
                    Some((Ok(bytes::Bytes::from(line)), receiver))
                });
            let response = http::Response::builder().header("content-type", "application/json");
            let response = response.body(Body::new(lines)).unwrap();
            return Box::pin(async { Ok(response) }) as ResponseFuture;
        }
        if !is_read {
            noted.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
            *kept = Some(Value::from_json(request.body()).unwrap());
        }
        let (code, body) = match &*kept {
            Some(object) => (if request.method() == http::Method::POST { 201 } else { 200 }, object.to_string()),
            None => (
                404,
                r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,
                    "details":{"name":"me","kind":"leasecandidates"}}"#
                    .to_owned(),
            ),
        };
        let response = http::Response::builder().status(code).header("content-type", "application/json");
        let chunk = futures_util::stream::once(std::future::ready(Ok(bytes::Bytes::from(body))));
        let response = response.body(Body::new(chunk)).unwrap();
        Box::pin(async { Ok(response) }) as ResponseFuture
    });
    let key = ObjectKey::namespaced("default", "me");
    let candidate = LeaseCandidate::new(&client, key, "lock", "1.36.0", "1.35.0");
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { candidate.run(&stopped).await });
    let path = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates";
    let take = || std::mem::take(&mut *asked.lock().unwrap());
    sleep(seconds(200.0)).await;
    assert_eq!(take(), [format!("POST {path}")]);
    assert_eq!(reads.load(Ordering::Relaxed), 2, "it watches, and does not ask again and again");
    let spec = |field: &str| object.lock().unwrap().as_ref()?.get("spec")?.get(field)?.as_str().map(str::to_owned);
    assert_eq!((spec("leaseName").as_deref(), spec("emulationVersion").as_deref()), (Some("lock"), Some("1.35.0")));
    sleep(seconds(200.0)).await;
    assert_eq!(take(), [format!("PUT {path}/me")]);
    // Pinged by the control plane: one reply within seconds.
    let ping = |time: &str| {
        let mut object = object.lock().unwrap();
        let spec = object.as_mut().unwrap().as_object_mut().unwrap().get_mut("spec").unwrap();
        spec.as_object_mut().unwrap().insert("pingTime", Value::String(time.into()));
        let line = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", object.as_ref().unwrap());
        watching.lock().unwrap().as_ref().unwrap().send(line).unwrap();
    };
    ping("2999-01-01T00:00:00.000000Z");
    sleep(seconds(0.1)).await;
    assert!(take().contains(&format!("PUT {path}/me")));
    // Our clock is far behind that of the control plane, which accepts only replies later than its
    // ping.
    assert!(spec("renewTime") > spec("pingTime"), "{:?}", spec("renewTime"));
    ping("2001-01-01T00:00:00.000000Z");
    take();
    sleep(seconds(30.0)).await;
    assert_eq!(take(), [""; 0]);
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_candidate_uses_the_timeout_of_its_client() {
    // LE-14
    for (limit, patience) in [(None, 10.0), (Some(3.0), 3.0), (Some(60.0), 60.0)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let client = Client::over(move |_: http::Request<bytes::Bytes>| -> ResponseFuture {
            count.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::pending())
        });
        let client = limit.into_iter().fold(client, |client, limit| client.request_timeout(seconds(limit)));
        let candidate =
            LeaseCandidate::new(&client, ObjectKey::namespaced("default", "me"), "lock", "1.36.0", "1.35.0");
        let running = tokio::spawn(async move { candidate.run(&CancellationToken::new()).await });
        sleep(seconds(patience)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{limit:?}");
        // It pauses for a second.
        sleep(seconds(1.5)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2, "{limit:?}");
        running.abort();
    }
}
