//! Certificates that a program issues itself: storage, bundles, rotation.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kubewright_api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::RunningServer;
use kubewright_client::Api;
use kubewright_core::options::{CreateOptions, Patch};
use kubewright_core::{ByteString, DynamicObject, json};
use kubewright_runtime::certificates::{CertificateRotator, CertificateStorage, ServingCertificateError};
use kubewright_runtime::webhook::{ClientConfig, WebhookError, WebhookServer, Webhooks};
use kubewright_runtime::{Manager, ManagerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::support::{config_map, config_maps, eventually, server};
use crate::webhook::{Served, connect};

const NAME: &str = "hook-certificates";

fn secret_storage() -> CertificateStorage {
    CertificateStorage::secret("default", NAME)
}

fn rotator(server: &RunningServer, storage: CertificateStorage) -> CertificateRotator {
    CertificateRotator::new(&server.client(), storage)
        .name("127.0.0.1")
        .validating_configuration("maps")
        .check_every(Duration::from_millis(20))
        .propagation_time(Duration::ZERO)
}

fn webhooks() -> Webhooks {
    Webhooks::new().validate(|new: ConfigMap, _, _| async move {
        if new.data.contains_key("bad") { Err("bad".into()) } else { Ok(()) }
    })
}

async fn serve(rotator: CertificateRotator) -> Served {
    Served::start(WebhookServer::new(([127, 0, 0, 1], 0).into(), rotator, webhooks())).await
}

/// Installs the configuration, as an administrator does: without a bundle.
async fn configure(server: &RunningServer, address: SocketAddr) {
    let client_config = ClientConfig::url(format!("https://{address}"));
    for object in webhooks().configurations("maps", &client_config) {
        let client = server.client();
        client.rest_mapper().api_of(&object).await.unwrap().create(&object).await.unwrap();
    }
}

async fn bundle(server: &RunningServer) -> ByteString {
    let configurations = Api::<ValidatingWebhookConfiguration>::all(&server.client());
    let found = configurations.get("maps").await.unwrap();
    let bundle = found.webhooks.first().and_then(|webhook| webhook.client_config.ca_bundle.clone());
    bundle.unwrap_or_default()
}

async fn stored(server: &RunningServer, field: &str) -> ByteString {
    let secret = Api::<Secret>::namespaced(&server.client(), "default").get(NAME).await.unwrap();
    secret.data.get(field).cloned().unwrap_or_default()
}

/// Whether the server reaches the webhook.
async fn is_reached(server: &RunningServer) -> bool {
    let mut map = config_map("dry");
    map.data.insert("bad", "yes".into());
    let refused = config_maps(server).create_with(&map, &CreateOptions::default().dry_run()).await.unwrap_err();
    refused.status().is_some_and(|status| status.code == Some(403))
}

#[tokio::test]
async fn replicas_share_a_certificate_that_the_server_trusts() {
    let server = server().await;
    // Both find no certificate, and one of them is the first to store it.
    let (one, other) =
        tokio::join!(serve(rotator(&server, secret_storage())), serve(rotator(&server, secret_storage())));
    configure(&server, one.address).await;
    eventually("the bundle is written", async || is_reached(&server).await).await;
    let authority = stored(&server, "ca.crt").await;
    assert_eq!(bundle(&server).await, authority);
    let authority = String::from_utf8(authority.to_vec()).unwrap();
    for served in [&one, &other] {
        assert!(connect(served.address, &authority).await.is_ok());
    }
    // The configuration is applied again, without a bundle.
    let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let configurations = Api::<ValidatingWebhookConfiguration>::all(&server.client());
    configurations.patch("maps", Patch::json(remove)).await.unwrap();
    eventually("the bundle is back", async || is_reached(&server).await).await;
    assert_eq!(stored(&server, "ca.crt").await.to_vec(), authority.as_bytes());
}

#[tokio::test]
async fn a_rotation_of_authority_and_certificate_drops_no_call() {
    let server = server().await;
    let served = serve(rotator(&server, secret_storage())).await;
    configure(&server, served.address).await;
    eventually("the bundle is written", async || is_reached(&server).await).await;
    let (old_bundle, old) = (bundle(&server).await, stored(&server, "tls.crt").await);
    let authority = String::from_utf8(old_bundle.to_vec()).unwrap();
    let mut open = connect(served.address, &authority).await.unwrap();

    // Without its key the authority is replaced. It cannot sign any more.
    let secrets = Api::<Secret>::namespaced(&server.client(), "default");
    secrets.patch(NAME, Patch::json(json!([{"op": "replace", "path": "/data/ca.key", "value": ""}]))).await.unwrap();
    eventually("a new authority has signed", async || {
        assert!(is_reached(&server).await, "a call failed");
        stored(&server, "tls.crt").await != old
    })
    .await;
    let new_bundle = String::from_utf8(bundle(&server).await.to_vec()).unwrap();
    assert_eq!(new_bundle.matches("BEGIN CERTIFICATE").count(), 2, "the old one and the new one");
    assert!(new_bundle.ends_with(&authority));
    eventually("the new certificate is served", async || connect(served.address, &authority).await.is_err()).await;
    assert!(connect(served.address, &new_bundle).await.is_ok());
    assert!(is_reached(&server).await);

    // A connection from before is still answered.
    open.write_all(b"GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let _ = open.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn a_replica_with_more_names_replaces_the_certificate_of_all() {
    let server = server().await;
    let first = serve(rotator(&server, secret_storage())).await;
    let old = stored(&server, "tls.crt").await;
    let authority = String::from_utf8(stored(&server, "ca.crt").await.to_vec()).unwrap();
    let second = serve(rotator(&server, secret_storage()).service("default", "hooks")).await;
    assert_ne!(stored(&server, "tls.crt").await, old);
    for served in [first, second] {
        assert!(connect(served.address, &authority).await.is_ok());
    }
}

/// A directory in the temporary directory, removed on drop.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        Directory(std::env::temp_dir().join(format!("kubewright-{name}-{}", std::process::id())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_directory_holds_the_certificates_of_several_processes() {
    let (server, directory) = (server().await, Directory::new("certificates"));
    let start = || serve(rotator(&server, CertificateStorage::directory(&directory.0)));
    let (one, other) = tokio::join!(start(), start());
    configure(&server, other.address).await;
    eventually("the bundle is written", async || is_reached(&server).await).await;
    let authority = String::from_utf8(bundle(&server).await.to_vec()).unwrap();
    assert!(connect(one.address, &authority).await.is_ok() && connect(other.address, &authority).await.is_ok());
    let files: Vec<_> = std::fs::read_dir(&directory.0).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.iter().map(|file| file.file_name()).collect::<Vec<_>>(), ["certificates-1.json"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&directory.0).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[tokio::test]
async fn the_bundle_of_a_conversion_is_written() {
    let server = server().await;
    let mut definition: DynamicObject = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"shelves.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"kind":"Shelf","listKind":"ShelfList","plural":"shelves","singular":"shelf"},
        "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#
        .parse()
        .unwrap();
    let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/convert"}}});
    definition.set(&["spec", "conversion"], conversion).unwrap();
    let client = server.client();
    client.rest_mapper().api_of(&definition).await.unwrap().create(&definition).await.unwrap();
    let _served = serve(rotator(&server, secret_storage()).conversion_of("shelves.example.com")).await;
    let definitions = Api::<CustomResourceDefinition>::all(&client);
    let conversion = definitions.get("shelves.example.com").await.unwrap().spec.conversion.clone().unwrap();
    let config = conversion.webhook.as_ref().and_then(|webhook| webhook.client_config.clone()).unwrap();
    assert_eq!(config.ca_bundle.clone().unwrap_or_default(), stored(&server, "ca.crt").await);
}

#[tokio::test]
async fn a_server_whose_certificate_cannot_be_stored_does_not_start() {
    let server = server().await;
    let server_with = |rotator| {
        let (tell, _told) = oneshot::channel();
        WebhookServer::new(([127, 0, 0, 1], 0).into(), rotator, webhooks()).tell_address(tell)
    };
    let nameless = CertificateRotator::new(&server.client(), secret_storage());
    let elsewhere = CertificateRotator::new(&server.client(), CertificateStorage::secret("nowhere", NAME)).name("::1");
    for (rotator, why) in [(nameless, "has no names"), (elsewhere, "cannot use the secret nowhere/hook-certificates")] {
        let error = server_with(rotator).run(&CancellationToken::new()).await.unwrap_err();
        let WebhookError::Certificate(ServingCertificateError::Rotation(error)) = error else { panic!("{error}") };
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_manager_stops_while_its_certificate_waits_for_the_server() {
    let server = server().await;
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let rotator = rotator(&server, secret_storage());
    let webhooks = WebhookServer::new(([127, 0, 0, 1], 0).into(), rotator, webhooks());
    manager.add_webhooks("webhooks", webhooks).unwrap();
    server.faults().freeze();
    let stop = CancellationToken::new();
    let mut running = std::pin::pin!(manager.run(&stop));
    let waits = tokio::time::timeout(Duration::from_millis(100), running.as_mut()).await;
    assert!(waits.is_err(), "{waits:?}");
    stop.cancel();
    running.await.unwrap();
}
