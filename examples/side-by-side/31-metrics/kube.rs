// A controller with metrics and health checks.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let reconciles = Counter::default();
    let mut registry = Registry::default();
    registry.register("controller_runtime_reconcile", "Reconciles", reconciles.clone());

    let controller = Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default());
    let cache = controller.store();
    let running = controller
        .shutdown_on_signal()
        .run(reconcile, |_, error, _| match *error {}, Arc::new(reconciles))
        .for_each(|_| std::future::ready(()));
    let ready = || async move {
        match cache.wait_until_ready().await {
            Ok(()) => StatusCode::OK,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    };
    let pages = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(Arc::new(registry));
    let address = std::env::args().nth(1).unwrap_or("[::]:8080".into());
    let listener = tokio::net::TcpListener::bind(address).await?;
    tokio::select! {
        () = running => Ok(()),
        served = axum::serve(listener, pages) => Ok(served?),
    }
}

async fn reconcile(_: Arc<ConfigMap>, reconciles: Arc<Counter>) -> Result<Action, Infallible> {
    reconciles.inc();
    Ok(Action::await_change())
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Result<String, StatusCode> {
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(text)
}
