//! What the server tidies up by itself.

use crate::client::{CONFIG_MAPS, config_map, server, text};

#[tokio::test]
async fn what_nobody_owns_any_more_goes() {
    let (_server, mut client) = server().await;
    let (_, owner) = client.call("POST", CONFIG_MAPS, &config_map("owner", "")).await;
    let uid = text(&owner, "metadata/uid");
    let reference =
        format!(r#","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{uid}"}}]"#);
    client.call("POST", CONFIG_MAPS, &config_map("dependent", &reference)).await;
    client.call("DELETE", &format!("{CONFIG_MAPS}/owner"), "").await;
    client.until(&format!("{CONFIG_MAPS}/dependent"), 404).await;
}

#[tokio::test]
async fn a_namespace_goes_after_its_content() {
    let (_server, mut client) = server().await;
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces", namespace).await.0, 201);
    let inside = "/api/v1/namespaces/shop/configmaps";
    let held = config_map("a", r#","finalizers":["example.com/hold"]"#);
    client.call("POST", inside, &held).await;
    client.call("POST", inside, &config_map("b", "")).await;
    assert_eq!(client.call("DELETE", "/api/v1/namespaces/shop", "").await.0, 200);
    client.until(&format!("{inside}/b"), 404).await;
    assert_eq!(client.call("POST", inside, &config_map("late", "")).await.0, 403);
    assert_eq!(client.call("GET", "/api/v1/namespaces/shop", "").await.0, 200);
    client.call("PATCH", &format!("{inside}/a"), r#"{"metadata":{"finalizers":null}}"#).await;
    client.until("/api/v1/namespaces/shop", 404).await;
}

#[tokio::test]
async fn what_refers_to_an_owner_that_nobody_can_look_for_stays() {
    let (_server, mut client) = server().await;
    let (_, owner) = client.call("POST", CONFIG_MAPS, &config_map("owner", "")).await;
    let uid = text(&owner, "metadata/uid");
    // The kind of the first is not served; the second is in a namespace, and what it shall own is not.
    let unknown = r#","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Parent","name":"p","uid":"1"}]"#;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("orphan", unknown)).await.0, 201);
    let role = format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"r","ownerReferences":
        [{{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{uid}"}}]}}}}"#
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(client.call("POST", roles, &role).await.0, 201);
    // An object that has to go shows that the collector has come this far.
    let absent = r#","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"2"}]"#;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("last", absent)).await.0, 201);
    client.until(&format!("{CONFIG_MAPS}/last"), 404).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/orphan"), "").await.0, 200);
    assert_eq!(client.call("GET", &format!("{roles}/r"), "").await.0, 200);
}
