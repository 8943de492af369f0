//! Watches: the events of a selection as a stream of frames.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use tokio::sync::watch as channel;
use tokio::time::{Instant, Sleep, sleep_until};

use super::list::parse_version;
use super::{Registry, Selection};
use crate::catalog::Resource;
use crate::conversion::webhook::in_version;
use crate::encoding::{Frames, Kind, SharedFrames, bookmark};
use crate::object::StoredObject;
use crate::random;
use crate::rejection::Rejection;
use crate::seldom::Seldom;
use crate::storage::{Compacted, Event, EventKind, ListOptions, Scope, Watcher};

/// How often a quiet watch says how far it has come.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// A watch without a time-out of its own lasts between this and twice as long.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);
/// A frame is sent when it has grown to this size, even if more events wait.
const FRAME_SIZE: usize = 64 << 10;

/// A watch that goes on until somebody ends it.
pub(crate) struct WatchStream {
    resource: Arc<Resource>,
    selection: Selection,
    frames: Frames,
    shared: Arc<SharedFrames>,
    /// Objects that were there before the first event.
    initial: VecDeque<Arc<StoredObject>>,
    /// The bookmark behind the initial objects is still to be sent.
    owes_end_of_initial: Option<u64>,
    /// Absent after the error that ends the watch.
    watcher: Option<Watcher<StoredObject>>,
    too_old: Option<Compacted>,
    bookmarks: bool,
    next_bookmark: Instant,
    until: Instant,
    stop: channel::Receiver<bool>,
}

/// A frame on its way from a watch to the body of its answer.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Bytes>>>);

impl Slot {
    /// Takes the frame, which makes room for the next.
    pub(crate) fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts a frame there and waits until it is taken. Nobody has to be woken: who takes it polls on.
    async fn put(&self, frame: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(frame);
        poll_fn(|_| match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        })
        .await;
    }
}

/// What is to be sent next: the frame of one event as all share it, or several copied together.
#[derive(Default)]
struct Outgoing {
    first: Option<Bytes>,
    all: Vec<u8>,
}

impl Outgoing {
    fn len(&self) -> usize {
        self.first.as_ref().map_or(0, Bytes::len) + self.all.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where more is written to.
    fn more(&mut self) -> &mut Vec<u8> {
        if let Some(first) = self.first.take() {
            self.all.extend_from_slice(&first);
        }
        &mut self.all
    }

    fn push(&mut self, frame: Bytes) {
        match self.is_empty() {
            true => self.first = Some(frame),
            false => self.more().extend_from_slice(&frame),
        }
    }

    fn into_bytes(self) -> Bytes {
        self.first.unwrap_or_else(|| self.all.into())
    }
}

/// What a watch has waited for.
enum Wake {
    Event(Result<Arc<Event<StoredObject>>, Compacted>),
    Time,
    Stop,
}

impl Registry {
    /// Starts a watch.
    pub(crate) async fn watch(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        selection: Selection,
        options: &WatchOptions,
        frames: Frames,
    ) -> Result<WatchStream, Rejection> {
        let scope = match selection.name() {
            Some(name) if !(resource.namespaced && namespace.is_empty()) => {
                Scope::object(&resource.key(namespace, name))
            }
            _ => resource.scope(namespace),
        };
        let version = options.resource_version.as_deref().unwrap_or_default();
        let revision = match version {
            "" => 0,
            text => parse_version(text).map_err(Rejection::unexpected)?,
        };
        let wants_initial = options.send_initial_events.unwrap_or(revision == 0);
        let mut initial = VecDeque::new();
        let from = if wants_initial {
            // Where it takes a webhook to tell, they are chosen when they are converted.
            let maybe = selection.needs_webhook(resource).then(|| selection.without_fields());
            let maybe = maybe.as_ref().unwrap_or(&selection);
            let page = self.read_page(&scope, ListOptions::default(), maybe).await?.map_err(Status::internal)?;
            initial.extend(page.objects);
            page.revision
        } else if revision == 0 {
            self.store.current_revision()
        } else {
            revision
        };
        let (watcher, too_old) = match self.store.watch(&scope, from) {
            Ok(watcher) => (Some(watcher), None),
            Err(compacted) => (None, Some(compacted)),
        };
        let timeout = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs().min(1 << 32)),
            _ => MIN_TIMEOUT + MIN_TIMEOUT.mul_f64((random::number() % 1000) as f64 / 1000.0),
        };
        let now = Instant::now();
        // Whoever starts at no version in particular is treated as if they had asked for the initial events.
        let ends_initial = wants_initial && options.allow_watch_bookmarks;
        Ok(WatchStream {
            resource: Arc::clone(resource),
            selection,
            frames,
            shared: Arc::clone(&self.frames),
            initial,
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

impl WatchStream {
    /// Sees to it that the objects that are there already are in the version of the resource.
    pub(crate) async fn convert_initial(&mut self) -> Result<(), Rejection> {
        let initial = std::mem::take(&mut self.initial);
        self.initial = in_version(&self.resource, initial.into()).await?.into();
        if self.selection.needs_webhook(&self.resource) {
            self.initial.retain(|object| self.selection.matches(object));
        }
        Ok(())
    }

    /// Puts all frames into a slot, one after the other, and ends with the watch.
    pub(crate) async fn run(mut self, slot: Slot) {
        while let Some(frame) = self.next_initial() {
            slot.put(frame).await;
        }
        // Both are made once: a watch wakes for every event, and seldom for them.
        let mut stop = Seldom::new(&self.stop, |stopped| *stopped);
        let custom = self.resource.custom.as_ref();
        let mut lifetime =
            custom.and_then(|custom| custom.lifetime.as_ref()).map(|lifetime| Seldom::new(lifetime, |_| false));
        let mut alarm = pin!(sleep_until(self.alarm()));
        loop {
            let mut frame = Outgoing::default();
            self.wait(&mut frame, &mut stop, &mut lifetime, alarm.as_mut()).await;
            if frame.is_empty() {
                return;
            }
            slot.put(frame.into_bytes()).await;
        }
    }

    /// What is said before the first event, as long as there is something.
    fn next_initial(&mut self) -> Option<Bytes> {
        let mut frame = Vec::new();
        while let Some(object) = self.initial.pop_front() {
            self.frames.object(Kind::Added, &self.resource, &object, &mut frame);
            if frame.len() >= FRAME_SIZE {
                return Some(frame.into());
            }
        }
        if let Some(revision) = self.owes_end_of_initial.take() {
            self.frames.bookmark(&self.resource, &bookmark(&self.resource, revision, true), &mut frame);
        }
        if let Some(compacted) = self.too_old.take() {
            self.fail(compacted, &mut frame);
        }
        (!frame.is_empty()).then(|| frame.into())
    }

    /// When to wake though nothing has happened.
    fn alarm(&self) -> Instant {
        if self.bookmarks { self.until.min(self.next_bookmark) } else { self.until }
    }

    /// Waits for something to say. Says nothing at the end.
    async fn wait(
        &mut self,
        frame: &mut Outgoing,
        stop: &mut Seldom<bool>,
        lifetime: &mut Option<Seldom<()>>,
        mut alarm: Pin<&mut Sleep>,
    ) {
        while frame.is_empty() {
            let Some(watcher) = &mut self.watcher else { return };
            let wake = poll_fn(|context| {
                if stop.poll(context).is_ready() {
                    return Poll::Ready(Wake::Stop);
                }
                if let Poll::Ready(event) = watcher.poll_next(context) {
                    return Poll::Ready(Wake::Event(event));
                }
                // What happened to its objects before a definition went is told first.
                if lifetime.as_mut().is_some_and(|lifetime| lifetime.poll(context).is_ready()) {
                    return Poll::Ready(Wake::Stop);
                }
                alarm.as_mut().poll(context).map(|()| Wake::Time)
            });
            let wake = wake.await;
            match wake {
                Wake::Event(Ok(event)) => self.take(event, frame).await,
                Wake::Event(Err(compacted)) => self.fail(compacted, frame.more()),
                Wake::Time => {
                    self.say_progress(frame.more());
                    self.next_bookmark = Instant::now() + BOOKMARK_PERIOD;
                    if Instant::now() >= self.until {
                        self.watcher = None;
                    }
                    alarm.as_mut().reset(self.alarm());
                }
                Wake::Stop => self.watcher = None,
            }
        }
    }

    /// Writes an event, and those that wait behind it.
    async fn take(&mut self, event: Arc<Event<StoredObject>>, frame: &mut Outgoing) {
        self.write(&event, frame).await;
        while frame.len() < FRAME_SIZE {
            let Some(watcher) = &mut self.watcher else { return };
            match watcher.try_next() {
                Ok(Some(event)) => self.write(&event, frame).await,
                Ok(None) => return,
                Err(compacted) => return self.fail(compacted, frame.more()),
            }
        }
    }

    /// Writes an event as those see it who look through the selection.
    async fn write(&mut self, event: &Event<StoredObject>, frame: &mut Outgoing) {
        if self.resource.needs_webhook() {
            return match self.converted(event).await {
                Ok(None) => {}
                Ok(Some((kind, object))) => self.frames.object(kind, &self.resource, &object, frame.more()),
                Err(Rejection::Status(status)) => self.end(&status, frame.more()),
                Err(_) => self.watcher = None,
            };
        }
        let before = event.previous.as_ref().map(|previous| &previous.object);
        let Some((kind, object)) = self.seen(event, before, &event.object) else { return };
        let object = &object;
        match self.frames.shared_format().filter(|_| Arc::ptr_eq(object, &event.object)) {
            None => self.frames.object(kind, &self.resource, object, frame.more()),
            Some(format) => {
                let (frames, resource) = (&mut self.frames, &self.resource);
                frame.push(self.shared.get(event.revision, (kind, format), resource, || {
                    let mut out = Vec::new();
                    frames.object(kind, resource, object, &mut out);
                    out
                }));
            }
        }
    }

    /// What those see of an event who look through the selection, of these two states of an object.
    fn seen(
        &self,
        event: &Event<StoredObject>,
        before: Option<&Arc<StoredObject>>,
        now: &Arc<StoredObject>,
    ) -> Option<(Kind, Arc<StoredObject>)> {
        let before = before.filter(|before| self.selection.matches(before));
        let is_after = event.kind != EventKind::Deleted && self.selection.matches(now);
        match (before, is_after) {
            (None, true) => Some((Kind::Added, Arc::clone(now))),
            (Some(_), true) => Some((Kind::Modified, Arc::clone(now))),
            (Some(_), false) if event.kind == EventKind::Deleted => Some((Kind::Deleted, Arc::clone(now))),
            // What left the selection is shown as it was in it, at the moment when it left.
            (Some(before), false) => Some((Kind::Deleted, Arc::new(before.with_revision(event.revision)))),
            (None, false) => None,
        }
    }

    /// The same in the version of the resource, of which a webhook is asked.
    async fn converted(&self, event: &Event<StoredObject>) -> Result<Option<(Kind, Arc<StoredObject>)>, Rejection> {
        let convert = async |object: &Arc<StoredObject>| {
            let converted = in_version(&self.resource, vec![Arc::clone(object)]).await?;
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
        let Compacted { requested, oldest } = compacted;
        let status = Status::expired(format!("too old resource version: {requested} ({oldest})"));
        self.end(&status, frame);
    }

    /// Says why there is no more to come.
    fn end(&mut self, status: &Status, frame: &mut Vec<u8>) {
        self.frames.error(status, frame);
        self.watcher = None;
    }
}
