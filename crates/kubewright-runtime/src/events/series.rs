//! Event series of the newer API.

use std::time::Duration;

use kubewright_api::core::v1::ObjectReference;
use kubewright_api::events::v1::{Event, EventSeries};
use kubewright_core::{MicroTime, Shared, Str};
use tokio::time::Instant;

use crate::lru::Lru;

/// Maximum number of series; client-go has no bound.
const CACHED: usize = 4096;
/// Interval at which live series are written.
pub(super) const REFRESH: Duration = Duration::from_secs(30 * 60);
/// A series without a repetition for this long is finished.
pub(super) const FINISH: Duration = Duration::from_secs(6 * 60);

type SeriesKey = Vec<Str>;

/// LiveSeries series.
pub(super) struct SeriesCache {
    series: Lru<SeriesKey, LiveSeries>,
}

struct LiveSeries {
    event: Event,
    last: Instant,
}

/// A write to do.
#[derive(Debug)]
pub(super) enum SeriesWrite {
    /// The first event.
    Create(Event),
    /// A series with its current count.
    Patch(Event),
}

impl SeriesCache {
    #[inline]
    pub(super) fn new() -> Self {
        SeriesCache { series: Lru::new(CACHED) }
    }

    /// The write for an event; `None` if it only increases a count.
    #[inline]
    pub(super) fn observe(&mut self, event: Event) -> Option<SeriesWrite> {
        let now = Instant::now();
        let observed = event.event_time;
        let mut is_new = false;
        let live = self.series.get_or_insert_with(&key_of(&event), || {
            is_new = true;
            LiveSeries { event: event.clone(), last: now }
        });
        live.last = now;
        if is_new {
            return Some(SeriesWrite::Create(event));
        }
        match &mut live.event.series {
            Some(series) => {
                series.count = series.count.saturating_add(1);
                series.last_observed_time = observed;
                None
            }
            none => {
                *none = Some(EventSeries { count: 2, last_observed_time: observed }.into());
                Some(SeriesWrite::Patch(live.event.clone()))
            }
        }
    }

    /// All live series, to be written so that they do not expire.
    #[doc(alias = "refreshExistingEventSeries")]
    #[inline]
    pub(super) fn refresh(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        self.series.retain(|_, live| {
            all.extend(live.event.series.is_some().then(|| live.event.clone()));
            true
        });
        all
    }

    /// Removes finished series, and returns those with a final count to write.
    #[doc(alias = "finishSeries")]
    #[inline]
    pub(super) fn finish(&mut self) -> Vec<Event> {
        let mut over = Vec::new();
        self.series.retain(|_, live| {
            let is_over = live.last.elapsed() >= FINISH;
            if is_over && live.event.series.is_some() {
                over.push(live.event.clone());
            }
            !is_over
        });
        over
    }
}

/// Everything but the note.
#[inline]
fn key_of(event: &Event) -> SeriesKey {
    let object = |reference: &Option<Shared<ObjectReference>>| {
        let reference = reference.as_deref().cloned().unwrap_or_default();
        [
            reference.api_version,
            reference.kind,
            reference.namespace,
            reference.name,
            reference.uid,
            reference.field_path,
        ]
    };
    let own = [&event.type_, &event.action, &event.reason, &event.reporting_controller, &event.reporting_instance];
    let own = own.into_iter().cloned();
    own.chain(object(&event.regarding)).chain(object(&event.related)).map(Option::unwrap_or_default).collect()
}

/// The count of a series as a merge patch.
#[inline]
pub(super) fn patch_of(event: &Event) -> String {
    let series = event.series.as_deref().cloned().unwrap_or_default();
    let time = series.last_observed_time.unwrap_or_else(MicroTime::now);
    format!(r#"{{"series":{{"count":{},"lastObservedTime":"{time}"}}}}"#, series.count)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn event(note: &str, name: &str) -> Event {
        let regarding = ObjectReference { name: Some(name.into()), ..Default::default() };
        Event { note: Some(note.into()), regarding: Some(regarding.into()), ..Default::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_event_makes_a_series_and_more_are_only_counted() {
        // EV-7
        let mut cache = SeriesCache::new();
        assert!(matches!(cache.observe(event("one", "web")), Some(SeriesWrite::Create(_))));
        // Events are identified by their object, not by their note.
        assert!(
            matches!(cache.observe(event("two", "web")), Some(SeriesWrite::Patch(event)) if event.series.as_ref().unwrap().count == 2)
        );
        assert!(matches!(cache.observe(event("one", "db")), Some(SeriesWrite::Create(_))));
        for _ in 0..5 {
            assert!(cache.observe(event("three", "web")).is_none());
        }
        let counts: Vec<i32> = cache.refresh().into_iter().map(|event| event.series.unwrap().count).collect();
        assert_eq!(counts, [7]);
        assert!(cache.finish().is_empty());
        sleep(FINISH).await;
        let counts: Vec<i32> = cache.finish().into_iter().map(|event| event.series.unwrap().count).collect();
        assert_eq!(counts, [7]);
        assert!(matches!(cache.observe(event("one", "web")), Some(SeriesWrite::Create(_))));
    }
}
