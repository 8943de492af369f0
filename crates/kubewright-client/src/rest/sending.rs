//! Sends requests.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use kubewright_net::transport::{TransportError, TransportErrorKind};
use tokio::time::Instant;

use super::attempt::Attempts;
use super::path::append_parameter;
use super::request::Request;
use super::response::{Response, Streaming};
use crate::error::{Error, Result};

impl<'a> Request<'a> {
    /// Sends the request and waits for the complete response.
    ///
    /// # Errors
    /// If the request is invalid, the server is unreachable, or it responds with a failure or with
    /// more bytes than the
    /// [limit](crate::Client::answer_limit).
    #[doc(alias = "Do")]
    #[doc(alias = "DoRaw")]
    pub async fn send(self) -> Result<Response> {
        let (timeout, resource, limit) = (self.timeout, self.path.key(), self.client.settings().answer_limit);
        let attempts = self.prepare(true)?;
        attempts.throttle().await;
        let collected = pin!(async {
            let answer = attempts.run().await?;
            Response::collect(answer, resource, limit).await
        });
        within(timeout, collected).await
    }

    /// Sends the request and returns when the response begins. The request timeout ends there.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "Stream")]
    pub async fn stream(self) -> Result<Streaming> {
        let timeout = self.timeout;
        let attempts = self.prepare(false)?;
        attempts.throttle().await;
        within(timeout, pin!(async { Ok(Streaming::new(attempts.run().await?)) })).await
    }

    /// Like [`stream`](Self::stream), for a response that is read to its end; also returns its
    /// deadline.
    pub(crate) async fn stream_whole(self) -> Result<(Streaming, Option<Instant>)> {
        let timeout = self.timeout;
        let attempts = self.prepare(true)?;
        attempts.throttle().await;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let answer = within(timeout, pin!(async { Ok(Streaming::new(attempts.run().await?)) })).await?;
        Ok((answer, deadline))
    }

    /// The request as HTTP, for callers that send it themselves, without limits and retries.
    ///
    /// # Errors
    /// If the request is invalid.
    #[inline]
    pub fn into_http(self) -> Result<http::Request<Bytes>> {
        let json_only = self.client.settings().json_only;
        Ok(self.prepare(false)?.build(json_only).0)
    }

    fn prepare(mut self, tell_timeout: bool) -> Result<Attempts<'a>> {
        let checked = self.path.check(&self.method);
        self.note(checked);
        if let Some(problem) = self.problem.take() {
            return Err(Error::InvalidRequest(problem));
        }
        // Servers do not parse larger nanosecond values.
        let is_told = |timeout: &Duration| tell_timeout && i64::try_from(timeout.as_nanos()).is_ok();
        if let Some(timeout) = self.timeout.filter(is_told) {
            append_parameter(&mut self.query, "timeout", &format!("{}ms", timeout.as_millis()));
        }
        Attempts::new(self)
    }
}

/// The result of `work`, or a timeout error.
async fn within<T>(timeout: Option<Duration>, work: Pin<&mut (dyn Future<Output = Result<T>> + Send)>) -> Result<T> {
    let Some(timeout) = timeout else { return work.await };
    tokio::time::timeout(timeout, work)
        .await
        .unwrap_or_else(|elapsed| Err(TransportError::new(TransportErrorKind::Timeout, elapsed).into()))
}
