//! The verbs on typed objects.

use kubewright_api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kubewright_client::{Api, DeleteResponse, Scope};
use kubewright_core::options::{
    ApplyOptions, DeleteOptions, GetOptions, ListOptions, Patch, PatchOptions, PatchType, PropagationPolicy,
    WatchOptions,
};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Object, ResourceVersion, json};

use crate::script::Script;
use crate::support::{config_map, test_client};

#[tokio::test]
async fn an_object_is_created_read_changed_and_deleted() {
    for json_only in [false, true] {
        let server = test_client().await;
        let client = if json_only { server.client.json_only() } else { server.client.clone() };
        let api = Api::<ConfigMap>::namespaced(&client, server.namespace.as_str());
        let created = api.create(&config_map("a")).await.unwrap();
        assert!(!created.uid().is_empty());
        let again = api.create(&config_map("a")).await.unwrap_err();
        assert!(again.is_already_exists(), "{again}");

        let mut read = api.get("a").await.unwrap();
        assert_eq!(read, created);
        read.data.insert("key", "changed".into());
        let updated = api.update(&read).await.unwrap();
        assert_ne!(updated.resource_version(), created.resource_version());
        let stale = api.update(&read).await.unwrap_err();
        assert!(stale.is_conflict(), "{stale}");

        let patch = Patch::Merge(br#"{"data":{"more":"x"}}"#.to_vec());
        let patched = api.patch("a", patch).await.unwrap();
        assert_eq!(patched.data.get("more").map(|text| text.as_str()), Some("x"));

        let deleted = api.delete("a").await.unwrap();
        assert!(matches!(&deleted, DeleteResponse::Status(_)), "{deleted:?}");
        assert_eq!(deleted.uid(), Some(created.uid()));
        assert!(api.get("a").await.unwrap_err().is_not_found());
        assert_eq!(api.get_opt("a").await.unwrap(), None);
    }
}

#[tokio::test]
async fn deletion_honours_its_options() {
    let server = test_client().await;
    let api = Api::<ConfigMap>::namespaced(&server.client, server.namespace.as_str());
    let created = api.create(&config_map("a")).await.unwrap();
    let other = DeleteOptions::default().uid("another");
    assert!(api.delete_with("a", &other).await.unwrap_err().is_conflict());
    let own = DeleteOptions::default().uid(created.uid()).propagation(PropagationPolicy::Background);
    api.delete_with("a", &own).await.unwrap();

    for name in ["x", "y"] {
        api.create(&config_map(name)).await.unwrap();
    }
    let only_x = ListOptions::default().fields("metadata.name=x".parse().unwrap());
    api.delete_collection(&DeleteOptions::default(), &only_x).await.unwrap();
    assert!(api.get("x").await.unwrap_err().is_not_found());
    assert!(api.get("y").await.is_ok());
    let namespaces = Api::<Namespace>::all(&server.client);
    let refused = namespaces.delete_collection(&DeleteOptions::default(), &ListOptions::default()).await.unwrap_err();
    assert_eq!(refused.to_string(), "invalid request: the resource namespaces has no verb deletecollection");
}

#[tokio::test]
async fn a_list_stream_yields_items_and_the_list_version() {
    for json_only in [false, true] {
        let server = test_client().await;
        let client = if json_only { server.client.json_only() } else { server.client.clone() };
        let api = Api::<ConfigMap>::namespaced(&client, server.namespace.as_str());
        for index in 0..50 {
            api.create(&config_map(&format!("m{index:02}"))).await.unwrap();
        }
        let list = api.list(&ListOptions::default()).await.unwrap();
        let names: Vec<&str> = list.items.iter().map(Object::name).filter(|name| name.starts_with('m')).collect();
        assert_eq!(names.len(), 50);
        let version = ResourceVersion::from(list.metadata.resource_version.as_deref().unwrap());
        let mut stream = api.list_stream(&ListOptions::default().limit(10)).await.unwrap();
        let mut count = 0;
        while let Some(item) = stream.next().await {
            item.unwrap();
            count += 1;
        }
        assert_eq!(count, 10);
        // Other clients may write to the same server, and the version is global.
        let streamed = ResourceVersion::from(stream.metadata().resource_version.as_deref().unwrap());
        assert!(streamed >= version, "{streamed} after {version}");
        assert!(stream.metadata().continue_.is_some());
        let cached = GetOptions::default().resource_version("0");
        assert_eq!(api.get_with("m01", &cached).await.unwrap().name(), "m01");
    }
}

#[tokio::test]
async fn a_watch_yields_each_change() {
    for json_only in [false, true] {
        let server = test_client().await;
        let client = if json_only { server.client.json_only() } else { server.client.clone() };
        let api = Api::<ConfigMap>::namespaced(&client, server.namespace.as_str());
        let version = api.list(&ListOptions::default()).await.unwrap().metadata.resource_version.unwrap();
        // The server's controllers may create config maps in each namespace.
        let options = WatchOptions::default().resource_version(version).fields("metadata.name=a".parse().unwrap());
        let mut watch = api.watch(&options).await.unwrap();
        let created = api.create(&config_map("a")).await.unwrap();
        let mut changed = created.clone();
        changed.data.insert("key", "new".into());
        let changed = api.update(&changed).await.unwrap();
        api.delete("a").await.unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap(), WatchEvent::Added(created));
        assert_eq!(watch.next().await.unwrap().unwrap(), WatchEvent::Modified(changed.clone()));
        let WatchEvent::Deleted(last) = watch.next().await.unwrap().unwrap() else { panic!("not a deletion") };
        assert_eq!(last.data, changed.data);
    }
}

#[tokio::test]
async fn a_watch_can_begin_with_existing_objects() {
    let server = test_client().await;
    let api = Api::<ConfigMap>::namespaced(&server.client, server.namespace.as_str());
    api.create(&config_map("a")).await.unwrap();
    let mut watch = api.watch(&WatchOptions::default().initial_events()).await.unwrap();
    let mut names = Vec::new();
    loop {
        match watch.next().await.unwrap().unwrap() {
            WatchEvent::Added(object) => names.push(object.name().to_owned()),
            WatchEvent::Bookmark(end) => {
                break assert!(end.ends_initial_events());
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(names.contains(&"a".to_owned()), "{names:?}");
}

#[tokio::test]
async fn apply_takes_field_ownership_and_rejects_managed_fields() {
    // AC-1, DY-1
    let server = test_client().await;
    let api = Api::<ConfigMap>::namespaced(&server.client, server.namespace.as_str());
    let options = ApplyOptions::new("one");
    let applied = api.apply(&config_map("a"), &options).await.unwrap();
    assert_eq!(applied.data.get("key").map(|text| text.as_str()), Some("value"));
    let mut other = config_map("a");
    other.data.insert("key", "theirs".into());
    let conflict = api.apply(&other, &ApplyOptions::new("two")).await.unwrap_err();
    assert!(conflict.is_conflict(), "{conflict}");
    api.apply(&other, &ApplyOptions::new("two").force()).await.unwrap();
    let refused = api.apply(&applied, &options).await.unwrap_err();
    assert!(refused.to_string().contains("managedFields must be unset"), "{refused}");
}

#[tokio::test]
async fn a_namespace_of_a_cluster_scoped_resource_is_refused_before_it_is_sent() {
    let script = Script::default();
    let client = script.client();
    let nodes = client.cluster_api::<Node>().with_scope(Scope::Namespace("default".into()));
    let of_nodes = client.metadata_of::<Node>().namespace("default");
    for error in [
        nodes.list(&ListOptions::default()).await.unwrap_err(),
        of_nodes.list(&ListOptions::default()).await.unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "invalid request: nodes are cluster-scoped");
    }
    assert!(script.asked().is_empty());
}

#[tokio::test]
async fn a_name_without_a_namespace_is_refused_before_it_is_sent() {
    // RC-6
    let server = test_client().await;
    let everywhere = Api::<Pod>::all(&server.client);
    for error in [
        everywhere.get("web").await.unwrap_err(),
        everywhere.delete("web").await.unwrap_err(),
        everywhere.create(&Pod::default()).await.unwrap_err(),
        server.client.api::<Pod>(server.namespace.as_str()).get("").await.unwrap_err(),
    ] {
        assert!(error.to_string().starts_with("invalid request: "), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_has_stopped_is_not_connected_to() {
    let server = kubewright_apiserver::ApiServer::in_memory().start().await.unwrap();
    let namespaces = Api::<Namespace>::all(&server.client());
    assert!(namespaces.get("default").await.is_ok());
    server.stop().await;
    let error = namespaces.get("default").await.unwrap_err();
    assert!(error.is_connection_refused() && error.is_retriable(), "{error}");
}

#[tokio::test]
async fn every_kind_of_patch_can_be_for_one_version_only() {
    let server = test_client().await;
    let api = Api::<ConfigMap>::namespaced(&server.client, server.namespace.as_str());
    let before = api.create(&config_map("a")).await.unwrap();
    let now = api.patch("a", Patch::merge(json!({"data": {"moved": "on"}}))).await.unwrap();
    let patches = || {
        let data = json!({"data": {"more": "x"}});
        let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"more": "x"}});
        let operations = json!([{"op": "add", "path": "/data/more", "value": "x"}]);
        [Patch::merge(data.clone()), Patch::strategic(data), Patch::json(operations), Patch::apply(apply)]
    };
    let send = async |patch: Patch| {
        let mut options = PatchOptions::default().field_manager("test").dry_run();
        options.force = (patch.patch_type() == PatchType::Apply).then_some(true);
        api.patch_with("a", patch, &options).await
    };
    for patch in patches() {
        let kind = patch.patch_type();
        let stale = send(patch.clone().if_unchanged(&before).unwrap()).await.unwrap_err();
        assert!(stale.is_conflict(), "{kind:?}: {stale}");
        let patched = send(patch.if_unchanged(&now).unwrap()).await.unwrap();
        assert_eq!(patched.data.get("more").map(|text| text.as_str()), Some("x"), "{kind:?}");
    }
    api.delete("a").await.unwrap();
    for patch in patches() {
        let kind = patch.patch_type();
        let gone = send(patch.if_unchanged(&now).unwrap()).await.unwrap_err();
        assert!(gone.is_not_found() || gone.is_conflict(), "{kind:?}: {gone}");
    }
}
