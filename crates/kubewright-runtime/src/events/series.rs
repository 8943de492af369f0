//! Makes series of events of the newer API that repeat.

use std::time::Duration;

use kubewright_api::core::v1::ObjectReference;
use kubewright_api::events::v1::{Event, EventSeries};
use kubewright_core::{MicroTime, Shared, Str};
use tokio::time::Instant;

use super::lru::Lru;

/// So many series are kept; Go's have no bound.
const CACHED: usize = 4096;
/// How often series that live are written anew.
pub(super) const REFRESH: Duration = Duration::from_secs(30 * 60);
/// After so long without a repetition a series is over.
pub(super) const FINISH: Duration = Duration::from_secs(6 * 60);

type Key = Vec<Str>;

/// Series that may go on.
pub(super) struct SeriesCache {
    series: Lru<Key, Live>,
}

struct Live {
    event: Event,
    last: Instant,
}

/// What is to be written.
#[derive(Debug)]
pub(super) enum Step {
    /// The first of its kind.
    Create(Event),
    /// A series, with its count as of now.
    Patch(Event),
}

impl SeriesCache {
    #[inline]
    pub(super) fn new() -> Self {
        SeriesCache { series: Lru::new(CACHED) }
    }

    /// What is to be written of an event; nothing for one that only goes into the count.
    #[inline]
    pub(super) fn observe(&mut self, event: Event) -> Option<Step> {
        let now = Instant::now();
        let observed = event.event_time;
        let mut is_new = false;
        let live = self.series.get_or_insert_with(&key_of(&event), || {
            is_new = true;
            Live { event: event.clone(), last: now }
        });
        live.last = now;
        if is_new {
            return Some(Step::Create(event));
        }
        match &mut live.event.series {
            Some(series) => {
                series.count = series.count.saturating_add(1);
                series.last_observed_time = observed;
                None
            }
            none => {
                *none = Some(EventSeries { count: 2, last_observed_time: observed }.into());
                Some(Step::Patch(live.event.clone()))
            }
        }
    }

    /// All series that live, to be written so that they do not expire.
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

    /// Forgets what is over, and gives the series among it, whose last count is to be written.
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
fn key_of(event: &Event) -> Key {
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
        assert!(matches!(cache.observe(event("one", "web")), Some(Step::Create(_))));
        // The note does not tell events apart, the object does.
        assert!(
            matches!(cache.observe(event("two", "web")), Some(Step::Patch(event)) if event.series.as_ref().unwrap().count == 2)
        );
        assert!(matches!(cache.observe(event("one", "db")), Some(Step::Create(_))));
        for _ in 0..5 {
            assert!(cache.observe(event("three", "web")).is_none());
        }
        let counts: Vec<i32> = cache.refresh().into_iter().map(|event| event.series.unwrap().count).collect();
        assert_eq!(counts, [7]);
        assert!(cache.finish().is_empty());
        sleep(FINISH).await;
        let counts: Vec<i32> = cache.finish().into_iter().map(|event| event.series.unwrap().count).collect();
        assert_eq!(counts, [7]);
        assert!(matches!(cache.observe(event("one", "web")), Some(Step::Create(_))));
    }
}
