//! Requests that are made to cost much, and the small responses that they get.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;

use crate::client::{Client, server, text};

/// The code, the number of warnings and the length of the body of the response to a POST.
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
async fn very_many_invalid_items_get_a_short_refusal() {
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
