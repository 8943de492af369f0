//! Dynamic objects, metadata and scale clients.

use kubewright_api::autoscaling::v1::Scale;
use kubewright_api::core::v1::ConfigMap;
use kubewright_client::{Api, RetryPolicy, ScaleApi, retry_on_conflict};
use kubewright_core::options::{ApplyOptions, DeleteOptions, ListOptions, Patch, PatchOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{DynamicObject, GroupResource, GroupVersionKind, GroupVersionResource, Object, Value};

use crate::script::{Script, answer};
use crate::support::{config_map, test_client};

const CONFIG_MAPS: GroupVersionResource = GroupVersionResource::from_static("", "v1", "configmaps");
const DEPLOYMENTS: GroupVersionResource = GroupVersionResource::from_static("apps", "v1", "deployments");

fn deployment() -> DynamicObject {
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2,
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#
        .parse()
        .unwrap()
}

#[tokio::test]
async fn objects_without_a_type_have_all_verbs() {
    // DY-1
    let server = test_client().await;
    let deployments = server.client.dynamic(DEPLOYMENTS).namespace(server.namespace.as_str());
    let web = deployments.create(&deployment()).await.unwrap();
    assert_eq!(web.get(&["spec", "replicas"]), Some(Value::Int(2)), "an integer stays one");
    // A controller of the server may write to it concurrently.
    retry_on_conflict(RetryPolicy::CONFLICT, async || {
        let mut web = deployments.get("web").await?;
        web.set(&["spec", "replicas"], 3).unwrap();
        deployments.update(&web).await
    })
    .await
    .unwrap();
    let list = deployments.list(&ListOptions::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!((list.items[0].kind.as_str(), list.items[0].name()), ("Deployment", "web"));
    let status = retry_on_conflict(RetryPolicy::CONFLICT, async || {
        let mut status = deployments.get("web").await?;
        status.set(&["status", "replicas"], 3).unwrap();
        deployments.update_status(&status).await
    });
    let status = status.await.unwrap();
    assert_eq!(status.get(&["status", "replicas"]), Some(Value::Int(3)));
    if server.serves(&["apps/v1 deployments/scale"]).await {
        let scale = deployments.get_scale("web").await.unwrap();
        assert_eq!(scale.spec.unwrap().replicas, Some(3));
    }
    let mut applied = DynamicObject::new(&GroupVersionKind::new("apps", "v1", "Deployment"), "web");
    applied.set(&["spec", "paused"], true).unwrap();
    let applied = deployments.apply(&applied, &ApplyOptions::new("m")).await.unwrap();
    assert_eq!(applied.get(&["spec", "paused"]), Some(Value::Bool(true)));
    let refused = deployments.apply(&applied, &ApplyOptions::new("m")).await.unwrap_err();
    assert!(refused.to_string().contains("managedFields must be unset"), "{refused}");
    deployments.delete_collection(&DeleteOptions::default(), &ListOptions::default()).await.unwrap();
    assert!(deployments.get("web").await.is_err_and(|error| error.is_not_found()));
}

#[tokio::test]
async fn dynamic_objects_use_json() {
    // DY-1
    let script = Script::new([answer(200, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#)]);
    script.client().dynamic(CONFIG_MAPS).namespace("default").get("a").await.unwrap();
    assert_eq!(script.asked()[0].headers["accept"], "application/json");
}

#[tokio::test]
async fn metadata_requests_return_only_metadata() {
    // MD-1
    for json_only in [false, true] {
        let server = test_client().await;
        let client = if json_only { server.client.clone().json_only() } else { server.client.clone() };
        let created =
            Api::<ConfigMap>::namespaced(&client, server.namespace.as_str()).create(&config_map("a")).await.unwrap();
        let metadata = client.metadata(CONFIG_MAPS).namespace(server.namespace.as_str());
        let read = metadata.get("a").await.unwrap();
        assert_eq!((read.uid(), read.name()), (created.uid(), "a"));
        let list = client.metadata_of::<ConfigMap>().list(&ListOptions::default()).await.unwrap();
        assert!(list.items.iter().any(|one| one.uid() == created.uid()));
        let options = WatchOptions::default().resource_version(list.metadata.resource_version.unwrap());
        let options = options.fields("metadata.name=a".parse().unwrap());
        let mut watch = metadata.watch(&options).await.unwrap();
        let patch = Patch::Merge(br#"{"metadata":{"labels":{"x":"y"}}}"#.to_vec());
        let patched = metadata.patch("a", patch, &PatchOptions::default()).await.unwrap();
        assert_eq!(patched.labels().get("x"), Some("y"));
        let Some(Ok(WatchEvent::Modified(seen))) = watch.next().await else { panic!("no change was seen") };
        assert_eq!(seen.labels().get("x"), Some("y"));
        metadata.delete("a", &DeleteOptions::default()).await.unwrap();
        assert!(metadata.get("a").await.unwrap_err().is_not_found());
    }
}

#[tokio::test]
async fn metadata_is_requested_in_protobuf_and_deleted_in_json() {
    // MD-1
    let object = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
    let whole = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"v"}}"#;
    let script = Script::new([answer(200, object), answer(200, object), answer(200, whole), answer(200, "{}")]);
    let metadata = script.client().metadata(CONFIG_MAPS).namespace("default");
    metadata.get("a").await.unwrap();
    metadata.delete("a", &DeleteOptions::default()).await.unwrap();
    assert_eq!(metadata.get("a").await.unwrap().name(), "a", "a server may know the whole object only");
    assert!(metadata.get("a").await.is_err());
    let asked = script.asked();
    let accept = asked[0].headers["accept"].to_str().unwrap();
    assert!(accept.starts_with("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"));
    assert!(accept.ends_with("application/json"), "{accept}");
    assert_eq!(asked[1].headers["content-type"], "application/json");
}

#[tokio::test]
async fn any_scalable_resource_is_scaled_by_name() {
    // SC-1
    let server = test_client().await;
    if !server.serves(&["apps/v1 deployments/scale"]).await {
        return;
    }
    server.client.dynamic(DEPLOYMENTS).namespace(server.namespace.as_str()).create(&deployment()).await.unwrap();
    let scales = ScaleApi::new(&server.client, server.client.rest_mapper(), server.namespace.as_str());
    let deployments = GroupResource::new("apps", "deployments");
    let mut scale: Scale;
    loop {
        scale = scales.get(&deployments, "web").await.unwrap();
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
        assert_eq!(scale.status.as_ref().unwrap().selector.as_deref(), Some("a=b"));
        scale.spec.get_or_insert_default().replicas = Some(4);
        match scales.update(&deployments, &scale).await {
            // A controller of the server may write to it concurrently.
            Err(error) if error.is_conflict() => continue,
            updated => break assert_eq!(updated.unwrap().spec.unwrap().replicas, Some(4)),
        }
    }
    let stale = scales.update(&deployments, &scale).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    let patch = Patch::Merge(br#"{"spec":{"replicas":1}}"#.to_vec());
    let patched = scales.patch(DEPLOYMENTS, "web", patch, &PatchOptions::default()).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(1));
    let pods = scales.get(&GroupResource::new("", "pods"), "web").await.unwrap_err();
    assert!(pods.is_not_found(), "{pods}");
}
