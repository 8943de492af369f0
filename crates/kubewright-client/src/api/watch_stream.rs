//! A watch, decoded as it arrives.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use kubewright_core::stream::{WatchDecoder, WatchEvent};
use kubewright_core::{Decoder, Object};

use crate::error::{Error, Result};
use crate::rest::Streaming;
use kubewright_net::transport::{Body, TransportError, TransportErrorKind};

/// The events of a watch.
///
/// The stream ends without an error when the server ends it between two events, as servers do after
/// a while, and with an error otherwise. Only [`Error::Undecodable`] does not end it: it concerns
/// one object, and the other events follow. [`WatchEvent::Error`] is an event: after it the server
/// sends no more. Dropping the stream ends the watch.
#[doc(alias = "StreamWatcher")]
pub struct WatchStream<T> {
    /// `None` after the end.
    body: Option<Body>,
    events: WatchDecoder<T>,
    decoder: Box<Decoder>,
}

impl<T: Object> WatchStream<T> {
    pub(super) fn new(answer: Streaming) -> Self {
        let events = WatchDecoder::new(answer.encoding());
        WatchStream { body: Some(answer.into_body()), events, decoder: Box::default() }
    }

    /// A watch that has ended.
    #[doc(alias = "NewEmptyWatch")]
    pub(super) fn ended() -> Self {
        let events = WatchDecoder::new(kubewright_core::stream::Encoding::Json);
        WatchStream { body: None, events, decoder: Box::default() }
    }

    /// Uses this decoder, for objects that are stored: with a string pool, or without managed
    /// fields.
    #[must_use]
    pub fn decode_with(mut self, decoder: Decoder) -> Self {
        self.decoder = Box::new(decoder);
        self
    }

    /// The next event, or `None` after the last. Cancel safe.
    #[doc(alias = "ResultChan")]
    pub async fn next(&mut self) -> Option<Result<WatchEvent<T>>> {
        poll_fn(|context| self.poll_event(context)).await
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<T>>>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            match self.events.next(&mut self.decoder) {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Ok(None) => {}
                Err(error) if error.can_go_on() => return Poll::Ready(Some(Err(error.into()))),
                Err(error) => return self.fail(error.into()),
            }
            match ready!(Pin::new(body).poll_next(context)) {
                Some(Ok(chunk)) => self.events.push(&chunk),
                Some(Err(error)) => return self.fail(error.into()),
                None if self.events.is_mid_event() => {
                    let cut = "the watch ended in the middle of an event";
                    return self.fail(TransportError::new(TransportErrorKind::Disconnected, cut).into());
                }
                None => self.body = None,
            }
        }
    }

    fn fail(&mut self, error: Error) -> Poll<Option<Result<WatchEvent<T>>>> {
        self.body = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl<T: Object> Stream for WatchStream<T> {
    type Item = Result<WatchEvent<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context)
    }
}

impl<T> fmt::Debug for WatchStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").field("ended", &self.body.is_none()).finish_non_exhaustive()
    }
}
