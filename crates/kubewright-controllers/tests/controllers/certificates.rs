//! Certificate signing requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kubewright_api::authentication::v1::SelfSubjectReview;
use kubewright_api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_client::config::CertificateSource;
use kubewright_client::credentials::{ClientCertificate, KeySource};
use kubewright_client::{Api, Client, Config, Secret};
use kubewright_controllers::{ControllerSet, NodeOptions, RunningControllers, SigningAuthority};
use kubewright_core::Str;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use tokio::time::sleep;

const USER: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A server that signs certificates with its own authority.
struct Cluster {
    server: RunningServer,
    controllers: RunningControllers,
    requests: Api<CertificateSigningRequest>,
}

impl Cluster {
    async fn start() -> Self {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = ApiServer::in_memory().listen(loopback).start().await.unwrap();
        let key = server.certificate_authority_key().unwrap();
        let authority = SigningAuthority::from_pem(server.certificate_authority().unwrap(), key).unwrap();
        let controllers = ControllerSet::new(&server.client()).nodes(NodeOptions::default().count(0));
        let controllers = controllers.signing_authority(authority).start();
        let requests = Api::all(&server.client());
        Cluster { server, controllers, requests }
    }

    /// Creates a request for this subject. Returns the key.
    async fn request(&self, name: &str, signer: &str, subject: (&str, &str), usages: &[&str]) -> KeyPair {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject.0);
        params.distinguished_name.push(DnType::OrganizationName, subject.1);
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let spec = CertificateSigningRequestSpec {
            request: pem.as_bytes().into(),
            signer_name: signer.into(),
            usages: usages.iter().copied().map(Str::from).collect(),
            expiration_seconds: Some(3600),
            ..CertificateSigningRequestSpec::default()
        };
        let mut request = CertificateSigningRequest { spec, ..CertificateSigningRequest::default() };
        request.metadata.name = Some(name.into());
        self.requests.create(&request).await.unwrap();
        key
    }

    /// Decides a request: `Approved` or `Denied`.
    async fn decide(&self, name: &str, decision: &'static str) {
        let mut request = self.requests.get(name).await.unwrap();
        request.status.get_or_insert_default().conditions.push(CertificateSigningRequestCondition {
            type_: decision.into(),
            status: "True".into(),
            reason: Some("Test".into()),
            ..CertificateSigningRequestCondition::default()
        });
        self.requests.update_approval(&request).await.unwrap();
    }

    async fn until(&self, name: &str, holds: impl Fn(&CertificateSigningRequest) -> bool) -> CertificateSigningRequest {
        for _ in 0..500 {
            let request = self.requests.get(name).await.unwrap();
            if holds(&request) {
                return request;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("{:?}", self.requests.get(name).await)
    }

    /// A client with this certificate.
    fn client_with(&self, certificate: &[u8], key: &KeyPair) -> Client {
        let mut config = Config::new(self.server.url().unwrap()).unwrap();
        let authority = self.server.certificate_authority().unwrap();
        config.tls.authority = Some(CertificateSource::Data(authority.as_bytes().into()));
        config.credentials.client_certificate = Some(ClientCertificate {
            certificate: CertificateSource::Data(certificate.into()),
            key: KeySource::Data(Secret::new(key.serialize_pem().as_bytes().into())),
        });
        Client::try_from(config).unwrap()
    }

    async fn stop(self) {
        self.controllers.stop().await.unwrap();
        self.server.stop().await;
    }
}

fn certificate(request: &CertificateSigningRequest) -> Option<Vec<u8>> {
    request.status.as_ref()?.certificate.as_ref().map(|pem| pem.to_vec())
}

fn condition<'a>(request: &'a CertificateSigningRequest, kind: &str) -> Option<&'a CertificateSigningRequestCondition> {
    request.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == kind)
}

#[tokio::test]
async fn an_approved_request_is_signed_and_its_certificate_logs_in() {
    let cluster = Cluster::start().await;
    let key = cluster.request("jane", USER, ("jane", "people"), &["client auth", "digital signature"]).await;
    sleep(Duration::from_millis(300)).await;
    assert!(certificate(&cluster.requests.get("jane").await.unwrap()).is_none(), "nobody has approved it");
    cluster.decide("jane", "Approved").await;
    let signed = cluster.until("jane", |request| certificate(request).is_some()).await;

    let jane = cluster.client_with(&certificate(&signed).unwrap(), &key);
    let review = Api::<SelfSubjectReview>::all(&jane).create(&SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.clone().unwrap();
    assert_eq!(user.username.as_deref(), Some("jane"));
    assert_eq!(user.groups.iter().map(Str::as_str).collect::<Vec<_>>(), ["people", "system:authenticated"]);
    cluster.stop().await;
}

#[tokio::test]
async fn only_kubelet_client_certificates_are_approved_automatically() {
    let cluster = Cluster::start().await;
    let usages = ["client auth", "digital signature", "key encipherment"];
    cluster.request("kubelet", KUBELET, ("system:node:a", "system:nodes"), &usages).await;
    let signed = cluster.until("kubelet", |request| certificate(request).is_some()).await;
    let approved = condition(&signed, "Approved").unwrap();
    assert_eq!(approved.reason.as_deref(), Some("AutoApproved"));
    let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
    assert_eq!(approved.message.as_deref(), Some(message));
    cluster.request("other", KUBELET, ("jane", "people"), &usages).await;
    sleep(Duration::from_millis(300)).await;
    assert!(cluster.requests.get("other").await.unwrap().status.is_none_or(|status| status.conditions.is_empty()));
    cluster.stop().await;
}

#[tokio::test]
async fn a_request_that_its_signer_refuses_fails_with_the_reason() {
    let cluster = Cluster::start().await;
    cluster.request("server", USER, ("jane", "people"), &["server auth", "client auth"]).await;
    cluster.decide("server", "Approved").await;
    let failed = cluster.until("server", |request| condition(request, "Failed").is_some()).await;
    let failure = condition(&failed, "Failed").unwrap();
    assert_eq!(failure.reason.as_deref(), Some("SignerValidationFailure"));
    assert_eq!(failure.message.as_deref(), Some("invalid usage for client certificate: server auth"));
    assert!(certificate(&failed).is_none());
    // Signers of others are left to them.
    cluster.request("foreign", "example.com/signer", ("jane", "people"), &["client auth"]).await;
    cluster.decide("foreign", "Approved").await;
    sleep(Duration::from_millis(300)).await;
    assert!(certificate(&cluster.requests.get("foreign").await.unwrap()).is_none());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_denied_request_is_removed_after_an_hour_and_a_pending_one_after_a_day() {
    let server = ApiServer::in_memory().start().await.unwrap();
    let controllers = ControllerSet::new(&server.client()).nodes(NodeOptions::default().count(0)).start();
    let cluster = Cluster { requests: Api::all(&server.client()), server, controllers };
    for name in ["denied", "pending"] {
        cluster.request(name, USER, ("jane", "people"), &["client auth"]).await;
    }
    cluster.decide("denied", "Denied").await;
    let is_there = async |name: &str| cluster.requests.get_opt(name).await.unwrap().is_some();
    sleep(Duration::from_secs(59 * 60)).await;
    assert!(is_there("denied").await);
    sleep(Duration::from_secs(2 * 60)).await;
    assert!(!is_there("denied").await && is_there("pending").await);
    sleep(Duration::from_secs(22 * 60 * 60)).await;
    assert!(is_there("pending").await);
    sleep(Duration::from_secs(70 * 60)).await;
    assert!(!is_there("pending").await);
    cluster.stop().await;
}
