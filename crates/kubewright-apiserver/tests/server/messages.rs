//! Error messages equal to those of the real server.

use crate::client::{CONFIG_MAPS, config_map, server, text};
use crate::custom::{DEFINITIONS, WIDGETS, define, version, widget};

const SPEC: &str = r#""name":{"type":"string","minLength":2,"pattern":"^[a-z]+$"},"big":{"type":"integer","format":"int64"},
    "any":{"type":"object","additionalProperties":true},"num":{"type":"number"},
    "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","proto"],
        "items":{"type":"object","required":["port"],"properties":{"port":{"type":"integer"},"name":{"type":"string"},
            "proto":{"type":"string","default":"TCP"}}}},
    "pair":{"type":"object","properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.a > 0"}]}"#;

#[tokio::test]
async fn an_invalid_body_is_rejected_with_gos_message() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SPEC)).await;
    let type_meta =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    for (path, body, want) in [
        (
            CONFIG_MAPS,
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":1}}"#,
            r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"#.to_owned(),
        ),
        (
            WIDGETS,
            r#"{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"a","labels":{"a":1}}}"#,
            r#"Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#.to_owned(),
        ),
        (
            CONFIG_MAPS,
            "[]",
            format!("the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type {type_meta} (5b5d)"),
        ),
        (
            CONFIG_MAPS,
            r#"{"kind":"ConfigMap","apiVersion":"v1"}{"#,
            r#"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character '{' after top-level value ({"kind":"ConfigMap","apiVersio ...)"#.to_owned(),
        ),
    ] {
        let (code, refused) = client.call("POST", path, body).await;
        assert_eq!((code, text(&refused, "message")), (400, want), "{body}");
    }
    // `null` decodes as an empty object, which has no name.
    let (code, refused) = client.call("POST", CONFIG_MAPS, "null").await;
    assert_eq!((code, text(&refused, "reason").as_str()), (422, "Invalid"));
    let nameless = r#"{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":null}"#;
    assert_eq!(client.call("POST", WIDGETS, nameless).await.0, 422);
}

#[tokio::test]
async fn a_patch_with_a_type_mismatch_is_reported_as_in_go() {
    let (_server, mut client) = server().await;
    client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let (path, strategic) = (format!("{CONFIG_MAPS}/a"), "application/strategic-merge-patch+json");
    let (code, refused) = client.call_with(strategic, "PATCH", &path, r#"{"data":{"x":5}}"#).await;
    let want = r#" "" is invalid: patch: Invalid value: "map[data:map[x:5]]": cannot convert int64 to string"#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
    let strict = format!("{path}?fieldValidation=Strict");
    let (code, refused) = client.call_with(strategic, "PATCH", &strict, r#"{"bogus":1}"#).await;
    let want = r#" "" is invalid: patch: Invalid value: "map[bogus:1]": strict decoding error: unknown field "bogus""#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
    let (_, refused) = client.call_with(strategic, "PATCH", &strict, r#"{"data":{"q":"1","q":"2"}}"#).await;
    let want = r#" "" is invalid: patch: Invalid value: "map[data:map[q:2]]": strict decoding error: duplicate field "data.q""#;
    assert_eq!(text(&refused, "message"), want);
    let twice = r#"{"metadata":{"name":"b"},"bogus":1,"bogus":2,"data":{"q":"1","q":"2","q":"3"}}"#;
    let (_, refused) = client.call("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), twice).await;
    let want = r#"strict decoding error: unknown field "bogus", duplicate field "data.q""#;
    assert!(text(&refused, "message").ends_with(want), "{refused}");
    let (code, refused) = client.call("PATCH", &path, r#"{"data":{"x":5}}"#).await;
    let why = r#"}": json: cannot unmarshal number into Go struct field ConfigMap.data of type string"#;
    assert_eq!(code, 422);
    assert!(text(&refused, "message").ends_with(why), "{refused}");
    // A merge cannot change the kind.
    for body in ["null", r#"{"kind":"Pod","apiVersion":"v2"}"#] {
        let (code, same) = client.call_with(strategic, "PATCH", &path, body).await;
        assert_eq!((code, text(&same, "kind").as_str()), (200, "ConfigMap"), "{body}");
    }
}

#[tokio::test]
async fn a_patch_may_have_duplicate_keys() {
    let (_server, mut client) = server().await;
    client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let (path, patch) = (format!("{CONFIG_MAPS}/a"), r#"{"data":{"x":"1","x":"2"}}"#);
    assert_eq!(client.warnings("PATCH", &path, patch).await, (200, vec![r#""duplicate field 'data.x'""#.to_owned()]));
    assert_eq!(text(&client.call("GET", &path, "").await.1, "data/x"), "2");
    assert_eq!(client.call("PATCH", &format!("{path}?fieldValidation=Strict"), patch).await.0, 422);
}

#[tokio::test]
async fn custom_objects_are_refused_in_the_order_of_the_real_server() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SPEC)).await;
    let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
                     correct the existing errors to complete validation";
    for (spec, want) in [
        // Only the first violation of a string is reported.
        (
            r#"{"name":"X"}"#,
            r#"spec.name: Invalid value: "X": spec.name in body should be at least 2 chars long"#.to_owned(),
        ),
        (
            r#"{"big":9223372036854775808}"#,
            format!(
                r#"[spec.big: Invalid value: "float64": spec.big in body must be of type int64: "float64", <nil>: Invalid value: "": Checked value must be of type integer with format int64 in spec.big, {unchecked}]"#
            ),
        ),
    ] {
        let (code, refused) = client.call("POST", WIDGETS, &widget("v1", spec)).await;
        let want = format!(r#"Widget.shop.example.com "w" is invalid: {want}"#);
        assert_eq!((code, text(&refused, "message")), (422, want), "{spec}");
    }
    let nameless = r#"{"apiVersion":"shop.example.com/v1","kind":"Widget"}"#;
    let (_, refused) = client.call("POST", WIDGETS, nameless).await;
    let want = format!("[metadata.name: Required value: name or generateName is required, {unchecked}]");
    assert!(text(&refused, "message").ends_with(&want), "{refused}");
    let (code, made) = client
        .call("POST", WIDGETS, &widget("v1", r#"{"num":1000.0,"any":{"a":{"b":1}},"big":9223372036854775807}"#))
        .await;
    assert_eq!((code, text(&made, "spec").as_str()), (201, r#"{"any":{"a":{}},"big":9223372036854775807,"num":1000}"#));
}

#[tokio::test]
async fn an_applied_custom_object_is_validated_before_the_merge() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SPEC)).await;
    let path = format!("{WIDGETS}/w");
    for (spec, want) in [
        (
            r#"{"name":null}"#,
            r#"[spec.name: Invalid value: "null": spec.name in body must be of type string: "null", "#,
        ),
        (r#"{"ports":[{"name":"x"}]}"#, "[spec.ports[0].port: Required value, "),
    ] {
        let (code, refused) = client.apply("me", &path, &widget("v1", spec)).await;
        assert_eq!(code, 422, "{refused}");
        assert!(text(&refused, "message").contains(want), "{refused}");
    }
    assert_eq!(client.apply("me", &path, &widget("v1", r#"{"ports":[{"port":1}]}"#)).await.0, 201);
}

#[tokio::test]
async fn versions_and_identities_that_cannot_be_right() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SPEC)).await;
    let (_, made) = client.call("POST", WIDGETS, &widget("v1", "{}")).await;
    let (path, version) = (format!("{WIDGETS}/w"), text(&made, "metadata/resourceVersion"));
    let with = |metadata: &str| made.to_string().replacen(&format!(r#""resourceVersion":"{version}""#), metadata, 1);
    let (code, refused) = client.call("PUT", &path, &with(r#""resourceVersion":"x""#)).await;
    let want = r#"strconv.ParseUint: parsing "x": invalid syntax"#;
    assert_eq!((code, text(&refused, "message").as_str()), (500, want));
    assert_eq!(client.call("PATCH", &path, r#"{"metadata":{"resourceVersion":""}}"#).await.0, 422);
    let (code, refused) =
        client.call("PATCH", &path, r#"{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}"#).await;
    let want = r#"Widget.shop.example.com "w" is invalid: metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable"#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
    let (code, refused) = client.call("PATCH", &path, r#"{"metadata":{"name":null}}"#).await;
    let want = "the name of the object (w based on URL) was undeterminable: name must be provided";
    assert_eq!((code, text(&refused, "message").as_str()), (400, want));
    for name in ["..", "%25"] {
        let (code, refused) = client.call("GET", &format!("{WIDGETS}/{name}"), "").await;
        assert_eq!(code, 400, "{refused}");
        assert!(text(&refused, "message").starts_with("Name parameter invalid: "), "{refused}");
    }
    // For custom objects, an empty list of managers has no effect, unlike a list with an empty
    // entry.
    client.call("PATCH", &path, r#"{"spec":{"num":2}}"#).await;
    let managers = |object: &kubewright_core::Value| text(object, "metadata/managedFields").len();
    let (_, kept) = client.call("PATCH", &path, r#"{"metadata":{"managedFields":[]}}"#).await;
    let (_, reset) = client.call("PATCH", &path, r#"{"metadata":{"managedFields":[{}]}}"#).await;
    assert!(managers(&kept) > 10 && managers(&reset) == 0, "{kept} {reset}");
}

#[tokio::test]
async fn a_put_of_a_missing_object_creates_it_despite_a_resource_version() {
    let (_server, mut client) = server().await;
    let lease = |metadata: &str| {
        format!(r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"l"{metadata}}}}}"#)
    };
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let (code, refused) = client.call("PUT", path, &lease(r#","uid":"x""#)).await;
    let want = r#"Operation cannot be fulfilled on leases.coordination.k8s.io "l": StorageError: invalid object, Code: 4, Key: /registry/leases/default/l, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: "#;
    assert_eq!((code, text(&refused, "message").as_str()), (409, want));
    assert_eq!(client.call("PUT", path, &lease(r#","resourceVersion":"x""#)).await.0, 500);
    assert_eq!(client.call("PUT", path, &lease(r#","resourceVersion":"5""#)).await.0, 201);
}

#[tokio::test]
async fn a_definition_is_finalized_only_during_deletion() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SPEC)).await;
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    let (_, definition) = client.call("GET", &path, "").await;
    assert_eq!(text(&definition, "metadata/finalizers"), "");
    let managers = text(&definition, "metadata/managedFields");
    assert!(
        managers.contains(r#""manager":"kube-apiserver","operation":"Update","subresource":"status""#),
        "{managers}"
    );
    let (code, marked) = client.call("DELETE", &path, "").await;
    assert_eq!(
        (code, text(&marked, "metadata/finalizers").as_str()),
        (200, r#"["customresourcecleanup.apiextensions.k8s.io"]"#)
    );
    client.until(&path, 404).await;
}

#[tokio::test]
async fn requests_for_undeclared_subresources_of_custom_objects_fail() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SPEC)).await;
    client.call("POST", WIDGETS, &widget("v1", "{}")).await;
    let (code, lost) = client.call("GET", &format!("{WIDGETS}/w/scale"), "").await;
    assert_eq!((code, text(&lost, "message").as_str()), (404, r#"widgets.shop.example.com "w" not found"#));
    let (code, refused) = client.call("DELETE", &format!("{WIDGETS}/w/status"), "").await;
    let want = r#"delete is not supported on resources of kind "widgets.shop.example.com""#;
    assert_eq!((code, text(&refused, "message").as_str()), (405, want));
}

#[tokio::test]
async fn a_list_of_any_version_is_not_paged() {
    let (_server, mut client) = server().await;
    for name in ["a", "b"] {
        client.call("POST", CONFIG_MAPS, &config_map(name, "")).await;
    }
    let (_, list) = client.call("GET", &format!("{CONFIG_MAPS}?limit=1&resourceVersion=0"), "").await;
    assert_eq!(list.get("items").and_then(|items| items.as_array()).map(|items| items.len()), Some(2));
    assert_eq!(text(&list, "metadata/continue"), "");
    let (code, refused) = client.call("GET", &format!("{CONFIG_MAPS}?timeout=soon"), "").await;
    let want = r#"invalid timeout specified in the request URL - time: invalid duration "soon""#;
    assert_eq!((code, text(&refused, "message").as_str()), (400, want));
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}?timeout=5s"), "").await.0, 200);
    let (code, refused) = client.call("DELETE", &format!("{CONFIG_MAPS}/a"), "[]").await;
    assert_eq!(code, 400, "{refused}");
}
