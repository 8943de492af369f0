//! A lister-watcher that replays a script and records its requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_core::Stream;
use kubewright_cache::{BoxFuture, EventStream, ItemStream, ListItem, ListerWatcher};
use kubewright_client::transport::{TransportError, TransportErrorKind};
use kubewright_client::{Error, Result};
use kubewright_core::meta::v1::{ListMeta, Status};
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::{Bookmark, ObjectIdentity, ReportedAs, Undecodable, WatchEvent};
use kubewright_core::{DecodeError, DynamicObject, Str};

use crate::support::object;

/// One scripted response.
pub enum Answer {
    List(Result<Vec<Result<ListItem<DynamicObject>>>>),
    /// Events of a watch, and whether it stays open afterwards.
    Watch(Result<(Vec<Result<WatchEvent<DynamicObject>>>, bool)>),
    /// A list that stalls after these objects.
    Half(Vec<Result<ListItem<DynamicObject>>>),
}

/// A lister-watcher that returns scripted responses in order, then blocks.
#[derive(Clone)]
pub struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<String>>>,
    streams: bool,
}

impl Script {
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Script {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            requests: Arc::default(),
            streams: false,
        }
    }

    /// Enables streaming lists.
    pub fn streaming(mut self) -> Self {
        self.streams = true;
        self
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn asked(&self, request: String) -> Option<Answer> {
        self.requests.lock().unwrap().push(request);
        self.answers.lock().unwrap().pop_front()
    }
}

impl ListerWatcher<DynamicObject> for Script {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ItemStream<DynamicObject>>> {
        Box::pin(async move {
            let mut request = format!("list {:?}", options.resource_version.as_deref().unwrap_or("-"));
            if let Some(limit) = options.limit {
                request += &format!(" limit {limit}");
            }
            if let Some(token) = options.continue_token {
                request += &format!(" continue {token}");
            }
            match self.asked(request.clone()) {
                Some(Answer::List(answer)) => Ok(Box::pin(Play { items: answer?.into(), hangs: false }) as _),
                Some(Answer::Half(items)) => Ok(Box::pin(Play { items: items.into(), hangs: true }) as _),
                Some(Answer::Watch(_)) => panic!("expected a watch, was asked: {request}"),
                None => std::future::pending().await,
            }
        })
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<EventStream<DynamicObject>>> {
        Box::pin(async move {
            let mut request = format!("watch {:?}", options.resource_version.as_deref().unwrap_or("-"));
            if options.send_initial_events == Some(true) {
                request += " from the start";
            }
            let timeout = options.timeout_seconds.unwrap();
            assert!((300..=600).contains(&timeout), "{timeout}");
            assert!(options.allow_watch_bookmarks);
            match self.asked(request.clone()) {
                Some(Answer::Watch(answer)) => {
                    let (events, hangs) = answer?;
                    Ok(Box::pin(Play { items: events.into(), hangs }) as _)
                }
                Some(Answer::List(_) | Answer::Half(_)) => panic!("expected a list, was asked: {request}"),
                None => std::future::pending().await,
            }
        })
    }

    fn supports_watch_list(&self) -> bool {
        self.streams
    }
}

struct Play<I> {
    items: VecDeque<I>,
    hangs: bool,
}

impl<I: Unpin> Stream for Play<I> {
    type Item = I;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I>> {
        match self.items.pop_front() {
            None if self.hangs => Poll::Pending,
            item => Poll::Ready(item),
        }
    }
}

/// A whole list, `a@1 b@2`. `?a@1` has only readable metadata, `?` is unreadable.
pub fn listed(version: &str, objects: &str) -> Answer {
    page(version, objects, "")
}

/// A page with a continue token.
pub fn page(version: &str, objects: &str, token: &str) -> Answer {
    let metadata = ListMeta {
        resource_version: Some(version.into()),
        continue_: (!token.is_empty()).then(|| Str::from(token)),
        ..ListMeta::default()
    };
    let objects = objects.split_whitespace().map(|word| match word.strip_prefix('?') {
        Some("") => Err(Error::Decode(DecodeError::new("garbage"))),
        Some(word) => Err(undecodable(ReportedAs::Listed, &one(word))),
        None => Ok(ListItem::Item(one(word))),
    });
    Answer::List(Ok(objects.chain([Ok(ListItem::End(metadata))]).collect()))
}

/// A list that stalls in the middle.
pub fn half(objects: &str) -> Answer {
    let objects = crate::support::objects(objects).into_iter();
    Answer::Half(objects.map(|object| Ok(ListItem::Item((*object).clone()))).collect())
}

/// A list that fails.
pub fn list_fails(error: impl Into<Error>) -> Answer {
    Answer::List(Err(error.into()))
}

/// A watch that fails.
pub fn watch_fails(error: impl Into<Error>) -> Answer {
    Answer::Watch(Err(error.into()))
}

/// A watch that stays open after its events: `+a@1` added, `~a@2` modified, `-a@3` deleted, `=9` a
/// bookmark, `!9` the bookmark that ends the initial objects. For `?+a@1`, `?~a@1` and `?-a@1` only
/// the metadata is readable, for `?` nothing. An object `a#u@1` has the uid `u` instead of one
/// derived from its name.
pub fn watched(events: &str) -> Answer {
    Answer::Watch(Ok((events_of(events), true)))
}

/// A watch that ends after its events.
pub fn ended(events: &str) -> Answer {
    Answer::Watch(Ok((events_of(events), false)))
}

/// A watch that ends with an error of the server.
pub fn errs(events: &str, status: Status) -> Answer {
    let mut events = events_of(events);
    events.push(Ok(WatchEvent::Error(Box::new(status))));
    Answer::Watch(Ok((events, false)))
}

pub fn events_of(text: &str) -> Vec<Result<WatchEvent<DynamicObject>>> {
    text.split_whitespace().map(event_of).collect()
}

fn event_of(word: &str) -> Result<WatchEvent<DynamicObject>> {
    if let Some(word) = word.strip_prefix('?') {
        let verb = match word.get(..1) {
            None => return Err(Error::Decode(DecodeError::new("garbage"))),
            Some("+") => ReportedAs::Added,
            Some("~") => ReportedAs::Modified,
            Some("-") => ReportedAs::Deleted,
            Some(other) => panic!("unknown event {other}"),
        };
        return Err(undecodable(verb, &one(&word[1..])));
    }
    let (verb, rest) = word.split_at(1);
    Ok(match verb {
        "+" => WatchEvent::Added(one(rest)),
        "~" => WatchEvent::Modified(one(rest)),
        "-" => WatchEvent::Deleted(one(rest)),
        "=" | "!" => {
            let mut bookmark = Box::<Bookmark>::default();
            bookmark.metadata.resource_version = Some(rest.into());
            if verb == "!" {
                bookmark.metadata.annotations.insert("k8s.io/initial-events-end", "true".into());
            }
            WatchEvent::Bookmark(bookmark)
        }
        other => panic!("unknown event {other}"),
    })
}

/// An object written as `a@1`, or as `a#u@1` with an explicit uid.
fn one(word: &str) -> DynamicObject {
    let (name, version) = word.split_once('@').expect("name@version");
    let (name, uid) = name.split_once('#').unwrap_or((name, ""));
    let mut one = (*object(name, version)).clone();
    if !uid.is_empty() {
        one.metadata.uid = Some(uid.into());
    }
    one
}

/// The error for an object of which only the metadata is readable.
pub fn undecodable(verb: ReportedAs, object: &DynamicObject) -> Error {
    let error = DecodeError::new("expected a number");
    let identity = ObjectIdentity::of(object);
    Error::Undecodable(Box::new(Undecodable { verb, identity, is_other_kind: false, error }))
}

/// The error of an unreachable server.
pub fn refused() -> Error {
    TransportError::new(TransportErrorKind::Connect, "connection refused").into()
}
