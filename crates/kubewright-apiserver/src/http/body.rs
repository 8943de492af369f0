//! Bodies of answers: complete, or a watch that goes on.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::registry::WatchStream;

type NextFrame = Pin<Box<dyn Future<Output = Option<(Bytes, WatchStream)>> + Send>>;

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Full(Bytes),
    /// Polled for the next frame; absent after the last one.
    Watch(Option<NextFrame>),
}

impl Body {
    /// The bytes, unless the body is a watch.
    pub(crate) fn as_bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            Inner::Full(bytes) => Some(bytes),
            Inner::Watch(_) => None,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body(Inner::Full(bytes))
    }
}

impl From<WatchStream> for Body {
    fn from(stream: WatchStream) -> Self {
        Body(Inner::Watch(Some(Box::pin(stream.next()))))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Inner::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Inner::Watch(next) => {
                let Some(future) = next else { return Poll::Ready(None) };
                match std::task::ready!(future.as_mut().poll(context)) {
                    Some((frame, rest)) => {
                        *next = Some(Box::pin(rest.next()));
                        Poll::Ready(Some(Ok(Frame::data(frame))))
                    }
                    None => {
                        *next = None;
                        Poll::Ready(None)
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Full(bytes) => bytes.is_empty(),
            Inner::Watch(next) => next.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Watch(_) => SizeHint::default(),
        }
    }
}

/// Says how much there is, not what: it may be secret.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Full(bytes) => write!(f, "{} bytes", bytes.len()),
            Inner::Watch(_) => f.write_str("watch"),
        }
    }
}
