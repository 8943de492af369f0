// Rejects config maps without a colour.

use kubewright::Client;
use kubewright::api::core::v1::ConfigMap;
use kubewright::runtime::certificates::ServingCertificate;
use kubewright::runtime::webhook::{WebhookServer, Webhooks};
use kubewright::runtime::{BoxError, Manager, shutdown_on_signals};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shutdown = shutdown_on_signals();
    let address = std::env::args().nth(1).unwrap_or("[::]:9443".into());
    let client = Client::try_default().await?;
    let webhooks = Webhooks::new().validate(|map: ConfigMap, _old, _| async move {
        match map.data.get("colour") {
            Some(_) => Ok(()),
            None => Err("a colour is needed".into()),
        }
    });
    let certificate = ServingCertificate::files("tls.crt", "tls.key");
    let mut manager = Manager::new(&client, Default::default());
    manager
        .add_webhooks("webhooks", WebhookServer::new(address.parse()?, certificate, webhooks))?;
    Ok(manager.run(&shutdown).await?)
}
