//! Warnings.

use crate::client::{server, text};
use crate::custom::{DEFINITIONS, WIDGETS, define, version, widget};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn duplicate_pod_fields_cause_warnings() {
    let (_server, mut client) = server().await;
    let pod = r#"{"metadata":{"name":"a.b"},"spec":{"nodeSelector":{"beta.kubernetes.io/os":"linux"},
        "imagePullSecrets":[{"name":"s"},{"name":"s"}],
        "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}],
        "containers":[{"name":"a","image":"i","ports":[{"containerPort":80},{"containerPort":80,"hostPort":8080}],
            "resources":{"limits":{"memory":"1500m"}},
            "env":[{"name":"A","value":"1"},{"name":"A","value":"2"},{"name":"A","value":"$(A)3"}]},
        {"name":"b","image":"i","ports":[{"containerPort":80}]}]}}"#;
    let (code, warnings) = client.warnings("POST", PODS, pod).await;
    let want = [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [",
        "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use 'kubernetes.io/os' instead",
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        "spec.imagePullSecrets[1].name: duplicate name 's'",
        "spec.containers[0].resources.limits[memory]: fractional byte value '1500m' is invalid, must be an integer",
        "spec.containers[0].resources.requests[memory]: fractional byte value '1500m' is invalid, must be an integer",
        "spec.containers[0].env[1]: hides previous definition of 'A', which may be dropped when using apply",
        "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
        "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
        "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[1]",
    ];
    assert_eq!((code, warnings.len()), (201, want.len()), "{warnings:#?}");
    for (warning, want) in warnings.iter().zip(want) {
        assert!(warning.trim_matches('"').starts_with(want), "{warning}\n{want}");
    }
    // An unchanged pod spec was warned about before.
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    assert_eq!(client.warnings("PATCH", &format!("{PODS}/a.b"), label).await, (200, vec![]));
}

#[tokio::test]
async fn unqualified_finalizers_cause_warnings() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, "")).await;
    client.call("POST", WIDGETS, &widget("v1", "{}")).await;
    let path = format!("{WIDGETS}/w");
    let patch = r#"{"metadata":{"finalizers":["mine","a.b","x.io/y","orphan"]}}"#;
    let why = "to avoid accidental conflicts with other finalizer writers";
    let want = [
        format!(r#""metadata.finalizers: 'a.b': prefer a domain-qualified finalizer name including a path (/) {why}""#),
        format!(r#""metadata.finalizers: 'mine': prefer a domain-qualified finalizer name {why}""#),
    ];
    assert_eq!(client.warnings("PATCH", &path, patch).await, (200, want.to_vec()));
    assert_eq!(client.warnings("PATCH", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).await, (200, vec![]));
    // Both propagation finalizers at once are contradictory.
    let both = r#"{"metadata":{"finalizers":["foregroundDeletion","orphan"]}}"#;
    assert_eq!(client.call("PATCH", &path, both).await.0, 422);
}

#[tokio::test]
async fn new_rules_warn_about_unchanged_values_and_reject_changed_ones() {
    let fields = |rule: &str| {
        format!(
            r#""mode":{{"type":"string"}},"map":{{"type":"object","maxProperties":9,"additionalProperties":{{"type":"integer"}}{rule}}},
            "list":{{"type":"array","maxItems":9,"items":{{"type":"object","properties":{{"k":{{"type":"string","maxLength":9{rule}}}}}}}}}"#
        )
    };
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, &fields(""))).await;
    client.call("POST", WIDGETS, &widget("v1", r#"{"map":{"a":1},"list":[{"k":"x"}]}"#)).await;
    let ruled = fields(r#","x-kubernetes-validations":[{"rule":"self.size() > 1","message":"too small"}]"#);
    let change = format!(r#"{{"spec":{{"versions":[{}]}}}}"#, version("v1", true, &ruled));
    let (code, answer) = client.call("PATCH", &format!("{DEFINITIONS}/widgets.shop.example.com"), &change).await;
    assert_eq!(code, 200, "{answer}");

    let path = format!("{WIDGETS}/w");
    // Items of a list without keys are unchanged if the list is.
    let list = r#""spec.list[0].k: Invalid value: 'x': too small""#.to_owned();
    let map = r#""spec.map: Invalid value: too small""#.to_owned();
    let kept = (200, vec![list.clone(), map.clone()]);
    assert_eq!(client.warnings("PATCH", &path, r#"{"spec":{"mode":"m"}}"#).await, kept);
    assert_eq!(client.warnings("PATCH", &format!("{path}/status"), r#"{"status":{"ready":true}}"#).await, kept);
    assert_eq!(client.warnings("PATCH", &path, r#"{"spec":{"map":{"a":2}}}"#).await, (422, vec![list]));
    assert_eq!(client.warnings("PATCH", &path, r#"{"spec":{"list":[{"k":"y"}]}}"#).await, (422, vec![map]));
    let (code, refused) = client.call("PATCH", &path, r#"{"spec":{"list":[{"k":"xyz"},{"k":"x"}]}}"#).await;
    let want = r#"Widget.shop.example.com "w" is invalid: spec.list[1].k: Invalid value: "x": too small"#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
}
