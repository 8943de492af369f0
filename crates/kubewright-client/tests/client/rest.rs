//! Requests: paths, retries, limits, warnings, encodings, metrics.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Pod};
use kubewright_client::flowcontrol::{ErrorBackoff, TokenBucket};
use kubewright_client::rest::{AttemptReport, Impersonation, PrometheusMetrics, RequestMetrics};
use kubewright_client::transport::{ResponseFuture, TransportErrorKind};
use kubewright_client::{Api, Client, Error};
use kubewright_core::options::{DeleteOptions, ListOptions, Patch};
use kubewright_core::{AllNamespaces, DynamicObject, GroupVersion, Object, json};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::script::{Script, Step, answer};
use crate::support::{config_map, test_client};

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"}}"#;

fn busy(code: u16) -> crate::script::Answer {
    let body = format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"busy","code":{code}}}"#);
    answer(code, body)
}

fn seconds(script: &Script) -> Vec<u64> {
    let asked = script.asked();
    asked.iter().map(|one| (one.at - asked[0].at).as_secs()).collect()
}

#[tokio::test]
async fn requests_reach_any_path_and_their_answers_any_form() {
    let server = test_client().await;
    let rest = server.client.rest();
    assert_eq!(rest.get().absolute_path("/healthz").send().await.unwrap().bytes(), "ok");
    let namespaces = rest.get().resource("namespaces").options(|query| ListOptions::default().append_query(query));
    let list = namespaces.accept_protobuf().send().await.unwrap().decode_list::<DynamicObject>();
    assert!(list.is_err(), "a dynamic object has no protobuf form");
    let list = rest.get().resource("namespaces").send().await.unwrap().decode_list::<DynamicObject>().unwrap();
    assert!(list.items.iter().any(|one| one.name() == server.namespace));
    let apps = server.client.rest().group_version(GroupVersion::new("apps", "v1"));
    let missing =
        apps.get().namespace(server.namespace.as_str()).resource("deployments").name("web").send().await.unwrap_err();
    assert_eq!(missing.to_string(), r#"deployments.apps "web" not found"#);
}

#[tokio::test]
async fn an_invalid_request_reports_its_first_error_and_is_not_sent() {
    // RC-5, RC-6
    let script = Script::default();
    let rest = script.client().rest();
    for (request, want) in [
        (rest.get().resource("pods").resource("nodes").name(".."), "resource already set"),
        (rest.get().resource("pods").name("a/b"), r#"invalid resource name "a/b": may not contain '/' or '%'"#),
        (rest.post().namespace(AllNamespaces).resource("pods"), "a new object needs one namespace, not all"),
        (
            rest.put().namespace(AllNamespaces).resource("pods").name("web"),
            "an object of this name needs one namespace, not all",
        ),
        (rest.get().namespace("").resource("pods"), "the name of the namespace is empty; AllNamespaces selects all"),
        (rest.get().absolute_path("healthz"), r#"the path "healthz" does not begin with a slash"#),
    ] {
        assert_eq!(request.send().await.unwrap_err().to_string(), format!("invalid request: {want}"));
    }
    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_response_is_retried() {
    // RC-3
    let script = Script::new([
        busy(429).header("retry-after", "1"),
        busy(503).header("retry-after", "2"),
        busy(500).header("retry-after", "0"),
        answer(200, POD),
    ]);
    let pod = Api::<Pod>::namespaced(&script.client(), "default").get("web").await.unwrap();
    assert_eq!(pod.name(), "web");
    assert_eq!(seconds(&script), [0, 1, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn retries_end_after_ten() {
    // RC-3
    let script = Script::new((0..20).map(|_| busy(429).header("retry-after", "1")));
    let pods = Api::<Pod>::namespaced(&script.client(), "default");
    let error = pods.get("web").await.unwrap_err();
    assert!(error.is_too_many_requests(), "{error}");
    assert_eq!(script.asked().len(), 11);
    let script = Script::new((0..20).map(|_| busy(429).header("retry-after", "1")));
    let pods = Api::<Pod>::namespaced(&script.client().retries(0), "default");
    assert!(pods.get("web").await.is_err());
    assert_eq!(script.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn responses_without_retry_after_seconds_are_not_retried() {
    // RC-3
    for after in [None, Some("Wed, 21 Oct 2026 07:28:00 GMT")] {
        for code in [429, 500, 503] {
            let failure = after.map_or(busy(code), |after| busy(code).header("retry-after", after));
            let script = Script::new([failure, answer(200, POD)]);
            let error = Api::<Pod>::namespaced(&script.client(), "default").get("web").await.unwrap_err();
            assert!(error.is_retriable(), "{error}");
            assert_eq!(script.asked().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_retried_for_reads_alone() {
    // RC-3
    let broken = || Step::Fail(TransportErrorKind::Disconnected);
    let script = Script::new([broken(), broken(), answer(200, POD).into()]);
    let pods = Api::<Pod>::namespaced(&script.client(), "default");
    assert_eq!(pods.get("web").await.unwrap().name(), "web");
    assert_eq!(seconds(&script), [0, 1, 2]);
    let script = Script::new([broken(), answer(201, POD).into()]);
    let pods = Api::<Pod>::namespaced(&script.client(), "default");
    let error = pods.create(&Pod::default()).await.unwrap_err();
    assert!(error.is_disconnected() && error.is_retriable(), "{error}");
    assert_eq!(script.asked().len(), 1, "whether the pod was created is not known");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_been_executed_is_not_repeated() {
    // RC-3
    /// A first response, and the resulting number of attempts.
    type Case = (&'static str, fn() -> Step, usize);
    let first: [Case; 8] = [
        ("lost connection", || Step::Fail(TransportErrorKind::Disconnected), 1),
        ("timeout", || Step::Fail(TransportErrorKind::Timeout), 1),
        ("503 without advice", || busy(503).into(), 1),
        ("500", || busy(500).header("retry-after", "1").into(), 1),
        ("502", || busy(502).header("retry-after", "1").into(), 1),
        ("504", || busy(504).header("retry-after", "1").into(), 1),
        ("503", || busy(503).header("retry-after", "1").into(), 2),
        ("429", || busy(429).header("retry-after", "1").into(), 2),
    ];
    let mut pod = Pod::default();
    pod.set_name("web");
    for verb in ["create", "update", "update of a version", "patch", "delete", "delete of a uid"] {
        for (what, first, attempts) in first {
            let script = Script::new([first(), answer(200, POD).into()]);
            let pods = Api::<Pod>::namespaced(&script.client(), "default");
            let mut versioned = pod.clone();
            versioned.set_resource_version("7");
            let done = match verb {
                "create" => pods.create(&pod).await.map(drop),
                "update" => pods.update(&pod).await.map(drop),
                "update of a version" => pods.update(&versioned).await.map(drop),
                "patch" => pods.patch("web", Patch::merge(json!({}))).await.map(drop),
                "delete" => pods.delete("web").await.map(drop),
                _ => pods.delete_with("web", &DeleteOptions::default().uid("5")).await.map(drop),
            };
            assert_eq!((script.asked().len(), done.is_ok()), (attempts, attempts == 2), "{verb}: {what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_after_retries_includes_the_earlier_errors() {
    // RC-3
    let script =
        Script::new([Step::from(busy(503).header("retry-after", "1")), Step::Fail(TransportErrorKind::Timeout)]);
    let error = Api::<Pod>::namespaced(&script.client(), "default").get("web").await.unwrap_err();
    assert!(error.is_timeout());
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("error from a previous attempt: the server answered 503"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_waited_for_before_the_time_of_the_request_begins() {
    // RC-1, RC-2
    let script = Script::new((0..3).map(|_| answer(200, POD)));
    let client = script.client().rate_limit(TokenBucket::new(0.1, 1)).request_timeout(Duration::from_secs(5));
    let pods = Api::<Pod>::namespaced(&client, "default");
    let start = Instant::now();
    for _ in 0..3 {
        pods.get("web").await.unwrap();
    }
    assert_eq!(start.elapsed().as_secs(), 20);
    assert!(script.lines()[0].ends_with("?timeout=5000ms"), "{:?}", script.lines());
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_not_throttled_but_its_retry_is() {
    // RC-1
    let script = Script::new([answer(200, ""), busy(429).header("retry-after", "1"), answer(200, "")]);
    let client = script.client().rate_limit(TokenBucket::new(0.1, 1));
    client.rest().get().absolute_path("/x").send().await.unwrap();
    Api::<Pod>::all(&client).watch(&Default::default()).await.unwrap();
    assert_eq!(seconds(&script), [0, 0, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_with_its_time() {
    let slow = answer(200, POD).dripping(Duration::from_secs(1));
    let script = Script::new([slow]);
    let request = script.client().rest().get().resource("pods").timeout(Duration::from_secs(3));
    let error = request.send().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");

    let list = r#"{"kind":"PodList","metadata":{},"items":[]}"#;
    let script = Script::new([answer(200, list).dripping(Duration::from_secs(1))]);
    let start = Instant::now();
    let pods = Api::<Pod>::all(&script.client().request_timeout(Duration::from_secs(3)));
    let error = pods.list(&ListOptions::default()).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!(script.lines(), ["GET /api/v1/pods?timeout=3000ms"]);

    // The server could not parse this duration.
    let script = Script::new([answer(200, list)]);
    let pods = Api::<Pod>::all(&script.client().request_timeout(Duration::MAX));
    pods.list(&ListOptions::default()).await.unwrap();
    assert_eq!(script.lines(), ["GET /api/v1/pods"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_to_begin_in_time_and_may_take_longer() {
    // RC-2, RC-3
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let silent = Client::over(move |_: http::Request<bytes::Bytes>| -> ResponseFuture {
        *count.lock().unwrap() += 1;
        Box::pin(std::future::pending())
    });
    let start = Instant::now();
    let pods = Api::<Pod>::namespaced(&silent.answer_timeout(Duration::from_secs(5)), "default");
    assert!(pods.get("web").await.unwrap_err().is_timeout());
    assert_eq!((start.elapsed().as_secs(), *asked.lock().unwrap()), (5, 1));
    // The timeout excludes the response body and Retry-After delays.
    let slow = answer(200, POD).dripping(Duration::from_secs(1));
    let script = Script::new([busy(429).header("retry-after", "60"), slow]);
    let pods = Api::<Pod>::namespaced(&script.client().answer_timeout(Duration::from_secs(5)), "default");
    assert_eq!(pods.get("web").await.unwrap().name(), "web");
    assert_eq!(seconds(&script), [0, 60]);
    assert!(start.elapsed() > Duration::from_secs(75), "{:?}", start.elapsed());
}

#[tokio::test]
async fn answers_that_are_no_success_are_understood() {
    // RC-7
    let script = Script::new([
        answer(200, ""),
        answer(404, "page not found").header("content-type", "text/plain"),
        answer(200, r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        answer(200, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired"}"#),
        answer(301, ""),
        answer(200, r#"{"kind":"Pod","metadata":{"name":"#),
    ]);
    let pods = Api::<Pod>::namespaced(&script.client(), "default");
    assert!(matches!(pods.get("web").await, Err(Error::Decode(_))), "an empty body is no pod");
    let missing = pods.get("web").await.unwrap_err();
    assert!(missing.is_not_found() && missing.status().unwrap().is_unexpected_server_error());
    let status = script.client().rest().delete().resource("pods").send().await.unwrap().status().unwrap();
    assert!(!status.is_failure());
    assert!(pods.get("web").await.unwrap_err().is_expired());
    assert_eq!(pods.get("web").await.unwrap_err().status().unwrap().code, Some(301));
    assert!(matches!(pods.get("web").await, Err(Error::Decode(_))), "truncated JSON");
}

#[tokio::test]
async fn warnings_reach_the_nearest_handler() {
    // RC-8
    let warned = || answer(200, POD).header("warning", r#"299 - "old" "#.trim());
    let script = Script::new([warned(), warned()]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |who: &'static str| {
        let seen = Arc::clone(&seen);
        move |warning: &kubewright_client::rest::Warning| seen.lock().unwrap().push(format!("{who}: {warning}"))
    };
    let client = script.client().on_warning(note("client"));
    client.rest().get().resource("pods").send().await.unwrap();
    client.rest().get().resource("pods").on_warning(note("request")).send().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["client: old", "request: old"]);

    let server = test_client().await;
    let client = server.client.on_warning(note("server"));
    let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"nope":1}"#;
    let request = client.rest().post().namespace(server.namespace.as_str()).resource("configmaps").json(json);
    request.send().await.unwrap();
    assert_eq!(seen.lock().unwrap()[2], r#"server: unknown field "nope""#);
}

#[tokio::test]
async fn built_in_types_use_protobuf_until_the_server_rejects_it() {
    // RC-9
    let refused = |code| {
        let body = format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{code}}}"#);
        answer(code, body)
    };
    for code in [415, 406] {
        let script = Script::new([refused(code), answer(201, POD), answer(201, POD)]);
        let pods = Api::<Pod>::namespaced(&script.client(), "default");
        for _ in 0..2 {
            pods.create(&Pod::default()).await.unwrap();
        }
        let asked = script.asked();
        let spoken: Vec<&str> = asked.iter().map(|one| one.headers["content-type"].to_str().unwrap()).collect();
        let (protobuf, json) = ("application/vnd.kubernetes.protobuf", "application/json");
        assert_eq!(spoken, [protobuf, json, json]);
        assert_eq!(asked[0].headers["accept"], "application/vnd.kubernetes.protobuf,application/json");
        assert!(asked[0].body.starts_with(b"k8s\0") && asked[1].body.starts_with(b"{"));
        assert_eq!(asked[2].headers["accept"], json);
    }
}

#[tokio::test]
async fn a_resource_that_responds_in_json_is_written_in_json() {
    // RC-9
    let script = Script::new([answer(200, POD), answer(200, POD), answer(201, POD)]);
    let client = script.client();
    let pods = Api::<Pod>::namespaced(&client, "default");
    pods.get("web").await.unwrap();
    pods.update(&pods.get("web").await.unwrap()).await.unwrap();
    assert_eq!(script.asked()[2].headers["content-type"], "application/json");
    let others = Api::<ConfigMap>::namespaced(&client, "default");
    let _ = others.create(&config_map("a")).await;
    assert_eq!(
        script.asked()[3].headers["content-type"],
        "application/vnd.kubernetes.protobuf",
        "each resource by itself"
    );
}

#[tokio::test]
async fn requests_can_impersonate_a_user() {
    let script = Script::new([answer(200, POD), answer(200, POD)]);
    let client = script.client().impersonate(Impersonation::user("jane").group("a").group("b"));
    client.rest().get().resource("pods").send().await.unwrap();
    client.rest().get().resource("pods").impersonate(&Impersonation::user("joe")).send().await.unwrap();
    let asked = script.asked();
    assert_eq!(asked[0].headers["impersonate-user"], "jane");
    assert_eq!(asked[0].headers.get_all("impersonate-group").iter().count(), 2);
    assert_eq!(asked[1].headers["impersonate-user"], "joe");
    assert_eq!(asked[1].headers.get_all("impersonate-group").iter().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn errors_without_advice_slow_the_client_down() {
    // RC-12
    let script = Script::new([busy(500), busy(500), answer(200, POD), answer(200, POD)]);
    let backoff = ErrorBackoff::new(Duration::from_secs(1), Duration::from_secs(10));
    let pods = Api::<Pod>::namespaced(&script.client().back_off_on_errors(backoff), "default");
    for _ in 0..4 {
        let _ = pods.get("web").await;
    }
    assert_eq!(seconds(&script), [0, 1, 3, 3]);
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl RequestMetrics for Notes {
    fn attempt(&self, report: &AttemptReport<'_>) {
        self.0.lock().unwrap().push(format!("{} {:?}", report.method, report.code));
    }
    fn throttled(&self, method: &str, waited: Duration) {
        self.0.lock().unwrap().push(format!("{method} waited {waited:?}"));
    }
    fn retried(&self, method: &str, code: Option<u16>) {
        self.0.lock().unwrap().push(format!("{method} again after {code:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_each_attempt() {
    // RC-13
    let script = Script::new([
        Step::from(busy(429).header("retry-after", "1")),
        Step::Fail(TransportErrorKind::Disconnected),
        Step::from(answer(200, POD)),
    ]);
    let notes = Notes::default();
    let client = script.client().metrics(notes.clone());
    client.rest().get().resource("pods").send().await.unwrap();
    let want = ["GET Some(429)", "GET again after Some(429)", "GET None", "GET again after None", "GET Some(200)"];
    assert_eq!(*notes.0.lock().unwrap(), want);
    let mut registry = Registry::default();
    let script = Script::new([answer(200, POD)]);
    let client = script.client().metrics(PrometheusMetrics::register(&mut registry, "here"));
    client.rest().get().resource("pods").send().await.unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains(r#"rest_client_requests_total{code="200",method="GET",host="here"} 1"#), "{text}");
}

#[tokio::test]
async fn only_a_404_that_names_the_object_means_absent() {
    let named = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,
        "message":"pods \"web\" not found","details":{"name":"web","kind":"pods"}}"#;
    let no_resource = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,
        "message":"the server could not find the requested resource","details":{}}"#;
    for (body, is_absent) in [(named, true), (no_resource, false), ("404 page not found", false)] {
        let script = Script::new([answer(404, body)]);
        let found = Api::<Pod>::namespaced(&script.client(), "default").get_opt("web").await;
        assert_eq!(matches!(found, Ok(None)), is_absent, "{body}: {found:?}");
    }
}
