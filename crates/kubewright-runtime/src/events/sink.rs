//! Writes events to the server with retries.

use std::time::Duration;

use kubewright_api::{core, events};
use kubewright_client::{Api, Client, Error, Result};
use kubewright_core::options::Patch;
use kubewright_core::{Kind, Namespaced, Value};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::series;
use crate::random::Random;

/// Number of attempts, and the delay between them.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

pub(super) struct EventSink {
    pub(super) client: Client,
    pub(super) random: Random,
    /// Once cancelled, everything is attempted once.
    pub(super) hurry: CancellationToken,
}

impl EventSink {
    /// Creates an event of the older API, or increases its count.
    #[inline]
    pub(super) async fn write_core(&self, event: &core::v1::Event, is_known: bool) -> Option<core::v1::Event> {
        let text = |time: Option<kubewright_core::Time>| time.map(|time| time.to_string()).unwrap_or_default();
        let message = Value::from(event.message.as_deref().unwrap_or_default());
        let count = event.count.unwrap_or(1);
        let patch =
            format!(r#"{{"count":{count},"lastTimestamp":"{}","message":{message}}}"#, text(event.last_timestamp));
        self.write(event, is_known.then(|| Patch::Strategic(patch.into_bytes()))).await
    }

    /// Creates an event of the newer API.
    #[inline]
    pub(super) async fn create(&self, event: &events::v1::Event) -> Option<events::v1::Event> {
        self.write(event, None).await
    }

    /// Updates the count of a series.
    #[inline]
    pub(super) async fn patch(&self, event: &events::v1::Event) -> Option<events::v1::Event> {
        self.write(event, Some(Patch::Merge(series::patch_of(event).into_bytes()))).await
    }

    /// Writes until it succeeds, is rejected, or the attempts are used up.
    async fn write<T: Kind<Scope = Namespaced>>(&self, event: &T, patch: Option<Patch>) -> Option<T> {
        let api = Api::<T>::namespaced(&self.client, event.namespace());
        for attempt in 0..TRIES {
            let error = match write_once(&api, event, patch.as_ref()).await {
                Ok(written) => return Some(written),
                Err(error) => error,
            };
            match &error {
                // An undecodable response probably comes from a proxy.
                Error::Transport(_) | Error::Decode(_) => {
                    tracing::debug!(%error, "an event was not written, and will be tried again");
                }
                error if error.is_already_exists() || is_terminating(error) => return None,
                error => {
                    tracing::warn!(%error, event = %event.key(), "the server refused an event");
                    return None;
                }
            }
            if self.hurry.is_cancelled() {
                return None;
            }
            if attempt + 1 == TRIES {
                break;
            }
            // The first delay is random, so that clients of a failed server do not return together.
            let pause = if attempt == 0 { PAUSE.mul_f64(self.random.unit()) } else { PAUSE };
            self.hurry.run_until_cancelled(sleep(pause)).await;
        }
        tracing::warn!(event = %event.key(), "an event could not be written");
        None
    }
}

async fn write_once<T: Kind>(api: &Api<T>, event: &T, patch: Option<&Patch>) -> Result<T> {
    if let Some(patch) = patch {
        match api.patch(event.name(), patch.clone()).await {
            // The event has expired and is created again.
            Err(error) if error.is_not_found() => {}
            result => return result,
        }
    }
    let mut event = event.clone();
    event.set_resource_version("");
    api.create(&event).await
}

/// Whether the namespace is terminating, so that nothing can be created in it.
#[inline]
fn is_terminating(error: &Error) -> bool {
    error.is_forbidden() && error.to_string().contains("because it is being terminated")
}
