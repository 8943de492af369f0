//! The built-in controllers.

use std::time::Duration;

use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_core::Value;
use tokio::time::sleep;

use crate::client::{CONFIG_MAPS, Client, config_map, server, text};
use crate::durable::Directory;

#[tokio::test]
async fn objects_without_owners_are_collected() {
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
async fn without_controllers_the_server_is_kube_apiserver_alone() {
    let server = ApiServer::in_memory().without_controllers().start().await.expect("it starts");
    let mut client = Client::over(server.connect()).await;
    let (_, owner) = client.call("POST", CONFIG_MAPS, &config_map("owner", "")).await;
    let uid = text(&owner, "metadata/uid");
    let reference =
        format!(r#","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{uid}"}}]"#);
    client.call("POST", CONFIG_MAPS, &config_map("dependent", &reference)).await;
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#;
    client.call("POST", "/api/v1/namespaces", namespace).await;
    assert_eq!(client.call("DELETE", &format!("{CONFIG_MAPS}/owner"), "").await.0, 200);
    assert_eq!(client.call("DELETE", "/api/v1/namespaces/shop", "").await.0, 200);
    // The end of a definition, which is kube-apiserver's own work, shows that the writes before it
    // were followed.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
        "spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[{"name":"v1",
        "served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    assert_eq!(client.call("POST", definitions, definition).await.0, 201);
    assert_eq!(client.call("DELETE", &format!("{definitions}/foos.example.com"), "").await.0, 200);
    client.until(&format!("{definitions}/foos.example.com"), 404).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/dependent"), "").await.0, 200);
    let (code, shop) = client.call("GET", "/api/v1/namespaces/shop", "").await;
    assert_eq!((code, text(&shop, "status/phase").as_str()), (200, "Terminating"));
}

#[tokio::test]
async fn a_namespace_is_deleted_after_its_content() {
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
async fn objects_with_unresolvable_owners_stay() {
    let (_server, mut client) = server().await;
    let (_, owner) = client.call("POST", CONFIG_MAPS, &config_map("owner", "")).await;
    let uid = text(&owner, "metadata/uid");
    // The first owner's kind is not served. The second owner is namespaced, but its dependent is
    // not.
    let unknown = r#","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Parent","name":"p","uid":"1"}]"#;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("orphan", unknown)).await.0, 201);
    let role = format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"r","ownerReferences":
        [{{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{uid}"}}]}}}}"#
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(client.call("POST", roles, &role).await.0, 201);
    // The deletion of a last object shows that the collector has processed the others.
    let absent = r#","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"2"}]"#;
    assert_eq!(client.call("POST", CONFIG_MAPS, &config_map("last", absent)).await.0, 201);
    client.until(&format!("{CONFIG_MAPS}/last"), 404).await;
    assert_eq!(client.call("GET", &format!("{CONFIG_MAPS}/orphan"), "").await.0, 200);
    assert_eq!(client.call("GET", &format!("{roles}/r"), "").await.0, 200);
}

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn event(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Event","metadata":{{"name":"{name}"}},"type":"Normal","reason":"Seen",
        "involvedObject":{{"kind":"Pod","namespace":"default","name":"web"}},"lastTimestamp":"2020-01-01T00:00:00Z"}}"#
    )
}

/// Connects after this many minutes, because the server closes idle connections.
async fn after(minutes: u64, server: &RunningServer) -> Client {
    sleep(Duration::from_secs(minutes * 60)).await;
    Client::over(server.connect()).await
}

#[tokio::test(start_paused = true)]
async fn an_event_expires_one_hour_after_its_last_write() {
    let (server, mut client) = server().await;
    let (code, made) = client.call("POST", EVENTS, &event("updated")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(client.call("POST", EVENTS, &event("left")).await.0, 201);
    let newer = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut client = after(59, &server).await;
    assert_eq!(client.call("PATCH", &format!("{EVENTS}/updated"), r#"{"count":2}"#).await.0, 200);
    assert_eq!(client.call("GET", &format!("{newer}/left"), "").await.0, 200);
    let mut client = after(2, &server).await;
    assert_eq!(client.call("GET", &format!("{newer}/left"), "").await.0, 404);
    assert_eq!(client.call("GET", &format!("{EVENTS}/updated"), "").await.0, 200);
    let mut client = after(59, &server).await;
    assert_eq!(client.call("GET", &format!("{EVENTS}/updated"), "").await.0, 404);
    let from = text(&made, "metadata/resourceVersion");
    let watch = format!("{EVENTS}?watch=1&timeoutSeconds=1&resourceVersion={from}");
    let (_, told) = client.call("GET", &watch, "").await;
    let told = told.as_str().expect("one line for each event");
    let told: Vec<_> = told.lines().map(|line| line.split('"').nth(3).unwrap_or_default()).collect();
    assert_eq!(told, ["ADDED", "MODIFIED", "DELETED", "DELETED"]);
}

#[tokio::test(start_paused = true)]
async fn events_never_expire_if_the_ttl_is_zero() {
    let server = ApiServer::in_memory().event_ttl(Duration::ZERO).start().await.expect("nothing can fail");
    let mut client = Client::over(server.connect()).await;
    assert_eq!(client.call("POST", EVENTS, &event("a")).await.0, 201);
    let mut client = after(24 * 60, &server).await;
    assert_eq!(client.call("GET", &format!("{EVENTS}/a"), "").await.0, 200);
}

#[tokio::test]
async fn the_ttl_of_an_event_elapses_while_the_server_is_down() {
    let directory = Directory::new("events");
    let start = async |ttl: u64| {
        let server = ApiServer::in_memory().data(&directory.0).event_ttl(Duration::from_secs(ttl));
        let server = server.start().await.expect("the directory can be used");
        let client = Client::over(server.connect()).await;
        (server, client)
    };
    let (server, mut client) = start(0).await;
    assert_eq!(client.call("POST", EVENTS, &event("a")).await.0, 201);
    drop(client);
    server.stop().await;
    sleep(Duration::from_millis(2100)).await;
    let (server, mut client) = start(3600).await;
    assert_eq!(client.call("GET", &format!("{EVENTS}/a"), "").await.0, 200);
    drop(client);
    server.stop().await;
    let (_server, mut client) = start(2).await;
    client.until(&format!("{EVENTS}/a"), 404).await;
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// Deletes a claim, and then an unused one, whose removal shows that the controller has processed
/// both.
async fn delete_claim(client: &mut Client, metadata: &str) {
    for (name, metadata) in [("data", metadata), ("unused", "")] {
        let claim = format!(
            r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"{name}"{metadata}}},
            "spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
        );
        let (code, made) = client.call("POST", CLAIMS, &claim).await;
        assert_eq!(code, 201, "{made}");
        client.call("DELETE", &format!("{CLAIMS}/{name}"), "").await;
    }
    client.until(&format!("{CLAIMS}/unused"), 404).await;
}

fn pod(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"{metadata}}},
        "spec":{{"containers":[{{"name":"c","image":"i"}}]{spec}}}}}"#
    )
}

#[tokio::test]
async fn a_claim_stays_while_a_pod_with_a_node_uses_it_whether_that_has_ended_or_not() {
    let (_server, mut client) = server().await;
    let volumes = r#","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]"#;
    // A pod without a node will not start any more.
    assert_eq!(client.call("POST", PODS, &pod("waiting", "", volumes)).await.0, 201);
    delete_claim(&mut client, "").await;
    client.until(&format!("{CLAIMS}/data"), 404).await;
    let placed = format!(r#"{volumes},"nodeName":"n","restartPolicy":"Never""#);
    assert_eq!(client.call("POST", PODS, &pod("placed", "", &placed)).await.0, 201);
    let ended = r#"{"status":{"phase":"Succeeded"}}"#;
    assert_eq!(client.call("PATCH", &format!("{PODS}/placed/status"), ended).await.0, 200);
    delete_claim(&mut client, "").await;
    assert_eq!(client.call("GET", &format!("{CLAIMS}/data"), "").await.0, 200);
    client.call("DELETE", &format!("{PODS}/placed"), "").await;
    client.until(&format!("{CLAIMS}/data"), 404).await;
}

#[tokio::test]
async fn a_generated_resource_claim_is_deleted_when_its_pod_has_ended() {
    let (_server, mut client) = server().await;
    let spec = r#","nodeName":"n","volumes":[{"name":"ta","ephemeral":{"volumeClaimTemplate":{"spec":
        {"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]"#;
    let metadata = r#","finalizers":["example.com/hold"]"#;
    let (code, made) = client.call("POST", PODS, &pod("da", metadata, spec)).await;
    assert_eq!(code, 201, "{made}");
    let claim = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"da-ta","ownerReferences":[{"apiVersion":"v1",
        "kind":"Pod","name":"da","uid":"UID","controller":true}]},
        "spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
    let (code, made) = client.call("POST", CLAIMS, &claim.replace("UID", &text(&made, "metadata/uid"))).await;
    assert_eq!(code, 201, "{made}");
    client.call("DELETE", &format!("{CLAIMS}/da-ta"), "").await;
    delete_claim(&mut client, "").await;
    assert_eq!(client.call("GET", &format!("{CLAIMS}/da-ta"), "").await.0, 200);
    client.call("DELETE", &format!("{PODS}/da?gracePeriodSeconds=0"), "").await;
    client.until(&format!("{CLAIMS}/da-ta"), 404).await;
    assert_eq!(client.call("GET", &format!("{PODS}/da"), "").await.0, 200, "its finalizer holds it");
}

/// Waits until a condition of a namespace has this reason and message.
async fn until_told(client: &mut Client, condition: &str, want: &str) {
    let mut told = String::new();
    for _ in 0..1000 {
        let (_, namespace) = client.call("GET", "/api/v1/namespaces/shop", "").await;
        let conditions = namespace.get("status").and_then(|status| status.get("conditions"));
        let conditions = conditions.and_then(Value::as_array).map(|list| &list[..]).unwrap_or_default();
        let found = conditions.iter().find(|one| text(one, "type") == condition);
        told = found.map(|one| format!("{} {}", text(one, "reason"), text(one, "message"))).unwrap_or_default();
        if told == want {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("{condition} is {told:?} instead of {want:?}");
}

async fn make_shop(client: &mut Client) {
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#;
    assert_eq!(client.call("POST", "/api/v1/namespaces", namespace).await.0, 201);
}

#[tokio::test]
async fn namespace_deletion_removes_pods_first() {
    let (_server, mut client) = server().await;
    make_shop(&mut client).await;
    let (pods, maps) = ("/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop/configmaps");
    let jobs = "/apis/batch/v1/namespaces/shop/jobs";
    // Without a kubelet, the pod does not stop by itself.
    assert_eq!(client.call("POST", pods, &pod("running", "", r#","nodeName":"n""#)).await.0, 201);
    assert_eq!(client.call("POST", maps, &config_map("needed", "")).await.0, 201);
    let job = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"held","finalizers":["example.com/hold"]},"spec":
        {"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
    assert_eq!(client.call("POST", jobs, job).await.0, 201);
    assert_eq!(client.call("DELETE", "/api/v1/namespaces/shop", "").await.0, 200);
    let remaining = "NamespaceContentRemaining";
    let left =
        |what: &str| format!("SomeResourcesRemain Some resources are remaining: {what} has 1 resource instances");
    until_told(&mut client, remaining, &left("pods.")).await;
    assert_eq!(client.call("GET", &format!("{maps}/needed"), "").await.0, 200);
    client.call("DELETE", &format!("{pods}/running?gracePeriodSeconds=0"), "").await;
    until_told(&mut client, remaining, &left("jobs.batch")).await;
    assert_eq!(client.call("GET", &format!("{maps}/needed"), "").await.0, 404);
    let held = "SomeFinalizersRemain Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances";
    until_told(&mut client, "NamespaceFinalizersRemaining", held).await;
    let (_, job) = client.call("GET", &format!("{jobs}/held"), "").await;
    assert_eq!(text(&job, "metadata/finalizers"), r#"["example.com/hold"]"#, "its pods are not orphaned");
    client.call("PATCH", &format!("{jobs}/held"), r#"{"metadata":{"finalizers":null}}"#).await;
    client.until("/api/v1/namespaces/shop", 404).await;
}
