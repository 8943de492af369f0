//! Certificates for webhooks in tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

use kubewright_core::ByteString;

use crate::webhook::WebhookServer;

/// A self-signed certificate for webhooks at 127.0.0.1, in files that are removed on drop.
///
/// ```
/// # use kubewright_api::core::v1::ConfigMap;
/// # use kubewright_core::{DynamicObject, Object, json};
/// # use kubewright_client::Api;
/// # use kubewright_runtime::testing::{TestCertificate, TestCluster};
/// # use kubewright_runtime::webhook::AdmissionRequest;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = TestCluster::start().await?;
/// let (certificate, (tell, told)) = (TestCertificate::new()?, tokio::sync::oneshot::channel());
/// let webhooks = certificate.webhooks().tell_address(tell).admit("/label", |request: AdmissionRequest<ConfigMap>| async move {
///     request.mutate(|map| drop(map.metadata.labels.insert("seen", "yes".into())))
/// });
/// let mut manager = cluster.manager();
/// manager.add_webhooks("webhooks", webhooks)?;
/// let running = cluster.run(manager);
///
/// let configuration = DynamicObject::try_from(json!({
///     "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "label"},
///     "webhooks": [{
///         "name": "label.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
///         "clientConfig": {"url": format!("https://{}/label", told.await?), "caBundle": certificate.ca_bundle().to_base64()},
///         "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
///     }],
/// }))?;
/// let client = cluster.client();
/// client.rest_mapper().api_of(&configuration).await?.create(&configuration).await?;
///
/// let mut map = ConfigMap::default();
/// map.set_name("a");
/// let map = Api::<ConfigMap>::namespaced(&client, "default").create(&map).await?;
/// assert_eq!(map.labels().get("seen"), Some("yes"));
/// running.stop().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[doc(alias = "WebhookInstallOptions")]
pub struct TestCertificate {
    directory: PathBuf,
    pem: String,
}

impl TestCertificate {
    /// A new certificate in a temporary directory.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn new() -> io::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("kubewright-test-{}-{number}", std::process::id()));
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).map_err(io::Error::other)?;
        fs::create_dir_all(&directory)?;
        let certificate = TestCertificate { directory, pem: made.cert.pem() };
        fs::write(certificate.file(), &certificate.pem)?;
        fs::write(certificate.key_file(), made.signing_key.serialize_pem())?;
        Ok(certificate)
    }

    /// The file with the certificate.
    pub fn file(&self) -> PathBuf {
        self.directory.join("tls.crt")
    }

    /// The file with its key.
    pub fn key_file(&self) -> PathBuf {
        self.directory.join("tls.key")
    }

    /// The `caBundle` for a webhook configuration or a conversion.
    pub fn ca_bundle(&self) -> ByteString {
        ByteString::from(self.pem.as_str())
    }

    /// A webhook server with this certificate at a free port; see [`WebhookServer::tell_address`].
    pub fn webhooks(&self) -> WebhookServer {
        WebhookServer::new(([127, 0, 0, 1], 0).into(), self.file(), self.key_file())
    }
}

impl Drop for TestCertificate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
