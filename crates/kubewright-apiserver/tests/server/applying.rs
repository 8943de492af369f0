//! Server-side apply and field ownership.

use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, config_map, server, text};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";

fn deployment(spec: &str) -> String {
    format!(r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web"}},"spec":{{{spec}}}}}"#)
}

fn web(replicas: &str) -> String {
    deployment(&format!(
        r#"{replicas}"selector":{{"matchLabels":{{"app":"web"}}}},"template":{{"metadata":{{"labels":{{"app":"web"}}}},
        "spec":{{"containers":[{{"name":"c","image":"i","ports":[{{"containerPort":80}}]}}]}}}}"#
    ))
}

/// Name, operation and subresource of all managers.
fn owners(object: &Value) -> Vec<String> {
    let list = object.get("metadata").and_then(|meta| meta.get("managedFields")).and_then(Value::as_array);
    let entry = |entry: &Value| {
        ["manager", "operation", "subresource"].map(|field| text(entry, field)).join(" ").trim_end().to_owned()
    };
    list.map(|list| list.iter().map(entry).collect()).unwrap_or_default()
}

#[tokio::test]
async fn a_repeated_apply_changes_nothing() {
    let (_server, mut client) = server().await;
    let (code, created) = client.apply("me", DEPLOYMENT, &web(r#""replicas":2,"#)).await;
    assert_eq!((code, owners(&created)), (201, vec!["me Apply".to_owned()]));
    let (code, same) = client.apply("me", DEPLOYMENT, &web(r#""replicas":2,"#)).await;
    assert_eq!((code, same), (200, created));
}

#[tokio::test]
async fn scaling_makes_the_writer_owner_of_the_replicas() {
    let (_server, mut client) = server().await;
    client.apply("me", DEPLOYMENT, &web(r#""replicas":2,"#)).await;
    let scale = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":5}}"#;
    let path = format!("{DEPLOYMENT}/scale");
    let (code, refused) = client.apply("scaler", &path, scale).await;
    assert_eq!(code, 409);
    assert_eq!(text(&refused, "message"), r#"Apply failed with 1 conflict: conflict with "me": .spec.replicas"#);
    let (code, scaled) = client.apply("scaler&force=true", &path, scale).await;
    assert_eq!((code, text(&scaled, "spec/replicas").as_str()), (200, "5"));
    let (code, left) = client.apply("me", DEPLOYMENT, &web("")).await;
    assert_eq!((code, text(&left, "spec/replicas").as_str()), (200, "5"));
    assert_eq!(owners(&left), ["scaler Apply scale", "me Apply"]);
}

#[tokio::test]
async fn an_empty_list_resets_the_managers() {
    let (_server, mut client) = server().await;
    let path = format!("{CONFIG_MAPS}/a");
    let with_data = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;
    let (_, created) = client.apply("me", &path, with_data).await;
    assert_eq!(owners(&created), ["me Apply"]);
    for body in [r#"{"metadata":{"managedFields":[]}}"#, r#"{"metadata":{"managedFields":[{}]}}"#] {
        client.apply("me", &path, with_data).await;
        let (code, reset) = client.call("PATCH", &path, body).await;
        assert_eq!((code, owners(&reset)), (200, Vec::<String>::new()));
    }
    client.apply("me", &path, with_data).await;
    let (_, reset) = client.call("PUT", &path, &config_map("a", r#","managedFields":[]"#)).await;
    assert_eq!(owners(&reset), Vec::<String>::new());
}

#[tokio::test]
async fn an_update_belongs_to_its_manager_or_its_program() {
    let (_server, mut client) = server().await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, created) = client.call("POST", CONFIG_MAPS, &config_map("a", r#","labels":{"l":"1"}"#)).await;
    assert_eq!(owners(&created), ["unknown Update"]);
    let (_, changed) = client.call("PATCH", &format!("{path}?fieldManager=other"), r#"{"data":{"k":"v"}}"#).await;
    assert_eq!(owners(&changed).len(), 2);
    // A writer does not own fields that it does not change, and a no-op is not stored.
    let (_, same) = client.call("PATCH", &format!("{path}?fieldManager=third"), r#"{"data":{"k":"v"}}"#).await;
    assert_eq!(same, changed);
}

#[tokio::test]
async fn containers_for_debugging_can_be_applied() {
    let (_server, mut client) = server().await;
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(client.call("POST", pods, pod).await.0, 201);
    let config = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
        "spec":{"ephemeralContainers":[{"name":"d","image":"i"}]}}"#;
    let (code, changed) = client.apply("me", &format!("{pods}/p/ephemeralcontainers"), config).await;
    assert_eq!(code, 200);
    assert_eq!(owners(&changed), ["me Apply ephemeralcontainers", "unknown Update"]);
    assert!(text(&changed, "spec/ephemeralContainers").contains(r#""name":"d""#));
}

#[tokio::test]
async fn custom_objects_are_merged_by_their_schema() {
    let (_server, mut client) = server().await;
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"gadgets.shop.example.com"},"spec":{"group":"shop.example.com","scope":"Namespaced",
        "names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
    client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let path = "/apis/shop.example.com/v1/namespaces/default/gadgets/g";
    let gadget = |spec: &str| {
        format!(r#"{{"apiVersion":"shop.example.com/v1","kind":"Gadget","metadata":{{"name":"g"}},"spec":{{{spec}}}}}"#)
    };
    assert_eq!(client.apply("a", path, &gadget(r#""size":3,"parts":["x"]"#)).await.0, 201);
    assert_eq!(client.apply("b", path, &gadget(r#""color":"red""#)).await.0, 200);
    assert_eq!(client.apply("b", path, &gadget(r#""parts":["y"]"#)).await.0, 409);
    let (_, left) = client.apply("a", path, &gadget("")).await;
    assert_eq!(text(&left, "spec"), r#"{"color":"red"}"#);
}

#[tokio::test]
async fn an_apply_with_a_uid_does_not_recreate_the_object() {
    let (_server, mut client) = server().await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, made) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let uid = text(&made, "metadata/uid");
    let config = config_map("a", &format!(r#","uid":"{uid}""#));
    assert_eq!(client.apply("m", &path, &config).await.0, 200);
    assert_eq!(client.call("DELETE", &path, "").await.0, 200);
    let (code, refused) = client.apply("m", &path, &config).await;
    let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    assert_eq!(code, 409);
    assert!(text(&refused, "message").ends_with(&why), "{refused}");
}
