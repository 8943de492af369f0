//! Logs of containers, to their end or as they are written.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::Method;
use kubewright_api::core::v1::Pod;
use kubewright_core::{Str, Time};

use crate::api::Api;
use crate::error::Result;
use crate::transport::{Body, TransportError};

/// Which part of a log is wanted.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "PodLogOptions")]
pub struct LogOptions {
    /// Of which container. Absent by default: the only one.
    pub container: Option<Str>,
    /// Whether the log is followed as it is written. Off by default.
    pub follow: bool,
    /// Whether that of the container's previous run is wanted. Off by default.
    pub previous: bool,
    /// Whether each line begins with its time. Off by default.
    pub timestamps: bool,
    /// Only what is not older than so many seconds.
    pub since_seconds: Option<i64>,
    /// Only what is not older than this.
    pub since_time: Option<Time>,
    /// Only so many lines from the end.
    pub tail_lines: Option<i64>,
    /// Only so many bytes.
    pub limit_bytes: Option<i64>,
}

impl LogOptions {
    /// Of this container.
    #[must_use]
    #[inline]
    pub fn container(mut self, name: impl Into<Str>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Follows the log as it is written.
    #[must_use]
    #[inline]
    pub fn follow(mut self) -> Self {
        self.follow = true;
        self
    }

    /// That of the container's previous run.
    #[must_use]
    #[inline]
    pub fn previous(mut self) -> Self {
        self.previous = true;
        self
    }

    /// Begins each line with its time.
    #[must_use]
    #[inline]
    pub fn timestamps(mut self) -> Self {
        self.timestamps = true;
        self
    }

    /// Only so many lines from the end.
    #[must_use]
    #[inline]
    pub fn tail_lines(mut self, lines: u32) -> Self {
        self.tail_lines = Some(lines.into());
        self
    }

    #[inline]
    fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let flag = |set: bool| set.then(|| "true".to_owned());
        let number = |value: Option<i64>| value.map(|value| value.to_string());
        let all = [
            ("container", self.container.as_ref().map(ToString::to_string)),
            ("follow", flag(self.follow)),
            ("limitBytes", number(self.limit_bytes)),
            ("previous", flag(self.previous)),
            ("sinceSeconds", number(self.since_seconds)),
            ("sinceTime", self.since_time.map(|time| time.to_string())),
            ("tailLines", number(self.tail_lines)),
            ("timestamps", flag(self.timestamps)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

impl Api<Pod> {
    /// The log of a container, whole.
    #[doc(alias = "GetLogs")]
    #[inline]
    pub async fn logs(&self, name: &str, options: &LogOptions) -> Result<String> {
        let request = self.subresource_request(Method::GET, name, "log");
        let request = options.parameters().fold(request, |request, (key, value)| request.parameter(key, value));
        Ok(request.send().await?.text())
    }

    /// The log of a container as it comes; with [`LogOptions::follow`] until the container ends.
    #[doc(alias = "GetLogs")]
    #[inline]
    pub async fn log_stream(&self, name: &str, options: &LogOptions) -> Result<LogStream> {
        let request = self.subresource_request(Method::GET, name, "log");
        let request = options.parameters().fold(request, |request, (key, value)| request.parameter(key, value));
        Ok(LogStream { body: request.stream().await?.into_body(), line: BytesMut::new(), searched: 0, ended: false })
    }
}

/// A log as it comes: the bytes by the trait [`Stream`], or the lines.
pub struct LogStream {
    body: Body,
    /// The beginning of a line whose end has not come.
    line: BytesMut,
    /// How far that has been looked through for its end.
    searched: usize,
    ended: bool,
}

impl LogStream {
    /// The next line without its end, or `None` after the last. What is no text is replaced. Cancel safe.
    ///
    /// A line of any length is held until it is complete; for logs of strangers, read the bytes.
    #[inline]
    pub async fn line(&mut self) -> Result<Option<String>> {
        loop {
            let found = self.line[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = found.map(|end| self.searched + end) {
                self.searched = 0;
                let line = self.line.split_to(end + 1);
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            self.searched = self.line.len();
            if self.ended {
                self.searched = 0;
                let rest = self.line.split();
                return Ok((!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned()));
            }
            match poll_fn(|context| Pin::new(&mut self.body).poll_next(context)).await.transpose()? {
                Some(chunk) => self.line.extend_from_slice(&chunk),
                None => self.ended = true,
            }
        }
    }
}

impl Stream for LogStream {
    type Item = Result<Bytes, TransportError>;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.line.is_empty() {
            self.searched = 0;
            return Poll::Ready(Some(Ok(self.line.split().freeze())));
        }
        let chunk = ready!(Pin::new(&mut self.body).poll_next(context));
        self.ended |= chunk.is_none();
        Poll::Ready(chunk)
    }
}

impl fmt::Debug for LogStream {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}
