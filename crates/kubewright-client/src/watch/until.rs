//! Waits for events.

use kubewright_core::Object;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;

use super::{Events, RetryWatcher};
use crate::api::Api;
use crate::error::Error;

/// Whether an event is the expected one.
#[doc(alias = "ConditionFunc")]
pub type Condition<'a, T> = Box<dyn FnMut(&WatchEvent<T>) -> Result<bool, Error> + Send + 'a>;

/// Why waiting ended without a match.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// There are no more events.
    #[doc(alias = "ErrWatchClosed")]
    #[error("watch closed before the condition was met")]
    Closed,
    /// The watch failed permanently, for example because its version has expired.
    #[error("watch failed while waiting: {0}")]
    Failed(Box<Status>),
    /// The watch is unreadable, or a condition returned an error.
    #[error(transparent)]
    Error(#[from] Error),
}

/// Waits until each condition in turn is met, and returns the event that met the last one.
///
/// Sees every change since the version in `options`, also across lost connections, and fails when
/// the version has expired. Each condition is first tested on the event that met the previous one.
/// There is no timeout: wrap the call in `tokio::time::timeout`.
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
/// When the watch ends for good, the server refuses it for another reason than being busy, or a
/// condition fails.
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
