//! Informer metrics in Prometheus' format.

use kubewright_api::apps::v1::Deployment;
use kubewright_apiserver::ApiServer;
use kubewright_cache::{FactoryOptions, InformerMetrics, InformerOptions, SharedIndexInformer, SharedInformerFactory};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::informer::Running;
use crate::mutable_server::Live;

fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

// RF-12
#[tokio::test(start_paused = true)]
async fn an_informer_is_exposed_until_it_is_dropped() {
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let server = Live::new();
    server.put("a");
    server.put("b");
    let informer = SharedIndexInformer::new(server, InformerOptions::default().metrics(&metrics, "foos"));
    let running = Running::start(informer);
    running.informer.synced().await;
    let text = scrape(&registry);
    for line in [
        r#"informer_queued_items{name="foos"} 0"#,
        r#"informer_store_resource_version{name="foos"} 2"#,
        r#"informer_objects{name="foos"} 2"#,
        r#"informer_lists_total{name="foos"} 1"#,
        r#"informer_handler_lag{name="foos"} 0"#,
        r#"informer_handler_panics_total{name="foos"} 0"#,
        r#"informer_processing_latency_seconds_count{name="foos"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    running.stop().await;
    assert!(!scrape(&registry).contains("foos"));
}

// RF-12: an informer of a factory is also labelled with its resource, as in client-go.
#[tokio::test]
async fn an_informer_of_a_factory_is_labelled_with_its_resource() {
    let mut registry = Registry::default();
    let server = ApiServer::in_memory().start().await.unwrap();
    let options = FactoryOptions::default().namespace("default").metrics(&InformerMetrics::register(&mut registry));
    let factory = SharedInformerFactory::new(&server.client(), options);
    let _deployments = factory.informer::<Deployment>();
    factory.start(&CancellationToken::new());
    factory.wait_for_cache_sync().await.unwrap();
    let line =
        r#"informer_objects{name="deployments.apps in default",group="apps",version="v1",resource="deployments"} 0"#;
    let text = scrape(&registry);
    assert!(text.contains(line), "{text}");
    factory.shutdown().await;
}

// RF-12: of informers with equal labels, the first running one is shown.
#[tokio::test(start_paused = true)]
async fn only_one_informer_per_name_is_exposed() {
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let (one, two) = (Live::new(), Live::new());
    one.put("a");
    let start = |server: &Live| {
        let options = InformerOptions::default().metrics(&metrics, "foos");
        Running::start(SharedIndexInformer::new(server.clone(), options))
    };
    let (first, second) = (start(&one), start(&two));
    assert!(first.informer.synced().await && second.informer.synced().await);
    let objects = |registry: &Registry| -> Vec<String> {
        scrape(registry).lines().filter(|line| line.starts_with("informer_objects{")).map(str::to_owned).collect()
    };
    assert_eq!(objects(&registry), [r#"informer_objects{name="foos"} 1"#]);
    let stopped = first.informer.clone();
    first.stop().await;
    assert_eq!(objects(&registry), [r#"informer_objects{name="foos"} 0"#]);
    second.stop().await;
    drop(stopped);
}
