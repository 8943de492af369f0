//! Uses the embedded server through kube-rs, over TLS, with the kubeconfig that the server writes.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Client, Config, CustomResource, CustomResourceExt, Resource, ResourceExt};
use kubewright_apiserver::{ApiServer, RunningServer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

/// A generous timeout.
const PATIENCE: Duration = Duration::from_secs(60);

/// The desired state of a document.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq)]
#[kube(group = "kube.rs", version = "v1", kind = "Document", namespaced, status = "DocumentStatus")]
#[kube(shortname = "doc", scale(spec_replicas_path = ".spec.copies", status_replicas_path = ".status.copies"))]
#[kube(printcolumn(json_path = ".spec.title", name = "Title", type_ = "string"))]
struct DocumentSpec {
    #[schemars(length(min = 2))]
    title: String,
    #[serde(default)]
    copies: i32,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq, Default)]
struct DocumentStatus {
    copies: i32,
}

async fn start() -> (RunningServer, Client) {
    let server = ApiServer::in_memory().listen(([127, 0, 0, 1], 0).into()).start().await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    assert_eq!(config.cluster_url.scheme_str(), Some("https"));
    (server, Client::try_from(config).unwrap())
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..Default::default()
    }
}

#[tokio::test]
async fn objects_are_created_listed_changed_and_deleted() {
    let (_server, client) = start().await;
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
    }
    let again = maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap_err();
    assert!(matches!(&again, kube::Error::Api(status) if status.is_already_exists()), "{again:?}");
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a", "b"]);
    let token = first.metadata.continue_.unwrap();
    let rest = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);

    let mut stale = maps.get("a").await.unwrap();
    let patch = json!({"metadata": {"labels": {"x": "y"}}, "data": {"value": "2"}});
    let patched = maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((patched.data.unwrap()["value"].as_str(), patched.metadata.labels.unwrap().len()), ("2", 1));
    stale.data = None;
    let conflict = maps.replace("a", &PostParams::default(), &stale).await.unwrap_err();
    assert!(matches!(&conflict, kube::Error::Api(status) if status.is_conflict()), "{conflict:?}");
    let labelled = maps.list_metadata(&ListParams::default().labels("x=y")).await.unwrap();
    assert_eq!(labelled.items.len(), 1);

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_watch_and_a_watcher_see_all_changes() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let events = maps.watch(&WatchParams::default(), &version).await.unwrap();
    let events: Vec<_> = timeout(PATIENCE, events.take(2).try_collect()).await.unwrap().unwrap();
    assert!(matches!(&events[..], [WatchEvent::Added(_), WatchEvent::Deleted(_)]), "{events:?}");

    // Both kinds of initial list: paginated, and streaming.
    for config in [watcher::Config::default().page_size(1), watcher::Config::default().streaming_lists()] {
        for name in ["x", "y"] {
            let _ = maps.create(&PostParams::default(), &config_map(name, "1")).await;
        }
        let mut seen = Vec::new();
        let mut stream = std::pin::pin!(watcher(maps.clone(), config));
        loop {
            match timeout(PATIENCE, stream.try_next()).await.unwrap().unwrap().unwrap() {
                watcher::Event::Init => {}
                watcher::Event::InitApply(map) => seen.push(map.name_any()),
                watcher::Event::InitDone => maps.delete("x", &DeleteParams::default()).await.map(drop).unwrap(),
                watcher::Event::Apply(map) => panic!("nobody changed {}", map.name_any()),
                watcher::Event::Delete(map) => break seen.push(format!("-{}", map.name_any())),
            }
        }
        assert_eq!(seen, ["x", "y", "-x"]);
    }
}

#[tokio::test]
async fn a_custom_resource_by_derive_is_served_applied_and_scaled() {
    let (_server, client) = start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("kube-rs").force();
    definitions.patch("documents.kube.rs", &apply, &Patch::Apply(Document::crd())).await.unwrap();
    let established = await_condition(definitions, "documents.kube.rs", conditions::is_crd_established());
    timeout(PATIENCE, established).await.unwrap().unwrap();

    let documents: Api<Document> = Api::default_namespaced(client.clone());
    let short = Document::new("a", DocumentSpec { title: "x".to_owned(), copies: 1 });
    let refused = documents.create(&PostParams::default(), &short).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 422), "{refused:?}");
    let made = Document::new("a", DocumentSpec { title: "xyz".to_owned(), copies: 1 });
    let made = documents.patch("a", &apply, &Patch::Apply(&made)).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));

    // Another manager needs force to take an owned field.
    let other = json!({"apiVersion": "kube.rs/v1", "kind": "Document", "spec": {"title": "abc"}});
    let polite = documents.patch("a", &PatchParams::apply("other"), &Patch::Apply(&other)).await.unwrap_err();
    assert!(matches!(&polite, kube::Error::Api(status) if status.code == 409), "{polite:?}");
    let forced = documents.patch("a", &PatchParams::apply("other").force(), &Patch::Apply(&other)).await.unwrap();
    assert_eq!((forced.spec.title.as_str(), forced.spec.copies), ("abc", 1));

    let status = json!({"status": {"copies": 1}});
    let told = documents.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(told.status, Some(DocumentStatus { copies: 1 }));
    let scale = json!({"spec": {"replicas": 5}});
    documents.patch_scale("a", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    assert_eq!(documents.get("a").await.unwrap().spec.copies, 5);
    assert_eq!(documents.get_scale("a").await.unwrap().spec.unwrap().replicas, Some(5));

    let (resource, capabilities) =
        kube::discovery::pinned_kind(&client, &kube::core::GroupVersionKind::gvk("kube.rs", "v1", "Document"))
            .await
            .unwrap();
    assert_eq!(resource.plural, "documents");
    assert!(capabilities.subresources.iter().any(|(subresource, _)| subresource.plural == "scale"));
}

#[tokio::test]
async fn a_controller_restores_owned_objects() {
    let (_server, client) = start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Document::crd()).await.unwrap();
    timeout(PATIENCE, await_condition(definitions, "documents.kube.rs", conditions::is_crd_established()))
        .await
        .unwrap()
        .unwrap();
    let documents: Api<Document> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());

    let reconcile = |document: Arc<Document>, client: Arc<Client>| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced((*client).clone());
        let mut map = config_map(&document.name_any(), &document.spec.title);
        map.metadata.owner_references = Some(vec![document.controller_owner_ref(&()).unwrap()]);
        maps.patch(&document.name_any(), &PatchParams::apply("controller").force(), &Patch::Apply(&map)).await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let controller = Controller::new(documents.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client))
        .for_each(|_| async {});
    let running = tokio::spawn(controller);

    let has = |value: &'static str| {
        move |map: Option<&ConfigMap>| {
            map.and_then(|map| map.data.as_ref()?.get("value")).is_some_and(|have| have == value)
        }
    };
    documents
        .create(&PostParams::default(), &Document::new("a", DocumentSpec { title: "one".to_owned(), copies: 0 }))
        .await
        .unwrap();
    timeout(PATIENCE, await_condition(maps.clone(), "a", has("one"))).await.unwrap().unwrap();
    let patch = json!({"spec": {"title": "two"}});
    documents.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    timeout(PATIENCE, await_condition(maps.clone(), "a", has("two"))).await.unwrap().unwrap();
    // The controller creates a deleted owned object again.
    let uid = maps.get("a").await.unwrap().uid();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let is_new = move |map: Option<&ConfigMap>| map.is_some_and(|map| map.uid() != uid);
    timeout(PATIENCE, await_condition(maps.clone(), "a", is_new)).await.unwrap().unwrap();
    running.abort();
    // The garbage collector deletes it with its owner.
    documents.delete("a", &DeleteParams::default()).await.unwrap();
    timeout(PATIENCE, await_condition(maps, "a", |map: Option<&ConfigMap>| map.is_none())).await.unwrap().unwrap();
}

#[tokio::test]
async fn pods_and_workloads_take_their_subresources() {
    let (_server, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    pods.evict("p", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let restarted = deployments.restart("d").await.unwrap();
    assert_eq!(restarted.metadata.generation, Some(2));
    let scale = json!({"spec": {"replicas": 3}});
    let scaled = deployments.patch_scale("d", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(3));
    assert_eq!(Deployment::plural(&()), "deployments");
}
