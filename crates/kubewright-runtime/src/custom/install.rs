//! Installs CustomResourceDefinitions.

use std::time::Duration;

use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_client::{Api, Client, Error, Scope};
use kubewright_core::options::{ApplyOptions, ListOptions};
use kubewright_core::{DynamicObject, GroupVersionResource, Object};
use tokio::time::{sleep, timeout};

/// How long a server may take to serve a definition.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Why a definition is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The server rejects the definition, or the request fails.
    #[error("{definition} cannot be installed")]
    Server {
        /// The name of the definition.
        definition: String,
        /// The server's error.
        source: Error,
    },
    /// Its names conflict with another resource.
    #[error("the names of {definition} are not accepted: {message}")]
    NamesTaken {
        /// The name of the definition.
        definition: String,
        /// The server's message.
        message: String,
    },
    /// The server has stored it, but does not serve it.
    #[error("{definition} is not served after {waited:?}")]
    NotServed {
        /// The name of the definition.
        definition: String,
        /// The time limit.
        waited: Duration,
    },
}

/// Applies a definition as `manager`, and waits until the server serves it.
///
/// Usually a cluster administrator installs definitions from a manifest: a controller needs
/// additional permissions for this.
///
/// # Errors
/// The errors of the server; and if its names conflict, or it is not served within 30 s.
#[doc(alias = "WaitForCRDs")]
pub async fn install(
    client: &Client,
    definition: &CustomResourceDefinition,
    manager: &str,
) -> Result<(), InstallError> {
    let definitions = Api::<CustomResourceDefinition>::all(client);
    let applied = definitions.apply(definition, &ApplyOptions::new(manager).force()).await;
    applied.map_err(|source| InstallError::Server { definition: definition.name().to_owned(), source })?;
    until_served(client, definition).await
}

/// Waits until the server serves all versions of a stored definition.
///
/// # Errors
/// As [`install`].
pub async fn until_served(client: &Client, definition: &CustomResourceDefinition) -> Result<(), InstallError> {
    let definitions = Api::<CustomResourceDefinition>::all(client);
    let name = definition.name();
    let served = async {
        loop {
            let found = definitions.get(name).await;
            match state(&found.map_err(|source| InstallError::Server { definition: name.to_owned(), source })?) {
                ServedState::Served => break,
                ServedState::Refused(message) => {
                    return Err(InstallError::NamesTaken { definition: name.to_owned(), message });
                }
                ServedState::Unknown => sleep(POLL_INTERVAL).await,
            }
        }
        // The handlers of a server may lag behind the accepted definition, and a version may be
        // new.
        for version in definition.spec.versions.iter().filter(|version| version.served) {
            let (group, plural) = (definition.spec.group.clone(), definition.spec.names.plural.clone());
            let resource = GroupVersionResource::new(group, version.name.clone(), plural);
            let objects = Api::<DynamicObject>::new(client, resource, Scope::Cluster);
            while objects.list(&ListOptions::default().limit(1)).await.is_err_and(|error| error.is_not_found()) {
                sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    };
    let late = |_| InstallError::NotServed { definition: name.to_owned(), waited: ESTABLISHED_TIMEOUT };
    timeout(ESTABLISHED_TIMEOUT, served).await.map_err(late)?
}

enum ServedState {
    Served,
    Refused(String),
    Unknown,
}

fn state(definition: &CustomResourceDefinition) -> ServedState {
    let conditions = definition.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let named = |name: &str| conditions.iter().find(|condition| condition.type_ == name);
    if named("Established").is_some_and(|condition| condition.status == "True") {
        return ServedState::Served;
    }
    match named("NamesAccepted").filter(|condition| condition.status == "False") {
        Some(taken) => ServedState::Refused(taken.message.as_deref().unwrap_or_default().to_owned()),
        None => ServedState::Unknown,
    }
}
