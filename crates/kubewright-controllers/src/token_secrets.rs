//! Fills secrets of the type `kubernetes.io/service-account-token`, and deletes those whose account
//! is gone.
//!
//! The token is bound to its secret: it is valid until the secret or the account is deleted.

use std::sync::Arc;

use kubewright_api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use kubewright_api::core::v1::{Secret, ServiceAccount};
use kubewright_cache::{Event, InformerScope, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::options::DeleteOptions;
use kubewright_core::{FieldSelector, Object, ObjectKey, Selector, Str};
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::worker::{self, Reconcile, Synced, work};

const TYPE: &str = "kubernetes.io/service-account-token";
#[doc(alias = "ServiceAccountNameKey")]
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
#[doc(alias = "ServiceAccountUIDKey")]
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Such tokens do not expire in practice; this is the maximum that the server issues.
const SECONDS: i64 = 1 << 32;

struct TokenSecrets {
    client: Client,
    secrets: Lister<Secret>,
    /// In PEM.
    authority: Option<Str>,
}

/// Maintains token secrets until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "TokensController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, TokenSecrets::NAME);
    let of_this_type = FieldSelector::everything().equals("type", TYPE);
    let secrets = factory.informer_with(InformerScope::<Secret>::default().fields(of_this_type));
    let accounts = factory.informer::<ServiceAccount>();
    let of_secrets = secrets.add_handler({
        let queue = queue.clone();
        move |event: &Event<Secret>| queue.add(event.key())
    })?;
    // The secrets of a new account can be filled, those of a deleted one have to go.
    let of_accounts = accounts.add_handler({
        let (queue, secrets) = (queue.clone(), secrets.lister());
        move |event: &Event<ServiceAccount>| {
            let account = event.key();
            for secret in secrets.namespace(account.namespace().clone()).list(&Selector::everything()) {
                if account_name(&secret) == Some(account.name().as_str()) {
                    queue.add(secret.key());
                }
            }
        }
    })?;
    factory.start(stop);
    if of_secrets.synced().await && of_accounts.synced().await {
        let authority = context.root_ca.clone();
        let controller = TokenSecrets { client: client.clone(), secrets: secrets.lister(), authority };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    of_secrets.remove();
    of_accounts.remove();
    Ok(())
}

impl Reconcile for TokenSecrets {
    const NAME: &'static str = "service-account-tokens";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(secret) = self.secrets.namespace(key.namespace().clone()).get(key.name()) else { return Ok(None) };
        let Some(name) = account_name(&secret).filter(|_| !secret.is_being_deleted()) else { return Ok(None) };
        // A deletion needs certainty, so the account is read from the server.
        let account = Api::<ServiceAccount>::namespaced(&self.client, key.namespace().clone()).get_opt(name).await?;
        let uid = secret.annotations().get(ACCOUNT_UID).unwrap_or_default().to_owned();
        match account.filter(|account| uid.is_empty() || account.uid() == uid) {
            Some(account) => self.fill(&secret, &account).await?,
            None => self.delete(&secret).await?,
        }
        Ok(None)
    }
}

impl TokenSecrets {
    /// Writes what is missing.
    async fn fill(&self, secret: &Secret, account: &ServiceAccount) -> Result<(), Error> {
        let mut filled = secret.clone();
        filled.metadata.annotations.insert(ACCOUNT_UID, account.uid().into());
        filled.data.insert("namespace", secret.namespace().as_bytes().into());
        if let Some(authority) = &self.authority {
            filled.data.insert("ca.crt", authority.as_bytes().into());
        }
        if secret.data.get("token").is_none_or(|token| token.is_empty()) {
            let Some(token) = self.token(secret, account).await? else { return Ok(()) };
            filled.data.insert("token", token.as_bytes().into());
        }
        if filled == *secret {
            return Ok(());
        }
        let written = Api::<Secret>::namespaced(&self.client, secret.namespace()).update(&filled).await;
        match written {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// A token of the account, bound to the secret. `None` if one of the two has just been deleted.
    async fn token(&self, secret: &Secret, account: &ServiceAccount) -> Result<Option<Str>, Error> {
        let reference = BoundObjectReference {
            kind: Some("Secret".into()),
            api_version: Some("v1".into()),
            name: Some(secret.name().into()),
            uid: Some(secret.uid().into()),
        };
        let spec = TokenRequestSpec {
            expiration_seconds: Some(SECONDS),
            bound_object_ref: Some(reference.into()),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let accounts = Api::<ServiceAccount>::namespaced(&self.client, secret.namespace());
        match accounts.subresource::<TokenRequest>("token").create(account.name(), &request).await {
            Ok(issued) => Ok(issued.status.and_then(|status| status.token.clone())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a secret whose account is gone, if the secret is unchanged.
    async fn delete(&self, secret: &Secret) -> Result<(), Error> {
        let options = DeleteOptions::default().uid(secret.uid()).resource_version(secret.resource_version());
        let secrets = Api::<Secret>::namespaced(&self.client, secret.namespace());
        match secrets.delete_with(secret.name(), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The account that a secret names.
fn account_name(secret: &Secret) -> Option<&str> {
    secret.annotations().get(ACCOUNT_NAME).filter(|name| !name.is_empty())
}
