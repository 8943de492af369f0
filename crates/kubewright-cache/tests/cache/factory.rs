//! Informer factories over the embedded server: sharing, start, stop, and all object types.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Container, Namespace, Pod, PodSpec, Secret};
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_cache::{
    Compact, Event, FactoryOptions, HealthState, InformerScope, ReflectorOptions, SharedInformerFactory, UnknownIndex,
};
use kubewright_client::credentials::Impersonation;
use kubewright_client::{Api, Client};
use kubewright_core::json::{Reader, Writer};
use kubewright_core::meta::v1::{ObjectMeta, OwnerReference};
use kubewright_core::options::CreateOptions;
use kubewright_core::protobuf::Envelope;
use kubewright_core::{
    AllNamespaces, DecodeError, Decoder, DynamicObject, GroupVersionKind, GroupVersionResource, Kind, Namespaced,
    Object, ResourceInfo, Selector, Str, StringMap, Time,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::informer::{Log, taken};

async fn server() -> (RunningServer, Client) {
    let server = ApiServer::in_memory().start().await.expect("it starts");
    let client = server.client();
    (server, client)
}

pub fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.metadata.labels.insert("app", Str::from(name));
    object.data.insert("key", Str::from("value"));
    object
}

fn config_maps() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "configmaps")
}

async fn create(client: &Client, name: &str) {
    let api = Api::<ConfigMap>::namespaced(client, "default");
    api.create(&config_map(name)).await.expect("it is created");
}

/// Waits until the condition holds.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("never came: {what}"));
}

fn names<T: Object>(objects: &[Arc<T>]) -> Vec<String> {
    let mut names: Vec<String> = objects.iter().map(|object| object.name().to_owned()).collect();
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    names
}

// SI-20, RE-6: reflector options apply to all informers, which client-go's factory lacks
// (kubernetes/kubernetes#90514).
#[tokio::test]
async fn all_reflectors_of_a_factory_use_its_options() {
    let (_server, client) = server().await;
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let queries = Log::default();
    let (asked, inner) = (queries.clone(), client.clone());
    let noting = Client::over(move |request: http::Request<bytes::Bytes>| {
        asked.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
        inner.transport().send(request)
    });
    let reflector = ReflectorOptions::default().page_size(2).without_streaming_lists();
    let factory =
        SharedInformerFactory::new(&noting, FactoryOptions::default().namespace("default").reflector(reflector));
    let maps = factory.informer::<ConfigMap>();
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await.unwrap();
    assert_eq!(names(&maps.lister().list(&Selector::default())), ["a", "b", "c"]);
    // The server answers version 0 from its watch cache with all objects; only the requests matter
    // here.
    let asked = taken(&queries);
    assert!(asked[0].contains("limit=2") && !asked[0].contains("sendInitialEvents"), "{asked:?}");
    factory.shutdown().await;
}

// An object that makes a user function panic is skipped, and the cache continues; client-go ends
// the process.
#[tokio::test]
async fn an_object_whose_transform_panics_is_skipped() {
    let (_server, client) = server().await;
    create(&client, "odd").await;
    create(&client, "a").await;
    let transform = |map: ConfigMap| match map.name() {
        "odd" | "bad" => panic!("no transform is made for this"),
        _ => Ok(map),
    };
    let options = FactoryOptions::default()
        .namespace("default")
        .transform_of::<ConfigMap>(Arc::new(transform))
        .on_error(Arc::new(|_| panic!("nor is this")));
    let factory = SharedInformerFactory::new(&client, options);
    let maps = factory.informer::<ConfigMap>();
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await.unwrap();
    create(&client, "bad").await;
    create(&client, "b").await;
    eventually("b", || names(&maps.lister().list(&Selector::default())) == ["a", "b"]).await;
    assert_eq!(maps.health().map(|health| health.skipped), Some(2));
    factory.shutdown().await;
}

// SI-20, SI-19: generated accessors return listers.
#[tokio::test]
async fn a_factory_shares_starts_and_waits() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    let factory = SharedInformerFactory::new(&client, FactoryOptions::default());
    let lister = factory.core_v1().config_maps().lister();
    let log = Log::default();
    let told = log.clone();
    let handler = factory
        .informer::<ConfigMap>()
        .add_handler(move |event: &Event<ConfigMap>| told.lock().unwrap().push(event.key().name().to_string()))
        .unwrap();
    assert_eq!(factory.unsynced().len(), 1, "both are the same informer");
    let stop = CancellationToken::new();
    factory.start(&stop);
    factory.start(&stop);
    factory.wait_for_cache_sync().await.unwrap();
    assert!(handler.synced().await);
    assert_eq!(names(&lister.namespace("default").list(&Selector::default())), ["a"]);
    create(&client, "b").await;
    eventually("b", || lister.namespace("default").get("b").is_some()).await;
    let api = Api::<ConfigMap>::namespaced(&client, "default");
    api.delete("a").await.unwrap();
    eventually("no a", || lister.namespace("default").get("a").is_none()).await;
    assert_eq!(names(&lister.list(&"app in (a, b)".parse().unwrap())), ["b"]);
    eventually("all events", || {
        log.lock().unwrap().iter().filter(|name| ["a", "b"].contains(&name.as_str())).count() == 3
    })
    .await;
    // An informer requested later is started by another `start`.
    let secrets = factory.informer::<Secret>();
    factory.wait_for_cache_sync().await.expect("what has not been started is not waited for");
    assert_eq!(factory.unsynced()[0].to_string(), "secrets (not started)");
    let seen = |factory: &SharedInformerFactory| -> Vec<(String, bool, usize)> {
        factory.informers().into_iter().map(|one| (one.name, one.has_synced, one.objects)).collect()
    };
    let before = seen(&factory);
    assert_eq!((before[0].0.as_str(), before[0].1), ("configmaps", true));
    assert_eq!(before[1], ("secrets".to_owned(), false, 0));
    factory.start(&stop);
    factory.wait_for_cache_sync_within(Duration::from_secs(10)).await.unwrap();
    assert!(secrets.has_synced() && seen(&factory)[1].1);
    factory.shutdown().await;
    assert!(secrets.is_stopped());
    drop(taken(&log));
}

// SI-20: an informer stops when its last user is dropped, and a later request starts a new one.
#[tokio::test]
async fn an_informer_lives_as_long_as_it_is_used() {
    let (_server, client) = server().await;
    let factory = SharedInformerFactory::new(&client, FactoryOptions::default());
    let stop = CancellationToken::new();
    let handle = factory.informer::<ConfigMap>();
    let informer = handle.informer().clone();
    let (lister, handler) = (handle.lister(), handle.add_handler(|_: &Event<ConfigMap>| {}).unwrap());
    factory.start(&stop);
    factory.wait_for_cache_sync().await.unwrap();
    drop(handle);
    drop(lister);
    sleep(Duration::from_millis(20)).await;
    assert!(!informer.is_stopped(), "a handler uses it");
    handler.shut_down().await;
    eventually("the stop", || informer.is_stopped()).await;
    let again = factory.informer::<ConfigMap>();
    factory.start(&stop);
    assert!(again.synced().await);
    stop.cancel();
    eventually("the stop", || again.is_stopped()).await;
    factory.shutdown().await;
}

// Object types: dynamic, metadata, compact, partial; and scopes, each of which has its own
// informer.
#[tokio::test]
async fn informers_exist_for_typed_dynamic_and_metadata_objects() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    create(&client, "b").await;
    let factory = SharedInformerFactory::new(&client, FactoryOptions::default().namespace("default"));
    let dynamic = factory.dynamic(config_maps(), InformerScope::default()).lister();
    let metadata = factory.metadata(config_maps(), InformerScope::default()).lister();
    let compact = factory.informer::<Compact<ConfigMap>>().lister();
    let small = factory.informer::<JustTheKey>().lister();
    let labelled =
        factory.informer_with(InformerScope::<ConfigMap>::default().labels("app=a".parse().unwrap())).lister();
    let transform: kubewright_cache::Transform<ConfigMap> = Arc::new(|mut object: ConfigMap| {
        object.data.clear();
        Ok(object)
    });
    let stripped = factory.informer_with(InformerScope::default().transform("no data", transform)).lister();
    let stop = CancellationToken::new();
    factory.start(&stop);
    factory.wait_for_cache_sync().await.unwrap();
    // RF-12: names are unique.
    let mut names_of_all: Vec<String> = factory.informers().into_iter().map(|one| one.name).collect();
    assert_eq!(names_of_all.len(), 6);
    names_of_all.dedup();
    assert_eq!(names_of_all.len(), 6, "{names_of_all:?}");
    assert!(names_of_all.contains(&"configmaps in default after no data".to_owned()), "{names_of_all:?}");
    let everything = Selector::default();
    assert_eq!(names(&dynamic.list(&everything)), ["a", "b"]);
    let a = dynamic.namespace("default").get("a").unwrap();
    assert_eq!(a.get(&["data", "key"]).unwrap().as_str(), Some("value"));
    assert_eq!(a.group_version_kind(), GroupVersionKind::new("", "v1", "ConfigMap"));
    assert!(a.metadata.managed_fields.is_empty(), "left out by default");
    assert_eq!(names(&metadata.list(&"app=b".parse().unwrap())), ["b"]);
    let b = compact.namespace("default").get("b").unwrap();
    assert_eq!(b.decode().unwrap().data.get("key").map(Str::as_str), Some("value"));
    assert!(b.decode().unwrap().metadata.managed_fields.is_empty());
    assert_eq!(names(&compact.list(&"app=b".parse().unwrap())), ["b"]);
    assert_eq!(b.labels().get("app"), Some("b"));
    assert_eq!(small.namespace("default").get("a").unwrap().key_of_data, "value");
    assert_eq!(names(&labelled.list(&everything)), ["a"]);
    assert!(stripped.namespace("default").get("a").unwrap().data.is_empty());
    let unknown: Result<_, UnknownIndex> = stripped.by_index("nope", "x");
    assert!(unknown.is_err());
    factory.shutdown().await;
}

// SI-20: an informer requested through a namespaced API watches that namespace only.
#[tokio::test]
async fn an_api_of_a_namespace_has_an_informer_of_its_own() {
    let (_server, client) = server().await;
    create(&client, "a").await;
    Api::<ConfigMap>::namespaced(&client, "kube-system").create(&config_map("b")).await.unwrap();
    let api = |namespace: &str| client.api::<ConfigMap>(namespace);
    let everywhere = || InformerScope::default().namespace(AllNamespaces);
    for (options, of_all) in
        [(FactoryOptions::default(), vec!["a", "b"]), (FactoryOptions::default().namespace("kube-system"), vec!["b"])]
    {
        let factory = SharedInformerFactory::new(&client, options);
        let listers = [
            factory.of_api(api("default"), InformerScope::default()).lister(),
            factory.of_api(api("kube-system"), InformerScope::default()).lister(),
            factory.of_api(api("default"), InformerScope::default().namespace("kube-system")).lister(),
            factory.of_api(client.api::<ConfigMap>(AllNamespaces), InformerScope::default()).lister(),
            factory.of_api(api("default"), everywhere()).lister(),
            factory.informer_with(everywhere()).lister(),
        ];
        let namespaces = factory.informer::<Namespace>().lister();
        factory.start(&CancellationToken::new());
        factory.wait_for_cache_sync_within(Duration::from_secs(10)).await.unwrap();
        assert!(namespaces.get("default").is_some(), "objects of the cluster are in no namespace");
        let own: Selector = "app".parse().unwrap();
        let seen = listers.each_ref().map(|lister| names(&lister.list(&own)));
        assert_eq!(seen, [vec!["a"], vec!["b"], vec!["b"], of_all, vec!["a", "b"], vec!["a", "b"]]);
        let informers: Vec<String> = factory.informers().into_iter().map(|one| one.name).collect();
        assert_eq!(informers, ["configmaps", "configmaps in default", "configmaps in kube-system", "namespaces"]);
        factory.shutdown().await;
    }
}

// SI-20: the informer of another cluster, or of another user, is not the first client's.
#[tokio::test]
async fn an_api_of_another_client_has_an_informer_of_its_own() {
    let (_server, client) = server().await;
    let (_other_server, other) = server().await;
    create(&client, "here").await;
    create(&other, "there").await;
    let jane = client.clone().impersonate(Impersonation::user("jane"));
    let factory = SharedInformerFactory::new(&client, FactoryOptions::default());
    let of = |client: &Client| factory.of_api(client.api::<ConfigMap>("default"), InformerScope::default());
    let ([here, again, there], denied) = ([&client, &client.clone().retries(1), &other].map(of), of(&jane));
    factory.start(&CancellationToken::new());
    let stop = factory.wait_for_cache_sync_within(Duration::from_secs(2)).await;
    assert!(stop.is_err(), "jane may not list config maps");
    let seen = [&here, &again, &there, &denied].map(|informer| names(&informer.lister().list(&Selector::default())));
    assert_eq!(seen, [vec!["here"], vec!["here"], vec!["there"], vec![]]);
    let known: Vec<String> = factory.informers().into_iter().map(|one| one.name).collect();
    assert_eq!(known.len(), 3, "clones of a client share an informer: {known:?}");
    assert!(known.contains(&"configmaps in default for jane".to_owned()), "{known:?}");
    factory.shutdown().await;
}

// A deleted definition is a health state of its informer; when it is recreated, its objects return.
#[tokio::test(start_paused = true)]
async fn a_custom_resource_definition_may_be_deleted_and_recreated() {
    let (_server, client) = server().await;
    let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let foos = GroupVersionResource::new("example.com", "v1", "foos");
    let factory = SharedInformerFactory::new(&client, FactoryOptions::default());
    let handle = factory.dynamic(foos.clone(), InformerScope::default());
    let stop = CancellationToken::new();
    factory.start(&stop);
    let missing = factory.wait_for_cache_sync_within(Duration::from_secs(5)).await.unwrap_err();
    let text = missing.to_string();
    assert!(text.starts_with("not synced: foos.example.com (Absent: cannot list: the server could not find"), "{text}");
    let definition: DynamicObject = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
        {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#
        .parse()
        .unwrap();
    client.dynamic(definitions.clone()).create_with(&definition, &CreateOptions::default()).await.unwrap();
    assert!(timeout(Duration::from_secs(120), handle.synced()).await.expect("it looks from time to time"));
    let foo: DynamicObject =
        r#"{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "one"}}"#.parse().unwrap();
    client.dynamic(foos.clone()).namespace("default").create(&foo).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(handle.store().len(), 1);
    client.dynamic(definitions).delete("foos.example.com").await.unwrap();
    sleep(Duration::from_secs(900)).await;
    assert_eq!(handle.health().unwrap().state, HealthState::Absent);
    assert!(handle.store().is_empty());
    factory.shutdown().await;
}

/// A partial type: one field of config maps besides the metadata.
#[derive(Clone, Default)]
struct JustTheKey {
    metadata: ObjectMeta,
    key_of_data: String,
}

impl Kind for JustTheKey {
    const RESOURCE: &'static ResourceInfo = ConfigMap::RESOURCE;
}

impl Object for JustTheKey {
    type Scope = Namespaced;

    fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new("", "v1", "ConfigMap")
    }

    kubewright_core::object_metadata!();

    fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        let mut object = JustTheKey::default();
        reader.entries(|reader, key| match key {
            b"metadata" => reader.message(&mut object.metadata),
            b"data" => reader.entries(|reader, key| {
                match key {
                    b"key" => object.key_of_data = reader.string()?.into_owned(),
                    _ => reader.skip()?,
                }
                Ok(())
            }),
            _ => reader.skip(),
        })?;
        Ok(object)
    }

    fn from_protobuf(_: &[u8], _: &mut Decoder) -> Option<Result<Self, DecodeError>> {
        None
    }

    fn write_json(&self, writer: &mut Writer<'_>) {
        writer.message(&self.metadata);
    }
}

// Objects of one stream are delta-encoded, and compare by content.
#[test]
fn compact_objects_of_a_stream_share_equal_values() {
    let pods: Vec<Pod> = (0..20)
        .map(|index| {
            let mut pod = Pod::default();
            pod.metadata.name = Some(format!("web-{index}").into());
            let image = format!("registry.example.com/{}/web:1.0", "shop".repeat(10 + index / 15));
            let container = Container { name: "app".into(), image: Some(image.into()), ..Container::default() };
            pod.spec = Some(PodSpec { containers: [container].into(), ..PodSpec::default() });
            pod
        })
        .collect();
    let (mut json, mut protobuf) = (Decoder::new(), Decoder::new());
    for pod in &pods {
        let alone = Compact::new(pod).unwrap();
        let from_json = Compact::<Pod>::from_json(&mut Reader::new(&pod.to_json(), &mut json)).unwrap();
        let bytes = pod.to_protobuf().unwrap();
        let message = Envelope::decode(&bytes).unwrap().raw;
        let from_protobuf = Compact::<Pod>::from_protobuf(message, &mut protobuf).unwrap().unwrap();
        for compact in [&from_json, &from_protobuf] {
            assert_eq!(&compact.decode().unwrap(), pod);
            assert!(*compact == alone && compact.byte_len() < 100 + pod.name().len());
        }
        assert!(pods.iter().filter(|other| Compact::new(*other).unwrap() == from_json).count() == 1);
    }
}

// Compact objects return the same metadata as decoded ones.
#[test]
fn a_compact_object_is_the_object() {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web-0-with-a-long-name".into());
    pod.metadata.namespace = Some("default".into());
    pod.metadata.uid = Some("6b9c5c0e-0000-4000-8000-000000000000".into());
    pod.metadata.resource_version = Some("1234".into());
    pod.metadata.generation = Some(7);
    pod.metadata.labels.insert("app", Str::from("web"));
    pod.metadata.labels.insert("tier", Str::from(""));
    pod.metadata.annotations.insert("note", Str::from("x"));
    pod.metadata.finalizers.push("example.com/hold".into());
    pod.metadata.owner_references.push(OwnerReference { name: "owner".into(), ..OwnerReference::default() });
    pod.metadata.managed_fields.push(Default::default());
    let mut compact = Compact::new(&pod).unwrap();
    pod.metadata.managed_fields.clear();
    let whole = compact.decode().unwrap();
    assert_eq!(whole, pod);
    assert_eq!((compact.key(), compact.uid(), compact.resource_version()), (pod.key(), pod.uid(), "1234"));
    assert_eq!(compact.generation(), Some(7));
    assert_eq!(compact.labels().iter().collect::<Vec<_>>(), [("app", "web"), ("tier", "")]);
    assert_eq!((compact.labels().len(), compact.annotations().get("note")), (2, Some("x")));
    assert_eq!(compact.finalizers(), Cow::<[Str]>::Owned(vec!["example.com/hold".into()]));
    assert_eq!(compact.owner_references().len(), 1);
    assert_eq!((compact.creation_timestamp(), compact.deletion_timestamp()), (None::<Time>, None));
    assert_eq!(compact.group_version_kind(), pod.group_version_kind());
    assert_eq!(compact.to_json(), pod.to_json());
    compact.set_resource_version("1235");
    assert_eq!(compact.resource_version(), "1235");
    assert!(matches!(compact.labels(), StringMap::Encoded(_)));
    assert!(compact.clone() == compact && compact.byte_len() > 100);
    // Invalid bytes cause an error on arrival or on read, and never a panic.
    for bytes in [&b"\x0a\xff"[..], b"\x0a\x03\x0a\x01\xff", b"\x08\x01", b""] {
        if let Some(Ok(object)) = Compact::<Pod>::from_protobuf(bytes, &mut Decoder::new()) {
            let _ = (object.name().len(), object.labels().len(), object.decode().is_ok());
        }
    }
}
