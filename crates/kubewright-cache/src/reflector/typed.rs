//! What a reflector does with objects, compiled for each type of them: nothing else belongs here.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use kubewright_client::Result;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{GroupVersionKind, Object, ObjectKey, ResourceVersion};

use super::ReflectorError;
use super::gathering::Gathering;
use super::intake::{Heard, Intake, Pressure, Purpose, Subject, Taken, Versions};
use crate::lister_watcher::{EventStream, ItemStream, Listed, ListerWatcher};
use crate::queue::{BoxFuture, ReflectorStore, Transform, TransformError, transformed};

/// Objects of one type between a server and a store.
pub(super) struct Typed<T> {
    pub(super) lister_watcher: Box<dyn ListerWatcher<T>>,
    pub(super) store: Arc<dyn ReflectorStore<T>>,
    pub(super) transform: Option<Transform<T>>,
    pub(super) expected_kind: Option<GroupVersionKind>,
}

impl<T: Object> Subject for Typed<T> {
    fn supports_watch_list(&self) -> bool {
        self.lister_watcher.supports_watch_list()
    }

    fn has_moved(&self) -> bool {
        self.lister_watcher.has_moved()
    }

    fn intake(&self, purpose: Purpose) -> Box<dyn Intake + '_> {
        let sink = match purpose {
            Purpose::Gather => Sink::Gathering(Gathering::default()),
            Purpose::HandOn => Sink::Store,
            Purpose::Compare => Sink::Versions(Versions::new()),
        };
        Box::new(Way { typed: self, source: Source::None, sink })
    }

    fn empty(&self) -> Result<(), TransformError> {
        self.store.replace(Vec::new(), ResourceVersion::default())
    }

    fn resync(&self) {
        self.store.resync();
    }

    fn bookmark(&self, version: ResourceVersion) {
        self.store.bookmark(version);
    }

    fn pressure(&self) -> Pressure {
        if self.store.is_full() {
            Pressure::Full
        } else if self.store.is_due() {
            Pressure::Due
        } else {
            Pressure::None
        }
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        self.store.room()
    }
}

/// The way of objects of one type.
struct Way<'a, T> {
    typed: &'a Typed<T>,
    source: Source<'a, T>,
    sink: Sink<T>,
}

enum Source<'a, T> {
    None,
    OpeningList(BoxFuture<'a, Result<ItemStream<T>>>),
    OpeningWatch(BoxFuture<'a, Result<EventStream<T>>>),
    List(ItemStream<T>),
    Watch(EventStream<T>),
}

enum Sink<T> {
    Gathering(Gathering<T>),
    Store,
    Versions(Versions),
}

/// In which way a server tells of an object.
#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Listed,
    Added,
    Modified,
    Deleted,
}

impl<T: Object> Intake for Way<'_, T> {
    fn list(&mut self, options: ListOptions) {
        self.source = Source::OpeningList(self.typed.lister_watcher.list(options));
    }

    fn watch(&mut self, options: WatchOptions) {
        self.source = Source::OpeningWatch(self.typed.lister_watcher.watch(options));
    }

    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.source = match &mut self.source {
            Source::OpeningList(opening) => Source::List(ready!(opening.as_mut().poll(context))?),
            Source::OpeningWatch(opening) => Source::Watch(ready!(opening.as_mut().poll(context))?),
            _ => return Poll::Ready(Ok(())),
        };
        Poll::Ready(Ok(()))
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Heard> {
        let (verb, object) = match &mut self.source {
            Source::List(items) => match ready!(items.as_mut().poll_next(context)) {
                Some(Ok(Listed::Item(object))) => (Verb::Listed, object),
                Some(Ok(Listed::End(metadata))) => {
                    self.source = Source::None;
                    return Poll::Ready(Heard::Listed(metadata));
                }
                Some(Err(error)) => return Poll::Ready(Heard::Failed(error)),
                None => return Poll::Ready(Heard::Closed),
            },
            Source::Watch(events) => match ready!(events.as_mut().poll_next(context)) {
                Some(Ok(WatchEvent::Added(object))) => (Verb::Added, object),
                Some(Ok(WatchEvent::Modified(object))) => (Verb::Modified, object),
                Some(Ok(WatchEvent::Deleted(object))) => (Verb::Deleted, object),
                Some(Ok(WatchEvent::Bookmark(object))) => return Poll::Ready(Heard::Bookmark(object)),
                Some(Ok(WatchEvent::Error(status))) => return Poll::Ready(Heard::Status(status)),
                Some(Err(error)) => return Poll::Ready(Heard::Failed(error)),
                None => return Poll::Ready(Heard::Closed),
            },
            _ => return Poll::Ready(Heard::Closed),
        };
        Poll::Ready(Heard::Object(self.take(verb, object)))
    }

    fn replace(&mut self, version: ResourceVersion) -> Result<(), TransformError> {
        match std::mem::replace(&mut self.sink, Sink::Store) {
            Sink::Gathering(gathering) => self.typed.store.replace(gathering.into_objects(), version),
            _ => Ok(()),
        }
    }

    fn versions(&mut self) -> Versions {
        match &mut self.sink {
            Sink::Gathering(gathering) => {
                let mut versions = Versions::new();
                gathering.objects().for_each(|object| note(&mut versions, object));
                versions
            }
            Sink::Versions(versions) => std::mem::take(versions),
            Sink::Store => Versions::new(),
        }
    }
}

impl<T: Object> Way<'_, T> {
    fn take(&mut self, verb: Verb, object: T) -> Taken {
        match &mut self.sink {
            Sink::Store => return self.typed.hand_on(verb, object),
            Sink::Versions(versions) => note(versions, &object),
            Sink::Gathering(gathering) if verb == Verb::Deleted => gathering.remove(&object),
            Sink::Gathering(gathering) => match self.typed.incoming(object) {
                // A list has each object once.
                Ok(object) if verb == Verb::Listed => gathering.push(object),
                Ok(object) => gathering.put(object),
                Err(error) => return Taken { left_out: Some(error), ..Taken::default() },
            },
        }
        Taken::default()
    }
}

impl<T: Object> Typed<T> {
    /// Tells the store of one change.
    fn hand_on(&self, verb: Verb, object: T) -> Taken {
        let is_added = verb == Verb::Added;
        if let Err(error) = self.check(&object) {
            return Taken { left_out: Some(error), is_added, version: None };
        }
        let version = ResourceVersion::from(object.resource_version());
        let handed_on = transformed(&self.transform, Arc::new(object)).and_then(|object| match verb {
            Verb::Listed | Verb::Added => self.store.add(object),
            Verb::Modified => self.store.update(object),
            Verb::Deleted => self.store.delete(object),
        });
        Taken { left_out: handed_on.err().map(left_out), is_added, version: Some(version) }
    }

    /// One of all objects: the one that the store has, if it is the same, or else this one, transformed.
    fn incoming(&self, object: T) -> Result<Arc<T>, Box<ReflectorError>> {
        self.check(&object)?;
        if let Some(known) = self.store.known(&object)
            && !object.resource_version().is_empty()
            && known.resource_version() == object.resource_version()
            && known.uid() == object.uid()
        {
            return Ok(known);
        }
        transformed(&self.transform, Arc::new(object)).map_err(left_out)
    }

    /// Whether an object is of the kind that was asked for, and has a name; others are left out.
    fn check(&self, object: &T) -> Result<(), Box<ReflectorError>> {
        let kind_fits = |kind: &GroupVersionKind| object.group_version_kind() == *kind;
        if !object.name().is_empty() && self.expected_kind.as_ref().is_none_or(kind_fits) {
            return Ok(());
        }
        Err(unexpected(object.group_version_kind(), object.key()))
    }
}

fn note<T: Object>(versions: &mut Versions, object: &T) {
    versions.push((object.key(), object.resource_version().to_owned()));
}

#[cold]
fn unexpected(kind: GroupVersionKind, key: ObjectKey) -> Box<ReflectorError> {
    Box::new(ReflectorError::Unexpected { kind: kind.to_string(), key })
}

#[cold]
fn left_out(error: TransformError) -> Box<ReflectorError> {
    Box::new(error.into())
}
