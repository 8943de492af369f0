//! The task that writes recorded events to the API.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kubewright_api::core::v1::{Event as CoreEvent, EventSource};
use kubewright_api::events::v1::Event;
use kubewright_client::Client;
use kubewright_client::clock;
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::{Str, validation};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::correlator::Correlator;
use super::new_event::NewEvent;
use super::recorder::{EventApi, EventRecorder, Reporter, To};
use super::series::{self, SeriesCache, SeriesWrite};
use super::sink::EventSink;
use crate::random::{self, Random};

/// Default request timeout, so that an unresponsive server does not block all events.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum note length of the newer API, which rejects longer ones.
const NOTE_MAX: usize = 1024;
/// Maximum length of a reason, an action and an instance name.
const NAME_MAX: usize = 128;

/// Options of a broadcaster.
#[derive(Debug, Clone)]
pub struct EventOptions {
    queue: usize,
}

impl Default for EventOptions {
    #[inline]
    fn default() -> Self {
        EventOptions { queue: 1000 }
    }
}

impl EventOptions {
    /// Maximum number of queued events; further ones are dropped. 1000 by default.
    #[must_use]
    #[inline]
    pub fn queue(mut self, events: usize) -> Self {
        self.queue = events.max(1);
        self
    }
}

/// Writes the events of its recorders. Dropping it ends its task and discards queued events.
///
/// ```
/// # use kubewright_api::core::v1::ConfigMap;
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_runtime::events::{EventApi, EventBroadcaster};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let map = ConfigMap::default();
/// let events = EventBroadcaster::start(&server.client(), Default::default());
/// let recorder = events.recorder("my-controller", "host-1", EventApi::Events);
/// recorder.normal(&map, "Synced", "all is well");
/// events.shutdown(std::time::Duration::from_secs(5)).await;
/// # Ok(()) }
/// ```
pub struct EventBroadcaster {
    sender: mpsc::Sender<(Arc<Reporter>, NewEvent)>,
    dropped: Arc<AtomicU64>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl EventBroadcaster {
    /// Starts the task. Requests time out after a minute, or after the client's own
    /// [time-out](Client::request_timeout).
    #[doc(alias = "NewBroadcaster")]
    #[doc(alias = "StartRecordingToSink")]
    #[inline]
    pub fn start(client: &Client, options: EventOptions) -> Self {
        let (sender, receiver) = mpsc::channel(options.queue);
        let stop = CancellationToken::new();
        let client = client.clone().default_request_timeout(REQUEST_TIMEOUT);
        let sink = EventSink { client, random: Random::new(None), hurry: stop.clone() };
        let writer = EventWriter { sink, correlator: Correlator::new(), series: SeriesCache::new() };
        let task = tokio::spawn(writer.run(receiver, stop.clone()));
        EventBroadcaster { sender, dropped: Arc::default(), stop, task }
    }

    /// A recorder for `component`; this process is its `instance`.
    #[doc(alias = "NewRecorder")]
    pub fn recorder(&self, component: impl Into<Str>, instance: impl Into<Str>, api: EventApi) -> EventRecorder {
        let who = Reporter { component: component.into(), instance: instance.into(), api };
        let to = To::Broadcaster { sender: self.sender.clone(), dropped: self.dropped.clone() };
        EventRecorder { who: Arc::new(who), to }
    }

    /// Number of dropped events.
    #[inline]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes the queued events, each with one attempt, and the final counts of series; gives up
    /// after `time_limit`.
    #[doc(alias = "Shutdown")]
    #[inline]
    pub async fn shutdown(mut self, time_limit: Duration) {
        self.stop.cancel();
        let _ = timeout(time_limit, &mut self.task).await;
    }
}

impl Drop for EventBroadcaster {
    #[inline]
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct EventWriter {
    sink: EventSink,
    correlator: Correlator,
    series: SeriesCache,
}

impl EventWriter {
    #[inline]
    async fn run(mut self, mut receiver: mpsc::Receiver<(Arc<Reporter>, NewEvent)>, stop: CancellationToken) {
        let mut refresh = interval_at(Instant::now() + series::REFRESH, series::REFRESH);
        let mut finish = interval_at(Instant::now() + series::FINISH, series::FINISH);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = refresh.tick() => {
                    for event in self.series.refresh() {
                        self.sink.patch(&event).await;
                    }
                }
                _ = finish.tick() => {
                    for event in self.series.finish() {
                        self.sink.patch(&event).await;
                    }
                }
                Some((who, event)) = receiver.recv() => self.write(&who, event).await,
            }
        }
        receiver.close();
        while let Some((who, event)) = receiver.recv().await {
            self.write(&who, event).await;
        }
        for event in self.series.refresh() {
            self.sink.patch(&event).await;
        }
    }

    #[inline]
    async fn write(&mut self, who: &Reporter, event: NewEvent) {
        match who.api {
            EventApi::Core => {
                let Some(correlated) = self.correlator.correlate(core_event(who, event)) else { return };
                if let Some(answer) = self.sink.write_core(&correlated.event, correlated.is_known).await {
                    self.correlator.wrote(&correlated, &answer);
                }
            }
            EventApi::Events => match self.series.observe(new_event(who, event)) {
                Some(SeriesWrite::Create(event)) => drop(self.sink.create(&event).await),
                Some(SeriesWrite::Patch(event)) => drop(self.sink.patch(&event).await),
                None => {}
            },
        }
    }
}

/// In the namespace of the object, or in `default`.
#[inline]
fn metadata(event: &NewEvent) -> ObjectMeta {
    ObjectMeta {
        name: Some(name(event.regarding.name.as_deref().unwrap_or_default()).into()),
        namespace: Some(event.regarding.namespace.clone().unwrap_or_else(|| Str::from_static("default"))),
        annotations: event.annotations.clone(),
        ..Default::default()
    }
}

/// A name from the object and the time. Event names are DNS subdomains; if the object's name is
/// not, such as `system:node`, or is too long, the name is a random uid.
#[inline]
fn name(object: &str) -> String {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("{object}.{nanoseconds:x}");
    if validation::dns1123_subdomain(&name).is_empty() { name } else { random::uuid() }
}

#[inline]
fn core_event(who: &Reporter, event: NewEvent) -> CoreEvent {
    let now = Some(clock::now());
    let source = EventSource { component: Some(who.component.clone()), host: set(&who.instance) };
    CoreEvent {
        metadata: metadata(&event),
        involved_object: event.regarding,
        reason: Some(event.reason),
        message: Some(event.note),
        source: Some(source.into()),
        first_timestamp: now,
        last_timestamp: now,
        count: Some(1),
        type_: Some(event.event_type.to_string().into()),
        reporting_component: Some(who.component.clone()),
        reporting_instance: set(&who.instance),
        ..Default::default()
    }
}

#[inline]
fn new_event(who: &Reporter, event: NewEvent) -> Event {
    Event {
        metadata: metadata(&event),
        event_time: Some(clock::now_micros()),
        reporting_controller: Some(who.component.clone()),
        reporting_instance: Some(shortened(
            if who.instance.is_empty() { &who.component } else { &who.instance },
            NAME_MAX,
        )),
        action: Some(shortened(&event.action, NAME_MAX)),
        reason: Some(shortened(&event.reason, NAME_MAX)),
        regarding: Some(event.regarding.into()),
        related: event.related.map(Into::into),
        note: Some(shortened(&event.note, NOTE_MAX)),
        type_: Some(event.event_type.to_string().into()),
        ..Default::default()
    }
}

/// Truncates a text to `limit` bytes, with an ellipsis.
#[inline]
fn shortened(text: &Str, limit: usize) -> Str {
    const ELLIPSIS: &str = "...";
    if text.len() <= limit {
        return text.clone();
    }
    let end = (0..=limit - ELLIPSIS.len()).rev().find(|end| text.is_char_boundary(*end));
    format!("{}{ELLIPSIS}", &text[..end.unwrap_or_default()]).into()
}

#[inline]
fn set(text: &Str) -> Option<Str> {
    (!text.is_empty()).then(|| text.clone())
}

impl fmt::Debug for EventBroadcaster {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBroadcaster").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}
