//! Mutating admission policies.

use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};
use crate::control::REGISTRATION;

/// Creates a policy for config maps and its binding.
async fn put_in_force_to_mutate(client: &mut Client, name: &str, spec: &str) -> (u16, Value) {
    let policy = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{{"name":"{name}"}},
        "spec":{{"matchConstraints":{{"resourceRules":[{{"apiGroups":[""],"apiVersions":["v1"],
        "operations":["CREATE","UPDATE"],"resources":["configmaps","pods"]}}]}},"reinvocationPolicy":"Never",{spec}}}}}"#
    );
    let answer = client.call("POST", &format!("{REGISTRATION}/mutatingadmissionpolicies"), &policy).await;
    let binding = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding",
        "metadata":{{"name":"{name}"}},"spec":{{"policyName":"{name}"}}}}"#
    );
    let (code, bound) = client.call("POST", &format!("{REGISTRATION}/mutatingadmissionpolicybindings"), &binding).await;
    assert_eq!(code, 201, "{bound}");
    answer
}

#[tokio::test]
async fn a_policy_merges_a_configuration_into_objects() {
    let (_server, mut client) = server().await;
    let spec = r#""matchConditions":[{"name":"c","expression":"object.metadata.name != 'free' && object.kind == 'ConfigMap'"}],
        "variables":[{"name":"who","expression":"request.userInfo.username"}],
        "mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
        "Object{metadata: Object.metadata{labels: {'by': variables.who}}, data: {'a': 'b'}}"}}]"#;
    let (code, made) = put_in_force_to_mutate(&mut client, "labels", spec).await;
    assert_eq!(code, 201, "{made}");
    let (_, map) = client.call("POST", CONFIG_MAPS, &config_map("a", r#","labels":{"own":"yes"}"#)).await;
    assert_eq!(text(&map, "metadata/labels"), r#"{"by":"kubernetes-admin","own":"yes"}"#);
    assert_eq!(text(&map, "data/a"), "b");
    let (_, map) = client.call("POST", CONFIG_MAPS, &config_map("free", "")).await;
    assert_eq!(text(&map, "metadata/labels"), "");
    // Lists with keys are merged by key.
    let spec = r#""matchConditions":[{"name":"c","expression":"request.kind.kind == 'Pod'"}],
        "mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
        "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: 'Never'}) + [Object.spec.containers{name: 'mesh', image: 'm'}]}}"}}]"#;
    let (code, made) = put_in_force_to_mutate(&mut client, "mesh", spec).await;
    assert_eq!(code, 201, "{made}");
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let (code, pod) = client.call("POST", "/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(code, 201, "{pod}");
    let containers = pod.get("spec").and_then(|spec| spec.get("containers")?.as_array()).expect("containers");
    let shown: Vec<String> = containers
        .iter()
        .map(|one| ["name", "image", "imagePullPolicy"].map(|field| text(one, field)).join(" "))
        .collect();
    assert_eq!(shown, ["c i Never", "mesh m Always"]);
}

#[tokio::test]
async fn a_policy_patches_objects_one_mutation_after_the_other() {
    let (_server, mut client) = server().await;
    let spec = r#""failurePolicy":"Fail","mutations":[
        {"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"}},
        {"patchType":"JSONPatch","jsonPatch":{"expression":
        "[JSONPatch{op: 'test', path: '/data/a', value: 'b'}, JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x/y'), value: object.data.a}]"}},
        {"patchType":"JSONPatch","jsonPatch":{"expression":
        "object.metadata.name == 'bad' ? [JSONPatch{op: 'remove', path: '/none'}] : []"}}]"#;
    let (code, made) = put_in_force_to_mutate(&mut client, "patches", spec).await;
    assert_eq!(code, 201, "{made}");
    let (code, map) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!((code, text(&map, "data").as_str()), (422, ""), "a key with a slash is no key of a config map: {map}");
    let spec = spec.replace("x/y", "x~y").replace(r"'x~y'", "'x.y'");
    let path = format!("{REGISTRATION}/mutatingadmissionpolicies/patches");
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    let binding = format!("{REGISTRATION}/mutatingadmissionpolicybindings/patches");
    assert_eq!(client.call("DELETE", &binding, "").await.0, 200);
    assert_eq!(put_in_force_to_mutate(&mut client, "patches", &spec).await.0, 201);
    let (code, map) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!((code, text(&map, "data").as_str()), (201, r#"{"a":"b","x.y":"b"}"#), "{map}");
    let (code, refused) = client.call("POST", CONFIG_MAPS, &config_map("bad", "")).await;
    assert_eq!(code, 403, "{refused}");
    let why = "policy 'patches' with binding 'patches' denied request: JSON Patch: ";
    assert!(text(&refused, "message").starts_with(why), "{refused}");
}

#[tokio::test]
async fn invalid_mutations_are_rejected() {
    let (_server, mut client) = server().await;
    let apply = |expression: &str| {
        format!(
            r#""mutations":[{{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"{expression}"}}}}]"#
        )
    };
    let (code, refused) = put_in_force_to_mutate(&mut client, "number", &apply("1 + 1")).await;
    assert_eq!(code, 422);
    let want = "spec.mutations[0].applyConfiguration.expression: Invalid value: \"1 + 1\": must evaluate to Object";
    assert!(text(&refused, "message").contains(want), "{refused}");
    // Atomic fields and unknown fields are rejected.
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    for (name, expression, why) in [
        (
            "atomic",
            "Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}",
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector",
        ),
        ("unknown", "Object{data: {'a': 'b'}}", "failed to convert patch object to typed object: "),
    ] {
        let (code, made) = put_in_force_to_mutate(&mut client, name, &apply(expression)).await;
        assert_eq!(code, 201, "{made}");
        let (code, refused) = client.call("POST", "/api/v1/namespaces/default/pods", pod).await;
        let want = format!("policy '{name}' with binding '{name}' denied request: error applying patch: {why}");
        assert!(code == 403 && text(&refused, "message").starts_with(&want), "{refused}");
        let binding = format!("{REGISTRATION}/mutatingadmissionpolicybindings/{name}");
        assert_eq!(client.call("DELETE", &binding, "").await.0, 200);
    }
}
