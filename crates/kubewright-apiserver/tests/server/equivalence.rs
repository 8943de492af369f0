//! Hooks that receive objects in a version other than the request's.

use http_body_util::{BodyExt, Full};
use hyper::Request;
use kubewright_core::{ByteString, Value};

use crate::client::{Client, server, text};
use crate::control::{Hook, REGISTRATION};
use crate::custom::{DEFINITIONS, WIDGETS, define, definition, version, widget};

const V1: &str = r#""size":{"type":"integer"}"#;
const V2: &str = r#""replicas":{"type":"integer"}"#;
const ALLOWED: &str = r#""allowed":true"#;

/// A rule for widgets of these versions.
fn rule(versions: &str) -> String {
    format!(
        r#"{{"apiGroups":["shop.example.com"],"apiVersions":[{versions}],"operations":["*"],"resources":["widgets"]}}"#
    )
}

/// Widgets whose v1 `size` is `replicas` in the stored v2, and their conversion webhook.
async fn converted_widgets(client: &mut Client) -> Hook {
    let hook = Hook::start(|request| {
        let version = text(request, "desiredAPIVersion");
        let objects = request.get("objects").and_then(Value::as_array).expect("objects");
        let convert = |object: &Value| {
            let object = object.to_string();
            if version.ends_with("/v1") {
                object.replace("example.com/v2", "example.com/v1").replace("replicas", "size")
            } else {
                object.replace("example.com/v1", "example.com/v2").replace("size", "replicas")
            }
        };
        let converted: Vec<String> = objects.iter().map(convert).collect();
        format!(r#""result":{{"status":"Success"}},"convertedObjects":[{}]"#, converted.join(","))
    })
    .await;
    let with_field = |version: String, field: &str| {
        let selectable = format!(r#""selectableFields":[{{"jsonPath":".spec.{field}"}}],"schema""#);
        version.replace(r#""schema""#, &selectable)
    };
    let (first, second) = (version("v1", false, V1), version("v2", true, V2));
    let versions = format!("{},{}", with_field(first, "size"), with_field(second, "replicas"));
    let conversion = format!(
        r#""conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1beta1"],"clientConfig":{}}}}},"#,
        hook.config
    );
    let body = definition(&versions).replacen(r#""spec":{"#, &format!(r#""spec":{{{conversion}"#), 1);
    let (code, made) = client.call("POST", DEFINITIONS, &body).await;
    assert_eq!(code, 201, "{made}");
    hook
}

fn widgets_v2() -> String {
    WIDGETS.replace("/v1/", "/v2/")
}

#[tokio::test]
async fn a_webhook_sees_objects_in_the_version_it_was_registered_for() {
    let (_server, mut client) = server().await;
    let versions = format!("{},{}", version("v1", false, V2), version("v2", true, V2));
    define(&mut client, &versions).await;
    let patch = ByteString::from(r#"[{"op":"add","path":"/spec/replicas","value":7}]"#).to_base64();
    let hook = Hook::start(move |_| format!(r#"{ALLOWED},"patchType":"JSONPatch","patch":"{patch}""#)).await;
    let condition = r#","matchConditions":[{"name":"c","expression":"object.apiVersion == 'shop.example.com/v1' && request.kind.version == 'v1' && request.requestKind.version == 'v2'"}]"#;
    hook.register_for(&mut client, "Mutating", &rule(r#""v1""#), condition).await;
    let (code, made) = client.call("POST", &widgets_v2(), &widget("v2", r#"{"replicas":1}"#)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!((text(&made, "apiVersion"), text(&made, "spec/replicas")), ("shop.example.com/v2".into(), "7".into()));
    let seen = hook.seen.lock().expect("no panic before").clone();
    assert_eq!(seen.len(), 1);
    for (path, want) in [
        ("object/apiVersion", "shop.example.com/v1"),
        ("kind/version", "v1"),
        ("kind/kind", "Widget"),
        ("resource/version", "v1"),
        ("requestKind/version", "v2"),
        ("requestResource/version", "v2"),
        ("requestResource/resource", "widgets"),
    ] {
        assert_eq!(text(&seen[0], path), want, "{path}: {}", seen[0]);
    }
}

#[tokio::test]
async fn only_versions_that_are_served_are_equivalent_and_none_to_an_exact_rule() {
    let (_server, mut client) = server().await;
    let versions = format!("{},{}", version("v1", false, V2), version("v2", true, V2));
    define(&mut client, &versions).await;
    let hook = Hook::start(|_| ALLOWED.to_owned()).await;
    hook.register_for(&mut client, "Validating", &rule(r#""v9""#), "").await;
    hook.register_for(&mut client, "Mutating", &rule(r#""v1""#), r#","matchPolicy":"Exact""#).await;
    let (code, made) = client.call("POST", &widgets_v2(), &widget("v2", r#"{"replicas":1}"#)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(hook.seen.lock().expect("no panic before").len(), 0);
}

#[tokio::test]
async fn conversion_webhooks_convert_in_both_directions() {
    let (_server, mut client) = server().await;
    let _converter = converted_widgets(&mut client).await;
    let patch = ByteString::from(r#"[{"op":"replace","path":"/spec/size","value":3}]"#).to_base64();
    let hook = Hook::start(move |request| match text(request, "object/spec/size").as_str() {
        "" | "3" => ALLOWED.to_owned(),
        _ => format!(r#"{ALLOWED},"patchType":"JSONPatch","patch":"{patch}""#),
    })
    .await;
    hook.register_for(&mut client, "Mutating", &rule(r#""v1""#), "").await;
    let (code, made) = client.call("POST", &widgets_v2(), &widget("v2", r#"{"replicas":9}"#)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(text(&made, "spec"), r#"{"replicas":3}"#);
    let path = format!("{}/w", widgets_v2());
    let (code, changed) = client.call("PATCH", &path, r#"{"spec":{"replicas":5}}"#).await;
    assert_eq!((code, text(&changed, "spec").as_str()), (200, r#"{"replicas":3}"#), "{changed}");
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    let seen = hook.seen.lock().expect("no panic before").clone();
    let sizes: Vec<_> = seen
        .iter()
        .map(|request| ["operation", "object/spec/size", "oldObject/spec/size"].map(|path| text(request, path)))
        .collect();
    assert_eq!(sizes, [["CREATE", "9", ""], ["UPDATE", "5", "3"], ["DELETE", "", "3"]]);
}

#[tokio::test]
async fn a_policy_evaluates_objects_in_its_matched_version() {
    let (_server, mut client) = server().await;
    let _converter = converted_widgets(&mut client).await;
    for body in [
        format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"p"}},
            "spec":{{"matchConstraints":{{"resourceRules":[{}]}},"validations":[{{"expression":"object.spec.size < 10",
            "messageExpression":"request.requestKind.version + ' in ' + request.kind.version"}}]}}}}"#,
            rule(r#""v1""#)
        ),
        r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b"},
            "spec":{"policyName":"p","validationActions":["Deny"]}}"#
            .to_owned(),
    ] {
        let plural = if body.contains("PolicyBinding") { "policybindings" } else { "policies" };
        let (code, made) = client.call("POST", &format!("{REGISTRATION}/validatingadmission{plural}"), &body).await;
        assert_eq!(code, 201, "{made}");
    }
    let (code, refused) = client.call("POST", &widgets_v2(), &widget("v2", r#"{"replicas":10}"#)).await;
    assert_eq!(code, 422, "{refused}");
    assert!(text(&refused, "message").ends_with("denied request: v2 in v1"), "{refused}");
    assert_eq!(client.call("POST", &widgets_v2(), &widget("v2", r#"{"replicas":9}"#)).await.0, 201);
}

#[tokio::test]
async fn built_in_versions_are_equivalent_too() {
    let (_server, mut client) = server().await;
    let hook = Hook::start(|_| ALLOWED.to_owned()).await;
    let rule = r#"{"apiGroups":["autoscaling"],"apiVersions":["v1"],"operations":["*"],"resources":["horizontalpodautoscalers"]}"#;
    hook.register_for(&mut client, "Validating", rule, "").await;
    let target = r#""scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3"#;
    let metric =
        r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}"#;
    for (version, more) in
        [("v2", format!(r#""metrics":[{metric}]"#)), ("v1", r#""targetCPUUtilizationPercentage":70"#.to_owned())]
    {
        let path = format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
        let body = format!(
            r#"{{"apiVersion":"autoscaling/{version}","kind":"HorizontalPodAutoscaler","metadata":{{"name":"a{version}"}},"spec":{{{target},{more}}}}}"#
        );
        let (code, made) = client.call("POST", &path, &body).await;
        assert_eq!(code, 201, "{made}");
    }
    let seen = hook.seen.lock().expect("no panic before").clone();
    assert_eq!(seen.len(), 2);
    for (request, version) in seen.iter().zip(["v2", "v1"]) {
        let told = ["object/apiVersion", "object/spec/targetCPUUtilizationPercentage", "requestKind/version"]
            .map(|path| text(request, path));
        assert_eq!(told, ["autoscaling/v1", "70", version], "{request}");
    }
}

/// The names in a list, and the continue token.
fn names(list: &Value) -> (Vec<String>, String) {
    let items = list.get("items").and_then(Value::as_array).expect("a list");
    (items.iter().map(|item| text(item, "metadata/name")).collect(), text(list, "metadata/continue"))
}

#[tokio::test]
async fn fields_are_selected_in_the_version_of_the_request() {
    let (_server, mut client) = server().await;
    let _converter = converted_widgets(&mut client).await;
    let (_, empty) = client.call("GET", WIDGETS, "").await;
    let start = text(&empty, "metadata/resourceVersion");
    for (name, replicas) in [("a", 3), ("b", 4), ("c", 3), ("d", 3)] {
        let body = widget("v2", &format!(r#"{{"replicas":{replicas}}}"#))
            .replace(r#""name":"w""#, &format!(r#""name":"{name}""#));
        let (code, made) = client.call("POST", &widgets_v2(), &body).await;
        assert_eq!(code, 201, "{made}");
    }
    let (code, list) = client.call("GET", &format!("{WIDGETS}?fieldSelector=spec.size%3D3"), "").await;
    assert_eq!((code, names(&list).0), (200, vec!["a".to_owned(), "c".to_owned(), "d".to_owned()]), "{list}");
    assert!(!list.to_string().contains(r#""replicas":"#), "{list}");
    let (_, stored) = client.call("GET", &format!("{}?fieldSelector=spec.replicas!%3D3", widgets_v2()), "").await;
    assert_eq!(names(&stored).0, ["b"]);
    assert_eq!(client.call("GET", &format!("{WIDGETS}?fieldSelector=spec.replicas%3D3"), "").await.0, 400);
    // Pages are full although some objects do not match.
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{WIDGETS}?fieldSelector=spec.size%3D3&limit=2&continue={token}");
        let (code, page) = client.call("GET", &path, "").await;
        assert_eq!(code, 200, "{page}");
        let (names, next) = names(&page);
        pages.push(names);
        if next.is_empty() {
            break;
        }
        token = next;
    }
    assert_eq!(pages.concat(), ["a", "c", "d"]);
    assert_eq!(pages[0].len(), 2, "{pages:?}");
    // An object that no longer matches is sent as deleted.
    let path = format!("{}/a", widgets_v2());
    assert_eq!(client.call("PATCH", &path, r#"{"spec":{"replicas":5}}"#).await.0, 200);
    for (from, want) in
        [(start.as_str(), &["ADDED a", "ADDED c", "ADDED d", "DELETED a"][..]), ("0", &["ADDED c", "ADDED d"])]
    {
        let path = format!("{WIDGETS}?watch=1&fieldSelector=spec.size%3D3&timeoutSeconds=1&resourceVersion={from}");
        let request = Request::get(path).header("host", "test").body(Full::default()).expect("a valid request");
        let body = client.send(request).await.into_body().collect().await.expect("it ends").to_bytes();
        let body = String::from_utf8_lossy(&body);
        let event = |line: &str| {
            let event = Value::from_json(line.as_bytes()).expect("an event");
            format!("{} {}", text(&event, "type"), text(&event, "object/metadata/name"))
        };
        let events: Vec<String> = body.lines().map(event).collect();
        assert_eq!(events, want, "{body}");
        assert!(!body.contains(r#""replicas":"#), "{body}");
    }
}
