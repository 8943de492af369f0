//! A type that kube's macro derives, in our client, cache and controller.

use std::sync::Arc;

use kube::{CustomResource, CustomResourceExt, Resource};
use kubewright::apiserver::ApiServer;
use kubewright::options::ListOptions;
use kubewright::runtime::testing::TestCluster;
use kubewright::runtime::{BoxError, Context, Outcome};
use kubewright::{Api, DynamicObject, GroupVersionResource, Kind, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[kube(group = "example.com", version = "v1", kind = "Foo", namespaced, status = "FooStatus")]
struct FooSpec {
    size: i32,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
struct FooStatus {
    seen: i32,
}

kubewright::interop!(Foo { group: "example.com", version: "v1", kind: "Foo", plural: "foos", namespaced: true });

#[test]
fn the_resource_agrees_with_the_derived_type() {
    let resource = Foo::RESOURCE;
    assert_eq!(resource.kind.group, Foo::group(&()));
    assert_eq!(resource.kind.version, Foo::version(&()));
    assert_eq!(resource.kind.kind, Foo::kind(&()));
    assert_eq!(resource.kind.api_version, Foo::api_version(&()));
    assert_eq!(resource.plural, Foo::plural(&()));
}

async fn reconcile(foo: Arc<Foo>, context: Context) -> Result<Outcome, BoxError> {
    if foo.labels().get("seen").is_none() {
        let mut foo = (*foo).clone();
        foo.metadata.labels.get_or_insert_default().insert("seen".to_owned(), foo.spec.size.to_string());
        context.api::<Foo>(foo.namespace()).update(&foo).await?;
    }
    Ok(Outcome::Done)
}

#[tokio::test(start_paused = true)]
async fn a_derived_type_is_created_listed_watched_and_reconciled() {
    let server = ApiServer::in_memory().start().await.unwrap();
    let client = server.client();
    let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let definition: DynamicObject = serde_json::to_string(&Foo::crd()).unwrap().parse().unwrap();
    client.dynamic(definitions).create(&definition).await.unwrap();

    let cluster = TestCluster::over(server);
    let mut manager = cluster.manager();
    manager.add(manager.controller::<Foo>("foos").reconciling(reconcile)).unwrap();
    let running = cluster.run(manager);
    let foos = Api::<Foo>::namespaced(&client, "default");
    let made = foos.create(&Foo::new("a", FooSpec { size: 3 })).await.unwrap();
    assert!(!Object::uid(&made).is_empty() && made.spec.size == 3);
    running.until_idle().await;
    let listed = foos.list(&ListOptions::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    assert_eq!(listed.items[0].labels().get("seen"), Some("3"));
    running.stop().await.unwrap();
}
