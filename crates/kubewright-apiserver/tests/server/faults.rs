//! Injected faults affect exactly the matching requests.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response};
use kubewright_apiserver::{ApiServer, Fault, ResponseBody, RunningServer};
use kubewright_core::Value;
use tokio::time::{Instant, timeout};

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};

async fn get(server: &RunningServer, path: &str) -> std::io::Result<Response<ResponseBody>> {
    let request = Request::get(path).body(Bytes::new()).expect("a valid request");
    server.service().call(request).await
}

async fn code(server: &RunningServer, path: &str) -> u16 {
    get(server, path).await.map_or(0, |response| response.status().as_u16())
}

#[tokio::test]
async fn a_fault_hits_its_requests_so_many_times() {
    let (server, mut client) = server().await;
    client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    server.faults().inject(Fault::answer(409).verb("patch").resource("configmaps").name("a").times(2));
    for (object, expected) in [("b", 404), ("a", 409), ("a", 409), ("a", 200)] {
        let (code, _) = client.call("PATCH", &format!("{CONFIG_MAPS}/{object}"), r#"{"data": {"x": "1"}}"#).await;
        assert_eq!(code, expected, "{object}");
    }
    server.faults().inject(Fault::answer(429).retry_after(7).verb("list"));
    let response = get(&server, CONFIG_MAPS).await.expect("it is answered");
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "7"));
    assert_eq!(code(&server, &format!("{CONFIG_MAPS}/a")).await, 200);
    server.faults().clear();
    assert_eq!(code(&server, CONFIG_MAPS).await, 200);
}

#[tokio::test]
async fn probabilities_follow_the_seed() {
    let (server, _client) = server().await;
    server.faults().inject(Fault::answer(503).probability(0.3));
    let mut rounds = Vec::new();
    for _ in 0..2 {
        server.faults().seed(42);
        let mut codes = Vec::new();
        for _ in 0..100 {
            codes.push(code(&server, CONFIG_MAPS).await);
        }
        rounds.push(codes);
    }
    assert_eq!(rounds[0], rounds[1]);
    let hits = rounds[0].iter().filter(|code| **code == 503).count();
    assert!((15..45).contains(&hits), "{hits} of 100");
}

#[tokio::test(start_paused = true)]
async fn requests_are_delayed_dropped_and_cut() {
    let (server, _) = server().await;
    server.faults().inject(Fault::delay(Duration::from_secs(30)).verb("list").times(1));
    let start = Instant::now();
    assert_eq!(code(&server, CONFIG_MAPS).await, 200);
    assert!(start.elapsed() >= Duration::from_secs(30));

    // A dropped request is not processed; one with a cut response is.
    server.faults().inject(Fault::drop_request().verb("create").times(1));
    let create = |name: &str| Request::post(CONFIG_MAPS).body(Bytes::from(config_map(name, ""))).expect("valid");
    server.service().call(create("dropped")).await.expect_err("the connection is gone");
    assert_eq!(code(&server, &format!("{CONFIG_MAPS}/dropped")).await, 404);
    server.faults().inject(Fault::cut_after(10).verb("create").times(1));
    let answer = server.service().call(create("cut")).await.expect("the head comes");
    answer.into_body().collect().await.expect_err("the body breaks off");
    assert_eq!(code(&server, &format!("{CONFIG_MAPS}/cut")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn watches_break_freeze_and_expire() {
    let (server, mut client) = server().await;
    let (_, list) = client.call("GET", CONFIG_MAPS, "").await;
    let version = text(&list, "metadata/resourceVersion");
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}");
    let mut watch = get(&server, &path).await.expect("it is answered").into_body();

    server.faults().freeze();
    let frozen = timeout(Duration::from_secs(600), get(&server, CONFIG_MAPS)).await;
    assert!(frozen.is_err(), "a frozen server does not answer");
    timeout(Duration::from_secs(600), watch.frame()).await.expect_err("nor does it send events");
    server.faults().thaw();
    let create = Request::post(CONFIG_MAPS).body(Bytes::from(config_map("a", ""))).expect("valid");
    server.service().call(create).await.expect("no fault was injected");
    let event = watch.frame().await.expect("an event").expect("nothing is broken").into_data().expect("data");
    assert!(Value::from_json(&event).is_ok());

    server.faults().cut_watches();
    watch.frame().await.expect("it does not end quietly").expect_err("it breaks");
    let mut watch = get(&server, &path).await.expect("it is answered").into_body();
    assert!(watch.frame().await.expect("an event").is_ok(), "a new watch is not concerned");

    server.faults().compact();
    let mut watch = get(&server, &path).await.expect("it is answered").into_body();
    let event = watch.frame().await.expect("an event").expect("nothing is broken").into_data().expect("data");
    assert_eq!(text(&Value::from_json(&event).expect("an event"), "object/code"), "410");
}

#[tokio::test]
async fn a_restart_closes_connections_and_keeps_objects() {
    let (server, mut client) = server().await;
    client.call("POST", CONFIG_MAPS, &config_map("kept", "")).await;
    server.faults().restart();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut client = Client::over(server.connect()).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/kept"), "").await.0, 200);
}

#[tokio::test]
async fn the_endpoint_exists_only_if_enabled() {
    let (closed, _client) = server().await;
    let fault = || Request::post("/kubewright/faults").body(Bytes::from_static(br#"{"answer": 500, "verb": "list"}"#));
    let answer = closed.service().call(fault().expect("valid")).await.expect("no fault was injected");
    assert_eq!(answer.status().as_u16(), 404);
    let open = ApiServer::in_memory().fault_endpoint().start().await.expect("nothing can fail without a socket");
    let answer = open.service().call(fault().expect("valid")).await.expect("no fault was injected");
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(code(&open, CONFIG_MAPS).await, 500);
    let mut client = Client::over(open.connect()).await;
    let request = Request::delete("/kubewright/faults").header("host", "test").body(Full::default());
    assert_eq!(client.send(request.expect("valid")).await.status().as_u16(), 200);
    assert_eq!(code(&open, CONFIG_MAPS).await, 200);
}
