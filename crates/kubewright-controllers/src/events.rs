//! Tells users what controllers did, as events beside the objects.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_api::core::v1::{Event, EventSource, ObjectReference};
use kubewright_client::{Api, Client};
use kubewright_core::{Object, Str};
use tokio::time::Instant;

use crate::clock::Clock;

/// So many events of one object may come at once.
const BURST: f64 = 25.0;
/// One more is allowed after each of these.
const REFILL: Duration = Duration::from_secs(300);
/// When this many objects are known, all are forgotten: some get another burst, and memory stays bounded.
const MAX_OBJECTS: usize = 4096;

/// Writes events in the name of one component.
#[derive(Debug)]
#[doc(alias = "EventRecorder")]
pub(crate) struct Recorder {
    client: Client,
    component: &'static str,
    clock: Clock,
    /// What is left of the burst of an object, by its uid, and when that was.
    tokens_of: Mutex<HashMap<Str, (f64, Instant)>>,
}

impl Recorder {
    pub(crate) fn new(client: &Client, component: &'static str) -> Self {
        Recorder { client: client.clone(), component, clock: Clock::new(), tokens_of: Mutex::default() }
    }

    /// Something went as it should.
    pub(crate) async fn normal<T: Object>(&self, regarding: &T, reason: &'static str, message: String) {
        self.record(regarding, "Normal", reason, message).await;
    }

    /// Something needs attention.
    pub(crate) async fn warning<T: Object>(&self, regarding: &T, reason: &'static str, message: String) {
        self.record(regarding, "Warning", reason, message).await;
    }

    async fn record<T: Object>(&self, regarding: &T, type_: &'static str, reason: &'static str, message: String) {
        if !self.may_record(regarding.uid()) {
            return;
        }
        let namespace = if regarding.namespace().is_empty() { "default" } else { regarding.namespace() };
        let now = self.clock.now();
        let mut event = Event {
            involved_object: reference(regarding),
            reason: Some(reason.into()),
            message: Some(message.into()),
            source: Some(EventSource { component: Some(self.component.into()), ..Default::default() }.into()),
            first_timestamp: Some(now),
            last_timestamp: Some(now),
            count: Some(1),
            type_: Some(type_.into()),
            reporting_component: Some(self.component.into()),
            ..Default::default()
        };
        event.metadata.generate_name = Some(format!("{}.", regarding.name()).into());
        event.metadata.namespace = Some(namespace.into());
        if let Err(error) = Api::<Event>::namespaced(&self.client, namespace).create(&event).await {
            tracing::debug!(cause = &error as &dyn std::error::Error, reason, "event not recorded");
        }
    }

    fn may_record(&self, uid: &str) -> bool {
        let mut tokens_of = self.tokens_of.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens_of.len() >= MAX_OBJECTS {
            tokens_of.clear();
        }
        let now = Instant::now();
        let (tokens, since) = tokens_of.entry(uid.into()).or_insert((BURST, now));
        let refilled = (now - *since).as_secs_f64() / REFILL.as_secs_f64();
        *tokens = (*tokens + refilled).min(BURST);
        *since = now;
        let may = *tokens >= 1.0;
        *tokens -= f64::from(u8::from(may));
        may
    }
}

/// A reference to an object.
pub(crate) fn reference<T: Object>(object: &T) -> ObjectReference {
    let kind = object.group_version_kind();
    let text = |text: &str| (!text.is_empty()).then(|| Str::from(text));
    ObjectReference {
        kind: Some(kind.kind.clone()),
        api_version: Some(kind.api_version().into()),
        namespace: text(object.namespace()),
        name: text(object.name()),
        uid: text(object.uid()),
        resource_version: text(object.resource_version()),
        ..Default::default()
    }
}
