//! CustomResourceDefinitions: validation and effects.

use kubewright_core::Value;

use crate::client::{Client, server, text};
use crate::custom::{DEFINITIONS, definition, version};

/// A definition with one version. `spec` is its schema, and `more` further fields of the version.
fn with(spec: &str, more: &str) -> String {
    let schema = format!(r#"{{"type":"object","properties":{{"spec":{spec}}}}}"#);
    let version = r#"{"name":"v1","served":true,"storage":true"#;
    definition(&format!(r#"{version},"schema":{{"openAPIV3Schema":{schema}}}{more}}}"#))
}

async fn complaint(client: &mut Client, definition: &str) -> String {
    let (_, answer) = client.call("POST", &format!("{DEFINITIONS}?dryRun=All"), definition).await;
    let message = text(&answer, "message");
    let start = r#"CustomResourceDefinition.apiextensions.k8s.io "widgets.shop.example.com" is invalid: "#;
    message.strip_prefix(start).unwrap_or(&message).to_owned()
}

#[tokio::test]
async fn versions_are_validated() {
    let (_server, mut client) = server().await;
    let (plain, object) = (r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, r#"{"type":"object"}"#);
    for (spec, more, want) in [
        (
            plain,
            r#","deprecationWarning":"x""#,
            r#"spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions"#,
        ),
        (
            plain,
            r#","deprecated":true,"deprecationWarning":"""#,
            r#"spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string"#,
        ),
        (
            plain,
            r#","additionalPrinterColumns":[{"name":"a","type":"text","jsonPath":"spec.a"}]"#,
            r#"[spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string, spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.a": must be a simple json path starting with .]"#,
        ),
        (
            plain,
            r#","subresources":{"scale":{"specReplicasPath":"spec.x","statusReplicasPath":".spec.y"}}"#,
            r#"[spec.subresources.scale.specReplicasPath: Invalid value: "spec.x": must be a simple json path starting with ., spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.y": should be a json path under .status]"#,
        ),
        (
            plain,
            r#","selectableFields":[{"jsonPath":".spec.b"}]"#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer to a valid field"#,
        ),
        (
            plain,
            r#","selectableFields":[{"jsonPath":".spec.a[0]"}]"#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.a[0]": is an invalid path: array notation is not allowed"#,
        ),
        (
            object,
            r#","selectableFields":[{"jsonPath":".spec"}]"#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
        ),
        (
            plain,
            r#","selectableFields":[{"jsonPath":".spec.a"},{"jsonPath":".spec.a"}]"#,
            r#"spec.selectableFields[1].jsonPath: Duplicate value: ".spec.a""#,
        ),
        (
            r##"{"type":"object","$ref":"#/x"}"##,
            "",
            "spec.validation.openAPIV3Schema.properties[spec].$ref: Forbidden: $ref is not supported",
        ),
        (
            r#"{"type":"object","patternProperties":{"x":{"type":"string"}}}"#,
            "",
            "spec.validation.openAPIV3Schema.properties[spec].patternProperties: Forbidden: patternProperties is not supported",
        ),
        (
            r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"string"}}"#,
            "",
            r#"spec.validation.openAPIV3Schema.properties[spec].items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map"#,
        ),
        (r#"{"type":"object","additionalProperties":true,"properties":{"a":{"type":"string"}}}"#, "", ""),
        (plain, r#","selectableFields":[{"jsonPath":".spec.a"}]"#, ""),
    ] {
        assert_eq!(complaint(&mut client, &with(spec, more)).await, want, "{spec} {more}");
    }
    // A status is validated by its part of the schema, so constraints at the root would not apply.
    for (root, want) in
        [(r#""required":["spec"],"nullable":false"#, ""), (r#""minProperties":1"#, "only [Description Type ")]
    {
        let status =
            with(plain, r#","subresources":{"status":{}}"#).replacen(r#"{"type""#, &format!(r#"{{{root},"type""#), 1);
        let found = complaint(&mut client, &status).await;
        assert!(found.contains(want) && found.is_empty() == want.is_empty(), "{found}");
    }
    let odd = with(r#"{"type":"integer","format":"int8"}"#, "");
    let (code, warnings) = client.warnings("POST", &format!("{DEFINITIONS}?dryRun=All"), &odd).await;
    assert_eq!((code, warnings), (201, vec![r#""unrecognized format 'int8'""#.to_owned()]));
}

#[tokio::test]
async fn objects_have_the_defaults_of_the_version_that_they_are_stored_in() {
    let (_server, mut client) = server().await;
    let v1 = version("v1", true, r#""a":{"type":"string"},"d":{"type":"string","default":"one"}"#);
    let beta = version("v1beta1", false, r#""a":{"type":"string"},"e":{"type":"string","default":"beta"}"#);
    let beta = beta.replacen(r#""served":true"#, r#""served":true,"deprecated":true"#, 1);
    let (code, answer) = client.call("POST", DEFINITIONS, &definition(&format!("{v1},{beta}"))).await;
    assert_eq!(code, 201, "{answer}");
    let path = |version: &str| format!("/apis/shop.example.com/{version}/namespaces/default/widgets");
    let widget = crate::custom::widget("v1beta1", r#"{"a":"x"}"#);
    let (code, made) = client.call("POST", &path("v1beta1"), &widget).await;
    assert_eq!((code, text(&made, "spec").as_str()), (201, r#"{"a":"x"}"#));
    let (_, seen) = client.call("GET", &format!("{}/w", path("v1")), "").await;
    assert_eq!(text(&seen, "spec"), r#"{"a":"x","d":"one"}"#);
    // The warning about a deprecated version names its replacement.
    let (_, warnings) = client.warnings("GET", &path("v1beta1"), "").await;
    let want = r#""shop.example.com/v1beta1 Widget is deprecated; use shop.example.com/v1 Widget""#;
    assert_eq!(warnings, [want]);
    assert_eq!(client.warnings("GET", &path("v1"), "").await.1, Vec::<String>::new());
    // All versions have the same storage version, and so the same hash in discovery.
    let mut hashes = Vec::new();
    for version in ["v1", "v1beta1"] {
        let (_, list) = client.call("GET", &format!("/apis/shop.example.com/{version}"), "").await;
        let first = list.get("resources").and_then(Value::as_array).and_then(|list| list.first().cloned());
        hashes.push(text(&first.unwrap_or_default(), "storageVersionHash"));
    }
    assert!(!hashes[0].is_empty() && hashes[0] == hashes[1], "{hashes:?}");
}

#[tokio::test]
async fn names_belong_to_the_first_definition_until_it_is_deleted() {
    let (_server, mut client) = server().await;
    let names = |plural: &str, kind: &str, more: &str| {
        let names = format!(r#""names":{{"plural":"{plural}","kind":"{kind}"{more}}}"#);
        let definition =
            definition(r#"{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}"#);
        let definition = definition.replacen(r#""names":{"plural":"widgets","kind":"Widget"}"#, &names, 1);
        definition.replacen("widgets.shop", &format!("{plural}.shop"), 1)
    };
    for (plural, kind, more, reason, message) in [
        ("firsts", "First", r#","shortNames":["ff"]"#, "NoConflicts", "no conflicts found"),
        ("seconds", "Second", r#","shortNames":["ff"]"#, "ShortNamesConflict", r#""ff" is already in use"#),
        ("thirds", "First", "", "ListKindConflict", r#""FirstList" is already in use"#),
        ("fourths", "Fourth", r#","singular":"firsts""#, "SingularConflict", r#""firsts" is already in use"#),
    ] {
        assert_eq!(client.call("POST", DEFINITIONS, &names(plural, kind, more)).await.0, 201);
        let (_, definition) = client.call("GET", &format!("{DEFINITIONS}/{plural}.shop.example.com"), "").await;
        let condition =
            definition.get("status").and_then(|status| status.get("conditions")?.as_array()?.first().cloned());
        let condition = condition.unwrap_or_default();
        assert_eq!((text(&condition, "reason").as_str(), text(&condition, "message").as_str()), (reason, message));
        assert_eq!(text(&definition, "status/acceptedNames/plural"), plural);
    }
    let seconds = "/apis/shop.example.com/v1/namespaces/default/seconds";
    assert_eq!(client.call("GET", seconds, "").await.0, 404);
    client.call("DELETE", &format!("{DEFINITIONS}/firsts.shop.example.com"), "").await;
    client.until(seconds, 200).await;
}

#[tokio::test]
async fn two_storage_versions_are_reported_with_both_causes() {
    let (_server, mut client) = server().await;
    let version = |name: &str| {
        format!(
            r#"{{"name":"{name}","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}"#
        )
    };
    let complaint = complaint(&mut client, &definition(&format!("{},{}", version("v1"), version("v2")))).await;
    assert!(complaint.contains("must have exactly one version marked as storage version"), "{complaint}");
    let second = r#"status.storedVersions: Invalid value: ["v1"]: must have the storage version v2"#;
    assert!(complaint.contains(second), "{complaint}");
}
