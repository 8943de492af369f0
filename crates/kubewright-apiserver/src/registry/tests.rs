//! Memory use of reads, and wake-ups of watches.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::protobuf::{Encoder, Envelope};
use kubewright_core::{FieldSelector, Selector, Str, Value};
use tokio::sync::watch;

use super::{FrameSlot, Registry, Selectors};
use kubewright_objects::conversion::webhook::in_version;
use kubewright_objects::encoding::{self, Frames, ListBody, Wanted};
use kubewright_objects::object::{Meta, ObjectDraft, StoredObject};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::accept::{Form, Format, MetaVersion};
use kubewright_resources::catalog::Resource;
use kubewright_storage::{KeyRange, StoreOptions};

const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
    "metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"widgets","kind":"Widget","listKind":"WidgetList"},
    "conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://127.0.0.1:1/"},
    "conversionReviewVersions":["v1"]}},
    "versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.size"}],
    "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
    "properties":{"size":{"type":"string"},"color":{"type":"string","default":"red"}}}}}}},
    {"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object",
    "x-kubernetes-preserve-unknown-fields":true}}}]},
    "status":{"acceptedNames":{"plural":"widgets","kind":"Widget","listKind":"WidgetList"},
    "conditions":[{"type":"Established","status":"True"}]}}"#;

fn tree(text: &str) -> Value {
    text.parse().expect("valid JSON")
}

/// A registry with a widget definition and no recent writes.
fn registry() -> (Registry, watch::Sender<bool>) {
    let (stop, stopped) = watch::channel(false);
    let registry = Registry::new(StoreOptions::default(), stopped);
    put(&registry, "customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com", DEFINITION);
    registry.load_catalog();
    (registry, stop)
}

/// Stores an object as if it were old.
struct Archived(ObjectDraft);

impl kubewright_storage::Draft<StoredObject> for Archived {
    fn stamp(self, revision: u64) -> StoredObject {
        self.0.stamp(revision).archived()
    }
}

/// Stores an archived object.
fn put(registry: &Registry, storage: &str, namespace: &str, name: &str, object: &str) {
    let resource = resource(registry, storage);
    let draft = Archived(ObjectDraft::new(tree(object)));
    let made = registry.store.create(&resource.key(namespace, name), draft);
    assert!(made.is_ok(), "{name} is new");
}

fn pod(name: &str, node: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"default",
        "labels":{{"app":"web"}}}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

fn widget(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}","namespace":"default",
        "labels":{{"app":"web"}}}},"spec":{{"size":"large"}}}}"#
    )
}

fn resource(registry: &Registry, storage: &str) -> Arc<Resource> {
    registry.catalog().of_storage(storage).cloned().expect("it is served")
}

fn selection(resource: &Resource, labels: &str, fields: &str) -> Selectors {
    let labels: Selector = labels.parse().expect("a selector");
    let fields: FieldSelector = fields.parse().expect("a selector");
    Selectors::new(resource, labels, fields).expect("the fields are known")
}

/// Number of objects of a resource that hold their tree in memory.
fn trees(registry: &Registry, storage: &str) -> usize {
    let all = registry.all(&KeyRange::resource(storage.to_owned()));
    assert!(!all.is_empty());
    all.iter().filter(|entry| entry.object.has_tree()).count()
}

fn encode(wanted: Wanted, resource: &Arc<Resource>, listed: super::ListPage) -> usize {
    match encoding::list(wanted, resource, &listed.meta, listed.objects).expect("it can be encoded") {
        ListBody::Whole(bytes) => bytes.len(),
        ListBody::Streamed(list) => list.map(|chunk| chunk.len()).sum(),
    }
}

#[tokio::test]
async fn large_reads_do_not_cache_trees() {
    let (registry, _stop) = registry();
    for number in 0..50 {
        let name = format!("o-{number}");
        put(&registry, "pods", "default", &name, &pod(&name, "n1"));
        put(&registry, "widgets.example.com", "default", &name, &widget(&name));
    }
    let forms = [
        (Form::Object, Format::Json),
        (Form::Object, Format::Yaml),
        (Form::Object, Format::Protobuf),
        (Form::Table(MetaVersion::V1), Format::Json),
        (Form::MetadataList(MetaVersion::V1), Format::Json),
        (Form::MetadataList(MetaVersion::V1), Format::Protobuf),
    ];
    for (storage, labels, fields, found) in [
        ("pods", "", "", 50),
        ("pods", "app=web", "", 50),
        ("pods", "", "spec.nodeName=n1", 50),
        ("pods", "", "spec.nodeName!=n1", 0),
        ("pods", "", "metadata.name=o-7", 1),
        ("pods", "app=web", "status.phase=Running,spec.hostNetwork=false", 0),
        ("widgets.example.com", "", "", 50),
        ("widgets.example.com", "app=web", "spec.size=large", 50),
        ("widgets.example.com", "", "spec.size=small", 0),
    ] {
        let (resource, options) = (resource(&registry, storage), ListOptions::default());
        let selection = selection(&resource, labels, fields);
        for (form, format) in forms {
            if resource.is_custom() && format == Format::Protobuf {
                continue;
            }
            let listed = registry.list(&resource, "", &selection, &options).await.expect("a list");
            assert_eq!(listed.objects.len(), found, "{storage} {labels} {fields}");
            assert!(encode(Wanted { form, format, ..Wanted::JSON }, &resource, listed) > 0);
            assert_eq!(trees(&registry, storage), 0, "{storage} {labels} {fields} as {form:?} {format:?}");
        }
        for (form, format) in forms.into_iter().take(if resource.is_custom() { 2 } else { 4 }) {
            let frames = Frames::new(Wanted { form, format, ..Wanted::JSON });
            let options = WatchOptions::default().resource_version("0");
            let watch = registry.watch(&resource, "", selection.clone(), &options, frames).await;
            let watch = watch.expect("a watch");
            let slot = FrameSlot::default();
            let mut running = Box::pin(watch.run(slot.clone()));
            let mut length = 0;
            loop {
                tokio::select! { biased;
                    () = &mut running => break,
                    () = std::future::ready(()) => {}
                }
                let Some(frame) = slot.take() else { break };
                length += frame.len();
            }
            assert_eq!(length > 0, found > 0, "{storage} {labels} {fields}");
            assert_eq!(trees(&registry, storage), 0, "{storage} {labels} {fields} watched as {form:?} {format:?}");
        }
    }
}

#[tokio::test]
async fn a_conversion_does_not_cache_trees() {
    let (registry, _stop) = registry();
    put(&registry, "widgets.example.com", "default", "w", &widget("w"));
    let catalog = registry.catalog();
    let v2 = catalog.of_kind("example.com/v2", "Widget").cloned().expect("it is served");
    assert!(v2.needs_webhook());
    let objects = registry.all(&KeyRange::resource("widgets.example.com"));
    let objects = objects.into_iter().map(|entry| entry.object).collect();
    assert!(in_version(&registry.webhook_clients, &v2, objects).await.is_err(), "no server listens at this address");
    assert_eq!(trees(&registry, "widgets.example.com"), 0);
}

#[tokio::test]
async fn a_no_op_write_does_not_cache_a_tree() {
    use super::{Ownership, UpdateKind, UpdateRequest};
    use crate::admission::Part;
    let (registry, _stop) = registry();
    put(&registry, "pods", "default", "web", &pod("web", "n1"));
    let pods = resource(&registry, "pods");
    let request = UpdateRequest {
        resource: &pods,
        namespace: "default",
        name: "web",
        part: Part::Internal,
        origin: UpdateKind::Patch,
        control: None,
        ownership: Ownership::Keep,
        dry_run: false,
    };
    let revision = registry.store.current_revision();
    assert!(registry.update(&request, |pod| Ok(pod.clone())).is_ok());
    let refused = registry.update(&request, |_| Err(super::Rejection::unexpected("no")));
    assert!(refused.is_err() && registry.store.current_revision() == revision);
    assert_eq!(trees(&registry, "pods"), 0);
}

/// A watch that the test polls by hand, with its wake-up count.
struct Polled {
    running: Pin<Box<dyn Future<Output = ()>>>,
    slot: FrameSlot,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Polled {
    async fn start(registry: &Registry, namespace: &str, fields: &str) -> Self {
        let pods = resource(registry, "pods");
        let (options, frames) = (WatchOptions::default(), Frames::new(Wanted::JSON));
        let watch = registry.watch(&pods, namespace, selection(&pods, "", fields), &options, frames).await;
        let slot = FrameSlot::default();
        let running = Box::pin(watch.expect("a watch").run(slot.clone()));
        let mut polled = Polled { running, slot, woken: Arc::default() };
        assert_eq!(polled.events(), "");
        polled
    }

    /// Whether the watch was woken since the last call.
    fn is_woken(&self) -> bool {
        self.woken.0.swap(0, Ordering::Relaxed) > 0
    }

    /// Kinds and names of the events received so far.
    fn events(&mut self) -> String {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut events = Vec::new();
        loop {
            let _ = self.running.as_mut().poll(&mut Context::from_waker(&waker));
            let Some(frame) = self.slot.take() else { return events.join(" ") };
            for line in frame.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let event = Value::from_json(line).expect("an event");
                let text = |path: &[&str]| kubewright_objects::object::tree::text(&event, path).to_owned();
                events.push(format!("{} {}", text(&["type"]), text(&["object", "metadata", "name"])));
            }
        }
    }
}

#[tokio::test]
async fn an_event_wakes_only_the_watches_of_its_node() {
    let (registry, _stop) = registry();
    let mut watches = Vec::new();
    for node in 0..400 {
        watches.push(Polled::start(&registry, "", &format!("spec.nodeName=n{node}")).await);
    }
    let woken = |watches: &[Polled]| -> Vec<usize> {
        watches.iter().enumerate().filter_map(|(node, watch)| watch.is_woken().then_some(node)).collect()
    };
    put(&registry, "pods", "default", "web", &pod("web", "n7"));
    assert_eq!(woken(&watches), [7]);
    assert_eq!(watches[7].events(), "ADDED web");
    // Real pods never change their node. The index treats this move like a first assignment.
    let key = resource(&registry, "pods").key("default", "web");
    let made = registry.store.newest(&key).expect("it was stored").revision;
    let moved =
        registry.store.update(&key, made, ObjectDraft::new(tree(&pod("web", "n9")))).expect("there is no other writer");
    assert_eq!(woken(&watches), [7, 9]);
    assert_eq!((watches[7].events(), watches[9].events()), ("DELETED web".to_owned(), "ADDED web".to_owned()));
    let gone = registry.store.delete(&key, moved.revision, ObjectDraft::new(moved.object.value().clone()));
    assert!(gone.is_ok());
    assert_eq!(woken(&watches), [9]);
    assert_eq!(watches[9].events(), "DELETED web");
    drop(watches);
    assert_eq!(registry.store.usage().watchers, 0);
}

#[tokio::test]
async fn an_event_wakes_only_the_watches_of_its_name_and_namespace() {
    let (registry, _stop) = registry();
    let mut watches = Vec::new();
    for (namespace, fields) in [
        ("", "metadata.name=web"),
        ("", "metadata.name=db"),
        ("", "metadata.namespace=default"),
        ("", "metadata.namespace=shop"),
        ("", "metadata.namespace=default,metadata.name=web"),
        ("", "metadata.namespace=default,metadata.name=db"),
        ("default", "metadata.name=web"),
        ("shop", "metadata.name=web"),
        ("default", "spec.nodeName=n1"),
        ("", "spec.nodeName!=n1"),
    ] {
        watches.push((fields, namespace, Polled::start(&registry, namespace, fields).await));
    }
    put(&registry, "pods", "default", "web", &pod("web", "n1"));
    let mut woken = Vec::new();
    for (fields, namespace, watch) in &mut watches {
        let is_woken = watch.is_woken();
        assert!(is_woken || watch.events().is_empty(), "{namespace} {fields}");
        if is_woken {
            woken.push((*namespace, *fields, watch.events()));
        }
    }
    let added = || "ADDED web".to_owned();
    let want = [
        ("", "metadata.name=web", added()),
        ("", "metadata.namespace=default", added()),
        ("", "metadata.namespace=default,metadata.name=web", added()),
        ("default", "metadata.name=web", added()),
        ("default", "spec.nodeName=n1", added()),
        ("", "spec.nodeName!=n1", String::new()),
    ];
    assert_eq!(woken, want);
}

#[tokio::test]
async fn remaining_item_counts_are_correct_despite_writes_between_pages() {
    let (registry, _stop) = registry();
    let pods = resource(&registry, "pods");
    let name = |number: usize| format!("o-{number:02}");
    (0..40).for_each(|number| put(&registry, "pods", "default", &name(number), &pod(&name(number), "n1")));
    let everything = selection(&pods, "", "");
    let mut options = ListOptions { limit: Some(7), ..ListOptions::default() };
    let mut listed = 0;
    loop {
        let page = registry.list(&pods, "default", &everything, &options).await.expect("a page");
        listed += page.objects.len();
        assert_eq!(page.meta.remaining, (listed < 40).then_some(40 - listed));
        let Some(token) = page.meta.continue_token else { break };
        options.continue_token = Some(token);
        // Delete and create objects in the range that is not listed yet.
        let key = pods.key("default", &name(listed));
        let old = registry.store.newest(&key).expect("it was stored");
        let last = ObjectDraft::new(old.object.value().clone());
        assert!(registry.store.delete(&key, old.revision, last).is_ok());
        let new = format!("z-{listed}");
        put(&registry, "pods", "default", &new, &pod(&new, "n1"));
    }
    assert_eq!(listed, 40);
}

#[tokio::test]
async fn long_lists_in_json_are_encoded_while_they_are_sent() {
    use kubewright_printers::{RowOptions, partial_object_metadata_list};
    let (registry, _stop) = registry();
    for number in 0..500 {
        let name = format!("o-{number:03}");
        put(&registry, "pods", "default", &name, &pod(&name, "n1"));
    }
    let (pods, options) = (resource(&registry, "pods"), ListOptions { limit: Some(400), ..Default::default() });
    let everything = selection(&pods, "", "");
    let listed = registry.list(&pods, "", &everything, &options).await.expect("a list");
    let trees: Vec<Value> = listed.objects.iter().map(|object| object.tree().into_owned()).collect();
    let mut metadata = tree(r#"{"remainingItemCount":100}"#);
    for (field, text) in [
        ("resourceVersion", listed.meta.revision.to_string()),
        ("continue", listed.meta.continue_token.as_deref().expect("there are more").to_owned()),
    ] {
        kubewright_objects::object::tree::set(&mut metadata, &[field], text);
    }
    let version = MetaVersion::V1;
    let table = pods.printer.table(&metadata, &trees, Some(pods.printer.columns()), &RowOptions::default());
    let partial = partial_object_metadata_list(&metadata, &trees, version);
    for (form, want) in
        [(Form::Table(version), Some(table)), (Form::MetadataList(version), Some(partial)), (Form::Object, None)]
    {
        let listed = registry.list(&pods, "", &everything, &options).await.expect("a list");
        let wanted = Wanted { form, ..Wanted::JSON };
        let list = encoding::list(wanted, &pods, &listed.meta, listed.objects).expect("it can be encoded");
        let ListBody::Streamed(list) = list else { panic!("{form:?} is encoded whole") };
        let chunks: Vec<_> = list.collect();
        assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk.len() < 64 << 10), "{form:?}");
        let whole = Value::from_json(&chunks.concat()).expect("JSON");
        assert!(want.is_none_or(|want| want == whole), "{form:?}: {whole}");
    }
}

#[tokio::test]
async fn long_lists_in_every_format_are_encoded_while_they_are_sent() {
    let (registry, _stop) = registry();
    for number in 0..500 {
        let name = format!("o-{number:03}");
        put(&registry, "pods", "default", &name, &pod(&name, "n1"));
    }
    let pods = resource(&registry, "pods");
    let everything = selection(&pods, "", "");
    for count in [1, 500] {
        let options = ListOptions { limit: Some(count), ..Default::default() };
        let listed = registry.list(&pods, "", &everything, &options).await.expect("a list");
        let body = |wanted| {
            let list = encoding::list(wanted, &pods, &listed.meta, listed.objects.clone()).expect("it can be encoded");
            let (is_streamed, chunks) = match list {
                ListBody::Whole(bytes) => (false, vec![bytes]),
                ListBody::Streamed(list) => (true, list.collect()),
            };
            assert_eq!(is_streamed, count > 1, "{wanted:?}");
            chunks.concat()
        };
        for form in [Form::Object, Form::MetadataList(MetaVersion::V1), Form::Table(MetaVersion::V1)] {
            let wanted = Wanted { form, ..Wanted::JSON };
            let whole = Value::from_json(&body(wanted)).expect("JSON");
            for wanted in [Wanted { pretty: true, ..wanted }, Wanted { format: Format::Yaml, ..wanted }] {
                let want = encoding::tree(wanted, &whole).expect("it can be encoded");
                assert!(body(wanted) == want, "{wanted:?}");
            }
        }
        for (form, of_item) in
            [(Form::Object, Form::Object), (Form::MetadataList(MetaVersion::V1), Form::Metadata(MetaVersion::V1))]
        {
            let wanted = Wanted { form, format: Format::Protobuf, ..Wanted::JSON };
            let mut items = Vec::new();
            for object in &listed.objects {
                let item = encoding::object(Wanted { form: of_item, ..wanted }, &pods, object).expect("an object");
                Encoder { out: &mut items }.bytes(2, Envelope::decode(&item).expect("an envelope").raw);
            }
            let list = body(wanted);
            let list = Envelope::decode(&list).expect("the lengths are right");
            assert!(list.raw.ends_with(&items) && list.raw.len() < items.len() + 200, "{form:?}");
        }
    }
}

#[tokio::test]
async fn a_chunk_of_a_table_of_large_objects_takes_few_of_them() {
    let (registry, _stop) = registry();
    let large = "x".repeat(200 << 10);
    for number in 0..20 {
        let name = format!("o-{number:03}");
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}},
            "data":{{"large":"{large}"}}}}"#
        );
        put(&registry, "configmaps", "default", &name, &text);
    }
    let maps = resource(&registry, "configmaps");
    let everything = selection(&maps, "", "");
    let listed = registry.list(&maps, "", &everything, &ListOptions::default()).await.expect("a list");
    for form in [Form::MetadataList(MetaVersion::V1), Form::Table(MetaVersion::V1)] {
        let wanted = Wanted { form, ..Wanted::JSON };
        let list = encoding::list(wanted, &maps, &listed.meta, listed.objects.clone()).expect("it can be encoded");
        let ListBody::Streamed(list) = list else { panic!("{form:?} is encoded whole") };
        assert!(list.count() >= 10, "{form:?}");
    }
}

#[tokio::test]
async fn a_watch_that_is_not_read_holds_no_objects() {
    let (registry, _stop) = registry();
    for number in 0..1000 {
        let name = format!("o-{number:04}");
        put(&registry, "pods", "default", &name, &pod(&name, "n1"));
    }
    let pods = resource(&registry, "pods");
    let objects: Vec<_> = (0..1000)
        .map(|number| registry.store.get(&pods.key("default", &format!("o-{number:04}"))).expect("it exists").object)
        .collect();
    let counts = || objects.iter().map(Arc::strong_count).collect::<Vec<_>>();
    let before = counts();
    let (frames, options) = (Frames::new(Wanted::JSON), WatchOptions::default());
    let watch = registry.watch(&pods, "", selection(&pods, "", ""), &options, frames).await.expect("a watch");
    let slot = FrameSlot::default();
    let mut running = Box::pin(watch.run(slot.clone()));
    let mut names = Vec::new();
    loop {
        tokio::select! { biased;
            () = &mut running => panic!("the watch has ended"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(counts(), before);
        let Some(frame) = slot.take() else { break };
        for line in frame.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event = Value::from_json(line).expect("JSON");
            names.push(kubewright_objects::object::tree::text(&event, &["object", "metadata", "name"]).to_owned());
        }
    }
    assert!(names.is_sorted() && names.len() == 1000, "{}", names.len());
}

#[tokio::test]
async fn a_continue_token_expires_with_one_that_leads_to_the_rest() {
    let (registry, _stop) = registry();
    for name in ["a", "b", "c"] {
        put(&registry, "pods", "default", name, &pod(name, "n1"));
    }
    let pods = resource(&registry, "pods");
    let everything = selection(&pods, "", "");
    let page = async |token: Option<Str>| {
        let options = ListOptions { limit: Some(1), continue_token: token, ..Default::default() };
        registry.list(&pods, "", &everything, &options).await
    };
    let token = page(None).await.expect("a page").meta.continue_token;
    registry.list_horizon.advance(registry.store.current_revision() + 1);
    assert_eq!(page(token.clone()).await.expect("it lives for one period").objects.len(), 1);
    registry.list_horizon.advance(registry.store.current_revision() + 1);
    let Err(Rejection::Status(expired)) = page(token).await else { panic!("it has expired") };
    assert_eq!(expired.code, Some(410));
    let rest = page(expired.metadata.continue_).await.expect("an inconsistent list");
    assert_eq!(rest.objects[0].tree().name(), "b");
}
