//! A server that receives audit events in batches.
//!
//! Requests never wait for it. Events that come faster than the server takes them fill a buffer,
//! and are lost when it is full. kube-apiserver's mode `batch` is the same.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::Value;
use kubewright_net::config::ConfigError;
use kubewright_objects::generic_webhook::GenericWebhook;
use kubewright_objects::object::{to_json, tree};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum time for the events that wait when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of the webhook, as the flags `--audit-webhook-…` of kube-apiserver.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuditWebhookOptions {
    /// The kubeconfig with the URL of the server, its authority, and the credentials for it.
    pub kubeconfig: PathBuf,
    /// Maximum number of events that wait: 10,000 by default. Further ones are lost.
    pub buffer_size: usize,
    /// Maximum number of events in a batch: 400 by default.
    pub max_batch_size: usize,
    /// Maximum time that the first event of a batch waits: 30 seconds by default.
    pub max_batch_wait: Duration,
    /// Delay before a failed batch is sent again: ten seconds by default. It grows by half with
    /// each of five attempts.
    pub initial_backoff: Duration,
}

impl AuditWebhookOptions {
    /// The default options, for the server of this kubeconfig.
    pub fn new(kubeconfig: impl Into<PathBuf>) -> Self {
        AuditWebhookOptions {
            kubeconfig: kubeconfig.into(),
            buffer_size: 10_000,
            max_batch_size: 400,
            max_batch_wait: Duration::from_secs(30),
            initial_backoff: Duration::from_secs(10),
        }
    }
}

/// Sends audit events to a server.
#[derive(Debug)]
pub struct AuditWebhook {
    events: mpsc::Sender<Value>,
    /// Taken by the task that sends.
    batches: Mutex<Option<Batches>>,
    /// Whether the last event was lost, so that a loss is reported once.
    is_losing: AtomicBool,
}

impl AuditWebhook {
    /// Reads the kubeconfig. The server is not called before the first event.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read or used.
    pub fn new(options: AuditWebhookOptions) -> Result<Self, ConfigError> {
        let server = GenericWebhook::from_kubeconfig(&options.kubeconfig, options.initial_backoff)?;
        // A batch of no events would never end.
        let options = AuditWebhookOptions { max_batch_size: options.max_batch_size.max(1), ..options };
        let (events, waiting) = mpsc::channel(options.buffer_size.max(1));
        let batches = Mutex::new(Some(Batches { server, waiting, batch: Vec::new(), options }));
        Ok(AuditWebhook { events, batches, is_losing: AtomicBool::new(false) })
    }

    /// Puts an event into the buffer.
    pub(crate) fn write(&self, event: &Value) {
        let is_lost = self.events.try_send(event.clone()).is_err();
        if is_lost && !self.is_losing.swap(true, Ordering::Relaxed) {
            tracing::error!("the buffer of the audit webhook is full, and audit events are lost");
        } else if !is_lost {
            self.is_losing.store(false, Ordering::Relaxed);
        }
    }

    /// The task that sends the events. `None` if it has been taken before.
    pub(crate) fn sender(&self) -> Option<Batches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The events that wait, and where they go.
#[derive(Debug)]
pub(crate) struct Batches {
    server: GenericWebhook,
    options: AuditWebhookOptions,
    waiting: mpsc::Receiver<Value>,
    /// The events of the batch that is collected or sent.
    batch: Vec<Value>,
}

impl Batches {
    /// Sends events until `stop` is true, and then those that wait.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = self.send_next() => {}
            }
        }
        if timeout(DRAIN_TIMEOUT, self.drain()).await.is_err() {
            tracing::error!("the audit webhook did not take the last events, and they are lost");
        }
    }

    /// Collects a batch and sends it. May be dropped at any moment: the batch stays.
    async fn send_next(&mut self) {
        if self.batch.is_empty() {
            self.batch.extend(self.waiting.recv().await);
        }
        let deadline = Instant::now() + self.options.max_batch_wait;
        while self.batch.len() < self.options.max_batch_size
            && let Ok(Some(event)) = timeout_at(deadline, self.waiting.recv()).await
        {
            self.batch.push(event);
        }
        self.send_batch().await;
    }

    async fn send_batch(&mut self) {
        let events = self.batch.iter().cloned().collect();
        let list = tree::map([
            ("kind", "EventList".into()),
            ("apiVersion", "audit.k8s.io/v1".into()),
            ("metadata", tree::map([])),
            ("items", Value::Array(events)),
        ]);
        if let Err(why) = self.server.post(to_json(&list).into()).await {
            tracing::error!(why, events = self.batch.len(), "audit events could not be sent, and are lost");
        }
        self.batch.clear();
    }

    /// Sends all events that wait.
    async fn drain(&mut self) {
        loop {
            while self.batch.len() < self.options.max_batch_size
                && let Ok(event) = self.waiting.try_recv()
            {
                self.batch.push(event);
            }
            if self.batch.is_empty() {
                return;
            }
            self.send_batch().await;
        }
    }
}
