//! Watches: the events of a selection as a stream of encoded frames.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kubewright_core::GroupKind;
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::options::WatchOptions;
use tokio::sync::watch as channel;
use tokio::time::{Instant, Sleep, sleep_until};

use super::list::{is_heavy, parse_version};
use super::{Registry, Selectors};
use crate::channel_condition::ChannelCondition;
use crate::feature_gates::FeatureGate;
use crate::offload::Offload;
use kubewright_objects::conversion::webhook::in_version;
use kubewright_objects::encoding::{FrameType, Frames, SharedFrames, bookmark};
use kubewright_objects::object::StoredObject;
use kubewright_objects::random;
use kubewright_objects::rejection::Rejection;
use kubewright_objects::webhook_client::WebhookClients;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{
    Compacted, EventKind, Key, KeyRange, ReadError, Store, StoreEvent, StoreListOptions, Watcher,
};

/// Period of bookmarks on a quiet watch.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// Minimum duration of a watch without a timeout. The maximum is twice that.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);
/// A frame of this size is sent even if more events are ready.
const FRAME_SIZE: usize = 64 << 10;
/// So is a frame for which this many bytes of stored text were read. A row of a table is small, but
/// a whole object has to be parsed for it.
const FRAME_INPUT: usize = 256 << 10;
/// Maximum number of existing objects that are read for a frame.
const INITIAL_PAGE: usize = 64;

/// A running watch.
pub(crate) struct RegistryWatch {
    resource: Arc<Resource>,
    scope: KeyRange,
    selection: Selectors,
    frames: Frames,
    shared: Arc<SharedFrames>,
    webhook_clients: WebhookClients,
    store: Store<StoredObject>,
    offload: Offload,
    /// The existing objects that are sent before the first event. `None` after the last one.
    ///
    /// They are read anew for each frame. A watch that held them could keep old versions of all
    /// objects in memory for as long as its client does not read.
    initial: Option<InitialPosition>,
    /// The revision of the bookmark after the initial objects, until it is sent.
    owes_end_of_initial: Option<u64>,
    /// `None` after the error that ends the watch.
    watcher: Option<Watcher<StoredObject>>,
    too_old: Option<Compacted>,
    bookmarks: bool,
    next_bookmark: Instant,
    until: Instant,
    stop: channel::Receiver<bool>,
}

/// How far the existing objects of a revision have been sent.
struct InitialPosition {
    revision: u64,
    after: Option<Key>,
}

/// Passes one frame at a time from a watch to its response body.
#[derive(Clone, Default)]
pub(crate) struct FrameSlot(Arc<Mutex<Option<Bytes>>>);

impl FrameSlot {
    /// Takes the frame, so that the watch can produce the next one.
    pub(crate) fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stores a frame and waits until it is taken. No waker is needed: the consumer keeps polling
    /// this task.
    async fn put(&self, frame: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(frame);
        poll_fn(|_| match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        })
        .await;
    }
}

/// The frame to be sent: the shared encoding of one event, or a copy of several.
#[derive(Default)]
struct FrameBuffer {
    first: Option<Bytes>,
    all: Vec<u8>,
}

impl FrameBuffer {
    fn len(&self) -> usize {
        self.first.as_ref().map_or(0, Bytes::len) + self.all.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffer to append to.
    fn tail(&mut self) -> &mut Vec<u8> {
        if let Some(first) = self.first.take() {
            self.all.extend_from_slice(&first);
        }
        &mut self.all
    }

    fn push(&mut self, frame: Bytes) {
        if self.is_empty() { self.first = Some(frame) } else { self.tail().extend_from_slice(&frame) }
    }

    fn into_bytes(self) -> Bytes {
        self.first.unwrap_or_else(|| self.all.into())
    }
}

/// Why a watch woke up.
enum WakeUp {
    Event(Result<Arc<StoreEvent<StoredObject>>, Compacted>),
    Time,
    Stop,
}

impl Registry {
    /// Starts a watch.
    pub(crate) async fn watch(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        selection: Selectors,
        options: &WatchOptions,
        frames: Frames,
    ) -> Result<RegistryWatch, Rejection> {
        let version = options.resource_version.as_deref().unwrap_or_default();
        let revision = match version {
            "" => 0,
            text => parse_version(text).map_err(Rejection::unexpected)?,
        };
        if options.send_initial_events.is_some() && !self.features.contains(FeatureGate::WatchList) {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            let kind = GroupKind::new("meta.k8s.io", "ListOptions");
            return Err(Status::invalid(&kind, "", [StatusCause::forbidden("sendInitialEvents", why)]).into());
        }
        let wants_initial = options.send_initial_events.unwrap_or(revision == 0);
        let from = if wants_initial || revision == 0 { self.store.current_revision() } else { revision };
        let (watcher, too_old) = match selection.watch(&self.store, resource, namespace, from) {
            Ok(watcher) => (Some(watcher), None),
            Err(compacted) => (None, Some(compacted)),
        };
        let timeout = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs().min(1 << 32)),
            _ => MIN_TIMEOUT + MIN_TIMEOUT.mul_f64((random::number() % 1000) as f64 / 1000.0),
        };
        let now = Instant::now();
        // Without a resource version, the watch starts with the existing objects.
        let ends_initial = wants_initial && options.allow_watch_bookmarks;
        Ok(RegistryWatch {
            resource: Arc::clone(resource),
            frames,
            shared: Arc::clone(&self.frames),
            webhook_clients: self.webhook_clients.clone(),
            scope: selection.scope(resource, namespace),
            store: self.store.clone(),
            offload: self.offload.clone(),
            initial: wants_initial.then_some(InitialPosition { revision: from, after: None }),
            selection,
            owes_end_of_initial: ends_initial.then_some(from),
            watcher,
            too_old,
            bookmarks: options.allow_watch_bookmarks,
            next_bookmark: now + BOOKMARK_PERIOD,
            until: now + timeout,
            stop: self.stop.clone(),
        })
    }
}

impl RegistryWatch {
    /// Puts all frames into a slot, and returns when the watch ends.
    pub(crate) async fn run(mut self, slot: FrameSlot) {
        while let Some(frame) = self.next_initial().await {
            slot.put(frame).await;
        }
        // Created once, because these conditions are polled for every event and rarely change.
        let mut stop = ChannelCondition::new(&self.stop, |stopped| *stopped);
        let custom = self.resource.custom.as_ref();
        let mut lifetime = custom
            .and_then(|custom| custom.lifetime.as_ref())
            .map(|lifetime| ChannelCondition::new(lifetime, |_| false));
        let mut alarm = pin!(sleep_until(self.alarm()));
        loop {
            let mut frame = FrameBuffer::default();
            self.wait(&mut frame, &mut stop, &mut lifetime, alarm.as_mut()).await;
            if frame.is_empty() {
                return;
            }
            slot.put(frame.into_bytes()).await;
        }
    }

    /// The next frame before the events, if any is left.
    async fn next_initial(&mut self) -> Option<Bytes> {
        let mut frame = Vec::new();
        while let Some(position) = self.initial.take() {
            match self.write_initial(position, &mut frame).await {
                Ok(rest) => self.initial = rest,
                Err(Rejection::Status(status)) => self.end(&status, &mut frame),
                Err(_) => self.watcher = None,
            }
            if !frame.is_empty() && (self.initial.is_some() || self.watcher.is_none()) {
                return Some(frame.into());
            }
        }
        if self.watcher.is_none() && self.too_old.is_none() {
            return None;
        }
        if let Some(revision) = self.owes_end_of_initial.take() {
            self.frames.bookmark(&self.resource, &bookmark(&self.resource, revision, true), &mut frame);
        }
        if let Some(compacted) = self.too_old.take() {
            self.fail(compacted, &mut frame);
        }
        (!frame.is_empty()).then(|| frame.into())
    }

    /// Writes the objects after a position. Returns the position of the next ones.
    async fn write_initial(
        &mut self,
        position: InitialPosition,
        frame: &mut Vec<u8>,
    ) -> Result<Option<InitialPosition>, Rejection> {
        let InitialPosition { revision, mut after } = position;
        let page = match self.read_initial(revision, after.as_ref()).await? {
            Ok(page) => page,
            Err(ReadError::Compacted(compacted)) => return Err(expired(compacted).into()),
            Err(error) => return Err(Status::internal(error).into()),
        };
        let is_last = page.len() < INITIAL_PAGE;
        let (keys, objects): (Vec<_>, Vec<_>) = page.into_iter().unzip();
        let is_filtered = self.selection.needs_webhook(&self.resource);
        let mut input = 0;
        for (key, object) in keys.into_iter().zip(in_version(&self.webhook_clients, &self.resource, objects).await?) {
            if frame.len() >= FRAME_SIZE || input >= FRAME_INPUT {
                return Ok(Some(InitialPosition { revision, after }));
            }
            after = Some(key);
            if !is_filtered || self.selection.matches(&object) {
                input += object.json().len();
                self.frames.object(FrameType::Added, &self.resource, &object, frame);
            }
        }
        Ok((!is_last).then_some(InitialPosition { revision, after }))
    }

    /// At most [`INITIAL_PAGE`] objects of a revision.
    async fn read_initial(
        &self,
        revision: u64,
        after: Option<&Key>,
    ) -> Result<Result<Vec<(Key, Arc<StoredObject>)>, ReadError>, Rejection> {
        // The number of remaining objects is of no interest, and need not be counted.
        let mut paging = StoreListOptions::default().at(revision).limit(INITIAL_PAGE).remaining(usize::MAX);
        if let Some(after) = after {
            paging = paging.after(after.clone());
        }
        // If matching needs a webhook, the objects are filtered again after their conversion.
        let is_filtered = self.selection.needs_webhook(&self.resource);
        let selection = if is_filtered { self.selection.without_fields() } else { self.selection.clone() };
        let is_offloaded = !selection.is_everything() && is_heavy(&self.store, &self.scope, &selection);
        let (store, scope) = (self.store.clone(), self.scope.clone());
        let read = move || {
            let page = store.list_where(&scope, paging, |_, entry| selection.matches(&entry.object))?;
            Ok(page.entries.into_iter().map(|(key, entry)| (key, entry.object)).collect())
        };
        if is_offloaded { self.offload.run(read).await } else { Ok(read()) }
    }

    /// The next time to wake up without an event.
    fn alarm(&self) -> Instant {
        if self.bookmarks { self.until.min(self.next_bookmark) } else { self.until }
    }

    /// Waits for an event or a bookmark. Leaves `frame` empty at the end.
    async fn wait(
        &mut self,
        frame: &mut FrameBuffer,
        stop: &mut ChannelCondition<bool>,
        lifetime: &mut Option<ChannelCondition<()>>,
        mut alarm: Pin<&mut Sleep>,
    ) {
        while frame.is_empty() {
            let Some(watcher) = &mut self.watcher else { return };
            let wake = poll_fn(|context| {
                if stop.poll(context).is_ready() {
                    return Poll::Ready(WakeUp::Stop);
                }
                if let Poll::Ready(event) = watcher.poll_next(context) {
                    return Poll::Ready(WakeUp::Event(event));
                }
                // Send the remaining events of a definition's objects before its watches end.
                if lifetime.as_mut().is_some_and(|lifetime| lifetime.poll(context).is_ready()) {
                    return Poll::Ready(WakeUp::Stop);
                }
                alarm.as_mut().poll(context).map(|()| WakeUp::Time)
            });
            let wake = wake.await;
            match wake {
                WakeUp::Event(Ok(event)) => self.take(event, frame).await,
                WakeUp::Event(Err(compacted)) => self.fail(compacted, frame.tail()),
                WakeUp::Time => {
                    self.say_progress(frame.tail());
                    self.next_bookmark = Instant::now() + BOOKMARK_PERIOD;
                    if Instant::now() >= self.until {
                        self.watcher = None;
                    }
                    alarm.as_mut().reset(self.alarm());
                }
                WakeUp::Stop => self.watcher = None,
            }
        }
    }

    /// Writes an event and those that are ready after it.
    async fn take(&mut self, event: Arc<StoreEvent<StoredObject>>, frame: &mut FrameBuffer) {
        self.write(&event, frame).await;
        let mut input = event.object.json().len();
        while frame.len() < FRAME_SIZE && input < FRAME_INPUT {
            let Some(watcher) = &mut self.watcher else { return };
            match watcher.try_next() {
                Ok(Some(event)) => {
                    self.write(&event, frame).await;
                    input += event.object.json().len();
                }
                Ok(None) => return,
                Err(compacted) => return self.fail(compacted, frame.tail()),
            }
        }
        if frame.is_empty() {
            // Much text was read, and nothing of it matched.
            tokio::task::yield_now().await;
        }
    }

    /// Writes an event as the selection sees it.
    async fn write(&mut self, event: &StoreEvent<StoredObject>, frame: &mut FrameBuffer) {
        if self.resource.needs_webhook() {
            return match self.converted(event).await {
                Ok(None) => {}
                Ok(Some((kind, object))) => self.frames.object(kind, &self.resource, &object, frame.tail()),
                Err(Rejection::Status(status)) => self.end(&status, frame.tail()),
                Err(_) => self.watcher = None,
            };
        }
        let before = event.previous.as_ref().map(|previous| &previous.object);
        let Some((kind, object)) = self.seen(event, before, &event.object) else { return };
        let object = &object;
        match self.frames.shared_format().filter(|_| Arc::ptr_eq(object, &event.object)) {
            None => self.frames.object(kind, &self.resource, object, frame.tail()),
            Some(format) => {
                let (frames, resource) = (&mut self.frames, &self.resource);
                frame.push(self.shared.get((event.revision, object), (kind, format), resource, || {
                    let mut out = Vec::new();
                    frames.object(kind, resource, object, &mut out);
                    out
                }));
            }
        }
    }

    /// Translates an event for the selection, from the two states of the object.
    fn seen(
        &self,
        event: &StoreEvent<StoredObject>,
        before: Option<&Arc<StoredObject>>,
        now: &Arc<StoredObject>,
    ) -> Option<(FrameType, Arc<StoredObject>)> {
        let before = before.filter(|before| self.selection.matches(before));
        let is_after = event.kind != EventKind::Deleted && self.selection.matches(now);
        match (before, is_after) {
            (None, true) => Some((FrameType::Added, Arc::clone(now))),
            (Some(_), true) => Some((FrameType::Modified, Arc::clone(now))),
            (Some(_), false) if event.kind == EventKind::Deleted => Some((FrameType::Deleted, Arc::clone(now))),
            // An object that no longer matches is sent as deleted, in its last matching state.
            (Some(before), false) => Some((FrameType::Deleted, Arc::new(before.with_revision(event.revision)))),
            (None, false) => None,
        }
    }

    /// Like [`seen`](Self::seen), after a webhook has converted both states.
    async fn converted(
        &self,
        event: &StoreEvent<StoredObject>,
    ) -> Result<Option<(FrameType, Arc<StoredObject>)>, Rejection> {
        let convert = async |object: &Arc<StoredObject>| {
            let converted = in_version(&self.webhook_clients, &self.resource, vec![Arc::clone(object)]).await?;
            Ok::<_, Rejection>(converted.into_iter().next().unwrap_or_else(|| Arc::clone(object)))
        };
        let before = event.previous.as_ref().map(|previous| &previous.object);
        if !self.selection.needs_webhook(&self.resource) {
            let Some((kind, object)) = self.seen(event, before, &event.object) else { return Ok(None) };
            return Ok(Some((kind, convert(&object).await?)));
        }
        let now = convert(&event.object).await?;
        let before = match before {
            Some(before) => Some(convert(before).await?),
            None => None,
        };
        Ok(self.seen(event, before.as_ref(), &now))
    }

    fn say_progress(&mut self, frame: &mut Vec<u8>) {
        if !self.bookmarks {
            return;
        }
        if let Some(revision) = self.watcher.as_mut().and_then(Watcher::progress) {
            self.frames.bookmark(&self.resource, &bookmark(&self.resource, revision, false), frame);
        }
    }

    fn fail(&mut self, compacted: Compacted, frame: &mut Vec<u8>) {
        self.end(&expired(compacted), frame);
    }

    /// Ends the watch with an error.
    fn end(&mut self, status: &Status, frame: &mut Vec<u8>) {
        self.frames.error(status, frame);
        self.watcher = None;
    }
}

fn expired(compacted: Compacted) -> Status {
    let Compacted { requested, oldest } = compacted;
    Status::expired(format!("too old resource version: {requested} ({oldest})"))
}
