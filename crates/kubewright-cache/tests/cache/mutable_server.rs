//! A small mutable server: objects, versions, an event log, and injected faults.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use kubewright_cache::{BoxFuture, EventStream, ItemStream, ListItem, ListerWatcher};
use kubewright_client::{Error, Result};
use kubewright_core::meta::v1::{ListMeta, Status};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::{Bookmark, ReportedAs, WatchEvent};
use kubewright_core::{DynamicObject, Object, Str};
use tokio::time::Instant;

use crate::script::undecodable;
use crate::support::object;

#[derive(Clone, Default)]
pub struct Live {
    state: Arc<Mutex<State>>,
    pub streams: bool,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, DynamicObject>,
    version: u64,
    /// Events with their versions, oldest first.
    log: VecDeque<(u64, WatchEvent<DynamicObject>)>,
    forgotten: u64,
    /// Watches with lower numbers are disconnected.
    generation: u64,
    wakers: Vec<Waker>,
    creations: u64,
    open: HashSet<u64>,
    next_watch: u64,
    /// A label for the next object, which makes it undecodable or not transformable.
    next_label: Option<&'static str>,
    refusals: Option<(u32, fn() -> Error)>,
    /// Times of all requests.
    requests: Vec<Instant>,
}

impl State {
    fn refuses(&mut self) -> Option<Error> {
        self.requests.push(Instant::now());
        let (times, error) = self.refusals.as_mut().filter(|(times, _)| *times > 0)?;
        *times -= 1;
        Some(error())
    }

    fn happened(&mut self, event: WatchEvent<DynamicObject>) {
        self.log.push_back((self.version, event));
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Live {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn streaming() -> Self {
        Live { streams: true, ..Self::default() }
    }

    /// Creates or changes an object.
    pub fn put(&self, name: &str) {
        let mut state = self.lock();
        state.version += 1;
        let mut new = (*object(name, state.version)).clone();
        if let Some(label) = state.next_label.take() {
            new.metadata.labels.insert(label, "".into());
        }
        let event = match state.objects.get(name) {
            Some(old) => {
                new.metadata.uid = old.metadata.uid.clone();
                WatchEvent::Modified(new.clone())
            }
            None => {
                state.creations += 1;
                new.metadata.uid = Some(Str::from(format!("uid-{}", state.creations)));
                WatchEvent::Added(new.clone())
            }
        };
        state.objects.insert(name.to_owned(), new);
        state.happened(event);
    }

    pub fn delete(&self, name: &str) {
        let mut state = self.lock();
        let Some(mut old) = state.objects.remove(name) else { return };
        state.version += 1;
        old.set_resource_version(&state.version.to_string());
        state.happened(WatchEvent::Deleted(old));
    }

    /// Creates or changes an object to a state that cannot be decoded, or that a transform rejects.
    pub fn put_bad(&self, name: &str, kind: &'static str) {
        self.lock().next_label = Some(kind);
        self.put(name);
    }

    /// Answers the next `times` requests with this error, and ends all watches.
    pub fn refuse(&self, times: u32, error: fn() -> Error) {
        self.lock().refusals = Some((times, error));
        self.cut();
    }

    /// Ends the error responses.
    pub fn recover(&self) {
        self.lock().refusals = None;
    }

    /// Times of the requests since the last call.
    pub fn requests(&self) -> Vec<Instant> {
        std::mem::take(&mut self.lock().requests)
    }

    /// The names of objects in a bad state.
    pub fn bad(&self) -> Vec<String> {
        let state = self.lock();
        let bad = state.objects.values().filter(|object| !object.metadata.labels.is_empty());
        bad.map(|object| object.name().to_owned()).collect()
    }

    /// The names of all objects, with the uids of the objects.
    pub fn uids(&self) -> BTreeMap<String, String> {
        self.lock().objects.iter().map(|(name, object)| (name.clone(), object.uid().to_owned())).collect()
    }

    /// Ends all watches, as a lost connection does.
    pub fn cut(&self) {
        let mut state = self.lock();
        state.generation += 1;
        state.wakers.drain(..).for_each(Waker::wake);
    }

    /// Drops the event history, so that watches expire and clients list again.
    pub fn forget(&self) {
        self.lock().forgotten = u64::MAX;
        self.cut();
        let mut state = self.lock();
        state.log.clear();
        state.forgotten = state.version;
    }

    /// Sends the newest event once more.
    pub fn repeat(&self) {
        let mut state = self.lock();
        if let Some((_, event)) = state.log.back().cloned() {
            state.happened(event);
        }
    }

    /// Sends a bookmark.
    pub fn bookmark(&self) {
        let mut state = self.lock();
        let mut bookmark = Box::<Bookmark>::default();
        bookmark.metadata.resource_version = Some(state.version.to_string().into());
        state.happened(WatchEvent::Bookmark(bookmark));
    }

    /// Names and versions.
    pub fn contents(&self) -> Vec<String> {
        self.lock().objects.values().map(|object| format!("{}@{}", object.name(), object.resource_version())).collect()
    }

    pub fn watches(&self) -> usize {
        self.lock().open.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn open(&self, start: VecDeque<WatchEvent<DynamicObject>>, after: u64) -> EventStream<DynamicObject> {
        let mut state = self.lock();
        state.next_watch += 1;
        let id = state.next_watch;
        state.open.insert(id);
        let position = state.log.iter().position(|(version, _)| *version > after).unwrap_or(state.log.len());
        let generation = state.generation;
        drop(state);
        Box::pin(LiveWatch { server: self.clone(), id, start, position, generation })
    }
}

impl ListerWatcher<DynamicObject> for Live {
    fn list(&self, _: ListOptions) -> BoxFuture<'_, Result<ItemStream<DynamicObject>>> {
        let mut state = self.lock();
        if let Some(error) = state.refuses() {
            return Box::pin(async { Err(error) });
        }
        let metadata = ListMeta { resource_version: Some(state.version.to_string().into()), ..ListMeta::default() };
        let decoded = |object| decoded(object, ReportedAs::Listed).map(ListItem::Item);
        let mut items: VecDeque<_> = state.objects.values().cloned().map(decoded).collect();
        items.push_back(Ok(ListItem::End(metadata)));
        Box::pin(async move { Ok(Box::pin(Items(items)) as _) })
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<EventStream<DynamicObject>>> {
        let version: u64 = options.resource_version.as_deref().unwrap_or("").parse().unwrap_or(0);
        if let Some(error) = self.lock().refuses() {
            return Box::pin(async { Err(error) });
        }
        let answer = if options.send_initial_events == Some(true) {
            let state = self.lock();
            let mut start: VecDeque<_> = state.objects.values().cloned().map(WatchEvent::Added).collect();
            let mut bookmark = Box::<Bookmark>::default();
            bookmark.metadata.resource_version = Some(state.version.to_string().into());
            bookmark.metadata.annotations.insert("k8s.io/initial-events-end", "true".into());
            start.push_back(WatchEvent::Bookmark(bookmark));
            let version = state.version;
            drop(state);
            Ok(self.open(start, version))
        } else if version < self.lock().forgotten {
            Err(Error::from(Status::expired("too old")))
        } else {
            Ok(self.open(VecDeque::new(), version))
        };
        Box::pin(async move { answer })
    }

    fn supports_watch_list(&self) -> bool {
        self.streams
    }
}

struct Items(VecDeque<Result<ListItem<DynamicObject>>>);

impl Stream for Items {
    type Item = Result<ListItem<DynamicObject>>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.pop_front())
    }
}

struct LiveWatch {
    server: Live,
    id: u64,
    start: VecDeque<WatchEvent<DynamicObject>>,
    position: usize,
    generation: u64,
}

impl Stream for LiveWatch {
    type Item = Result<WatchEvent<DynamicObject>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(event) = self.start.pop_front() {
            return Poll::Ready(Some(received(event)));
        }
        let server = self.server.clone();
        let mut state = server.lock();
        if state.generation != self.generation {
            return Poll::Ready(None);
        }
        match state.log.get(self.position).cloned() {
            Some((_, event)) => {
                self.position += 1;
                Poll::Ready(Some(received(event)))
            }
            None => {
                state.wakers.push(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// An object as a client receives it.
fn decoded(object: DynamicObject, verb: ReportedAs) -> Result<DynamicObject> {
    if object.labels().get("undecodable").is_some() { Err(undecodable(verb, &object)) } else { Ok(object) }
}

/// An event as a client receives it.
fn received(event: WatchEvent<DynamicObject>) -> Result<WatchEvent<DynamicObject>> {
    Ok(match event {
        WatchEvent::Added(object) => WatchEvent::Added(decoded(object, ReportedAs::Added)?),
        WatchEvent::Modified(object) => WatchEvent::Modified(decoded(object, ReportedAs::Modified)?),
        WatchEvent::Deleted(object) => WatchEvent::Deleted(decoded(object, ReportedAs::Deleted)?),
        event => event,
    })
}

impl Drop for LiveWatch {
    fn drop(&mut self) {
        self.server.lock().open.remove(&self.id);
    }
}
