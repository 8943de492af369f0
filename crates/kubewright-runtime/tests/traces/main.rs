//! The trace of a reconcile, from the first event to the last write, as OpenTelemetry exports it.
//!
//! In a process of its own: a subscriber of one thread does not see spans whose call sites another
//! thread reached first.

#[path = "../runtime/recording.rs"]
mod recording;

use std::collections::HashMap;

use http::Method;
use kubewright_api::core::v1::ConfigMap;
use kubewright_client::Api;
use kubewright_core::Object;
use kubewright_runtime::testing::TestCluster;
use kubewright_runtime::{Context, Freshness, Manager, Outcome, Predicate};
use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};

use recording::Recording;

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.set_name(name);
    map
}

fn attribute(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
}

/// The writes of the controller since the last call.
fn writes(recording: &Recording) -> Vec<recording::Sent> {
    let is_write = |path: &str| path.starts_with("/api/v1/namespaces/kube-public/");
    recording.take().into_iter().filter(|(method, path, _)| *method == Method::POST && is_write(path)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_trace_leads_from_the_event_to_the_last_write() {
    let cluster = TestCluster::start().await.unwrap();
    let recording = Recording::over(cluster.client());
    let mut manager = Manager::new(&recording.client(), Default::default());
    let controller = manager.controller::<ConfigMap>("maps");
    let controller = controller.filter(Predicate::objects(|map: &ConfigMap| map.namespace() == "default"));
    let controller = controller.reconciling(|map, context: Context| async move {
        let copies = context.api::<ConfigMap>("kube-public");
        assert!(copies.get(map.name(), Freshness::Live).await?.is_none());
        copies.create(&config_map(map.name())).await?;
        Ok(Outcome::Done)
    });
    manager.add(controller).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");

    // Without a subscriber there is no trace.
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    recording.take();
    maps.create(&config_map("untraced")).await.unwrap();
    running.until_idle().await;
    let [(_, _, headers)] = &writes(&recording)[..] else { panic!("it writes once") };
    assert!(!headers.contains_key("traceparent"), "{headers:?}");

    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let filter = Targets::new().with_target("kubewright::trace", LevelFilter::DEBUG).with_default(LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test")).with_filter(filter);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    maps.create(&config_map("a")).await.unwrap();
    running.until_idle().await;

    let spans = exporter.get_finished_spans().unwrap();
    let [(_, path, headers)] = &writes(&recording)[..] else { panic!("it writes once") };
    assert_eq!(path, "/api/v1/namespaces/kube-public/configmaps");
    let root = spans.iter().find(|span| span.name == "key").expect("the trace has ended");
    assert_eq!((attribute(root, "controller"), attribute(root, "key")), ("maps".into(), "default/a".into()));
    assert_eq!(root.parent_span_id, SpanId::INVALID);
    // All spans of the trace, below their parents.
    let of_trace: Vec<_> =
        spans.iter().filter(|span| span.span_context.trace_id() == root.span_context.trace_id()).collect();
    let name_of: HashMap<_, _> = of_trace.iter().map(|span| (span.span_context.span_id(), &*span.name)).collect();
    let mut tree: Vec<String> = of_trace
        .iter()
        .filter_map(|span| Some(format!("{}/{}", name_of.get(&span.parent_span_id)?, span.name)))
        .collect();
    tree.sort();
    assert_eq!(tree, ["key/queued", "key/reconcile", "reconcile/request", "reconcile/request"]);
    let queued = of_trace.iter().find(|span| span.name == "queued").unwrap();
    let reasons = queued.events.iter().flat_map(|event| &event.attributes);
    let reasons: Vec<_> = reasons.filter(|attribute| attribute.key.as_str() == "reason").collect();
    assert_eq!(reasons.len(), 1);
    assert_eq!(reasons[0].value.to_string(), "configmaps default/a added");

    // The write carries the context of its span.
    let write = of_trace.iter().find(|span| attribute(span, "http.request.method") == "POST").unwrap();
    assert_eq!(attribute(write, "http.response.status_code"), "201");
    let context = &write.span_context;
    let expected = format!("00-{}-{}-01", context.trace_id(), context.span_id());
    assert_eq!(headers.get("traceparent").and_then(|value| value.to_str().ok()), Some(&*expected));
    running.stop().await.unwrap();
}
