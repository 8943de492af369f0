//! Issues certificates of an external certificate authority, and renews them before they expire.
//!
//! `cargo run -p kubewright-examples --example certificate_issuer -- https://ca.example.com`
//!
//! For each `Certificate` the operator sends a signing request to the authority, and writes key and
//! certificate into a Secret. The key is in no request, log, event, status or `Debug` output. The
//! authority files certificates under the uid of their object. So the finalizer can revoke them
//! all, even one that was issued just before the process crashed.

use std::{sync::Arc, time::Duration};

use kubewright::api::core::v1::Secret;
use kubewright::client::clock::now;
use kubewright::condition::set_status_condition;
use kubewright::meta::v1::Condition;
use kubewright::runtime::custom::{self, CustomResource};
use kubewright::runtime::events::{EventApi, EventRecorder};
use kubewright::runtime::ownership::{is_controlled_by, set_controller_reference};
use kubewright::runtime::{
    BoxError, Context, Finalizing, Freshness, Manager, ManagerOptions, Outcome, OwnApi, Owns, Predicate,
    ReconcileError, Reconciler, ResultExt, finalize, shutdown_on_signals,
};
use kubewright::{ByteString, Client, Config, Object, Time};
use rcgen::{CertificateParams, KeyPair};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const FINALIZER: &str = "certs.example.com/revoke";
/// The label of our Secrets. Others are not in the cache of this process.
const MANAGED: &str = "certs.example.com/managed";
const DNS_NAMES: &str = "certs.example.com/dns-names";
const NOT_AFTER: &str = "certs.example.com/not-after";

/// A certificate in a Secret, renewed when a third of its lifetime is left.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "certs.example.com", version = "v1", kind = "Certificate", namespaced, status = CertificateStatus)]
#[resource(column(name = "Ready", type = "string", path = ".status.conditions[?(@.type=='Ready')].status"))]
#[resource(column(name = "Expires", type = "date", path = ".status.notAfter"))]
#[serde(rename_all = "camelCase")]
pub struct CertificateSpec {
    /// The names of the server.
    #[schemars(length(min = 1, max = 32))]
    pub dns_names: Vec<String>,
    /// The name of the Secret.
    #[schemars(transform = custom::immutable)]
    pub secret_name: String,
    /// The requested lifetime.
    #[schemars(range(min = 600))]
    pub lifetime_seconds: u32,
}

/// The issued certificate.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// When the certificate expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// The condition `Ready`: the Secret has a valid certificate.
    #[schemars(transform = custom::list_map(["type"]))]
    pub conditions: Vec<Condition>,
}

/// The answer of the authority.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issued {
    certificate: String,
    not_after: Time,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let shutdown = shutdown_on_signals();
    let url = std::env::args().nth(1).ok_or("usage: certificate_issuer URL")?;
    // Any HTTP client will do. This one has TLS, tokens, timeouts and typed errors already.
    let authority = Client::try_from(Config::new(&url)?)?;
    Ok(manager(&Client::try_default().await?, authority)?.run(&shutdown).await?)
}

/// The operator, with a client of the authority.
pub fn manager(client: &Client, authority: Client) -> Result<Manager, BoxError> {
    let mut manager = Manager::new(client, ManagerOptions::default());
    manager.elect_by_lease("certificate-issuer")?;
    let events = manager.recorder("certificate-issuer", EventApi::Events);
    // Only metadata of Secrets is cached, so that no key stays in memory.
    let secrets = Owns::metadata::<Secret>().labels(format!("{MANAGED}=true").parse()?);
    // Without the filter, a written status would lead to another attempt.
    let controller = manager.controller::<Certificate>("certificates").filter(Predicate::generation_changed());
    manager.add(controller.owns_with(secrets).workers(4).reconciled_by(Issuer { authority, events }))?;
    Ok(manager)
}

struct Issuer {
    authority: Client,
    events: EventRecorder,
}

impl Reconciler<Certificate> for Issuer {
    async fn reconcile(&self, certificate: Arc<Certificate>, context: Context) -> Result<Outcome, BoxError> {
        let certificates = context.api::<Certificate>(certificate.namespace());
        finalize(&certificates, FINALIZER, certificate, async |step| match step {
            Finalizing::Apply(certificate) => self.ensure(&certificate, &context).await,
            Finalizing::Cleanup(certificate) => self.revoke_all(&certificate).await,
        })
        .await
    }
}

impl Issuer {
    /// Issues a certificate if there is none, or if it is due for renewal.
    async fn ensure(&self, certificate: &Certificate, context: &Context) -> Result<Outcome, BoxError> {
        let secrets = context.api::<Secret>(certificate.namespace());
        let old = secrets.get(&certificate.spec.secret_name, Freshness::Live).await?;
        let mut not_after = old.as_deref().and_then(|secret| expiry(secret, certificate));
        let mut failure = None;
        if until_renewal(not_after, certificate).is_none() {
            match self.issue(certificate, &secrets, old.as_deref()).await {
                Ok(new) => not_after = Some(new),
                Err(error) => failure = Some(error),
            }
        }
        let reason = failure.as_ref().map_or("Issued", |_| "IssuingFailed");
        let message = failure.as_ref().map(ToString::to_string).unwrap_or_default();
        let condition = Condition::new("Ready", not_after > Some(now()), reason, &*message).observing(certificate);
        let mut changed = certificate.clone();
        let status = changed.status.get_or_insert_default();
        status.not_after = not_after;
        set_status_condition(&mut status.conditions, condition);
        if changed.status != certificate.status {
            context.api::<Certificate>(certificate.namespace()).update_status(&changed).await?;
        }
        let renewal = until_renewal(not_after, certificate).unwrap_or_default();
        let Some(error) = failure else { return Ok(Outcome::requeue_after(renewal)) };
        // Retried with back-off. Meanwhile the old certificate stays in place.
        self.events.warning(certificate, reason, message);
        Err(error)
    }

    /// Issues a certificate into the Secret, and returns when it expires.
    async fn issue(&self, owner: &Certificate, api: &OwnApi<Secret>, old: Option<&Secret>) -> Result<Time, BoxError> {
        if let Some(old) = old {
            // Checked first, so that no certificate is issued in vain.
            set_controller_reference(owner, &mut old.clone()).retry_after(Duration::from_secs(300))?;
        }
        let spec = &owner.spec;
        let key = KeyPair::generate()?;
        let request = CertificateParams::new(spec.dns_names.clone())?.serialize_request(&key)?.pem()?;
        let body = serde_json::json!({"request": request, "seconds": spec.lifetime_seconds}).to_string();
        let path = format!("/owners/{}/certificates", owner.uid());
        let answer = match self.authority.rest().post().absolute_path(&path).json(body).send().await {
            // The authority refuses these names, so only another spec helps.
            Err(error) if error.is_invalid() => return Err(ReconcileError::terminal(error).into()),
            answer => answer?,
        };
        let issued: Issued = serde_json::from_slice(&answer.bytes())?;
        until_renewal(Some(issued.not_after), owner).ok_or("the issued certificate expires too early")?;
        let write = |secret: &mut Secret| {
            set_controller_reference(owner, secret)?;
            secret.type_ = Some("kubernetes.io/tls".into());
            secret.metadata.labels.insert(MANAGED, "true".into());
            secret.metadata.annotations.insert(DNS_NAMES, spec.dns_names.join(",").into());
            secret.metadata.annotations.insert(NOT_AFTER, issued.not_after.to_string().into());
            secret.data.insert("tls.crt", ByteString::from(issued.certificate.into_bytes()));
            secret.data.insert("tls.key", ByteString::from(key.serialize_pem().into_bytes()));
            Ok(())
        };
        api.create_or_update(&spec.secret_name, write).await?;
        self.events.normal(owner, "Issued", format!("a certificate that expires at {}", issued.not_after));
        Ok(issued.not_after)
    }

    async fn revoke_all(&self, owner: &Certificate) -> Result<Outcome, BoxError> {
        let path = format!("/owners/{}/certificates", owner.uid());
        match self.authority.rest().delete().absolute_path(&path).send().await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            // The garbage collector deletes the Secret.
            _ => Ok(Outcome::Done),
        }
    }
}

/// When the certificate in a Secret expires; `None` if it is not one for this object and its names.
fn expiry(secret: &Secret, owner: &Certificate) -> Option<Time> {
    let is_current = secret.annotations().get(DNS_NAMES) == Some(&owner.spec.dns_names.join(","));
    let is_ours = is_controlled_by(secret, owner) && secret.data.contains_key("tls.key");
    secret.annotations().get(NOT_AFTER).filter(|_| is_current && is_ours)?.parse().ok()
}

/// The time until a third of the lifetime is left; `None` if it has come.
fn until_renewal(not_after: Option<Time>, owner: &Certificate) -> Option<Duration> {
    let third = Duration::from_secs(u64::from(owner.spec.lifetime_seconds) / 3);
    // A zero delay would reconcile in a loop until the second is over.
    not_after?.duration_since(now())?.checked_sub(third).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
