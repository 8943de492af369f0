//! Container logs, complete or followed.

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
use kubewright_net::transport::{Body, TransportError};

/// Options of a log request.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "PodLogOptions")]
pub struct LogOptions {
    /// The container. Unset by default: the only one.
    pub container: Option<Str>,
    /// Whether to follow the log. Off by default.
    pub follow: bool,
    /// Whether to read the log of the container's previous run. Off by default.
    pub previous: bool,
    /// Whether each line starts with its time. Off by default.
    pub timestamps: bool,
    /// Only entries of the last seconds.
    pub since_seconds: Option<i64>,
    /// Only entries since this time.
    pub since_time: Option<Time>,
    /// Only this many lines from the end.
    pub tail_lines: Option<i64>,
    /// Only this many bytes.
    pub limit_bytes: Option<i64>,
}

impl LogOptions {
    /// Selects the container.
    #[must_use]
    pub fn container(mut self, name: impl Into<Str>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Follows the log.
    #[must_use]
    #[inline]
    pub fn follow(mut self) -> Self {
        self.follow = true;
        self
    }

    /// Reads the log of the container's previous run.
    #[must_use]
    #[inline]
    pub fn previous(mut self) -> Self {
        self.previous = true;
        self
    }

    /// Starts each line with its time.
    #[must_use]
    #[inline]
    pub fn timestamps(mut self) -> Self {
        self.timestamps = true;
        self
    }

    /// Only this many lines from the end.
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
    /// The complete log of a container.
    #[doc(alias = "GetLogs")]
    #[inline]
    pub async fn logs(&self, name: &str, options: &LogOptions) -> Result<String> {
        let request = self.subresource_request(Method::GET, name, "log");
        let request = options.parameters().fold(request, |request, (key, value)| request.parameter(key, value));
        Ok(request.send().await?.text())
    }

    /// The log of a container as a stream; with [`LogOptions::follow`] until the container ends.
    #[doc(alias = "GetLogs")]
    #[inline]
    pub async fn log_stream(&self, name: &str, options: &LogOptions) -> Result<LogStream> {
        let request = self.subresource_request(Method::GET, name, "log");
        let request = options.parameters().fold(request, |request, (key, value)| request.parameter(key, value));
        Ok(LogStream { body: request.stream().await?.into_body(), line: BytesMut::new(), searched: 0, ended: false })
    }
}

/// A log as a [`Stream`] of bytes, or of lines.
pub struct LogStream {
    body: Body,
    /// An incomplete line.
    line: BytesMut,
    /// How far it was searched for its end.
    searched: usize,
    ended: bool,
}

impl LogStream {
    /// The next line without its terminator, or `None` after the last. Invalid UTF-8 is replaced.
    /// Cancel safe.
    ///
    /// A line is buffered until it is complete, whatever its length; for untrusted logs, read the
    /// bytes.
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
