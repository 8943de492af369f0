//! Expensive requests get small responses.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;

use crate::client::{Client, server, text};

/// Status code, number of warnings and body length of the response to a POST.
async fn post(client: &mut Client, path: &str, body: String) -> (u16, usize, usize) {
    let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
    let response = client.send(request.body(Full::new(Bytes::from(body))).expect("a valid request")).await;
    let (code, warnings) = (response.status().as_u16(), response.headers().get_all("warning").iter().count());
    let length = response.into_body().collect().await.expect("the body ends").to_bytes().len();
    (code, warnings, length)
}

#[tokio::test]
async fn a_review_with_very_many_unknown_fields_gets_few_warnings() {
    let (_server, mut client) = server().await;
    let unknown: String = (0..200_000).map(|number| format!(r#","{number}":1"#)).collect();
    let review = format!(
        r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",
        "spec":{{"nonResourceAttributes":{{"path":"/","verb":"get"}}}}{unknown}}}"#
    );
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, warnings, length) = post(&mut client, path, review.clone()).await;
    assert_eq!((code, warnings), (201, 100), "as many as kube-apiserver reports");
    assert!(length < 10_000, "{length}");
    let (code, _, length) = post(&mut client, &format!("{path}?fieldValidation=Strict"), review).await;
    assert!(code == 400 && length < 10_000, "{code} {length}");
}

#[tokio::test]
async fn a_rejection_of_many_invalid_items_is_truncated() {
    let (_server, mut client) = server().await;
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"lists.example.com"},"spec":{"group":"example.com","scope":"Cluster",
        "names":{"plural":"lists","kind":"List1"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","properties":{"items1":{"type":"array",
        "items":{"type":"string","pattern":"^a$"}}}}}}]}}"#;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", definitions, definition).await.0, 201);
    client.until("/apis/example.com/v1/lists", 200).await;
    let items = vec![r#""b""#; 60_000].join(",");
    let list =
        format!(r#"{{"apiVersion":"example.com/v1","kind":"List1","metadata":{{"name":"l"}},"items1":[{items}]}}"#);
    let (code, refusal) = client.call("POST", "/apis/example.com/v1/lists", &list).await;
    let message = text(&refusal, "message");
    assert_eq!(code, 422);
    assert!(message.len() < 30_000 && message.contains("and 59900 more errors"), "{} bytes", message.len());
}

#[tokio::test]
async fn an_object_that_etcd_would_not_take_is_refused() {
    let (_server, mut client) = server().await;
    let long = |length: usize| "x".repeat(length);
    // The maximum secret is accepted, although its data are longer as JSON.
    let secret = format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"s"}},"stringData":{{"k":"{}"}}}}"#,
        long(1 << 20)
    );
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/secrets", &secret).await.0, 201);
    // Custom objects have no size limit of their own.
    let path = widgets(&mut client, r#""text":{"type":"string"}"#).await;
    let widget = |length: usize| crate::custom::widget("v1", &format!(r#"{{"text":"{}"}}"#, long(length)));
    let too_large = (500, "etcdserver: request is too large".to_owned(), String::new());
    let refusal =
        |(code, status): (u16, kubewright_core::Value)| (code, text(&status, "message"), text(&status, "reason"));
    assert_eq!(refusal(client.call("POST", &path, &widget(1_600_000)).await), too_large);
    assert_eq!(refusal(client.call("POST", &format!("{path}?dryRun=All"), &widget(1_600_000)).await), too_large);
    assert_eq!(client.call("POST", &path, &widget(1_500_000)).await.0, 201);
    // This patch makes the object too large.
    let patch = format!(r#"{{"metadata":{{"labels":{{"a":"b"}},"annotations":{{"a":"{}"}}}}}}"#, long(100_000));
    assert_eq!(refusal(client.call("PATCH", &format!("{path}/w"), &patch).await), too_large);
    assert_eq!(client.call("DELETE", &format!("{path}/w"), "").await.0, 200);
}

#[tokio::test]
async fn defaults_cannot_make_a_small_object_huge() {
    let (_server, mut client) = server().await;
    let default = "x".repeat(10_000);
    let fields = format!(
        r#""list":{{"type":"array","items":{{"type":"object","properties":{{
        "text":{{"type":"string","default":"{default}"}}}}}}}}"#
    );
    let path = widgets(&mut client, &fields).await;
    // With its defaults it would have 500 MB.
    let items = vec!["{}"; 50_000].join(",");
    let widget = crate::custom::widget("v1", &format!(r#"{{"list":[{items}]}}"#));
    let (code, refusal) = client.call("POST", &path, &widget).await;
    assert_eq!((code, text(&refusal, "message").as_str()), (500, "etcdserver: request is too large"));
}

/// Defines widgets with these fields and returns their path.
async fn widgets(client: &mut Client, fields: &str) -> String {
    crate::custom::define(client, &crate::custom::version("v1", true, fields)).await;
    client.until(crate::custom::WIDGETS, 200).await;
    crate::custom::WIDGETS.to_owned()
}

/// A pod whose lists have `count` items each.
fn pod_with_lists(count: usize) -> String {
    let list = |item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{
        "schedulingGates":[{}],"volumes":[{}],
        "containers":[{{"name":"c","image":"i","env":[{}],"volumeMounts":[{}],"ports":[{}]}}]}}}}"#,
        list(&|n| format!(r#"{{"name":"example.com/g{n}"}}"#)),
        list(&|n| format!(r#"{{"name":"v{n}","emptyDir":{{}}}}"#)),
        list(&|n| format!(r#"{{"name":"E{n}","value":"x"}}"#)),
        list(&|n| format!(r#"{{"name":"v{n}","mountPath":"/m{n}"}}"#)),
        list(&|n| format!(r#"{{"containerPort":{},"hostPort":{}}}"#, 1 + n % 60_000, 1 + n % 60_000)),
    )
}

#[tokio::test]
async fn long_lists_of_a_pod_cost_no_more_than_their_length() {
    let (_server, mut client) = server().await;
    let path = "/api/v1/namespaces/default/pods?dryRun=All";
    let [small, large] = [300, 2400].map(pod_with_lists);
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let mut times = Vec::new();
        for pod in [&small, &large] {
            let start = std::time::Instant::now();
            let (code, answer) = client.call("POST", path, pod).await;
            assert_eq!(code, 201, "{}", text(&answer, "message"));
            times.push(start.elapsed().as_secs_f64());
        }
        if times[1] / times[0] < 16.0 {
            return;
        }
        ratios.push(times[1] / times[0]);
    }
    panic!("lists that are eight times as long take longer by {ratios:.1?}");
}

#[tokio::test]
async fn equal_ports_do_not_get_a_warning_for_each_pair() {
    let (_server, mut client) = server().await;
    let ports = vec![r#"{"containerPort":1}"#; 20_000].join(",");
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{
        "containers":[{{"name":"c","image":"i","ports":[{ports}]}}]}}}}"#
    );
    let (code, warnings, _) = post(&mut client, "/api/v1/namespaces/default/pods?dryRun=All", pod).await;
    assert!(code == 201 && warnings <= 100, "{code} {warnings}");
}

#[tokio::test]
async fn a_rejection_of_values_below_a_long_key_is_truncated() {
    let (_server, mut client) = server().await;
    let map = r#""map":{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}}"#;
    let path = widgets(&mut client, map).await;
    // With the whole key in each cause, the response would have 20 GB.
    let (key, items) = ("x".repeat(200_000), vec!["1"; 100_000].join(","));
    let widget = crate::custom::widget("v1", &format!(r#"{{"map":{{"{key}":[{items}]}}}}"#));
    let (code, refusal) = client.call("POST", &path, &widget).await;
    let message = text(&refusal, "message");
    assert_eq!(code, 422);
    assert!(message.len() < 300_000 && message.contains("and 99900 more errors"), "{} bytes", message.len());
}
