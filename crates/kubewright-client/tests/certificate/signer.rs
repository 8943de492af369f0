//! Approves and signs certificate signing requests, with the test's clock.

use std::time::{Duration, SystemTime};

use kubewright_api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use kubewright_client::{Api, Client};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use rcgen::{CertificateParams, DnType};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::Instant;

use crate::scripted::Authority;

pub struct Signer {
    pub authority: Authority,
    api: Api<CertificateSigningRequest>,
    start: SystemTime,
    epoch: Instant,
}

impl Signer {
    pub fn new(client: &Client) -> Self {
        let (start, epoch) = (SystemTime::now(), Instant::now());
        Signer { authority: Authority::new(), api: Api::all(client), start, epoch }
    }

    /// The current time, simulated or not.
    pub fn now(&self) -> SystemTime {
        self.start + self.epoch.elapsed()
    }

    /// Pending requests, oldest first.
    pub async fn undecided(&self) -> Vec<CertificateSigningRequest> {
        let list = self.api.list(&ListOptions::default()).await.expect("they can be listed");
        list.items.into_iter().filter(is_undecided).collect()
    }

    /// Waits for a pending request.
    pub async fn next(&self) -> CertificateSigningRequest {
        loop {
            let list = self.api.list(&ListOptions::default()).await.expect("they can be listed");
            let options = WatchOptions::default().resource_version(list.metadata.resource_version.unwrap_or_default());
            if let Some(request) = list.items.into_iter().rfind(is_undecided) {
                return request;
            }
            // Uses a watch, because polling through hours of simulated time would be slow.
            let mut watch = self.api.watch(&options).await.expect("they can be watched");
            while let Some(Ok(event)) = watch.next().await {
                if let WatchEvent::Added(request) = event {
                    return request;
                }
            }
        }
    }

    /// Decides about a request, as `Approved`, `Denied` or `Failed`.
    pub async fn decide(&self, request: &CertificateSigningRequest, decision: &str) -> CertificateSigningRequest {
        let condition = CertificateSigningRequestCondition {
            type_: decision.into(),
            status: "True".into(),
            reason: Some("Because".into()),
            message: Some("the test says so".into()),
            ..Default::default()
        };
        let mut request = request.clone();
        request.status.get_or_insert_default().conditions = [condition].into_iter().collect();
        match decision {
            "Failed" => self.api.update_status(&request).await.expect("it may be failed"),
            _ => self.api.update_approval(&request).await.expect("it may be decided"),
        }
    }

    /// Approves and signs a request for this user, valid from now for this duration.
    pub async fn sign(&self, request: &CertificateSigningRequest, name: &str, life: Duration) {
        self.sign_with(request, name, life, |_| {}).await;
    }

    pub async fn sign_with(
        &self,
        request: &CertificateSigningRequest,
        name: &str,
        life: Duration,
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let mut approved = self.decide(request, "Approved").await;
        let certificate = self.authority.sign_key(point(&request.spec.request), name, |params| {
            params.not_before = self.now().into();
            params.not_after = (self.now() + life).into();
            params.distinguished_name.push(DnType::OrganizationName, "system:masters");
            change(params);
        });
        approved.status.get_or_insert_default().certificate = Some(certificate.as_str().into());
        self.api.update_status(&approved).await.expect("it may be signed");
    }

    pub async fn delete(&self, request: &CertificateSigningRequest) {
        self.api.delete(request.metadata.name.as_deref().expect("it has one")).await.expect("it may be deleted");
    }
}

fn is_undecided(request: &CertificateSigningRequest) -> bool {
    request.status.as_ref().is_none_or(|status| status.conditions.is_empty())
}

/// The public key of a request: the only point on P-256 in it.
fn point(request: &[u8]) -> Vec<u8> {
    let der = CertificateSigningRequestDer::from_pem_slice(request).expect("it is PEM");
    // A bit string of 66 bytes without unused bits, with the prefix of an uncompressed point.
    let begin = der.windows(4).position(|bytes| bytes == [0x03, 0x42, 0x00, 0x04]).expect("it has a P-256 key") + 3;
    der[begin..begin + 65].to_vec()
}
