//! Records events about objects.
//!
//! An [`EventRecorder`] is a cheap handle that never waits: events go through a bounded queue to
//! the task of its
//! [`EventBroadcaster`], which correlates them, filters spam, and writes the rest. With the older
//! API (`v1`) repeated events are counted and similar ones aggregated; with the newer
//! (`events.k8s.io/v1`) they become series.

mod broadcaster;
mod correlator;
mod new_event;
mod recorder;
mod series;
mod sink;

pub use broadcaster::{EventBroadcaster, EventOptions};
pub use new_event::{EventType, NewEvent};
pub use recorder::{EventApi, EventRecorder};
