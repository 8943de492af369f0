//! Waiting until something has happened.

use kubewright_core::Object;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;

use super::{Events, RetryWatcher};
use crate::api::Api;
use crate::error::Error;

/// Whether an event is the one that was waited for.
#[doc(alias = "ConditionFunc")]
pub type Condition<'a, T> = Box<dyn FnMut(&WatchEvent<T>) -> Result<bool, Error> + Send + 'a>;

/// Why waiting ended without what was waited for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// There are no more events.
    #[doc(alias = "ErrWatchClosed")]
    #[error("watch closed before what was waited for has happened")]
    Closed,
    /// The watch failed for good, for example because its version is forgotten.
    #[error("watch failed while waiting: {0}")]
    Failed(Box<Status>),
    /// The watch could not be read, or a condition gave an error.
    #[error(transparent)]
    Error(#[from] Error),
}

/// Waits until each condition in turn has been met, and returns the event that met the last one.
///
/// Sees every change since the version in `options`, over lost connections too, and fails when the server no longer
/// remembers where it was. Each condition is first tried on the event that met the one before it. How long to wait is
/// the caller's business: put `tokio::time::timeout` around it.
///
/// ```
/// # use kubewright_client::{Api, watch::{until, UntilError}};
/// # use kubewright_core::{DynamicObject, options::WatchOptions, stream::WatchEvent};
/// # async fn example(widgets: Api<DynamicObject>) -> Result<(), UntilError> {
/// let gone = |event: &WatchEvent<_>| Ok(matches!(event, WatchEvent::Deleted(_)));
/// until(&widgets, WatchOptions::default().resource_version("42"), vec![Box::new(gone)]).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// When the watch ends for good, the server refuses it for another reason than being busy, or a condition fails.
#[doc(alias = "Until")]
pub async fn until<T: Object>(
    api: &Api<T>,
    options: WatchOptions,
    conditions: Vec<Condition<'_, T>>,
) -> Result<Option<WatchEvent<T>>, UntilError> {
    let mut events = RetryWatcher::new(api.clone(), options)?.end_when_refused();
    let result = until_on(&mut events, conditions).await;
    match (result, events.take_failure()) {
        (Err(UntilError::Failed(_)), Some(error)) => Err(error.into()),
        (result, _) => result,
    }
}

/// As [`until`], on events from anywhere; a watch that just ends is an error.
///
/// Returns `None` if there are no conditions.
#[doc(alias = "UntilWithoutRetry")]
pub async fn until_on<T>(
    events: &mut impl Events<T>,
    conditions: Vec<Condition<'_, T>>,
) -> Result<Option<WatchEvent<T>>, UntilError> {
    let mut last = None;
    for mut condition in conditions {
        if let Some(event) = &last
            && condition(event)?
        {
            continue;
        }
        loop {
            let event = match events.next_event().await {
                None => return Err(UntilError::Closed),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(WatchEvent::Error(status))) => return Err(UntilError::Failed(status)),
                Some(Ok(event)) => event,
            };
            let met = condition(&event)?;
            last = Some(event);
            if met {
                break;
            }
        }
    }
    Ok(last)
}
