//! 404 responses: objects stay in the cache until the resource is proven gone.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use kubewright_apiserver::ApiServer;
use kubewright_cache::{
    BoxFuture, EventStream, HealthState, InformerOptions, ItemStream, ListWatch, ListerWatcher, QueueKind, Reflector,
    ReflectorOptions, SharedIndexInformer, Store,
};
use kubewright_client::transport::{Body, ResponseFuture, TransportError};
use kubewright_client::{Api, Client, Error, Result, Scope};
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::{DynamicObject, GroupVersionResource, StatusReason};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::informer::{Log, Running, logging, taken};
use crate::mutable_server::Live;
use crate::script::{Script, list_fails, listed, watch_fails, watched};
use crate::support::named;

fn not_found() -> Error {
    Status::failure(StatusReason::NotFound, "404 page not found").into()
}

fn forbidden() -> Error {
    Status::failure(StatusReason::Forbidden, "no").into()
}

/// A server that can prove the absence of its resource.
#[derive(Clone)]
struct Provable {
    live: Live,
    is_gone: Arc<Mutex<bool>>,
}

impl ListerWatcher<DynamicObject> for Provable {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ItemStream<DynamicObject>>> {
        self.live.list(options)
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<EventStream<DynamicObject>>> {
        self.live.watch(options)
    }

    fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(*self.is_gone.lock().unwrap()))
    }
}

// A 404 does not delete existing objects.
#[tokio::test(start_paused = true)]
async fn a_404_keeps_all_objects_until_absence_is_proven() {
    for queue in [QueueKind::InOrder, QueueKind::DeltaFifo] {
        let live = Live::new();
        live.put("a");
        let server = Provable { live: live.clone(), is_gone: Arc::default() };
        let errors = Log::default();
        let log = errors.clone();
        let reflector = ReflectorOptions::default().on_error(move |error| log.lock().unwrap().push(error.to_string()));
        let informer =
            SharedIndexInformer::new(server.clone(), InformerOptions::default().queue(queue).reflector(reflector));
        let heard = Log::default();
        informer.add_handler(logging(&heard)).unwrap();
        let running = Running::start(informer.clone());
        assert!(informer.synced().await && !informer.is_absent());
        live.refuse(u32::MAX, not_found);
        sleep(Duration::from_secs(300)).await;
        assert_eq!(informer.health().unwrap().state, HealthState::Absent, "{queue:?}");
        assert!(informer.is_absent());
        assert_eq!(named(&informer.store().snapshot()), ["a@1"]);
        // The state shows the current failure.
        live.refuse(u32::MAX, forbidden);
        sleep(Duration::from_secs(100)).await;
        assert!(!informer.is_absent());
        assert!(informer.health().unwrap().last_error.unwrap().0.is_forbidden());
        live.refuse(u32::MAX, not_found);
        sleep(Duration::from_secs(100)).await;
        assert!(informer.is_absent());
        assert_eq!(taken(&heard), ["+a@1*"]);
        // A repeated 404 is not reported.
        assert!(taken(&errors).len() < 15);
        *server.is_gone.lock().unwrap() = true;
        sleep(Duration::from_secs(100)).await;
        assert!(informer.is_absent() && informer.store().is_empty());
        assert_eq!(taken(&heard), ["xa@1"]);
        live.recover();
        sleep(Duration::from_secs(100)).await;
        assert_eq!(informer.health().unwrap().state, HealthState::Watching);
        assert_eq!(taken(&heard), ["+a@1"]);
        running.stop().await;
    }
}

// An option treats a 404 as proof.
#[tokio::test(start_paused = true)]
async fn a_404_can_be_taken_for_proof() {
    let script =
        Script::new([listed("10", "a@1"), watch_fails(not_found()), list_fails(not_found()), list_fails(not_found())]);
    let store = Store::default();
    let reflector = Reflector::new(script, store.clone(), ReflectorOptions::default().empty_when_not_found());
    let stop = CancellationToken::new();
    let looks = async {
        sleep(Duration::from_secs(3)).await;
        assert!(reflector.is_absent() && store.is_empty());
        stop.cancel();
    };
    tokio::join!(reflector.run(&stop), looks);
}

// A resource that is missing at first is retried.
#[tokio::test(start_paused = true)]
async fn a_missing_resource_does_not_cause_a_loop_of_errors() {
    let mut answers: Vec<_> = (0..4).map(|_| list_fails(not_found())).collect();
    answers.extend([listed("30", "b@25"), watched("")]);
    let errors = Arc::new(Mutex::new(0));
    let count = errors.clone();
    let options = ReflectorOptions::default().on_error(move |_| *count.lock().unwrap() += 1);
    let store = Store::default();
    let reflector = Reflector::new(Script::new(answers), store.clone(), options);
    let stop = CancellationToken::new();
    let looks = async {
        sleep(Duration::from_secs(120)).await;
        stop.cancel();
    };
    tokio::join!(reflector.run(&stop), looks);
    assert_eq!((named(&store.snapshot()).join(" ").as_str(), *errors.lock().unwrap()), ("b@25", 1));
}

/// Path substring, status and body of a proxy's response.
type Fault = (&'static str, u16, &'static str);

/// A body in one chunk.
struct Once(Option<bytes::Bytes>);

impl futures_core::Stream for Once {
    type Item = Result<bytes::Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}

fn through(client: Client, fault: Option<Fault>) -> Client {
    Client::over(move |request: http::Request<bytes::Bytes>| -> ResponseFuture {
        match fault {
            Some((path, code, body)) if request.uri().path().contains(path) => {
                let answer = http::Response::builder().status(code).header("content-type", "application/json");
                let body = Body::new(Once(Some(bytes::Bytes::from_static(body.as_bytes()))));
                Box::pin(std::future::ready(Ok(answer.body(body).unwrap())))
            }
            _ => client.transport().send(request),
        }
    })
}

// Both the definition and the entry in discovery must be missing, according to the server itself.
#[tokio::test]
async fn proof_is_that_definition_and_discovery_have_no_such_resource() {
    let server = ApiServer::in_memory().start().await.unwrap();
    let client = server.client();
    let crd = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#;
    let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let crd: DynamicObject = crd.parse().unwrap();
    Api::<DynamicObject>::new(&client, definitions, Scope::Cluster).create(&crd).await.unwrap();
    let is_gone = async |resource: &str, group: &str, fault: Option<Fault>| {
        let resource = GroupVersionResource::new(group, "v1", resource);
        let client = through(client.clone(), fault).retries(0);
        ListWatch::new(Api::<DynamicObject>::new(&client, resource, Scope::AllNamespaces)).is_gone().await
    };
    assert!(!is_gone("widgets", "example.com", None).await, "it is there");
    assert!(is_gone("gadgets", "example.com", None).await, "its group has no such resource");
    assert!(is_gone("gadgets", "other.example.com", None).await, "nor is its group there");
    for fault in [
        // A proxy without a route to the server.
        ("", 404, "404 page not found"),
        ("/customresourcedefinitions", 404, "404 page not found"),
        ("/customresourcedefinitions", 404, r#"{"kind":"Status","code":404,"reason":"NotFound","status":"Failure"}"#),
        ("/customresourcedefinitions", 403, r#"{"kind":"Status","code":403,"reason":"Forbidden","status":"Failure"}"#),
        // Discovery during an outage of an aggregated API server.
        ("/apis/example.com", 503, "{}"),
        ("/apis/example.com", 404, "404 page not found"),
        ("/apis/example.com", 200, "{}"),
    ] {
        assert!(!is_gone("gadgets", "example.com", Some(fault)).await, "{fault:?}");
    }
    assert!(!is_gone("configmaps", "", None).await && !is_gone("gadgets", "apps", None).await, "built in");
    assert!(!is_gone("gadgets", "other.example.com", Some(("/apis", 500, "{}"))).await);
}
