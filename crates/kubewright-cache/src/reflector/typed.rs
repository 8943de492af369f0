//! What a reflector does with objects, compiled for each type of them: nothing else belongs here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use kubewright_client::{Error, Result};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::{Bookmark, ObjectIdentity, Undecodable, Verb, WatchEvent};
use kubewright_core::{DecodeError, GroupVersionKind, Object, ObjectKey, ResourceVersion};

use super::gathering::Gathering;
use super::intake::{Heard, Intake, Pressure, Purpose, Subject, Taken, Versions};
use super::marks::Marks;
use super::{ReflectorError, UndecodableObjects};
use crate::ObjectSet;
use crate::lister_watcher::{EventStream, ItemStream, Listed, ListerWatcher};
use crate::queue::{BoxFuture, ReflectorStore, Transform, TransformError, transformed};

/// Objects of one type between a server and a store.
pub(super) struct Typed<T> {
    pub(super) lister_watcher: Box<dyn ListerWatcher<T>>,
    pub(super) store: Arc<dyn ReflectorStore<T>>,
    pub(super) transform: Option<Transform<T>>,
    pub(super) expected_kind: Option<GroupVersionKind>,
    /// Objects that were reported as undecodable.
    pub(super) marks: Mutex<Marks>,
}

impl<T: Object> Subject for Typed<T> {
    fn supports_watch_list(&self) -> bool {
        self.lister_watcher.supports_watch_list()
    }

    fn has_moved(&self) -> bool {
        self.lister_watcher.has_moved()
    }

    fn is_gone(&self) -> BoxFuture<'_, bool> {
        self.lister_watcher.is_gone()
    }

    fn intake(&self, purpose: Purpose) -> Box<dyn Intake + '_> {
        let sink = match purpose {
            Purpose::Gather => Sink::Gathering(Gathering::default()),
            Purpose::HandOn => Sink::Store,
            Purpose::Compare => Sink::Versions(Versions::new()),
        };
        Box::new(Way { typed: self, source: Source::None, sink })
    }

    fn empty(&self) {
        self.replace(ObjectSet::default());
    }

    fn undecodable(&self) -> UndecodableObjects {
        self.marks().summary()
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
                Some(Err(error)) => return Poll::Ready(self.failed(error)),
                None => return Poll::Ready(Heard::Closed),
            },
            Source::Watch(events) => match ready!(events.as_mut().poll_next(context)) {
                Some(Ok(WatchEvent::Added(object))) => (Verb::Added, object),
                Some(Ok(WatchEvent::Modified(object))) => (Verb::Modified, object),
                Some(Ok(WatchEvent::Deleted(object))) => (Verb::Deleted, object),
                Some(Ok(WatchEvent::Bookmark(bookmark))) => return Poll::Ready(self.typed.bookmarked(bookmark)),
                Some(Ok(WatchEvent::Error(status))) => return Poll::Ready(Heard::Status(status)),
                Some(Err(error)) => return Poll::Ready(self.failed(error)),
                None => return Poll::Ready(Heard::Closed),
            },
            _ => return Poll::Ready(Heard::Closed),
        };
        Poll::Ready(self.take(verb, object))
    }

    fn replace(&mut self, version: ResourceVersion) -> Vec<ReflectorError> {
        match std::mem::replace(&mut self.sink, Sink::Store) {
            Sink::Gathering(gathering) => self.typed.replace(gathering.into_set(version)),
            _ => Vec::new(),
        }
    }

    fn versions(&mut self) -> Versions {
        match &mut self.sink {
            Sink::Gathering(gathering) => gathering.versions(),
            Sink::Versions(versions) => std::mem::take(versions),
            Sink::Store => Versions::new(),
        }
    }
}

impl<T: Object> Way<'_, T> {
    fn take(&mut self, verb: Verb, object: T) -> Heard {
        if let Err(error) = self.typed.check(&object) {
            return self.unexpected(verb, ObjectIdentity::of(&object), error);
        }
        match &mut self.sink {
            Sink::Store => return Heard::Object(self.typed.hand_on(verb, object)),
            Sink::Versions(versions) => note(versions, ObjectIdentity::of(&object)),
            Sink::Gathering(gathering) if verb == Verb::Deleted => {
                gathering.remove(object.namespace(), object.name());
                self.typed.unmark(&object);
            }
            Sink::Gathering(gathering) => match self.typed.incoming(object) {
                // A list has each object once.
                Ok(object) if verb == Verb::Listed => gathering.push(object),
                Ok(object) => gathering.put(object),
                Err(error) => {
                    gathering.mark(error.object.clone());
                    let error = self.typed.news(error.object.clone(), error.into());
                    return Heard::Object(Taken { error, ..Taken::default() });
                }
            },
        }
        Heard::Object(Taken::default())
    }

    /// An object that decodes, but is of another kind or has no name.
    #[cold]
    fn unexpected(&mut self, verb: Verb, object: ObjectIdentity, error: ReflectorError) -> Heard {
        let error = match &mut self.sink {
            // RE-15: such an event is skipped, and the version stays.
            _ if verb != Verb::Listed => Some(Box::new(error)),
            // It may be any object, so the list does not say which objects exist.
            _ if object.key.name().is_empty() => {
                return Heard::Failed(Error::Decode(DecodeError::new("an object of the list has no name")));
            }
            Sink::Gathering(gathering) => {
                gathering.mark(object.clone());
                self.typed.news(object, error)
            }
            Sink::Versions(versions) => {
                note(versions, object);
                None
            }
            Sink::Store => None,
        };
        Heard::Object(Taken { error, ..Taken::default() })
    }

    #[cold]
    fn failed(&mut self, error: Error) -> Heard {
        match error {
            Error::Undecodable(object) => Heard::Object(self.take_undecodable(*object)),
            error => Heard::Failed(error),
        }
    }

    /// An object whose metadata is all that is known.
    #[cold]
    fn take_undecodable(&mut self, object: Undecodable) -> Taken {
        let Undecodable { verb, identity, is_other_kind, .. } = object.clone();
        let error = ReflectorError::Undecodable(Box::new(object));
        if is_other_kind && verb != Verb::Listed {
            // RE-15: such an event is skipped, and the version stays.
            return Taken { error: Some(Box::new(error)), ..Taken::default() };
        }
        let version = Some(identity.resource_version.clone());
        let is_added = verb == Verb::Added;
        let error = match &mut self.sink {
            Sink::Versions(versions) => {
                note(versions, identity);
                None
            }
            Sink::Gathering(gathering) if verb == Verb::Deleted => {
                gathering.remove(identity.key.namespace(), identity.key.name());
                self.typed.last_news(&identity.key, error)
            }
            Sink::Gathering(gathering) => {
                gathering.mark(identity.clone());
                self.typed.news(identity, error)
            }
            Sink::Store if verb == Verb::Deleted => {
                self.typed.delete_key(&identity);
                self.typed.last_news(&identity.key, error)
            }
            Sink::Store => {
                self.typed.store.mark_undecodable(identity.clone());
                self.typed.news(identity, error)
            }
        };
        Taken { version, error, is_added }
    }
}

impl<T: Object> Typed<T> {
    /// Tells the store of one change.
    fn hand_on(&self, verb: Verb, object: T) -> Taken {
        let is_added = verb == Verb::Added;
        let version = Some(ResourceVersion::from(object.resource_version()));
        let marked = self.marked(&object);
        let handed_on = match transformed(&self.transform, Arc::new(object)) {
            Ok(object) => match verb {
                Verb::Listed | Verb::Added => self.store.add(object),
                Verb::Modified => self.store.update(object),
                Verb::Deleted => self.store.delete(object),
            },
            Err(error) => {
                match verb {
                    Verb::Deleted => self.delete_key(&error.object),
                    _ => self.store.mark_undecodable(error.object.clone()),
                }
                Err(error)
            }
        };
        let error = match handed_on {
            Ok(()) => {
                if let Some(key) = marked {
                    self.marks().clear(&key);
                }
                None
            }
            Err(error) if verb == Verb::Deleted => self.last_news(&error.object.key.clone(), error.into()),
            Err(error) => self.news(error.object.clone(), error.into()),
        };
        Taken { version, error, is_added }
    }

    /// One of all objects: the one that the store has, if it is the same, or else this one, transformed.
    fn incoming(&self, object: T) -> Result<Arc<T>, TransformError> {
        if let Some(known) = self.store.known(&object)
            && !object.resource_version().is_empty()
            && known.resource_version() == object.resource_version()
            && known.uid() == object.uid()
        {
            return Ok(known);
        }
        transformed(&self.transform, Arc::new(object))
    }

    /// Gives the store a whole list. Returns what is to be reported.
    fn replace(&self, list: ObjectSet<T>) -> Vec<ReflectorError> {
        let mut undecodable = list.undecodable.clone();
        let mut errors = self.store.replace(list);
        let mut marks = self.marks();
        undecodable.extend(errors.iter().map(|error| error.object.clone()));
        errors.retain(|error| marks.set(&error.object));
        marks.keep(&undecodable);
        errors.into_iter().map(Into::into).collect()
    }

    /// Deletes an object whose final state is not known.
    fn delete_key(&self, object: &ObjectIdentity) {
        self.store.delete_key(object.key.clone());
        if !object.resource_version.is_empty() {
            self.store.bookmark(object.resource_version.clone());
        }
    }

    /// Marks an object as undecodable. Returns the error if it has not been reported before.
    #[cold]
    fn news(&self, object: ObjectIdentity, error: ReflectorError) -> Option<Box<ReflectorError>> {
        self.marks().set(&object).then(|| Box::new(error))
    }

    /// The same for an object that is deleted.
    #[cold]
    fn last_news(&self, key: &ObjectKey, error: ReflectorError) -> Option<Box<ReflectorError>> {
        (!self.marks().clear(key)).then(|| Box::new(error))
    }

    /// The key of an object, if some objects are marked.
    fn marked(&self, object: &T) -> Option<ObjectKey> {
        (!self.marks().is_empty()).then(|| object.key())
    }

    fn unmark(&self, object: &T) {
        if let Some(key) = self.marked(object) {
            self.marks().clear(&key);
        }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an object is of the kind that was asked for, and has a name.
    fn check(&self, object: &T) -> Result<(), ReflectorError> {
        let kind_fits = |kind: &GroupVersionKind| object.group_version_kind() == *kind;
        if !object.name().is_empty() && self.expected_kind.as_ref().is_none_or(kind_fits) {
            return Ok(());
        }
        Err(unexpected(object.group_version_kind(), object.key()))
    }
}

impl<T: Object> Typed<T> {
    /// A bookmark is an object too: one that states another kind is not about ours (RE-16).
    fn bookmarked(&self, bookmark: Box<Bookmark>) -> Heard {
        let expected = self.expected_kind.clone().or_else(T::static_kind);
        let is_other = |expected: &GroupVersionKind| !bookmark.kind.kind.is_empty() && bookmark.kind != *expected;
        if expected.as_ref().is_some_and(is_other) {
            let kind = bookmark.kind.to_string();
            let error = Some(Box::new(ReflectorError::UnexpectedBookmark { kind }));
            return Heard::Object(Taken { error, ..Taken::default() });
        }
        Heard::Bookmark(bookmark)
    }
}

fn note(versions: &mut Versions, object: ObjectIdentity) {
    versions.push((object.key, object.resource_version.as_str().to_owned()));
}

#[cold]
fn unexpected(kind: GroupVersionKind, key: ObjectKey) -> ReflectorError {
    ReflectorError::Unexpected { kind: kind.to_string(), key }
}
