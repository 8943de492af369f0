//! Informers in Prometheus' format.

use kubewright_cache::{InformerOptions, Metrics, SharedIndexInformer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::informer::Running;
use crate::live::Live;

fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

// RF-12
#[tokio::test(start_paused = true)]
async fn an_informer_shows_itself_while_it_lives() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
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
