//! Tells people what happened to objects, through events of the API.
//!
//! A [`EventRecorder`] is a cheap handle that never waits: what it records goes through a bounded queue to the one task of its
//! [`EventBroadcaster`], which merges what repeats, holds back what would flood, and writes the rest. With the older API
//! (`v1`) repetitions are counted and similar events combined; with the newer (`events.k8s.io/v1`) they become series.

mod broadcaster;
mod bucket;
mod correlator;
mod lru;
mod new_event;
mod recorder;
mod series;
mod sink;

pub use broadcaster::{EventBroadcaster, EventOptions};
pub use new_event::{EventType, NewEvent};
pub use recorder::{EventApi, EventRecorder};
