//! Attempts to pull images that cannot be pulled, with the back-off of a kubelet.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_api::core::v1::{Container, Pod};
use kubewright_core::{Object, ObjectKey, Str};
use kubewright_kubelet::image::PullError;
use kubewright_runtime::events::{EventRecorder, EventType, NewEvent};

use super::pod_status::back_off;

/// How long a container shows the error of an attempt, before it shows the back-off.
pub(super) const ERROR_SHOWN: Duration = Duration::from_secs(1);

/// The reason of a container whose image was not pulled just now.
const FAILED: &str = "ErrImagePull";
/// The reason of a container that waits for the next attempt.
const BACKING_OFF: &str = "ImagePullBackOff";
/// The reason of a container whose image has a malformed name.
const INVALID: &str = "InvalidImageName";

/// A reason and a message of a waiting container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The state of an image that a container waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageWait {
    /// An attempt has failed just now.
    Failed,
    /// The next attempt is due later.
    BackingOff,
}

/// Why a container with this reason waits for its image, if it does.
pub(super) fn image_wait(reason: &str) -> Option<ImageWait> {
    match reason {
        FAILED => Some(ImageWait::Failed),
        BACKING_OFF | INVALID => Some(ImageWait::BackingOff),
        _ => None,
    }
}

/// Numbers of failed attempts. A restart forgets them, as that of a kubelet does.
#[derive(Debug, Default)]
pub(super) struct ImagePulls {
    attempts_of: Mutex<HashMap<ObjectKey, Attempts>>,
}

#[derive(Debug)]
struct Attempts {
    uid: Str,
    of_container: Vec<(Str, i32)>,
}

impl ImagePulls {
    /// Records a failed attempt and its events. Returns what the container shows.
    pub(super) fn fail(&self, pod: &Pod, container: &Container, error: &PullError, events: &EventRecorder) -> Waiting {
        let image = container.image.as_deref().unwrap_or_default();
        self.count(pod, &container.name);
        match error {
            PullError::InvalidName(message) => {
                record(pod, container, events, EventType::Warning, "InspectFailed", message.clone());
                record(pod, container, events, EventType::Warning, "Failed", format!("Error: {INVALID}"));
                Waiting { reason: INVALID, message: message.clone() }
            }
            PullError::Failed(message) => {
                let failed = format!("Failed to pull image {image:?}: {message}");
                record(pod, container, events, EventType::Normal, "Pulling", format!("Pulling image {image:?}"));
                record(pod, container, events, EventType::Warning, "Failed", failed);
                record(pod, container, events, EventType::Warning, "Failed", format!("Error: {FAILED}"));
                Waiting { reason: FAILED, message: message.clone() }
            }
        }
    }

    /// Records the events of a back-off. `error` is the message of the failed attempt. Returns what
    /// the container shows.
    pub(super) fn back_off(pod: &Pod, container: &Container, error: &str, events: &EventRecorder) -> Waiting {
        let text = format!("Back-off pulling image {:?}", container.image.as_deref().unwrap_or_default());
        record(pod, container, events, EventType::Normal, "BackOff", text.clone());
        record(pod, container, events, EventType::Warning, "Failed", format!("Error: {BACKING_OFF}"));
        Waiting { reason: BACKING_OFF, message: format!("{text}: {FAILED}: {error}") }
    }

    /// The time between the last attempt and the next one.
    pub(super) fn delay(&self, pod: &Pod, container: &str) -> Duration {
        let attempts_of = self.attempts_of.lock().unwrap_or_else(PoisonError::into_inner);
        let known = attempts_of.get(&pod.key()).filter(|known| known.uid == *pod.uid());
        let attempts = known.and_then(|known| known.of_container.iter().find(|(name, _)| *name == *container));
        back_off(attempts.map_or(1, |(_, attempts)| *attempts))
    }

    /// Removes a pod that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.attempts_of.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn count(&self, pod: &Pod, container: &Str) {
        let mut attempts_of = self.attempts_of.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Attempts { uid: pod.uid().into(), of_container: Vec::new() };
        let attempts = attempts_of.entry(pod.key()).or_insert_with(new);
        if attempts.uid != *pod.uid() {
            *attempts = new();
        }
        match attempts.of_container.iter_mut().find(|(name, _)| name == container) {
            Some((_, attempts)) => *attempts = attempts.saturating_add(1),
            None => attempts.of_container.push((container.clone(), 1)),
        }
    }
}

/// Records an event about a container.
pub(super) fn record(
    pod: &Pod,
    container: &Container,
    events: &EventRecorder,
    event_type: EventType,
    reason: &'static str,
    note: String,
) {
    let is_init =
        pod.spec.as_ref().is_some_and(|spec| spec.init_containers.iter().any(|one| one.name == container.name));
    let field = if is_init { "initContainers" } else { "containers" };
    let event = NewEvent::new(pod, event_type, reason, note);
    events.record(event.field_path(format!("spec.{field}{{{}}}", container.name)));
}
