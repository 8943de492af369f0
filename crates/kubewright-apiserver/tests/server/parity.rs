//! Responses with equal messages to those of kube-apiserver 1.36, from which the expectations were
//! taken.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};
use crate::custom::{DEFINITIONS, WIDGETS, define, version, widget};

const NAME: &str = r#""s":{"type":"string"}"#;

/// Status code and message of a response.
fn code_and_message((code, answer): (u16, Value)) -> (u16, String) {
    (code, text(&answer, "message"))
}

/// The managers of an object.
fn managers(object: &Value) -> Vec<String> {
    let list = object.get("metadata").and_then(|meta| meta.get("managedFields")).and_then(Value::as_array);
    list.map(|list| list.iter().map(|entry| text(entry, "manager")).collect()).unwrap_or_default()
}

/// Metadata with one manager of this version.
fn managed_in(api_version: &str, fields: &str) -> String {
    format!(
        r#"{{"metadata":{{"managedFields":[{{"manager":"q","operation":"Update","apiVersion":"{api_version}",
        "time":"2024-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{fields}}}]}}}}"#
    )
}

/// Status code, content type and body of the response for this media type.
async fn accepted(client: &mut Client, path: &str, accept: &str) -> (u16, String) {
    let request = Request::builder().uri(path).header("accept", accept).body(Full::<Bytes>::default());
    let response = client.send(request.expect("a valid request")).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("the body ends").to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn a_put_with_a_different_name_is_rejected_first() {
    let (_server, mut client) = server().await;
    let path = format!("{CONFIG_MAPS}/a");
    let other = "the name of the object (b) does not match the name on the URL (a)";
    assert_eq!(code_and_message(client.call("PUT", &path, &config_map("b", "")).await), (400, other.into()));
    let none = "the name of the object (a based on URL) was undeterminable: name must be provided";
    assert_eq!(code_and_message(client.call("PUT", &path, r#"{"metadata":{}}"#).await), (400, none.into()));
    let elsewhere = "the namespace of the provided object does not match the namespace sent on the request";
    let body = config_map("a", r#","namespace":"k""#);
    assert_eq!(code_and_message(client.call("PUT", &path, &body).await), (400, elsewhere.into()));
    let scale = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"b"},"spec":{"replicas":1}}"#;
    let path = "/apis/apps/v1/namespaces/default/deployments/a/scale";
    assert_eq!(code_and_message(client.call("PUT", path, scale).await), (400, other.into()));
    assert_eq!(client.call("PUT", &format!("{CONFIG_MAPS}/a"), &config_map("a", "")).await.0, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_page_by_page() {
    let (_server, mut client) = server().await;
    for name in ["a", "b", "c", "d"] {
        client.call("POST", CONFIG_MAPS, &config_map(name, r#","labels":{"x":"y"}"#)).await;
    }
    let before =
        client.call("GET", CONFIG_MAPS, "").await.1.get("items").and_then(Value::as_array).map_or(0, |l| l.len());
    let (code, page) = client.call("DELETE", &format!("{CONFIG_MAPS}?limit=2"), "").await;
    let names = |list: &Value| {
        let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        items.iter().map(|item| text(item, "metadata/name")).collect::<Vec<_>>()
    };
    assert_eq!((code, names(&page)), (200, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(text(&page, "metadata/remainingItemCount"), (before - 2).to_string());
    let next = text(&page, "metadata/continue");
    let (code, page) = client.call("DELETE", &format!("{CONFIG_MAPS}?limit=1&continue={next}"), "").await;
    assert_eq!((code, names(&page)), (200, vec!["c".to_owned()]));
    let refused = client.call("DELETE", &format!("{CONFIG_MAPS}?continue=x"), "").await;
    let why = "invalid continue token: continue key is not valid: illegal base64 data at input byte 0";
    assert_eq!(code_and_message(refused), (400, why.into()));
}

#[tokio::test]
async fn conflicts_are_reported_before_duplicate_keys() {
    let (_server, mut client) = server().await;
    let path = format!("{CONFIG_MAPS}/a");
    let config = |data: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n{data}");
    client.apply("a", &path, &config("  s: a\n")).await;
    let twice = config("  s: b\n  s: c\n");
    let conflict = r#"Apply failed with 1 conflict: conflict with "a": .data.s"#;
    assert_eq!(code_and_message(client.apply("b&fieldValidation=Strict", &path, &twice).await), (409, conflict.into()));
    let (code, why) = code_and_message(client.apply("b&fieldValidation=Strict&force=true", &path, &twice).await);
    assert!(code == 400 && why.starts_with("error strict decoding YAML: "), "{why}");
}

#[tokio::test]
async fn managers_of_unknown_versions_are_dropped() {
    let (_server, mut client) = server().await;
    let path = format!("{CONFIG_MAPS}/a");
    client.call("POST", CONFIG_MAPS, r#"{"metadata":{"name":"a"},"data":{"s":"1"}}"#).await;
    let fields = r#"{"f:data":{"f:s":{}}}"#;
    let (_, kept) = client.call("PATCH", &path, &managed_in("v1", fields)).await;
    assert_eq!(managers(&kept), ["q"]);
    // An entry without a version is invalid, so the managers are kept.
    let (_, kept) = client.call("PATCH", &path, &managed_in("", fields)).await;
    assert_eq!(managers(&kept), ["q"]);
    let (_, left) = client.call("PATCH", &path, &managed_in("apps/v1", fields)).await;
    assert_eq!(managers(&left), [""; 0]);

    define(&mut client, &version("v1", true, NAME)).await;
    client.call("POST", WIDGETS, &widget("v1", r#"{"s":"1"}"#)).await;
    let (path, fields) = (format!("{WIDGETS}/w"), r#"{"f:spec":{"f:s":{}}}"#);
    let (_, left) = client.call("PATCH", &path, &managed_in("shop.example.com/v9", fields)).await;
    assert_eq!(managers(&left), [""; 0]);
    let (_, applied) = client.apply("a", &path, &widget("v1", r#"{"s":"1"}"#)).await;
    assert_eq!(managers(&applied), ["a", "before-first-apply"]);
}

#[tokio::test]
async fn an_apply_fails_beside_a_manager_of_a_removed_version() {
    let (_server, mut client) = server().await;
    define(&mut client, &format!("{},{}", version("v1", true, NAME), version("v2", false, NAME))).await;
    let later = WIDGETS.replace("/v1/", "/v2/");
    client.apply("a", &format!("{later}/w"), &widget("v2", r#"{"s":"1"}"#)).await;
    let change = format!(r#"{{"spec":{{"versions":[{}]}}}}"#, version("v1", true, NAME));
    assert_eq!(client.call("PATCH", &format!("{DEFINITIONS}/widgets.shop.example.com"), &change).await.0, 200);
    client.until(&later, 404).await;
    let path = format!("{WIDGETS}/w");
    let refused = code_and_message(client.apply("b", &path, &widget("v1", r#"{"s":"1"}"#)).await);
    assert_eq!(refused, (500, "request to convert CR to an invalid group/version: shop.example.com/v2".into()));
    // Any other write resolves this.
    client.call("PATCH", &path, r#"{"spec":{"s":"2"}}"#).await;
    assert_eq!(client.apply("b", &path, &widget("v1", r#"{"s":"2"}"#)).await.0, 200);
}

#[tokio::test]
async fn a_patch_of_a_scale_cannot_mean_another_object() {
    let (_server, mut client) = server().await;
    let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = format!(
        r#"{{"metadata":{{"name":"a"}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{template}}}}}"#
    );
    assert_eq!(client.call("POST", deployments, &deployment).await.0, 201);
    let path = format!("{deployments}/a/scale");
    let (code, scaled) = client.call("PATCH", &path, r#"{"metadata":{"uid":"x"},"spec":{"replicas":3}}"#).await;
    assert_eq!((code, text(&scaled, "spec/replicas").as_str()), (200, "3"));
}

#[tokio::test]
async fn text_that_is_not_unicode_is_replaced() {
    let (_server, mut client) = server().await;
    let send = async |client: &mut Client, method: &str, path: &str, kind: &str, body: &'static [u8]| {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let response = client.send(request.body(Full::from(body)).expect("a valid request")).await;
        let body = response.into_body().collect().await.expect("the body ends").to_bytes();
        text(&Value::from_json(&body).expect("JSON"), "data/s")
    };
    let body = b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"s\":\"a\xffb\\ud800\"}}";
    assert_eq!(send(&mut client, "POST", CONFIG_MAPS, "application/json", body).await, "a\u{fffd}b\u{fffd}");
    let path = format!("{CONFIG_MAPS}/a");
    for (kind, body) in [
        ("application/merge-patch+json", &b"{\"data\":{\"s\":\"\xe2\x82\"}}"[..]),
        ("application/strategic-merge-patch+json", b"{\"data\":{\"s\":\"\\ud800\\udbff\"}}"),
        ("application/json-patch+json", b"[{\"op\":\"add\",\"path\":\"/data/s\",\"value\":\"\xc3\\udc00\"}]"),
    ] {
        assert_eq!(send(&mut client, "PATCH", &path, kind, body).await, "\u{fffd}\u{fffd}", "{kind}");
    }
}

#[tokio::test]
async fn metadata_of_an_object_within_an_object_has_its_type_in_an_apply() {
    let (_server, mut client) = server().await;
    let fields =
        r#""emb":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#;
    define(&mut client, &version("v1", true, fields)).await;
    let config = widget("v1", r#"{"emb":{"apiVersion":"v1","kind":"X","metadata":{"name":5}}}"#);
    let why = "failed to create typed patch object (/w; shop.example.com/v1, Kind=Widget): \
               .spec.emb.metadata.name: expected string, got &value.valueUnstructured{Value:5}";
    assert_eq!(code_and_message(client.apply("a", &format!("{WIDGETS}/w"), &config).await), (500, why.into()));
}

#[tokio::test]
async fn subtype_wildcards_are_accepted_only_for_custom_resources() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, NAME)).await;
    for (path, accept, want) in [
        ("/api", "application/*", 406),
        ("/api/v1", "*", 406),
        (CONFIG_MAPS, "application/*;q=0.5", 406),
        (CONFIG_MAPS, "application/*,application/json", 200),
        (CONFIG_MAPS, "text/html, */*;q=0.1", 200),
        (WIDGETS, "application/*", 200),
        ("/apis/shop.example.com/v1", "application/*", 200),
    ] {
        let (code, body) = accepted(&mut client, path, accept).await;
        assert_eq!(code, want, "{path} {accept} {body}");
        assert!(code == 200 || body.contains("406: Not Acceptable"), "{body}");
    }
}

#[tokio::test]
async fn the_end_of_an_object_shows_it_as_it_was_stored_last() {
    let (_server, mut client) = server().await;
    let (_, created) = client.call("POST", CONFIG_MAPS, &config_map("a", r#","finalizers":["a.b/c"]"#)).await;
    let path = format!("{CONFIG_MAPS}/a");
    client.call("DELETE", &path, "").await;
    let (code, answer) = client.call("PATCH", &path, r#"{"metadata":{"finalizers":null}}"#).await;
    assert_eq!((code, text(&answer, "metadata/finalizers").as_str()), (200, ""));
    let query = format!("?watch=1&timeoutSeconds=1&resourceVersion={}", text(&created, "metadata/resourceVersion"));
    let (_, events) = accepted(&mut client, &format!("{CONFIG_MAPS}{query}"), "application/json").await;
    let last = Value::from_json(events.lines().last().unwrap_or_default().as_bytes()).expect("an event");
    assert_eq!(text(&last, "type"), "DELETED");
    assert_eq!(text(&last, "object/metadata/finalizers"), r#"["a.b/c"]"#);
}

#[tokio::test]
async fn invalid_parameters_are_rejected_in_the_same_order() {
    let (_server, mut client) = server().await;
    client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let watched = CONFIG_MAPS.replace("/v1/", "/v1/watch/");
    for (path, code, why) in [
        (format!("{CONFIG_MAPS}?fieldSelector=x&limit=y"), 400, r#"strconv.ParseInt: parsing "y": invalid syntax"#),
        (format!("{CONFIG_MAPS}?watch=1&limit=y"), 400, r#"strconv.ParseInt: parsing "y": invalid syntax"#),
        (
            format!("{CONFIG_MAPS}?fieldSelector=a%3Db%3Dc"),
            400,
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            format!("{watched}/a?fieldSelector=metadata.namespace%3Ddefault"),
            400,
            "fieldSelector metadata.name doesn't match requested name",
        ),
        (
            format!("{CONFIG_MAPS}/a?resourceVersion=x"),
            500,
            r#"resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax"#,
        ),
        (
            format!("{CONFIG_MAPS}/a?export=true"),
            400,
            "the export parameter, deprecated since v1.14, is no longer supported",
        ),
    ] {
        assert_eq!(code_and_message(client.call("GET", &path, "").await), (code, why.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn routes_reject_unsupported_methods() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, NAME)).await;
    for (method, path, want) in [
        ("POST", "/version", 405),
        ("DELETE", "/apis", 405),
        ("OPTIONS", "/api/v1", 405),
        ("HEAD", "/api", 405),
        ("HEAD", CONFIG_MAPS, 405),
        ("HEAD", WIDGETS, 200),
        ("HEAD", "/healthz", 200),
        ("POST", "/apis/shop.example.com/v1", 200),
        ("POST", "/apis/nobody.example.com/v1", 404),
    ] {
        assert_eq!(client.call(method, path, "").await.0, want, "{method} {path}");
    }
    let lost = "the server could not find the requested resource";
    assert_eq!(code_and_message(client.call("GET", "/api/v2", "").await), (404, lost.into()));
}

#[tokio::test]
async fn only_a_boolean_enables_pretty_printing() {
    let (_server, mut client) = server().await;
    for (value, is_pretty) in [("true", true), ("1", true), ("", false), ("x", false), ("false", false)] {
        let (_, body) = accepted(&mut client, &format!("/api?pretty={value}"), "application/json").await;
        assert_eq!(body.lines().count() > 1, is_pretty, "{value}");
    }
}
