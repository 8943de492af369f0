//! Writing and reading objects.

use kubewright_core::Value;

use crate::client::{CONFIG_MAPS, config_map, server, text};

#[tokio::test]
async fn an_object_lives_from_create_to_delete() {
    let (server, mut client) = server().await;
    let (code, created) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    assert_eq!((code, text(&created, "metadata/namespace").as_str()), (201, "default"));
    let path = format!("{CONFIG_MAPS}/a");
    let (code, changed) = client.call("PATCH", &path, r#"{"data":{"k":"v"}}"#).await;
    assert_eq!((code, text(&changed, "data/k").as_str()), (200, "v"));
    assert_ne!(text(&created, "metadata/resourceVersion"), text(&changed, "metadata/resourceVersion"));
    let (code, deleted) = client.call("DELETE", &path, "").await;
    assert_eq!((code, text(&deleted, "details/uid")), (200, text(&created, "metadata/uid")));
    assert_eq!(client.call("GET", &path, "").await.0, 404);
    server.stop().await;
}

#[tokio::test]
async fn a_change_of_nothing_keeps_the_version() {
    let (_server, mut client) = server().await;
    let (_, created) = client.call("POST", CONFIG_MAPS, &config_map("a", "")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, same) = client.call("PUT", &path, &config_map("a", "")).await;
    assert_eq!(text(&created, "metadata/resourceVersion"), text(&same, "metadata/resourceVersion"));
}

#[tokio::test]
async fn custom_resources_are_served_as_soon_as_they_are_defined() {
    let (_server, mut client) = server().await;
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"gadgets.shop.example.com"},"spec":{"group":"shop.example.com","scope":"Namespaced",
        "names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
    let gadgets = "/apis/shop.example.com/v1/namespaces/default/gadgets";
    assert_eq!(client.call("GET", gadgets, "").await.0, 404);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", definitions, definition).await.0, 201);
    let gadget = r#"{"apiVersion":"shop.example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"size":3}}"#;
    let (code, created) = client.call("POST", gadgets, gadget).await;
    assert_eq!((code, text(&created, "spec/size").as_str()), (201, "3"));
    assert_eq!(client.call("DELETE", &format!("{definitions}/gadgets.shop.example.com"), "").await.0, 200);
    client.until(gadgets, 404).await;
}

#[tokio::test]
async fn pages_show_one_moment() {
    let (_server, mut client) = server().await;
    for name in ["a", "b", "c"] {
        client.call("POST", CONFIG_MAPS, &config_map(name, "")).await;
    }
    let (_, first) = client.call("GET", &format!("{CONFIG_MAPS}?limit=2"), "").await;
    assert_eq!(text(&first, "metadata/remainingItemCount"), "1");
    client.call("DELETE", &format!("{CONFIG_MAPS}/c"), "").await;
    let token = text(&first, "metadata/continue");
    let (_, second) = client.call("GET", &format!("{CONFIG_MAPS}?limit=2&continue={token}"), "").await;
    let items = second.get("items").and_then(|items| items.as_array()).expect("a list").len();
    assert_eq!((items, text(&second, "metadata/continue").as_str()), (1, ""));
}

#[tokio::test]
async fn some_kinds_are_replaced_only_by_who_saw_the_last_version() {
    let (_server, mut client) = server().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}"#;
    let (code, made) = client.call("PUT", &format!("{leases}/l"), lease).await;
    assert_eq!(code, 201, "{made}");
    let (code, refused) = client.call("PUT", &format!("{leases}/l"), lease).await;
    let why = r#"metadata.resourceVersion: Invalid value: 0: must be specified for an update"#;
    assert_eq!(code, 422);
    assert!(text(&refused, "message").ends_with(why), "{refused}");
    assert_eq!(client.call("PUT", &format!("{leases}/l"), &made.to_string()).await.0, 200);
}

#[tokio::test]
async fn another_deletion_may_ask_for_another_policy() {
    let (_server, mut client) = server().await;
    let held = r#","finalizers":["example.com/hold"]"#;
    let (path, options) = (format!("{CONFIG_MAPS}/a"), |policy| format!(r#"{{"propagationPolicy":"{policy}"}}"#));
    let finalizers = |object: &Value| text(object, "metadata/finalizers");
    client.call("POST", CONFIG_MAPS, &config_map("a", held)).await;
    let (_, waiting) = client.call("DELETE", &path, &options("Orphan")).await;
    assert!(finalizers(&waiting).contains("hold"), "{waiting}");
    let since = text(&waiting, "metadata/deletionTimestamp");
    let (code, waiting) = client.call("DELETE", &path, &options("Foreground")).await;
    assert_eq!((code, finalizers(&waiting).contains("foregroundDeletion")), (200, true), "{waiting}");
    assert_eq!(text(&waiting, "metadata/deletionTimestamp"), since);
    assert_eq!(client.call("DELETE", &path, &options("Background")).await.0, 200);
    let (_, waiting) = client.call("GET", &path, "").await;
    assert_eq!(finalizers(&waiting), r#"["example.com/hold"]"#);
}

#[tokio::test]
async fn a_pod_that_has_less_time_left_is_the_same_generation() {
    let (_server, mut client) = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(client.call("POST", pods, pod).await.0, 201);
    let (_, first) = client.call("DELETE", &format!("{pods}/p"), "").await;
    let (_, second) = client.call("DELETE", &format!("{pods}/p?gracePeriodSeconds=5"), "").await;
    assert_eq!(text(&second, "metadata/deletionGracePeriodSeconds"), "5", "{second}");
    assert_eq!(text(&second, "metadata/generation"), text(&first, "metadata/generation"));
}
