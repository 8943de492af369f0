//! A watch: a stream of events, in the order of their revisions.

use bytes::Bytes;
use h2::SendStream;
use kubewright_core::protobuf::Encoder;

use crate::channel::Receiver;
use crate::error::EtcdError;
use crate::frames::framed;
use crate::messages::request::encode_progress_request;
use crate::messages::response::WatchResponse;

/// A running watch. It ends when it is dropped.
pub struct Watch {
    sender: SendStream<Bytes>,
    receiver: Receiver,
    /// The fragments of a response that is not complete.
    partial: Option<WatchResponse>,
}

impl Watch {
    pub(crate) fn new(sender: SendStream<Bytes>, receiver: Receiver) -> Self {
        Watch { sender, receiver, partial: None }
    }

    /// The next response. Cancel safe.
    ///
    /// # Errors
    /// The connection broke, or etcd ended the stream. Start another watch after the last seen
    /// revision.
    pub async fn next(&mut self) -> Result<WatchResponse, EtcdError> {
        loop {
            let message = self.receiver.next().await?;
            let message = message.ok_or_else(|| EtcdError::malformed("etcd ended the stream of a watch"))?;
            let mut response = WatchResponse::decode(&message).map_err(EtcdError::malformed)?;
            if let Some(mut partial) = self.partial.take() {
                partial.events.append(&mut response.events);
                response.events = partial.events;
            }
            if !response.is_fragment {
                return Ok(response);
            }
            self.partial = Some(response);
        }
    }

    /// Requests a notification of the progress, which follows as a response without events.
    ///
    /// etcd before 3.4.25 and 3.5.8 may send it before earlier events.
    ///
    /// # Errors
    /// The connection broke.
    pub fn request_progress(&mut self) -> Result<(), EtcdError> {
        let request = framed(|out| encode_progress_request(&mut Encoder { out }));
        self.sender.send_data(request, false).map_err(|error| EtcdError::Interrupted(std::io::Error::other(error)))
    }
}
