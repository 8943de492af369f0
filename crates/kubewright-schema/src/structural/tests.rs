//! Schemas that are structural, and the causes for those that are not.

use super::*;

#[test]
fn schemas_of_common_generators_are_structural() {
    let schema = r#"{"type":"object","description":"d","required":["spec"],"properties":{
        "apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
        "spec":{"type":"object","properties":{
            "limits":{"type":"object","additionalProperties":{"anyOf":[{"type":"integer"},{"type":"string"}],
                "x-kubernetes-int-or-string":true,
                "pattern":"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$"}},
            "protocol":{"type":"string","default":"TCP","enum":["TCP","UDP"]},
            "replicas":{"type":"integer","format":"int32","default":1,"minimum":0},
            "template":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
            "selector":{"type":"object","x-kubernetes-map-type":"atomic","properties":{
                "matchLabels":{"type":"object","additionalProperties":{"type":"string"}}}},
            "source":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},
                "oneOf":[{"required":["a"]},{"required":["b"]}],"not":{"required":["a","b"]}}}},
        "status":{"type":"object","properties":{"conditions":{"type":"array","x-kubernetes-list-type":"map",
            "x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type"],"properties":{
                "type":{"type":"string","maxLength":316},"message":{"type":"string"},
                "lastTransitionTime":{"type":"string","format":"date-time"}}}}}}}}"#;
    let schema: Value = schema.parse().expect("valid JSON");
    assert_eq!(validate_schema("s", &schema), []);
    let object = r#"{"spec":{"limits":{"cpu":"100m","pods":3},"source":{"a":"x"},"replicas":2}}"#;
    assert_eq!(Schema::parse(&schema).validate_structure(&object.parse().expect("valid JSON"), None), []);
}

#[test]
fn violations_are_reported_with_their_path() {
    for (schema, want) in [
        (r#"{"type":"object","properties":{"a":{"type":"string","default":"x"}}}"#, ""),
        (r#"{}"#, "s.type: Required value: must not be empty at the root"),
        (r#"{"x-kubernetes-preserve-unknown-fields":true}"#, ""),
        (r#"{"x-kubernetes-int-or-string":true}"#, ""),
        (
            r#"{"type":"object","properties":{"a":{"x-kubernetes-embedded-resource":true,"properties":{"b":{"type":"string"}}}}}"#,
            "s.properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true",
        ),
        (
            r#"{"type":"object","properties":{"a":{}}}"#,
            "s.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"array"}}}"#,
            "s.properties[a].items: Required value: must be specified",
        ),
        // Defaults of int-or-string values are not type-checked.
        (r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"default":1.5}}}"#, ""),
        (
            r#"{"type":"object","properties":{"a":{"type":"integer","default":1.5}}}"#,
            r#"s.properties[a].default: Invalid value: "number":  in body must be of type integer: "number"; s.properties[a].default: Invalid value: "": Checked value must be of type integer (default format) in "#,
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"integer","default":"x"}}}"#,
            r#"s.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"b":{}}}]}"#,
            "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"string","anyOf":[{"type":"string"}]}}}"#,
            "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,
                "anyOf":[{"type":"integer"},{"type":"string"}]}}}"#,
            "",
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"},
                "x-kubernetes-list-type":"map"}}}"#,
            "s.properties[a].x-kubernetes-list-map-keys: Required value: \
             must not be empty if x-kubernetes-list-type is map",
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                "items":{"type":"object","nullable":true,"properties":{"k":{"type":"string","nullable":true}}}}}}"#,
            "s.properties[a].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map; \
             s.properties[a].items.properties[k].default: Required value: \
             this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property; \
             s.properties[a].items.properties[k].nullable: Forbidden: \
             this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object"}}}}"#,
            "s.properties[a].items.x-kubernetes-map-type: Invalid value: null: \
             must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            "s.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"x-kubernetes-preserve-unknown-fields":true}}}"#,
            "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: \
             must be false if x-kubernetes-int-or-string is true",
        ),
        (
            r#"{"type":"object","properties":{"metadata":{"type":"object"},"a":{"type":"string"}},
                "anyOf":[{"properties":{"metadata":{},"a":{"x-kubernetes-validations":[{"rule":"true"}]}}}]}"#,
            "s.anyOf[0].properties[a].x-kubernetes-validations: Forbidden: must be empty to be structural; \
             s.anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
        ),
        (
            r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"string"},{"type":"integer"}]}}}"#,
            "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural; \
             s.properties[a].anyOf[1].type: Forbidden: must be empty to be structural",
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"object","allOf":[{"nullable":true}],"not":{"default":1}}}}"#,
            "s.properties[a].allOf[0].nullable: Forbidden: must be false to be structural; \
             s.properties[a].not.default: Forbidden: must be undefined to be structural",
        ),
        // Only junctors at the root are checked for unspecified fields.
        (
            r#"{"type":"object","properties":{"a":{"type":"object","anyOf":[{"properties":{"b":{"minLength":1}}}]}}}"#,
            "",
        ),
        (
            r#"{"type":"object","anyOf":[{"properties":{"b":{"minLength":1}}}]}"#,
            "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
        ),
        // A default is validated without further defaulting, and rules apply to it.
        (
            r#"{"type":"object","properties":{"a":{"type":"object","default":{},"required":["b"],
                "properties":{"b":{"type":"string","default":"c"}}}}}"#,
            "s.properties[a].default.b: Required value",
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"string","default":"b",
                "x-kubernetes-validations":[{"rule":"self == oldSelf"},{"rule":"self != 'b'"}]}}}"#,
            "s.properties[a].default: Invalid value: \"b\": failed rule: self != 'b'",
        ),
        (
            r#"{"type":"object","properties":{"kind":{"type":"string","default":"K"},
                "metadata":{"type":"object","properties":{"name":{"type":"string","default":"n"}}}}}"#,
            "s.properties[kind].default: Forbidden: must not be set in top-level kind; \
             s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
        ),
    ] {
        let causes = validate_schema("s", &schema.parse().expect("valid JSON"));
        let text =
            |cause: StatusCause| format!("{}: {}", cause.field.unwrap_or_default(), cause.message.unwrap_or_default());
        assert_eq!(causes.into_iter().map(text).collect::<Vec<_>>().join("; "), want, "{schema}");
    }
}
