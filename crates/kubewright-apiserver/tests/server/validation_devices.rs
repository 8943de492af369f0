//! Validation of ResourceClaims, ResourceSlices and DeviceClasses, with the messages of the real
//! server.

use crate::client::{Client, server, text};
use crate::validation::{causes, check, check_change};

const DEVICES: &str = "/apis/resource.k8s.io/v1";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

#[tokio::test]
async fn expressions_that_choose_devices_are_compiled() {
    let (_server, mut client) = server().await;
    let check_expression = async |client: &mut Client, expression: &str, want: Option<&str>| {
        let quoted = format!("{expression:?}");
        let content = format!(r#""spec":{{"selectors":[{{"cel":{{"expression":{quoted}}}}}]}}"#);
        let want: Vec<String> =
            want.map(|why| format!("spec.selectors[0].cel.expression: {why}")).into_iter().collect();
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        check(client, &format!("{DEVICES}/deviceclasses"), "DeviceClass", &[(&content, &want)]).await;
    };
    for expression in [
        r#"device.driver == "gpu.example.com""#,
        r#"device.attributes["gpu.example.com"].model == "a100""#,
        r#"device.attributes["gpu.example.com"].isVirtual"#,
        r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0"#,
        r#"device.attributes["gpu.example.com"].version.compareTo(semver("1.2.3")) > 0"#,
        r#"cel.bind(dra, device.attributes["dra.example.com"], dra.one && dra.other)"#,
        r#"device.allowMultipleAllocations == true"#,
        r#""x" in device.attributes && device.attributes["x"].exists(name, name.startsWith("a"))"#,
    ] {
        check_expression(&mut client, expression, None).await;
    }
    let shown = |expression: &str, why: &str| format!("Invalid value: {expression:?}: {why}");
    let number = r#"device.driver.size()"#;
    let why = shown(number, "must evaluate to bool or the unknown type, not int");
    check_expression(&mut client, number, Some(&why)).await;
    let unknown = "device.colour == 1";
    let why = "compilation failed: ERROR: <input>:1:7: undefined field 'colour'\n | device.colour == 1\n | ......^";
    check_expression(&mut client, unknown, Some(&shown(unknown, why))).await;
    let other = "pod.spec == 1";
    let why = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'pod' (in container '')\n | pod.spec == 1\n | ^";
    check_expression(&mut client, other, Some(&shown(other, why))).await;
    // Four nested loops over the attributes cost too much.
    let long = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b + c + d != \\\"\\\"))))".replace("\\\"", "\"");
    check_expression(&mut client, &long, Some("Forbidden: too complex, exceeds cost limit")).await;
    let classes: &[(&str, &[&str])] = &[(
        r#""spec":{"config":[{"opaque":{"driver":"D!","parameters":[1]}}]}"#,
        &[
            r#"spec.config[0].opaque.driver: Invalid value: "D!": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            r#"spec.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object"#,
        ],
    )];
    check(&mut client, &format!("{DEVICES}/deviceclasses"), "DeviceClass", classes).await;
}

#[tokio::test]
async fn claims_of_devices_are_checked() {
    let (_server, mut client) = server().await;
    let label = format!(r#"spec.devices.requests[0].name: Invalid value: "": {LABEL}"#);
    let many: Vec<String> =
        (0..33).map(|index| format!(r#"{{"name":"r{index}","exactly":{{"deviceClassName":"c"}}}}"#)).collect();
    let many = format!(r#""spec":{{"devices":{{"requests":[{}]}}}}"#, many.join(","));
    let claims: &[(&str, &[&str])] = &[
        (r#""spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}"#, &[]),
        (&many, &["spec.devices.requests: Too many: 33: must have at most 32 items"]),
        (
            r#""spec":{"devices":{"requests":[{"name":""},{"name":"a","exactly":{"deviceClassName":"c"},"firstAvailable":[{"name":"s","deviceClassName":"c"}]},{"name":"a","exactly":{"deviceClassName":""}}]}}"#,
            &[
                &label,
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
                "spec.devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
                "spec.devices.requests[2].exactly.deviceClassName: Required value",
                r#"spec.devices.requests[2]: Duplicate value: "a""#,
            ],
        ),
        (
            r#""spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c","allocationMode":"All","count":2,"tolerations":[{"key":"k","operator":"Exists","value":"v"},{"operator":"Like","effect":"Some"}]}},{"name":"b","firstAvailable":[{"name":"s","deviceClassName":"c","count":-1},{"name":"s","deviceClassName":"c","allocationMode":"Some"}]}]}}"#,
            &[
                "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
                r#"spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`"#,
                r#"spec.devices.requests[0].exactly.tolerations[1].operator: Unsupported value: "Like": supported values: "Equal", "Exists""#,
                r#"spec.devices.requests[0].exactly.tolerations[1].effect: Unsupported value: "Some": supported values: "NoExecute", "NoSchedule", "None""#,
                "spec.devices.requests[1].firstAvailable[0].count: Invalid value: -1: must be greater than zero",
                r#"spec.devices.requests[1].firstAvailable[1].allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount""#,
                r#"spec.devices.requests[1].firstAvailable[1]: Duplicate value: "s""#,
            ],
        ),
        (
            r#""spec":{"devices":{"requests":[{"name":"a","firstAvailable":[{"name":"s","deviceClassName":"c"}]}],"constraints":[{"requests":["a/s","b","a/t","a/s/x"],"matchAttribute":"plain"},{"requests":["a","a"]}],"config":[{"requests":["c"]}]}}"#,
            &[
                r#"spec.devices.constraints[0].requests[1]: Invalid value: "b": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"#,
                r#"spec.devices.constraints[0].requests[2]: Invalid value: "a/t": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"#,
                r#"spec.devices.constraints[0].requests[3]: Invalid value: "a/s/x": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"#,
                r#"spec.devices.constraints[0].matchAttribute: Invalid value: "plain": a fully qualified name must be a domain and a name separated by a slash"#,
                r#"spec.devices.constraints[1].requests[1]: Duplicate value: "a""#,
                r#"spec.devices.constraints[1]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#,
                r#"spec.devices.config[0].requests[0]: Invalid value: "c": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"#,
                "spec.devices.config[0].opaque: Required value",
            ],
        ),
    ];
    check(&mut client, CLAIMS, "ResourceClaim", claims).await;
    let templates: &[(&str, &[&str])] = &[(
        r#""spec":{"metadata":{"name":"n","labels":{"a":"b c"}},"spec":{"devices":{"requests":[{"name":"a"}]}}}"#,
        &[
            r#"spec.metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#,
            "spec.metadata.name: Forbidden: cannot be set",
            "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
        ],
    )];
    let path = CLAIMS.replace("resourceclaims", "resourceclaimtemplates");
    check(&mut client, &path, "ResourceClaimTemplate", templates).await;
    // The spec is immutable, and one device is the default.
    let object = r#"{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"x"},"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}}"#;
    let patch = r#"{"spec":{"devices":{"requests":[{"name":"b","exactly":{"deviceClassName":"c"}}]}}}"#;
    let want = r#"spec: Invalid value: {"devices":{"requests":[{"exactly":{"allocationMode":"ExactCount","count":1,"deviceClassName":"c"},"name":"b"}]}}: field is immutable"#;
    check_change(&mut client, CLAIMS, object, patch, &[want]).await;
}

#[tokio::test]
async fn allocations_of_claims_are_validated() {
    let (_server, mut client) = server().await;
    let object = r#"{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"x"},"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}}"#;
    let (code, made) = client.call("POST", CLAIMS, object).await;
    assert_eq!(code, 201, "{made}");
    let result = r#""request":"a","driver":"d.example.com","pool":"node-1","device":"gpu-0""#;
    let allocated = format!(
        r#"{{"allocation":{{"devices":{{"results":[{{{result}}}]}}}},"reservedFor":[{{"resource":"pods","name":"p","uid":"u"}}]}}"#
    );
    let steps: &[(&str, &[&str])] = &[
        (
            r#"{"reservedFor":[{"resource":"pods","name":"","uid":"u"},{"resource":"pods","name":"q","uid":"u"}]}"#,
            &[
                "status.reservedFor[0].name: Required value",
                r#"status.reservedFor[1]: Duplicate value: "u""#,
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            ],
        ),
        (
            r#"{"allocation":{"devices":{"results":[{"request":"b","driver":"","pool":"","device":"g","shareID":"X","bindingConditions":["c"]}],"config":[{"source":"FromMoon","opaque":{"driver":"d","parameters":{}}}]},"nodeSelector":{"nodeSelectorTerms":[]}}}"#,
            &[
                r#"status.allocation.devices.results[0].request: Invalid value: "b": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"#,
                "status.allocation.devices.results[0].driver: Required value",
                "status.allocation.devices.results[0].pool: Required value",
                "status.allocation.devices.results[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
                r#"status.allocation.devices.results[0].shareID: Invalid value: "X": error validating uid: invalid UUID length: 1"#,
                r#"status.allocation.devices.config[0].source: Unsupported value: "FromMoon": supported values: "FromClaim", "FromClass""#,
                "status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            ],
        ),
        (&allocated, &[]),
        (
            r#"{"devices":[{"driver":"d.example.com","pool":"node-1","device":"gpu-1","conditions":[{"type":"Ready","status":"Maybe","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"data":[1],"networkData":{"ips":["10.0.0.1","10.0.0.01/8","10.0.0.1/8","10.0.0.1/8"]}}]}"#,
            &[
                r#"status.devices[0]: Invalid value: "d.example.com/node-1/gpu-1": must be an allocated device in the claim"#,
                r#"status.devices[0].conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown""#,
                r#"status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object"#,
                r#"status.devices[0].networkData.ips[0]: Invalid value: "10.0.0.1": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"#,
                r#"status.devices[0].networkData.ips[1]: Invalid value: "10.0.0.01/8": must be in canonical form ("10.0.0.1/8")"#,
                r#"status.devices[0].networkData.ips[3]: Duplicate value: "10.0.0.1/8""#,
            ],
        ),
        (r#"{"devices":[{"driver":"d.example.com","pool":"node-1","device":"gpu-0","conditions":[]}]}"#, &[]),
    ];
    for (status, want) in steps {
        let (code, answer) =
            client.call("PATCH", &format!("{CLAIMS}/x/status"), &format!(r#"{{"status":{status}}}"#)).await;
        assert_eq!(causes(&answer), *want, "{status}: {answer}");
        assert_eq!(code, if want.is_empty() { 200 } else { 422 }, "{status}: {answer}");
    }
    // An allocation is immutable until it is released.
    let other = r#"{"status":{"allocation":{"devices":{"results":[]}}}}"#;
    let (code, answer) = client.call("PATCH", &format!("{CLAIMS}/x/status"), other).await;
    assert_eq!(code, 422, "{answer}");
    assert!(text(&answer, "message").contains("status.allocation: Invalid value"), "{answer}");
}

#[tokio::test]
async fn slices_of_devices_are_checked() {
    let (_server, mut client) = server().await;
    let identifier = format!(r#"spec.devices[0].attributes[a-b]: Invalid value: "a-b": {IDENTIFIER}"#);
    let counter = format!(r#"spec.sharedCounters[0].counters[C]: Invalid value: "C": {LABEL}"#);
    let pool = r#""driver":"d.example.com","pool":{"name":"p","generation":1,"resourceSliceCount":1}"#;
    let in_pool = |rest: &str| format!(r#""spec":{{{pool},{rest}}}"#);
    let fine = in_pool(
        r#""nodeName":"n","devices":[{"name":"a","attributes":{"model":{"string":"x"},"d.example.com/v":{"version":"1.2.3"}},"capacity":{"memory":{"value":"1Gi"}}}]"#,
    );
    let places = in_pool(
        r#""nodeName":"n","allNodes":true,"perDeviceNodeSelection":false,"devices":[{"name":"a","allNodes":true},{"name":"a"}]"#,
    );
    let attributes = in_pool(
        r#""allNodes":true,"devices":[{"name":"a","attributes":{"a-b":{"int":1,"bool":true},"v":{"version":"1.x"},"w":{}},"capacity":{"m":{"value":"1","requestPolicy":{"default":"1","validValues":["1"]}}},"taints":[{"key":"k","effect":"Bad"}],"consumesCounters":[{"counterSet":"s"}],"bindingConditions":["c","c"],"bindingFailureConditions":["c"]}]"#,
    );
    let shared = in_pool(
        r#""perDeviceNodeSelection":true,"sharedCounters":[{"name":"","counters":{"C":{"value":"1"}}},{"name":"s"}]"#,
    );
    let policies = in_pool(
        r#""allNodes":true,"devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{
            "a":{"value":"4","requestPolicy":{"default":"3","validValues":["2","1","9"]}},
            "b":{"value":"4","requestPolicy":{"default":"0","validRange":{"min":"1","max":"6","step":"2"}}},
            "c":{"value":"4","requestPolicy":{"validRange":{"min":"1"}}},
            "d":{"value":"4","requestPolicy":{"default":"1","validValues":["1"],"validRange":{"min":"1"}}}}}]"#,
    );
    let policy = |name: &str, rest: &str| format!("spec.devices[0].capacity[{name}].requestPolicy{rest}");
    let want_policies = [
        policy("a", r#".validValues[1]: Invalid value: "1": values must be sorted in ascending order"#),
        policy("a", r#".validValues[2]: Invalid value: "9": option is larger than capacity value: 4"#),
        policy("a", r#".validValues: Invalid value: "3": default value is not valid according to the requestPolicy"#),
        policy("b", r#".validRange.min: Invalid value: "0": default is less than min: 1"#),
        policy("b", r#".validRange.max: Invalid value: "6": max is larger than capacity value: 4"#),
        policy("b", r#".validRange.step: Invalid value: "0": value is not a multiple of a given step (2) from (1)"#),
        policy("b", r#".validRange.step: Invalid value: "6": value is not a multiple of a given step (2) from (1)"#),
        policy("c", ".default: Required value: required when validRange is defined"),
        policy(
            "d",
            r#": Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#,
        ),
    ];
    let want_policies: Vec<&str> = want_policies.iter().map(String::as_str).collect();
    let slices: &[(&str, &[&str])] = &[
        (&fine, &[]),
        (
            r#""spec":{"driver":"","pool":{"name":"a//b","generation":-1,"resourceSliceCount":0},"nodeName":""}"#,
            &[
                "spec.driver: Required value",
                r#"spec.pool.name: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
                r#"spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string"#,
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ],
        ),
        (
            &places,
            &[
                "spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
                r#"spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"#,
                "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
                r#"spec.devices[1]: Duplicate value: "a""#,
            ],
        ),
        (
            &attributes,
            &[
                &identifier,
                r#"spec.devices[0].attributes[a-b]: Invalid value: {"IntValue":1,"BoolValue":true,"StringValue":null,"VersionValue":null}: exactly one value must be specified"#,
                r#"spec.devices[0].attributes[v].version: Invalid value: "1.x": must be a string compatible with semver.org spec 2.0.0"#,
                r#"spec.devices[0].attributes[w]: Invalid value: "": exactly one value must be specified"#,
                "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
                r#"spec.devices[0].taints[0].effect: Unsupported value: "Bad": supported values: "NoExecute", "NoSchedule", "None""#,
                "spec.devices[0].consumesCounters[0].counters: Required value",
                r#"spec.devices[0].bindingConditions[1]: Duplicate value: "c""#,
                r#"spec.devices[0].bindingFailureConditions[0]: Invalid value: "c": bindingFailureConditions must not overlap with bindingConditions"#,
            ],
        ),
        (
            &shared,
            &[
                "spec.sharedCounters[0].name: Required value",
                &counter,
                "spec.sharedCounters[1].counters: Required value",
            ],
        ),
        (&policies, &want_policies),
    ];
    check(&mut client, &format!("{DEVICES}/resourceslices"), "ResourceSlice", slices).await;
    let object =
        format!(r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{{"name":"s"}},{fine}}}"#);
    let patch = r#"{"spec":{"driver":"e.example.com","pool":{"name":"q"},"nodeName":"m"}}"#;
    let want = [
        r#"spec.pool.name: Invalid value: "q": field is immutable"#,
        r#"spec.driver: Invalid value: "e.example.com": field is immutable"#,
        r#"spec.nodeName: Invalid value: "m": field is immutable"#,
    ];
    check_change(&mut client, &format!("{DEVICES}/resourceslices"), &object, patch, &want).await;
}
