//! The state that a handler has rebuilt from events alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{Deleted, Event, EventHandler, HandlerOptions, InformerHandle, Overflow, Recreated};
use kubewright_core::{Object, ObjectKey};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::truth::Truth;
use crate::widget::Widget;

/// How long a slow handler takes for each event.
const SLOW: Duration = Duration::from_millis(40);

/// Uid and resource version of each object.
pub type Contents = BTreeMap<ObjectKey, (String, String)>;

#[derive(Clone)]
pub struct View {
    name: String,
    recreated: Recreated,
    truth: Truth,
    contents: Arc<Mutex<Contents>>,
}

impl View {
    fn new(name: String, recreated: Recreated, truth: &Truth) -> Self {
        View { name, recreated, truth: truth.clone(), contents: Arc::default() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn contents(&self) -> Contents {
        self.contents.lock().unwrap().clone()
    }

    /// Applies an event, and reports it if it contradicts earlier ones.
    fn apply(&self, event: &Event<Widget>) {
        let key = event.key();
        let mut contents = self.contents.lock().unwrap();
        match event {
            Event::Added { object, .. } => {
                let before = contents.insert(key.clone(), identity(&**object));
                self.expect(before.is_none(), || format!("{key} was added, but {before:?} was there"));
            }
            Event::Updated { old, new } => {
                let before = contents.insert(key.clone(), identity(&**new));
                self.expect(before == Some(identity(&**old)), || format!("{key} changed from {old:?}, not {before:?}"));
                let is_same = old.uid() == new.uid() || self.recreated == Recreated::Updated;
                self.expect(is_same, || format!("{key} became another object without a deletion"));
            }
            Event::Deleted(deleted) => {
                let before = contents.remove(&key);
                let uid = deleted.object().map(|object| object.uid().to_owned());
                if let Some(uid) = uid.or(before.map(|(uid, _)| uid)) {
                    self.truth.claim_deleted(&self.name, &key, &uid);
                }
                if let Deleted::Final(object) = deleted {
                    self.expect(!object.resource_version().is_empty(), || format!("{key} was deleted at no version"));
                }
            }
        }
    }

    fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.truth.violation(format!("{}: {}", self.name, what()));
        }
    }
}

/// Uid and resource version of an object.
pub fn identity(object: &impl Object) -> (String, String) {
    (object.uid().to_owned(), object.resource_version().to_owned())
}

/// Adds fast, slow and stalled handlers to an informer; the latter stall while `stalled` is true.
pub fn watch_with_all(
    process: &str,
    informer: &InformerHandle<Widget>,
    recreated: Recreated,
    truth: &Truth,
    stalled: &watch::Sender<bool>,
) -> Vec<View> {
    let view = |sort: &str| View::new(format!("{process}, {sort} handler"), recreated, truth);
    let quick = view("quick");
    let mut views = vec![quick.clone()];
    informer.add_handler(move |event: &Event<Widget>| quick.apply(event)).expect("the informer runs");
    for (sort, overflow) in [("coalescing", Overflow::Coalesce), ("replayed", Overflow::Replay)] {
        let view = view(sort);
        views.push(view.clone());
        let options = HandlerOptions::default().buffer(4).overflow(overflow);
        informer.add_handler_with(slow(view, stalled), options).expect("the informer runs");
    }
    views
}

/// A slow handler, which accepts nothing while it is stalled.
fn slow(view: View, stalled: &watch::Sender<bool>) -> impl EventHandler<Widget> + use<> {
    let (sender, mut events) = mpsc::channel::<Event<Widget>>(1);
    let mut stalled = stalled.subscribe();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            sleep(SLOW).await;
            if stalled.wait_for(|is_stalled| !is_stalled).await.is_err() {
                return;
            }
            view.apply(&event);
        }
    });
    sender
}
