//! A watch that is opened again where it ended.

use std::fmt;
use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Object, Str};
use tokio::time::{Instant, sleep_until};

use crate::api::{Api, WatchStream};
use crate::error::{Error, Result};
use crate::task::BoxFuture;

/// The least time from one start to the next, so that a server which closes at once is not hammered.
const MIN_RESTART: Duration = Duration::from_secs(1);
/// The most, whatever the server asks for: it may not mean it.
const MAX_RESTART: Duration = Duration::from_secs(600);

/// The events of a resource from one version on, over as many watches as it takes.
///
/// No event is missed and none comes twice. Bookmarks move the version forward and are not handed
/// on. It ends, with an [`WatchEvent::Error`] that says why, when the server says in the watch that
/// it no longer remembers the version, when we may not watch (401 and 403), when the request itself
/// is invalid, and when it sends what cannot be decoded. All else
/// is tried again for ever, as in Go: also a 404 or a 410 in place of a watch, which
/// [`until`](super::until) and [`await_condition`](super::await_condition) take as an answer.
#[derive(Debug)]
#[doc(alias = "NewRetryWatcher")]
pub struct RetryWatcher<T> {
    api: Api<T>,
    options: WatchOptions,
    version: Str,
    stage: Stage<T>,
    /// Not before this is the next watch opened.
    next_start: Instant,
    /// Whether any refusal is the end that waiting will not change.
    ends_when_refused: bool,
    /// Why it ended, if that is nothing that the server has said.
    failure: Option<Error>,
}

/// How far the watch of the moment has come.
enum Stage<T> {
    /// There is none; the next one has its time.
    Closed,
    /// It was asked for. Kept here, so that who looks away meanwhile does not ask again.
    Opening(BoxFuture<'static, Result<WatchStream<T>>>),
    Open(WatchStream<T>),
    /// There will be no other.
    Ended,
}

impl<T: Object> RetryWatcher<T> {
    /// Events after the version in `options`, which that of a list is good for.
    ///
    /// # Errors
    /// Without a version, or with version 0: from there a watch begins at a moment of the server's choice, and could not be
    /// continued without a gap. With initial events: every new watch would send them again.
    pub fn new(api: Api<T>, options: WatchOptions) -> Result<Self> {
        let version = options.resource_version.clone().unwrap_or_default();
        if version.is_empty() || version == "0" {
            let problem = format!(
                "a watch that is to be continued cannot start from version {version:?}: list first, and start from the version of the list"
            );
            return Err(Error::InvalidRequest(problem));
        }
        if options.send_initial_events == Some(true) {
            let problem = "a watch that is to be continued cannot send initial events: list first".to_owned();
            return Err(Error::InvalidRequest(problem));
        }
        Ok(RetryWatcher {
            api,
            options,
            version,
            stage: Stage::Closed,
            next_start: Instant::now(),
            ends_when_refused: false,
            failure: None,
        })
    }

    /// Also ends where the server refuses for another reason than being busy: for who waits, and would do so for ever.
    #[must_use]
    pub(super) fn end_when_refused(mut self) -> Self {
        self.ends_when_refused = true;
        self
    }

    /// Why it ended, if that is nothing that the server has said: then the event can only say it in
    /// other words.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// The version of the last event: a later watch from here continues this one.
    #[doc(alias = "LastResourceVersion")]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The next event, or `None` after the one that ended it. Cancel safe.
    #[doc(alias = "ResultChan")]
    pub async fn next(&mut self) -> Option<WatchEvent<T>> {
        loop {
            match &mut self.stage {
                Stage::Ended => return None,
                Stage::Closed => {
                    sleep_until(self.next_start).await;
                    // Counted from start to start, so that a watch that lasted needs no pause.
                    self.next_start = Instant::now() + MIN_RESTART;
                    let (api, options) =
                        (self.api.clone(), self.options.clone().resource_version(self.version.clone()));
                    self.stage = Stage::Opening(Box::pin(async move { api.watch(&options).await }));
                }
                Stage::Opening(opening) => match opening.await {
                    Ok(watch) => self.stage = Stage::Open(watch),
                    Err(error) if self.is_the_end(&error) => return self.end(error),
                    Err(error) => self.postpone(&error),
                },
                Stage::Open(watch) => match watch.next().await {
                    None => self.stage = Stage::Closed,
                    Some(Err(error @ (Error::Decode(_) | Error::Undecodable(_)))) => return self.end(error),
                    Some(Err(error)) => self.postpone(&error),
                    Some(Ok(WatchEvent::Error(status))) if status.is_expired() => {
                        return self.end(Error::Status(status));
                    }
                    Some(Ok(WatchEvent::Error(status))) => self.postpone(&Error::Status(status)),
                    Some(Ok(event)) => {
                        let version = match &event {
                            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                                object.resource_version()
                            }
                            WatchEvent::Bookmark(object) => object.resource_version(),
                            WatchEvent::Error(_) => continue,
                        };
                        if version.is_empty() {
                            let problem = "an event without a version cannot be continued from";
                            return self.end(Status::internal(problem).into());
                        }
                        self.version = version.into();
                        if !matches!(event, WatchEvent::Bookmark(_)) {
                            return Some(event);
                        }
                    }
                },
            }
        }
    }

    /// Whether there is no use in asking for a watch again.
    fn is_the_end(&self, error: &Error) -> bool {
        let is_refused = matches!(error, Error::Status(_)) && !error.is_retriable();
        let is_invalid = matches!(error, Error::InvalidRequest(_));
        is_invalid || error.is_forbidden() || error.is_unauthorized() || (self.ends_when_refused && is_refused)
    }

    /// Gives the watch up until another time.
    fn postpone(&mut self, error: &Error) {
        tracing::debug!(error = error as &dyn std::error::Error, version = &*self.version, "watch is opened again");
        self.stage = Stage::Closed;
        if let Some(wait) = error.retry_after() {
            self.next_start = self.next_start.max(Instant::now() + wait.min(MAX_RESTART));
        }
    }

    fn end(&mut self, error: Error) -> Option<WatchEvent<T>> {
        self.stage = Stage::Ended;
        let status = match error {
            Error::Status(status) => return Some(WatchEvent::Error(status)),
            Error::Decode(ref error) => Status::internal(format!("unable to decode an event: {error}")),
            Error::Undecodable(ref object) => Status::internal(format!("{object}: {}", object.error)),
            Error::InvalidRequest(ref problem) => Status::bad_request(problem.as_str()),
            ref other => Status::internal(other),
        };
        self.failure = Some(error);
        Some(WatchEvent::Error(Box::new(status)))
    }
}

impl<T> fmt::Debug for Stage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Closed => "Closed",
            Stage::Opening(_) => "Opening",
            Stage::Open(_) => "Open",
            Stage::Ended => "Ended",
        })
    }
}
