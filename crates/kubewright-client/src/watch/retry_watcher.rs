//! A watch that is reopened where it ended.

use std::fmt;
use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Object, Str};
use tokio::time::{Instant, sleep_until};

use crate::api::{Api, WatchStream};
use crate::error::{Error, Result};
use kubewright_net::task::BoxFuture;

/// Minimum time between two starts, so that a server that closes watches immediately is not
/// flooded.
const MIN_RESTART: Duration = Duration::from_secs(1);
/// Maximum time between two starts, whatever the server's Retry-After.
const MAX_RESTART: Duration = Duration::from_secs(600);

/// The events of a resource from a version on, over any number of watches.
///
/// No event is missed or repeated. Bookmarks advance the version and are not delivered. It ends,
/// with a final [`WatchEvent::Error`], when the server reports in the watch that the version has
/// expired, when the user may not watch (401 and 403), when the request is invalid, and when an
/// event cannot be decoded. Everything else is retried forever, as in client-go: also a 404 or a
/// 410 instead of a watch, which
/// [`until`](super::until) and [`await_condition`](super::await_condition) treat as final.
#[derive(Debug)]
#[doc(alias = "NewRetryWatcher")]
pub struct RetryWatcher<T> {
    api: Api<T>,
    options: WatchOptions,
    version: Str,
    stage: WatchStage<T>,
    /// The earliest start of the next watch.
    next_start: Instant,
    /// Whether any refusal is final.
    ends_when_refused: bool,
    /// Why it ended, if the reason is not a server status.
    failure: Option<Error>,
}

/// State of the current watch.
enum WatchStage<T> {
    /// There is none; the next one is scheduled.
    Closed,
    /// It is being opened. Stored here, so that a cancelled `next` does not open another one.
    Opening(BoxFuture<'static, Result<WatchStream<T>>>),
    Open(WatchStream<T>),
    /// No other one follows.
    Ended,
}

impl<T: Object> RetryWatcher<T> {
    /// Events after the version in `options`, for example that of a list.
    ///
    /// # Errors
    /// Without a version, or with version 0: such a watch starts at a version of the server's
    /// choice and could not be continued without a gap. With initial events: every new watch would
    /// repeat them.
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
            stage: WatchStage::Closed,
            next_start: Instant::now(),
            ends_when_refused: false,
            failure: None,
        })
    }

    /// Also ends when the server refuses for another reason than overload, for callers that would
    /// otherwise wait forever.
    #[must_use]
    pub(super) fn end_when_refused(mut self) -> Self {
        self.ends_when_refused = true;
        self
    }

    /// Why it ended, if the reason is not a server status; the event only paraphrases it.
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
                WatchStage::Ended => return None,
                WatchStage::Closed => {
                    sleep_until(self.next_start).await;
                    // Measured from start to start, so that a long watch needs no delay.
                    self.next_start = Instant::now() + MIN_RESTART;
                    let (api, options) =
                        (self.api.clone(), self.options.clone().resource_version(self.version.clone()));
                    self.stage = WatchStage::Opening(Box::pin(async move { api.watch(&options).await }));
                }
                WatchStage::Opening(opening) => match opening.await {
                    Ok(watch) => self.stage = WatchStage::Open(watch),
                    Err(error) if self.is_the_end(&error) => return self.end(error),
                    Err(error) => self.postpone(&error),
                },
                WatchStage::Open(watch) => match watch.next().await {
                    None => self.stage = WatchStage::Closed,
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

    /// Whether reopening the watch is pointless.
    fn is_the_end(&self, error: &Error) -> bool {
        let is_refused = matches!(error, Error::Status(_)) && !error.is_retriable();
        let is_invalid = matches!(error, Error::InvalidRequest(_));
        is_invalid || error.is_forbidden() || error.is_unauthorized() || (self.ends_when_refused && is_refused)
    }

    /// Schedules the next watch.
    fn postpone(&mut self, error: &Error) {
        tracing::debug!(error = error as &dyn std::error::Error, version = &*self.version, "watch is opened again");
        self.stage = WatchStage::Closed;
        if let Some(wait) = error.retry_after() {
            self.next_start = self.next_start.max(Instant::now() + wait.min(MAX_RESTART));
        }
    }

    fn end(&mut self, error: Error) -> Option<WatchEvent<T>> {
        self.stage = WatchStage::Ended;
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

impl<T> fmt::Debug for WatchStage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WatchStage::Closed => "Closed",
            WatchStage::Opening(_) => "Opening",
            WatchStage::Open(_) => "Open",
            WatchStage::Ended => "Ended",
        })
    }
}
