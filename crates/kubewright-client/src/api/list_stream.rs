//! A list, decoded as it arrives.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use kubewright_core::meta::v1::ListMeta;
use kubewright_core::stream::ListDecoder;
use kubewright_core::{Decoder, Object};

use crate::error::{Error, Result};
use crate::rest::Streaming;
use kubewright_net::transport::Body;

/// The objects of a list, each as soon as it arrives.
///
/// The stream ends after the last object, or after an error. Only [`Error::Undecodable`] does not
/// end it: it concerns one object, and the others follow.
pub struct ListStream<T> {
    body: Body,
    /// `None` after the end.
    list: Option<ListDecoder<T>>,
    decoder: Box<Decoder>,
    metadata: ListMeta,
}

impl<T: Object> ListStream<T> {
    pub(super) fn new(answer: Streaming) -> Self {
        let list = Some(ListDecoder::new(answer.encoding()));
        ListStream { body: answer.into_body(), list, decoder: Box::default(), metadata: ListMeta::default() }
    }

    /// Uses this decoder, for objects that are stored: with a string pool, or without managed
    /// fields.
    #[must_use]
    pub fn decode_with(mut self, decoder: Decoder) -> Self {
        self.decoder = Box::new(decoder);
        self
    }

    /// The next object, or `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<T>> {
        poll_fn(|context| self.poll_item(context)).await
    }

    /// The list's metadata received so far; complete when the stream has ended without an error.
    pub fn metadata(&self) -> &ListMeta {
        self.list.as_ref().map_or(&self.metadata, ListDecoder::metadata)
    }

    /// The list's metadata, after the end.
    pub fn into_metadata(self) -> ListMeta {
        self.list.map_or(self.metadata, |list| list.metadata().clone())
    }

    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        loop {
            let Some(list) = &mut self.list else { return Poll::Ready(None) };
            match list.next(&mut self.decoder) {
                Ok(Some(item)) => return Poll::Ready(Some(Ok(item))),
                Ok(None) => {}
                Err(error) if error.can_go_on() => return Poll::Ready(Some(Err(error.into()))),
                Err(error) => return self.fail(error.into()),
            }
            match ready!(Pin::new(&mut self.body).poll_next(context)) {
                Some(Ok(chunk)) => list.push(&chunk),
                Some(Err(error)) => return self.fail(error.into()),
                None => {
                    let list = self.list.take().expect("it is there two lines up");
                    match list.finish() {
                        Ok(metadata) => self.metadata = metadata,
                        Err(error) => return self.fail(error.into()),
                    }
                }
            }
        }
    }

    fn fail(&mut self, error: Error) -> Poll<Option<Result<T>>> {
        self.list = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl<T: Object> Stream for ListStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(context)
    }
}

impl<T> fmt::Debug for ListStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListStream").field("ended", &self.list.is_none()).finish_non_exhaustive()
    }
}
