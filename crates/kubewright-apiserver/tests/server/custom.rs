//! Custom resources and their schemas.

use kubewright_core::Value;

use crate::client::{Client, server, text};

/// The path of CustomResourceDefinitions.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The path of widgets in v1.
pub(crate) const WIDGETS: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";

/// A definition of widgets with these versions.
pub(crate) fn definition(versions: &str) -> String {
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{{"name":"widgets.shop.example.com"}},"spec":{{"group":"shop.example.com","scope":"Namespaced",
        "names":{{"plural":"widgets","kind":"Widget"}},"versions":[{versions}]}}}}"#
    )
}

/// A served version with these fields in its spec.
pub(crate) fn version(name: &str, stored: bool, fields: &str) -> String {
    format!(
        r#"{{"name":"{name}","served":true,"storage":{stored},"subresources":{{"status":{{}}}},
        "schema":{{"openAPIV3Schema":{{"type":"object","properties":{{
        "spec":{{"type":"object","properties":{{{fields}}}}},
        "status":{{"type":"object","properties":{{"ready":{{"type":"boolean"}}}}}}}}}}}}}}"#
    )
}

/// A widget of this version.
pub(crate) fn widget(version: &str, spec: &str) -> String {
    format!(r#"{{"apiVersion":"shop.example.com/{version}","kind":"Widget","metadata":{{"name":"w"}},"spec":{spec}}}"#)
}

/// Defines widgets with these versions.
pub(crate) async fn define(client: &mut Client, versions: &str) {
    let (code, answer) = client.call("POST", DEFINITIONS, &definition(versions)).await;
    assert_eq!(code, 201, "{answer}");
}

const SIZE: &str = r#""size":{"type":"integer"}"#;

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, &format!(r#"{SIZE},"mode":{{"type":"string","default":"auto"}}"#))).await;
    let (code, refused) = client.call("POST", WIDGETS, &widget("v1", r#"{"size":"big"}"#)).await;
    let want = r#"Widget.shop.example.com "w" is invalid: spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
    let (code, _) =
        client.call("POST", &format!("{WIDGETS}?fieldValidation=Strict"), &widget("v1", r#"{"x":1}"#)).await;
    assert_eq!(code, 400);
    let (code, created) = client.call("POST", WIDGETS, &widget("v1", r#"{"size":1,"x":1}"#)).await;
    assert_eq!((code, text(&created, "spec").as_str()), (201, r#"{"mode":"auto","size":1}"#));
}

#[tokio::test]
async fn a_status_is_pruned_and_validated() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SIZE)).await;
    client.call("POST", WIDGETS, &widget("v1", r#"{"size":1}"#)).await;
    let status = format!("{WIDGETS}/w/status");
    let (code, changed) = client.call("PATCH", &status, r#"{"status":{"ready":true,"x":1}}"#).await;
    assert_eq!((code, text(&changed, "status").as_str()), (200, r#"{"ready":true}"#));
    assert_eq!(client.call("PATCH", &status, r#"{"status":{"ready":"yes"}}"#).await.0, 422);
}

#[tokio::test]
async fn old_objects_are_read_by_the_new_schema() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, &format!(r#"{SIZE},"old":{{"type":"string"}}"#))).await;
    client.call("POST", WIDGETS, &widget("v1", r#"{"size":9,"old":"x"}"#)).await;
    let stricter = r#""size":{"type":"integer","maximum":5},"new":{"type":"string","default":"n"}"#;
    let change = format!(r#"{{"spec":{{"versions":[{}]}}}}"#, version("v1", true, stricter));
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    let (code, answer) = client.call("PATCH", &path, &change).await;
    assert_eq!(code, 200, "{answer}");
    let (_, seen) = client.call("GET", &format!("{WIDGETS}/w"), "").await;
    assert_eq!(text(&seen, "spec"), r#"{"new":"n","size":9}"#);
    // Ratcheting: an unchanged invalid value stays, but cannot become another invalid value.
    assert_eq!(client.call("PATCH", &format!("{WIDGETS}/w"), r#"{"spec":{"new":"m"}}"#).await.0, 200);
    assert_eq!(client.call("PATCH", &format!("{WIDGETS}/w"), r#"{"spec":{"size":8}}"#).await.0, 422);
}

#[tokio::test]
async fn field_selectors_see_newer_defaults() {
    let (_server, mut client) = server().await;
    let with_mode = |default: &str| {
        let version = version("v1", true, &format!(r#""mode":{{"type":"string"{default}}}"#));
        version.replace(r#""schema""#, r#""selectableFields":[{"jsonPath":".spec.mode"}],"schema""#)
    };
    define(&mut client, &with_mode("")).await;
    let (_, made) = client.call("POST", WIDGETS, &widget("v1", "{}")).await;
    let selected = format!("{WIDGETS}?fieldSelector=spec.mode%3Dauto");
    assert_eq!(text(&client.call("GET", &selected, "").await.1, "items"), "[]");
    let change = format!(r#"{{"spec":{{"versions":[{}]}}}}"#, with_mode(r#","default":"auto""#));
    client.call("PATCH", &format!("{DEFINITIONS}/widgets.shop.example.com"), &change).await;
    let (_, list) = client.call("GET", &selected, "").await;
    let items = list.get("items").and_then(Value::as_array).expect("a list");
    assert_eq!((items.len(), text(&items[0], "spec").as_str()), (1, r#"{"mode":"auto"}"#));

    // The default already selected the object. Storing it does not count as a spec change.
    let version = text(&made, "metadata/resourceVersion");
    let (_, changed) = client.call("PATCH", &format!("{WIDGETS}/w"), "{}").await;
    assert_eq!(text(&changed, "metadata/generation"), "1");
    assert_ne!(text(&changed, "metadata/resourceVersion"), version, "it is stored as it is seen");
    let watch = format!("{selected}&watch=1&timeoutSeconds=1&resourceVersion={version}");
    let event = client.call("GET", &watch, "").await.1;
    assert_eq!((text(&event, "type"), text(&event, "object/spec/mode")), ("MODIFIED".into(), "auto".into()));
    // Now the default is stored.
    let again = client.call("PATCH", &format!("{WIDGETS}/w"), "{}").await.1;
    assert_eq!(text(&again, "metadata/resourceVersion"), text(&changed, "metadata/resourceVersion"));
}

#[tokio::test]
async fn objects_move_to_a_new_storage_version_when_they_are_written() {
    let (_server, mut client) = server().await;
    let (first, second) = (version("v1", true, SIZE), version("v2", false, SIZE));
    define(&mut client, &format!("{first},{second}")).await;
    client.call("POST", WIDGETS, &widget("v1", r#"{"size":1}"#)).await;
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    let (first, second) = (version("v1", false, SIZE), version("v2", true, SIZE));
    let (code, changed) =
        client.call("PATCH", &path, &format!(r#"{{"spec":{{"versions":[{first},{second}]}}}}"#)).await;
    assert_eq!((code, text(&changed, "status/storedVersions").as_str()), (200, r#"["v1","v2"]"#));
    let (code, kept) = client.call("PATCH", &format!("{WIDGETS}/w"), r#"{"metadata":{"labels":{"l":"1"}}}"#).await;
    assert_eq!((code, text(&kept, "apiVersion").as_str()), (200, "shop.example.com/v1"));
    assert_eq!(text(&kept, "metadata/generation"), "1");
    let (code, refused) = client.call("PATCH", &path, &format!(r#"{{"spec":{{"versions":[{second}]}}}}"#)).await;
    assert_eq!(code, 422);
    assert!(
        text(&refused, "message")
            .contains(r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; "#)
    );
}

#[tokio::test]
async fn a_schema_that_is_not_structural_is_refused() {
    let (_server, mut client) = server().await;
    let (code, refused) = client.call("POST", DEFINITIONS, &definition(&version("v1", true, r#""size":{}"#))).await;
    assert_eq!(code, 422);
    let want = "spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value: \
                must not be empty for specified object fields";
    assert!(text(&refused, "message").ends_with(want), "{refused}");
}

/// A field with one rule.
fn ruled(ty: &str, rule: &str) -> String {
    format!(r#""ruled":{{{ty},"x-kubernetes-validations":[{{{rule}}}]}}"#)
}

#[tokio::test]
async fn rules_validate_values_and_transitions() {
    let (_server, mut client) = server().await;
    let items = r#""type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
        "items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"some-size":{"type":"integer",
        "x-kubernetes-validations":[{"rule":"self >= oldSelf","message":"grows only"}]}}}"#;
    let rule = r#""rule":"self.all(i, !has(i.some__dash__size) || i.some__dash__size < 100)""#;
    define(&mut client, &version("v1", true, &ruled(items, rule))).await;
    let (code, _) = client.call("POST", WIDGETS, &widget("v1", r#"{"ruled":[{"name":"a","some-size":5}]}"#)).await;
    assert_eq!(code, 201);
    let path = format!("{WIDGETS}/w");
    let (code, refused) = client
        .call("PATCH", &path, r#"{"spec":{"ruled":[{"name":"b","some-size":1},{"name":"a","some-size":4}]}}"#)
        .await;
    let want = r#"Widget.shop.example.com "w" is invalid: spec.ruled[1].some-size: Invalid value: 4: grows only"#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
    let (code, refused) = client.call("PATCH", &path, r#"{"spec":{"ruled":[{"name":"b","some-size":100}]}}"#).await;
    let want = r#"Widget.shop.example.com "w" is invalid: spec.ruled: Invalid value: failed rule: self.all(i, !has(i.some__dash__size) || i.some__dash__size < 100)"#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
}

#[tokio::test]
async fn invalid_rules_are_rejected_with_their_definition() {
    let (_server, mut client) = server().await;
    for (ty, rule, want) in [
        (r#""type":"object""#, r#""rule":"self.x > 1""#, "undefined field 'x'"),
        (
            r#""type":"integer""#,
            r#""rule":"self > 'a'""#,
            "found no matching overload for '_>_' applied to '(int, string)'",
        ),
        (r#""type":"integer""#, r#""rule":"self + 1""#, "cel expression must evaluate to a bool"),
        (r#""type":"integer""#, r#""rule":"self > ""#, "Syntax error: mismatched input '<EOF>'"),
        (
            r#""type":"integer""#,
            r#""rule":"self > 1","messageExpression":"1""#,
            "messageExpression must evaluate to a string",
        ),
        (r#""type":"integer""#, r#""rule":"self > 1","reason":"Odd""#, "Unsupported value: \"Odd\""),
        (r#""type":"object""#, r#""rule":"true","fieldPath":".nowhere""#, "must be a valid path"),
        (
            r#""type":"integer""#,
            r#""rule":"true","optionalOldSelf":true"#,
            "may not be set if oldSelf is not used in rule",
        ),
    ] {
        let (code, refused) =
            client.call("POST", DEFINITIONS, &definition(&version("v1", true, &ruled(ty, rule)))).await;
        assert_eq!(code, 422, "{rule}: {refused}");
        assert!(text(&refused, "message").contains(want), "{rule}: {refused}");
    }
    let items = r#""type":"array","items":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}"#;
    let (code, refused) =
        client.call("POST", DEFINITIONS, &definition(&version("v1", true, &format!(r#""list":{{{items}}}"#)))).await;
    assert_eq!(code, 422);
    assert!(text(&refused, "message").contains("uncorrelatable portion"), "{refused}");
}

#[tokio::test]
async fn a_rule_that_takes_too_long_refuses_the_object() {
    let (_server, mut client) = server().await;
    // The estimated cost is acceptable, but the actual cost of a list of maximum length is not.
    let rule = r#""rule":"self.all(a, self.all(b, self.all(c, a + b + c < 1000)))""#;
    let ty = r#""type":"array","maxItems":100,"items":{"type":"integer"}"#;
    define(&mut client, &version("v1", true, &ruled(ty, rule))).await;
    let many = (0..100).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let (code, refused) = client.call("POST", WIDGETS, &widget("v1", &format!(r#"{{"ruled":[{many}]}}"#))).await;
    assert_eq!(code, 422);
    assert!(text(&refused, "message").contains("call cost exceeds limit for rule"), "{refused}");
}

#[tokio::test]
async fn a_rule_that_may_cost_too_much_is_refused_with_its_definition() {
    let (_server, mut client) = server().await;
    let definition = |schema: &str| {
        format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"dears.example.com"}},
            "spec":{{"group":"example.com","scope":"Namespaced","names":{{"plural":"dears","kind":"Dear"}},
            "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
        )
    };
    let list = |limits: &str, rule: &str| {
        definition(&format!(
            r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{"list":{{"type":"array",{limits}
            "items":{{"type":"string","maxLength":10,"x-kubernetes-validations":[{{"rule":"{rule}"}}]}}}}}}}}}}}}"#
        ))
    };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    // The rule runs once per item, and the number of items is limited by the request size only.
    let (code, refused) = client.call("POST", path, &list("", "self.matches('^[a-z]+([-a-z0-9]*[a-z0-9])$')")).await;
    let field =
        "spec.validation.openAPIV3Schema.properties[spec].properties[list].items.x-kubernetes-validations[0].rule";
    let hint = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                strings are declared)";
    let want = format!("{field}: Forbidden: estimated rule cost exceeds budget by factor of ");
    assert_eq!(code, 422, "{refused}");
    let message = text(&refused, "message");
    assert!(message.contains(&want) && message.contains(hint), "{message}");
    let matches = list(r#""maxItems":100,"#, "self.matches('^[a-z]+([-a-z0-9]*[a-z0-9])$')");
    let (code, accepted) = client.call("POST", &format!("{path}?dryRun=All"), &matches).await;
    assert_eq!(code, 201, "{accepted}");
    // Nested loops over an unbounded list.
    let nested = r#"{"type":"object","properties":{"list":{"type":"array","items":{"type":"string"},
        "x-kubernetes-validations":[{"rule":"self.all(x, self.exists_one(y, x == y))"}]}}}"#;
    let (code, refused) = client.call("POST", path, &definition(nested)).await;
    let message = text(&refused, "message");
    assert_eq!(code, 422);
    for want in [
        format!(
            "spec.validation.openAPIV3Schema.properties[list].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost \
             exceeds budget by factor of more than 100x {hint}"
        ),
        "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            .to_owned(),
        format!(
            "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire \
             OpenAPIv3 schema exceeds budget by factor of more than 100x {hint}"
        ),
    ] {
        assert!(message.contains(&want), "{want} is not in {message}");
    }
}

#[tokio::test]
async fn the_conversion_must_be_complete() {
    let (_server, mut client) = server().await;
    let with = |conversion: &str| {
        let versions = format!("{},{}", version("v1", false, SIZE), version("v2", true, SIZE));
        definition(&versions).replacen(r#""spec":{"#, &format!(r#""spec":{{"conversion":{conversion},"#), 1)
    };
    let webhook = |config: &str| {
        format!(r#"{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],"clientConfig":{config}}}}}"#)
    };
    for (conversion, why) in [
        (
            r#"{"strategy":"Webhook"}"#.to_owned(),
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
        (
            webhook("{}"),
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ),
        (
            webhook(r#"{"url":"http://a/b?c"}"#),
            "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
        ),
        (webhook(r#"{"url":"https://a"}"#).replace("[\"v1\"]", "[\"v9\"]"), "must include at least one of v1, v1beta1"),
        (
            webhook(r#"{"url":"https://a"}"#).replace("Webhook", "None"),
            "should not be set when strategy is not set to Webhook",
        ),
        (r#"{"strategy":"Magic"}"#.to_owned(), "supported values: \"None\", \"Webhook\""),
    ] {
        let (code, refused) = client.call("POST", DEFINITIONS, &with(&conversion)).await;
        assert!(code == 422 && text(&refused, "message").contains(why), "{why} is not in {refused}");
    }
    // Services cannot be resolved here, which fails on the first call only.
    let service = webhook(r#"{"service":{"name":"s","namespace":"n"}}"#);
    let (code, made) = client.call("POST", DEFINITIONS, &with(&service)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(client.call("POST", &WIDGETS.replace("/v1/", "/v2/"), &widget("v2", r#"{"size":1}"#)).await.0, 201);
    let (code, refused) = client.call("GET", &format!("{WIDGETS}/w"), "").await;
    let want = "conversion webhook for shop.example.com/v2, Kind=Widget failed: services cannot be resolved by this server, \
                use clientConfig.url";
    assert_eq!((code, text(&refused, "message").as_str()), (500, want));
    // Reads in the stored version need no conversion.
    assert_eq!(client.call("GET", &format!("{}/w", WIDGETS.replace("/v1/", "/v2/")), "").await.0, 200);
}

#[tokio::test]
async fn groups_of_kubernetes_need_an_approval() {
    let (_server, mut client) = server().await;
    let in_group = |group: &str, annotation: Option<&str>| {
        let definition = definition(&version("v1", true, SIZE)).replace("shop.example.com", group);
        let annotated = annotation.map(|text| format!(r#","annotations":{{"api-approved.kubernetes.io":"{text}"}}}}"#));
        let metadata = format!(r#"{{"name":"widgets.{group}"}}"#);
        match annotated {
            Some(annotated) => definition.replace(&metadata, &metadata.replace('}', &annotated)),
            None => definition,
        }
    };
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    let missing = "Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                   https://github.com/kubernetes/enhancements/pull/1111";
    let invalid = "Invalid value: \"/path\": protected groups must have approval annotation \"api-approved.kubernetes.io\" \
                   with either a URL or a reason starting with \"unapproved\", see \
                   https://github.com/kubernetes/enhancements/pull/1111";
    for (group, annotation, reason, why) in [
        ("apps.k8s.io", None, "FieldValueRequired", missing),
        ("k8s.io", Some(""), "FieldValueRequired", missing),
        ("x.kubernetes.io", Some("/path"), "FieldValueInvalid", invalid),
    ] {
        let (code, refused) = client.call("POST", DEFINITIONS, &in_group(group, annotation)).await;
        let message =
            format!("CustomResourceDefinition.apiextensions.k8s.io \"widgets.{group}\" is invalid: {field}: {why}");
        assert_eq!((code, text(&refused, "message")), (422, message));
        let cause = &refused.get("details").and_then(|details| details.get("causes")).and_then(Value::as_array);
        let cause = cause.and_then(|causes| causes.first()).expect("a cause");
        assert_eq!(["reason", "message", "field"].map(|part| text(cause, part)), [reason, why, field]);
    }
    // A group that only ends in the same letters is not protected.
    let (code, other) = client.call("POST", DEFINITIONS, &in_group("my-k8s.io", None)).await;
    assert_eq!(code, 201, "{other}");
    let (code, made) = client.call("POST", DEFINITIONS, &in_group("apps.k8s.io", Some("unapproved, a test"))).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{DEFINITIONS}/widgets.apps.k8s.io");
    let annotate = |text: &str| format!(r#"{{"metadata":{{"annotations":{{"api-approved.kubernetes.io":{text}}}}}}}"#);
    assert_eq!(client.call("PATCH", &path, &annotate("null")).await.0, 422);
    assert_eq!(client.call("PATCH", &path, &annotate(r#""bad""#)).await.0, 422);
    let condition = |definition: &Value| {
        let conditions = definition.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
        let found = conditions.into_iter().flatten();
        let mut found = found.filter(|one| text(one, "type") == "KubernetesAPIApprovalPolicyConformant");
        found.next().map(|one| ["status", "reason", "message"].map(|part| text(one, part))).unwrap_or_default()
    };
    let (_, seen) = client.call("GET", &path, "").await;
    assert_eq!(condition(&seen), ["False", "UnapprovedAnnotation", r#"not approved: "unapproved, a test""#]);
    assert_eq!(client.call("PATCH", &path, &annotate(r#""https://x.y""#)).await.0, 200);
    let (_, seen) = client.call("GET", &path, "").await;
    assert_eq!(condition(&seen), ["True", "ApprovedAnnotation", "approved in https://x.y"]);
    let (_, other) = client.call("GET", &format!("{DEFINITIONS}/widgets.my-k8s.io"), "").await;
    assert_eq!(condition(&other), [""; 3]);
}

#[tokio::test]
async fn nothing_is_created_while_the_definition_terminates() {
    let (_server, mut client) = server().await;
    define(&mut client, &version("v1", true, SIZE)).await;
    let held = widget("v1", "{}").replace(r#""name":"w""#, r#""name":"w","finalizers":["example.com/hold"]"#);
    assert_eq!(client.call("POST", WIDGETS, &held).await.0, 201);
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    let other = widget("v1", "{}").replace(r#""name":"w""#, r#""name":"x""#);
    let (code, refused) = client.call("POST", WIDGETS, &other).await;
    let why = r#"widgets.shop.example.com "x" is forbidden: create not allowed while custom resource definition is terminating"#;
    assert_eq!((code, text(&refused, "message").as_str()), (403, why));
    assert_eq!(client.apply("m", &format!("{WIDGETS}/x"), &other).await.0, 403);
    let (_, group) = client.call("GET", "/apis/shop.example.com/v1", "").await;
    let left = r#""verbs":["delete","deletecollection","get","list","watch"]"#;
    assert!(group.to_string().contains(left), "{group}");
    let reason = r#""reason":"InstanceDeletionInProgress","status":"True","type":"Terminating""#;
    while !client.call("GET", &path, "").await.1.to_string().contains(reason) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    client.call("PATCH", &format!("{WIDGETS}/w"), r#"{"metadata":{"finalizers":null}}"#).await;
    client.until(&path, 404).await;
}

#[tokio::test]
async fn a_rule_sees_changes_of_fields_that_it_cannot_name() {
    let (_server, mut client) = server().await;
    let open =
        r#""type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"integer"}}"#;
    let rule = r#""rule":"self == oldSelf","message":"stays as it is""#;
    define(&mut client, &version("v1", true, &ruled(open, rule))).await;
    let made = widget("v1", r#"{"ruled":{"known":1,"any":{"a":1},"no-name!":[1]}}"#);
    let (code, answer) = client.call("POST", WIDGETS, &made).await;
    assert_eq!(code, 201, "{answer}");
    let path = format!("{WIDGETS}/w");
    for change in [r#"{"any":{"a":2}}"#, r#"{"any":null}"#, r#"{"no-name!":[2]}"#, r#"{"more":1}"#, r#"{"known":2}"#] {
        let (code, refused) = client.call("PATCH", &path, &format!(r#"{{"spec":{{"ruled":{change}}}}}"#)).await;
        assert_eq!(code, 422, "{change}: {refused}");
    }
    let (code, answer) = client.call("PATCH", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn a_duration_of_days_is_a_duration_to_rules() {
    let (_server, mut client) = server().await;
    let rule = r#""rule":"self <= duration('100h')""#;
    define(&mut client, &version("v1", true, &ruled(r#""type":"string","format":"duration""#, rule))).await;
    for (text, want) in [("3d", 201), ("1 week", 422), ("3 parsecs", 422)] {
        let name = format!(r#""name":"w{want}{}""#, text.len());
        let widget = widget("v1", &format!(r#"{{"ruled":"{text}"}}"#)).replacen(r#""name":"w""#, &name, 1);
        let (code, answer) = client.call("POST", WIDGETS, &widget).await;
        assert_eq!(code, want, "{text}: {answer}");
    }
}

#[tokio::test]
async fn embedded_objects_must_be_valid() {
    let (_server, mut client) = server().await;
    let fields =
        r#""of":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#;
    define(&mut client, &version("v1", true, fields)).await;
    for (of, why) in [
        (r#"{"apiVersion":1,"kind":"K"}"#, "spec.of.apiVersion: Invalid value: 1: must be a string"),
        (
            r#"{"apiVersion":"v1","kind":"K","metadata":"x"}"#,
            r#"spec.of.metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type v1.ObjectMeta"#,
        ),
    ] {
        let (code, refused) = client.call("POST", WIDGETS, &widget("v1", &format!(r#"{{"of":{of}}}"#))).await;
        let want = format!(r#"Widget in version "v1" cannot be handled as a Widget: {why}"#);
        assert_eq!((code, text(&refused, "message")), (400, want));
    }
    assert_eq!(client.call("POST", WIDGETS, &widget("v1", "{}")).await.0, 201);
    let patch = r#"{"spec":{"of":{"apiVersion":1,"kind":"K"}}}"#;
    let (code, refused) = client.call("PATCH", &format!("{WIDGETS}/w"), patch).await;
    let why = "\": spec.of.apiVersion: Invalid value: 1: must be a string";
    assert!(code == 422 && text(&refused, "message").ends_with(why), "{refused}");
}

#[tokio::test]
async fn a_violation_of_an_object_level_rule_names_no_field() {
    let (_server, mut client) = server().await;
    let rules = r#","x-kubernetes-validations":[{"rule":"self.metadata.name != 'w'","message":"bad name"},
        {"rule":"!has(self.spec.size)","reason":"FieldValueDuplicate","fieldPath":".spec"}]"#;
    let with_rules =
        version("v1", true, SIZE).replacen(r#"{"type":"object""#, &format!(r#"{{"type":"object"{rules}"#), 1);
    define(&mut client, &with_rules).await;
    let (code, refused) = client.call("POST", WIDGETS, &widget("v1", r#"{"size":1}"#)).await;
    let want = r#"Widget.shop.example.com "w" is invalid: [<nil>: Invalid value: bad name, spec: Duplicate value]"#;
    assert_eq!((code, text(&refused, "message").as_str()), (422, want));
}
