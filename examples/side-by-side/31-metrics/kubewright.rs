// A controller with metrics and health checks.

use kubewright::Client;
use kubewright::api::core::v1::ConfigMap;
use kubewright::runtime::{BoxError, Manager, ManagerOptions, Outcome, shutdown_on_signals};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let address = std::env::args().nth(1).unwrap_or("[::]:8080".into());
    let client = Client::try_default().await?;
    let mut manager = Manager::new(&client, ManagerOptions::default().listen(address.parse()?));
    manager.checks().readiness("database", || Ok(()));
    let controller = manager.controller::<ConfigMap>("maps");
    manager.add(controller.reconciling(|_, _| async { Ok(Outcome::Done) }))?;
    Ok(manager.run(&shutdown).await?)
}
