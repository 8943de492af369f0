//! The current revision of etcd, for consistent reads.
//!
//! Requests that arrive while etcd is being asked share the next answer. An answer that was asked
//! for earlier would not do: a write may have been acknowledged in between.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::client::Client;
use crate::error::EtcdError;
use crate::messages::request::RangeRequest;

type Reply = oneshot::Sender<Result<u64, Arc<EtcdError>>>;

/// Reads the current revision of etcd, once for all callers that wait at a time.
pub struct RevisionReader {
    waiting: mpsc::UnboundedSender<Reply>,
}

impl RevisionReader {
    /// Starts a task that ends when this is dropped. Call it within a runtime.
    pub fn new(client: Client) -> Self {
        let (waiting, requests) = mpsc::unbounded_channel();
        tokio::spawn(ask(client, requests));
        RevisionReader { waiting }
    }

    /// A revision that etcd had after this call.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn revision(&self) -> Result<u64, EtcdError> {
        let (reply, answer) = oneshot::channel();
        // Without the task there is no answer either.
        let _ = self.waiting.send(reply);
        match answer.await {
            Ok(Ok(revision)) => Ok(revision),
            Ok(Err(error)) => Err(copied(&error)),
            Err(_) => Err(EtcdError::TimedOut),
        }
    }
}

async fn ask(client: Client, mut requests: mpsc::UnboundedReceiver<Reply>) {
    while let Some(first) = requests.recv().await {
        let mut waiting = vec![first];
        while let Ok(next) = requests.try_recv() {
            waiting.push(next);
        }
        // The header of any linearizable read has the revision.
        let request = RangeRequest { count_only: true, ..RangeRequest::key("kubewright") };
        let answer = client.range(&request).await.map(|range| range.revision).map_err(Arc::new);
        for reply in waiting {
            // The request may have been canceled.
            let _ = reply.send(answer.clone());
        }
    }
}

/// The same error for another request.
fn copied(error: &EtcdError) -> EtcdError {
    match error {
        EtcdError::Unreachable { endpoint, source } => {
            let source = std::io::Error::new(source.kind(), source.to_string());
            EtcdError::Unreachable { endpoint: endpoint.clone(), source }
        }
        EtcdError::Rejected { code, message } => EtcdError::Rejected { code: *code, message: message.clone() },
        EtcdError::Interrupted(source) => {
            EtcdError::Interrupted(std::io::Error::new(source.kind(), source.to_string()))
        }
        EtcdError::Malformed { problem } => EtcdError::Malformed { problem: problem.clone() },
        _ => EtcdError::TimedOut,
    }
}
