//! Processing of objects, compiled per object type. Code that does not depend on the type belongs
//! elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use kubewright_client::{Error, Result};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::{Bookmark, ObjectIdentity, ReportedAs, Undecodable, WatchEvent};
use kubewright_core::{DecodeError, GroupVersionKind, Object, ObjectKey, ResourceVersion};

use super::intake::{Intake, ObjectVersions, Pipeline, Pressure, Processed, Purpose, StreamItem};
use super::list_buffer::ListBuffer;
use super::marks::UndecodableMarks;
use super::{ReflectorError, UndecodableObjects};
use crate::ObjectSet;
use crate::lister_watcher::{EventStream, ItemStream, ListItem, ListerWatcher};
use crate::queue::{BoxFuture, ReflectorStore, Transform, TransformError, transformed};

/// Objects of one type between a server and a store.
pub(super) struct TypedPipeline<T> {
    pub(super) lister_watcher: Box<dyn ListerWatcher<T>>,
    pub(super) store: Arc<dyn ReflectorStore<T>>,
    pub(super) transform: Option<Transform<T>>,
    pub(super) expected_kind: Option<GroupVersionKind>,
    /// Objects reported as undecodable.
    pub(super) marks: Mutex<UndecodableMarks>,
}

impl<T: Object> Pipeline for TypedPipeline<T> {
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
            Purpose::Gather => Sink::ListBuffer(ListBuffer::default()),
            Purpose::HandOn => Sink::Store,
            Purpose::Compare => Sink::Versions(ObjectVersions::new()),
        };
        Box::new(TypedIntake { typed: self, source: IntakeSource::None, sink })
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

/// An intake for objects of one type.
struct TypedIntake<'a, T> {
    typed: &'a TypedPipeline<T>,
    source: IntakeSource<'a, T>,
    sink: Sink<T>,
}

enum IntakeSource<'a, T> {
    None,
    OpeningList(BoxFuture<'a, Result<ItemStream<T>>>),
    OpeningWatch(BoxFuture<'a, Result<EventStream<T>>>),
    List(ItemStream<T>),
    Watch(EventStream<T>),
}

enum Sink<T> {
    ListBuffer(ListBuffer<T>),
    Store,
    Versions(ObjectVersions),
}

impl<T: Object> Intake for TypedIntake<'_, T> {
    fn list(&mut self, options: ListOptions) {
        self.source = IntakeSource::OpeningList(self.typed.lister_watcher.list(options));
    }

    fn watch(&mut self, options: WatchOptions) {
        self.source = IntakeSource::OpeningWatch(self.typed.lister_watcher.watch(options));
    }

    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.source = match &mut self.source {
            IntakeSource::OpeningList(opening) => IntakeSource::List(ready!(opening.as_mut().poll(context))?),
            IntakeSource::OpeningWatch(opening) => IntakeSource::Watch(ready!(opening.as_mut().poll(context))?),
            _ => return Poll::Ready(Ok(())),
        };
        Poll::Ready(Ok(()))
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<StreamItem> {
        let (verb, object) = match &mut self.source {
            IntakeSource::List(items) => match ready!(items.as_mut().poll_next(context)) {
                Some(Ok(ListItem::Item(object))) => (ReportedAs::Listed, object),
                Some(Ok(ListItem::End(metadata))) => {
                    self.source = IntakeSource::None;
                    return Poll::Ready(StreamItem::Listed(metadata));
                }
                Some(Err(error)) => return Poll::Ready(self.failed(error)),
                None => return Poll::Ready(StreamItem::Closed),
            },
            IntakeSource::Watch(events) => match ready!(events.as_mut().poll_next(context)) {
                Some(Ok(WatchEvent::Added(object))) => (ReportedAs::Added, object),
                Some(Ok(WatchEvent::Modified(object))) => (ReportedAs::Modified, object),
                Some(Ok(WatchEvent::Deleted(object))) => (ReportedAs::Deleted, object),
                Some(Ok(WatchEvent::Bookmark(bookmark))) => return Poll::Ready(self.typed.bookmarked(bookmark)),
                Some(Ok(WatchEvent::Error(status))) => return Poll::Ready(StreamItem::Status(status)),
                Some(Err(error)) => return Poll::Ready(self.failed(error)),
                None => return Poll::Ready(StreamItem::Closed),
            },
            _ => return Poll::Ready(StreamItem::Closed),
        };
        Poll::Ready(self.take(verb, object))
    }

    fn replace(&mut self, version: ResourceVersion) -> Vec<ReflectorError> {
        match std::mem::replace(&mut self.sink, Sink::Store) {
            Sink::ListBuffer(list_buffer) => self.typed.replace(list_buffer.into_set(version)),
            _ => Vec::new(),
        }
    }

    fn versions(&mut self) -> ObjectVersions {
        match &mut self.sink {
            Sink::ListBuffer(list_buffer) => list_buffer.versions(),
            Sink::Versions(versions) => std::mem::take(versions),
            Sink::Store => ObjectVersions::new(),
        }
    }
}

impl<T: Object> TypedIntake<'_, T> {
    fn take(&mut self, verb: ReportedAs, object: T) -> StreamItem {
        if let Err(error) = self.typed.check(&object) {
            return self.unexpected(verb, ObjectIdentity::of(&object), error);
        }
        match &mut self.sink {
            Sink::Store => return StreamItem::Object(self.typed.hand_on(verb, object)),
            Sink::Versions(versions) => note(versions, ObjectIdentity::of(&object)),
            Sink::ListBuffer(list_buffer) if verb == ReportedAs::Deleted => {
                list_buffer.remove(object.namespace(), object.name());
                self.typed.unmark(&object);
            }
            Sink::ListBuffer(list_buffer) => match self.typed.incoming(object) {
                // A list contains each object once.
                Ok(object) if verb == ReportedAs::Listed => list_buffer.push(object),
                Ok(object) => list_buffer.put(object),
                Err(error) => {
                    list_buffer.mark(error.object.clone());
                    let error = self.typed.news(error.object.clone(), error.into());
                    return StreamItem::Object(Processed { error, ..Processed::default() });
                }
            },
        }
        StreamItem::Object(Processed::default())
    }

    /// Handles an object that decodes but has an unexpected kind or no name.
    #[cold]
    fn unexpected(&mut self, verb: ReportedAs, object: ObjectIdentity, error: ReflectorError) -> StreamItem {
        let error = match &mut self.sink {
            // RE-15: the event is skipped, and the version stays.
            _ if verb != ReportedAs::Listed => Some(Box::new(error)),
            // Without a name it could be any object, so the list does not state which objects
            // exist.
            _ if object.key.name().is_empty() => {
                return StreamItem::Failed(Error::Decode(DecodeError::new("an object of the list has no name")));
            }
            Sink::ListBuffer(list_buffer) => {
                list_buffer.mark(object.clone());
                self.typed.news(object, error)
            }
            Sink::Versions(versions) => {
                note(versions, object);
                None
            }
            Sink::Store => None,
        };
        StreamItem::Object(Processed { error, ..Processed::default() })
    }

    #[cold]
    fn failed(&mut self, error: Error) -> StreamItem {
        match error {
            Error::Undecodable(object) => StreamItem::Object(self.take_undecodable(*object)),
            error => StreamItem::Failed(error),
        }
    }

    /// Handles an object of which only the metadata is readable.
    #[cold]
    fn take_undecodable(&mut self, object: Undecodable) -> Processed {
        let Undecodable { verb, identity, is_other_kind, .. } = object.clone();
        let error = ReflectorError::Undecodable(Box::new(object));
        if is_other_kind && verb != ReportedAs::Listed {
            // RE-15: the event is skipped, and the version stays.
            return Processed { error: Some(Box::new(error)), ..Processed::default() };
        }
        let version = Some(identity.resource_version.clone());
        let is_added = verb == ReportedAs::Added;
        let error = match &mut self.sink {
            Sink::Versions(versions) => {
                note(versions, identity);
                None
            }
            Sink::ListBuffer(list_buffer) if verb == ReportedAs::Deleted => {
                list_buffer.remove(identity.key.namespace(), identity.key.name());
                self.typed.last_news(&identity.key, error)
            }
            Sink::ListBuffer(list_buffer) => {
                list_buffer.mark(identity.clone());
                self.typed.news(identity, error)
            }
            Sink::Store if verb == ReportedAs::Deleted => {
                self.typed.delete_key(&identity);
                self.typed.last_news(&identity.key, error)
            }
            Sink::Store => {
                self.typed.store.mark_undecodable(identity.clone());
                self.typed.news(identity, error)
            }
        };
        Processed { version, error, is_added }
    }
}

impl<T: Object> TypedPipeline<T> {
    /// Passes one change to the store.
    fn hand_on(&self, verb: ReportedAs, object: T) -> Processed {
        let is_added = verb == ReportedAs::Added;
        let version = Some(ResourceVersion::from(object.resource_version()));
        let marked = self.marked(&object);
        let handed_on = match transformed(&self.transform, Arc::new(object)) {
            Ok(object) => match verb {
                ReportedAs::Listed | ReportedAs::Added => self.store.add(object),
                ReportedAs::Modified => self.store.update(object),
                ReportedAs::Deleted => self.store.delete(object),
            },
            Err(error) => {
                match verb {
                    ReportedAs::Deleted => self.delete_key(&error.object),
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
            Err(error) if verb == ReportedAs::Deleted => self.last_news(&error.object.key.clone(), error.into()),
            Err(error) => self.news(error.object.clone(), error.into()),
        };
        Processed { version, error, is_added }
    }

    /// An object of a list: the stored object if it has the same version, else this one,
    /// transformed.
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

    /// Passes a list to the store. Returns the errors to report.
    fn replace(&self, list: ObjectSet<T>) -> Vec<ReflectorError> {
        let mut undecodable = list.undecodable.clone();
        let mut errors = self.store.replace(list);
        let mut marks = self.marks();
        undecodable.extend(errors.iter().map(|error| error.object.clone()));
        errors.retain(|error| marks.set(&error.object));
        marks.keep(&undecodable);
        errors.into_iter().map(Into::into).collect()
    }

    /// Deletes an object whose final state is unknown.
    fn delete_key(&self, object: &ObjectIdentity) {
        self.store.delete_key(object.key.clone());
        if !object.resource_version.is_empty() {
            self.store.bookmark(object.resource_version.clone());
        }
    }

    /// UndecodableMarks an object as undecodable. Returns the error if it is new.
    #[cold]
    fn news(&self, object: ObjectIdentity, error: ReflectorError) -> Option<Box<ReflectorError>> {
        self.marks().set(&object).then(|| Box::new(error))
    }

    /// Unmarks a deleted object. Returns the error if the object was not marked, so that it is
    /// reported once.
    #[cold]
    fn last_news(&self, key: &ObjectKey, error: ReflectorError) -> Option<Box<ReflectorError>> {
        (!self.marks().clear(key)).then(|| Box::new(error))
    }

    /// The key of an object, if any object is marked.
    fn marked(&self, object: &T) -> Option<ObjectKey> {
        (!self.marks().is_empty()).then(|| object.key())
    }

    fn unmark(&self, object: &T) {
        if let Some(key) = self.marked(object) {
            self.marks().clear(&key);
        }
    }

    fn marks(&self) -> MutexGuard<'_, UndecodableMarks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that an object has the expected kind and a name.
    fn check(&self, object: &T) -> Result<(), ReflectorError> {
        let kind_fits = |kind: &GroupVersionKind| object.group_version_kind() == *kind;
        if !object.name().is_empty() && self.expected_kind.as_ref().is_none_or(kind_fits) {
            return Ok(());
        }
        Err(unexpected(object.group_version_kind(), object.key()))
    }
}

impl<T: Object> TypedPipeline<T> {
    /// Handles a bookmark. One that states another kind is rejected (RE-16).
    fn bookmarked(&self, bookmark: Box<Bookmark>) -> StreamItem {
        let expected = self.expected_kind.clone().or_else(T::static_kind);
        let is_other = |expected: &GroupVersionKind| !bookmark.kind.kind.is_empty() && bookmark.kind != *expected;
        if expected.as_ref().is_some_and(is_other) {
            let kind = bookmark.kind.to_string();
            let error = Some(Box::new(ReflectorError::UnexpectedBookmark { kind }));
            return StreamItem::Object(Processed { error, ..Processed::default() });
        }
        StreamItem::Bookmark(bookmark)
    }
}

fn note(versions: &mut ObjectVersions, object: ObjectIdentity) {
    versions.push((object.key, object.resource_version.as_str().to_owned()));
}

#[cold]
fn unexpected(kind: GroupVersionKind, key: ObjectKey) -> ReflectorError {
    ReflectorError::Unexpected { kind: kind.to_string(), key }
}
