//! Event correlation for the older API: counts repeated events, aggregates similar ones, and
//! filters spam.

use std::collections::BTreeSet;
use std::time::Duration;

use kubewright_api::core::v1::Event;
use kubewright_client::flowcontrol::TokenBucket;
use kubewright_core::{Object, Str, Time};
use tokio::time::Instant;

use crate::lru::Lru;

/// Entries of each cache.
const CACHED: usize = 4096;
/// Number of distinct messages from which they are aggregated.
const AGGREGATION_THRESHOLD: usize = 10;
/// Messages further apart are not aggregated.
const AGGREGATION_INTERVAL: Duration = Duration::from_secs(600);
/// Burst of events of one source about one object, and their rate per second afterwards.
const BURST: u32 = 25;
const RATE: f32 = 1.0 / 300.0;
const AGGREGATE_PREFIX: &str = "(combined from similar events): ";

/// Identifies events in all caches.
type CorrelationKey = Vec<Str>;

/// Caches of written events.
pub(super) struct Correlator {
    similar: Lru<CorrelationKey, Similar>,
    written: Lru<CorrelationKey, Written>,
    floods: Lru<CorrelationKey, TokenBucket>,
}

struct Similar {
    messages: BTreeSet<Str>,
    last: Instant,
}

#[derive(Debug, Clone, Default)]
struct Written {
    count: i32,
    first: Option<Time>,
    name: Str,
    version: Str,
}

/// An event to write.
#[derive(Debug)]
pub(super) struct Correlated {
    pub(super) event: Event,
    /// Whether the event exists and its count is increased.
    pub(super) is_known: bool,
    key: CorrelationKey,
}

impl Correlator {
    #[inline]
    pub(super) fn new() -> Self {
        Correlator { similar: Lru::new(CACHED), written: Lru::new(CACHED), floods: Lru::new(CACHED) }
    }

    /// The event to write; `None` if it is filtered as spam.
    ///
    /// Counts increase before the spam filter applies, so that the next event has the right count.
    #[doc(alias = "EventCorrelate")]
    #[inline]
    pub(super) fn correlate(&mut self, event: Event) -> Option<Correlated> {
        let flood = flood_key(&event);
        let combined = self.combine(event);
        let correlated = self.count(combined);
        self.floods.get_or_insert_with(&flood, || TokenBucket::new(RATE, BURST)).try_accept().then_some(correlated)
    }

    /// Replaces many distinct messages by an aggregate.
    #[inline]
    fn combine(&mut self, mut event: Event) -> (Event, CorrelationKey) {
        let key = similar_key(&event);
        let message = event.message.clone().unwrap_or_default();
        let now = Instant::now();
        let similar = self.similar.get_or_insert_with(&key, || Similar { messages: BTreeSet::new(), last: now });
        if now - similar.last > AGGREGATION_INTERVAL {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message.clone());
        if similar.messages.len() < AGGREGATION_THRESHOLD {
            let mut full = key;
            full.extend([event.involved_object.field_path.clone().unwrap_or_default(), message]);
            return (event, full);
        }
        similar.messages.pop_first();
        event.message = Some(format!("{AGGREGATE_PREFIX}{message}").into());
        (event, key)
    }

    /// Counts an event, and uses the name of the event that it repeats.
    #[inline]
    fn count(&mut self, (mut event, key): (Event, CorrelationKey)) -> Correlated {
        let written = self.written.get_or_insert_with(&key, Written::default);
        let is_known = written.count > 0;
        written.count = written.count.saturating_add(1);
        if is_known {
            event.set_name(&written.name);
            event.set_resource_version(&written.version);
            event.first_timestamp = written.first;
        } else {
            written.first = event.first_timestamp;
            written.name = event.name().into();
        }
        event.count = Some(written.count);
        Correlated { event, is_known, key }
    }

    /// Remembers the server's response.
    #[doc(alias = "UpdateState")]
    #[inline]
    pub(super) fn wrote(&mut self, correlated: &Correlated, answer: &Event) {
        if let Some(written) = self.written.get_mut(&correlated.key) {
            written.name = answer.name().into();
            written.version = answer.resource_version().into();
        }
    }
}

#[inline]
fn flood_key(event: &Event) -> CorrelationKey {
    let object = &event.involved_object;
    let source = event.source.as_deref();
    [
        source.and_then(|source| source.component.clone()),
        source.and_then(|source| source.host.clone()),
        object.kind.clone(),
        object.namespace.clone(),
        object.name.clone(),
        object.uid.clone(),
        object.api_version.clone(),
        event.type_.clone(),
    ]
    .map(Option::unwrap_or_default)
    .into()
}

#[inline]
fn similar_key(event: &Event) -> CorrelationKey {
    let mut key = flood_key(event);
    let more = [event.reason.clone(), event.reporting_component.clone(), event.reporting_instance.clone()];
    key.extend(more.map(Option::unwrap_or_default));
    key
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::ObjectReference;
    use tokio::time::sleep;

    use super::*;

    fn event(object: &str, reason: &str, message: &str) -> Event {
        Event {
            involved_object: ObjectReference { name: Some(object.into()), ..Default::default() },
            reason: Some(reason.into()),
            message: Some(message.into()),
            first_timestamp: Some(Time::now()),
            ..Default::default()
        }
    }

    fn texts(correlated: &[Option<Correlated>]) -> Vec<String> {
        let text = |one: &Option<Correlated>| match one {
            Some(one) => format!("{}x {}", one.event.count.unwrap(), one.event.message.as_deref().unwrap()),
            None => "held back".to_owned(),
        };
        correlated.iter().map(text).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_event_is_counted() {
        // EV-2, EV-5
        let mut correlator = Correlator::new();
        let all: Vec<_> = (0..3).map(|_| correlator.correlate(event("web", "Started", "up"))).collect();
        assert_eq!(texts(&all), ["1x up", "2x up", "3x up"]);
        let known: Vec<bool> = all.iter().flatten().map(|one| one.is_known).collect();
        assert_eq!(known, [false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn from_the_tenth_message_on_similar_events_are_combined() {
        // EV-3
        let mut correlator = Correlator::new();
        let all: Vec<_> = (1..=12).map(|n| correlator.correlate(event("web", "Pull", &format!("image {n}")))).collect();
        let texts = texts(&all);
        assert_eq!(texts[8], "1x image 9");
        assert_eq!(texts[9], "1x (combined from similar events): image 10");
        assert_eq!(texts[11], "3x (combined from similar events): image 12");
        sleep(Duration::from_secs(601)).await;
        let fresh = correlator.correlate(event("web", "Pull", "image 13")).unwrap();
        assert_eq!(fresh.event.message.as_deref(), Some("image 13"));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_minutes_are_counted_from_the_last_message_not_from_the_first() {
        // EV-3
        let mut correlator = Correlator::new();
        let mut last = None;
        for number in 1..=10 {
            last = correlator.correlate(event("web", "Pull", &format!("image {number}")));
            sleep(Duration::from_secs(599)).await;
        }
        let last = last.and_then(|one| one.event.message).unwrap();
        assert_eq!(last, "(combined from similar events): image 10");
        // A repeated message is not aggregated as similar ones.
        let same: Vec<_> = (0..12).map(|_| correlator.correlate(event("db", "Pull", "image"))).collect();
        assert_eq!(texts(&same)[11], "12x image");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_held_back_but_counted() {
        // EV-2, EV-4
        let mut correlator = Correlator::new();
        let passed = (0..30).filter_map(|_| correlator.correlate(event("web", "Sick", "ill"))).count();
        assert_eq!(passed, 25);
        assert!(correlator.correlate(event("other", "Sick", "ill")).is_some());
        sleep(Duration::from_secs(301)).await;
        let next = correlator.correlate(event("web", "Sick", "ill")).unwrap();
        assert_eq!(next.event.count, Some(31));
    }
}
