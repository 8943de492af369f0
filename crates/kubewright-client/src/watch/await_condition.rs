//! Waits for a condition of one object.

use std::time::Duration;

use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{FieldSelector, Object};

use super::RetryWatcher;
use crate::api::{Api, Scope};
use crate::error::{Error, Result};

/// Delay before an object is read again after its version has expired.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits until the condition holds for the object of this name, and returns that state of the
/// object.
///
/// Starts with the current object; the condition receives `None` while it does not exist, which is
/// also how to wait for its deletion. Survives lost connections and expired versions: intermediate
/// states may then be missed, but not the last one. There is no timeout: wrap the call in
/// `tokio::time::timeout`.
///
/// ```
/// # use kubewright_client::{Api, Result, watch::await_condition};
/// # use kubewright_core::DynamicObject;
/// # async fn example(widgets: Api<DynamicObject>) -> Result<()> {
/// let is_ready = |widget: &DynamicObject| widget.get(&["status", "phase"]).is_some_and(|phase| phase.as_str() == Some("Ready"));
/// await_condition(&widgets, "big", |widget| widget.is_some_and(is_ready)).await?;
/// widgets.delete("big").await?;
/// await_condition(&widgets, "big", |widget| widget.is_none()).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the server refuses to list or to watch, the list fails, or a response cannot be decoded. Also
/// without a name, and for a namespaced object in all namespaces, where the name is ambiguous.
#[doc(alias = "wait")]
#[doc(alias = "ListWatchUntil")]
pub async fn await_condition<T: Object>(
    api: &Api<T>,
    name: &str,
    mut condition: impl FnMut(Option<&T>) -> bool,
) -> Result<Option<T>> {
    if name.is_empty() || *api.scope() == Scope::AllNamespaces {
        let problem =
            format!("one object is waited for: it needs a name and a namespace, and has {name:?} in {:?}", api.scope());
        return Err(Error::InvalidRequest(problem));
    }
    let it = FieldSelector::everything().equals("metadata.name", name);
    loop {
        let list = api.list(&ListOptions::default().fields(it.clone())).await?;
        let version = list.metadata.resource_version.clone().unwrap_or_default();
        let found = list.items.into_iter().next();
        if condition(found.as_ref()) {
            return Ok(found);
        }
        let options = WatchOptions::default().fields(it.clone()).resource_version(version);
        let mut events = RetryWatcher::new(api.clone(), options)?.end_when_refused();
        while let Some(event) = events.next().await {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) if condition(Some(&object)) => {
                    return Ok(Some(object));
                }
                WatchEvent::Deleted(_) if condition(None) => return Ok(None),
                WatchEvent::Error(status) if !status.is_expired() => {
                    return Err(events.take_failure().unwrap_or(Error::Status(status)));
                }
                _ => {}
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
