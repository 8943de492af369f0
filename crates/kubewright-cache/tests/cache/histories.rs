//! Random histories with faults: afterwards the cache equals the server's state, and every handler
//! has seen consistent events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{
    Event, HandlerOptions, InformerOptions, Overflow, QueueKind, Recreated, ReflectorOptions, SharedIndexInformer,
};
use kubewright_client::Error;
use kubewright_core::meta::v1::Status;
use kubewright_core::{DynamicObject, Object, ObjectKey, StatusReason};
use proptest::{collection::vec, prelude::*};
use tokio::time::sleep;

use crate::informer::Running;
use crate::mutable_server::Live;
use crate::script::refused;
use crate::support::named;

/// The objects that a handler knows from events alone.
#[derive(Clone, Default)]
struct View(Arc<Mutex<BTreeMap<ObjectKey, String>>>);

impl View {
    fn handler(&self, recreated: Recreated, server: &Live) -> impl FnMut(&Event<DynamicObject>) + Send + 'static {
        let view = self.0.clone();
        let server = server.clone();
        let mut uid_of: BTreeMap<ObjectKey, String> = BTreeMap::new();
        move |event| {
            let mut view = view.lock().unwrap();
            let key = event.key();
            match event {
                Event::Added { object, .. } => {
                    let before = view.insert(key.clone(), object.resource_version().to_owned());
                    assert_eq!(before, None, "{key} came twice");
                    uid_of.insert(key, object.uid().to_owned());
                }
                Event::Updated { old, new } => {
                    let before = view.insert(key.clone(), new.resource_version().to_owned());
                    assert_eq!(before.as_deref(), Some(old.resource_version()), "{key} changed from another state");
                    if recreated == Recreated::DeletedThenAdded {
                        assert_eq!(uid_of[&key], new.uid(), "{key} became another without going first");
                    }
                }
                // A deletion that the server sends twice, of an object that was never seen, is
                // harmless.
                Event::Deleted(deleted) => {
                    view.remove(&key);
                    let uid = deleted.object().map(|object| object.uid().to_owned()).unwrap_or_default();
                    assert!(server.uids().get(key.name().as_str()) != Some(&uid), "{key} is alive");
                }
            }
        }
    }

    fn contents(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(key, version)| format!("{}@{version}", key.name())).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    /// Puts an object into a state that cannot be decoded, or for which the transform fails or
    /// panics.
    PutBad(u8, &'static str),
    /// The next requests fail.
    Refuse(u32, fn() -> Error),
    Delete(u8),
    Cut,
    Forget,
    Repeat,
    Bookmark,
    Wait(u16),
    Join,
}

const NOT_FOUND: fn() -> Error = || Status::failure(StatusReason::NotFound, "404 page not found").into();
const FORBIDDEN: fn() -> Error = || Status::failure(StatusReason::Forbidden, "no").into();
const INTERNAL: fn() -> Error = || Status::failure(StatusReason::InternalError, "etcd").into();
const REFUSED: fn() -> Error = refused;

/// Fails or panics for objects with a certain label.
fn transform(object: DynamicObject) -> Result<DynamicObject, Box<dyn std::error::Error + Send + Sync>> {
    assert!(object.labels().get("panics").is_none(), "no transform is made for this");
    if object.labels().get("refused").is_some() { Err("refused".into()) } else { Ok(object) }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6u8).prop_map(Step::Put),
        3 => (0..6u8, prop_oneof![Just("undecodable"), Just("refused"), Just("panics")])
            .prop_map(|(name, kind)| Step::PutBad(name, kind)),
        4 => (0..6u8).prop_map(Step::Delete),
        2 => (1..6u32, prop_oneof![Just(NOT_FOUND), Just(FORBIDDEN), Just(INTERNAL), Just(REFUSED)])
            .prop_map(|(times, error)| Step::Refuse(times, error)),
        1 => Just(Step::Cut),
        1 => Just(Step::Forget),
        1 => Just(Step::Repeat),
        1 => Just(Step::Bookmark),
        4 => (0..3000u16).prop_map(Step::Wait),
        1 => Just(Step::Join),
    ]
}

async fn play(steps: Vec<Step>, streams: bool, queue: QueueKind, recreated: Recreated) {
    let server = if streams { Live::streaming() } else { Live::new() };
    let reflector = ReflectorOptions::default().transform(Arc::new(transform));
    let options = InformerOptions::default().queue(queue).recreated(recreated).resync_every(Duration::from_secs(7));
    let options = options.reflector(reflector);
    let informer = SharedIndexInformer::new(server.clone(), options);
    let mut views = vec![View::default()];
    informer.add_handler(views[0].handler(recreated, &server)).unwrap();
    // Handlers with the smallest buffers reach the same state.
    for overflow in [Overflow::Coalesce, Overflow::Replay, Overflow::Block] {
        // A difference between snapshots always reports a recreation as deletion and add.
        let view = View::default();
        let handler = view.handler(recreated, &server);
        informer.add_handler_with(handler, HandlerOptions::default().buffer(1).overflow(overflow)).unwrap();
        views.push(view);
    }
    let running = Running::start(informer.clone());
    for step in steps {
        match step {
            Step::Put(name) => server.put(&format!("o{name}")),
            Step::PutBad(name, kind) => server.put_bad(&format!("o{name}"), kind),
            Step::Refuse(times, error) => server.refuse(times, error),
            Step::Delete(name) => server.delete(&format!("o{name}")),
            Step::Cut => server.cut(),
            Step::Forget => server.forget(),
            Step::Repeat => server.repeat(),
            Step::Bookmark => server.bookmark(),
            Step::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds.into())).await,
            Step::Join => {
                let view = View::default();
                informer.add_handler(view.handler(recreated, &server)).unwrap();
                views.push(view);
            }
        }
    }
    sleep(Duration::from_secs(300)).await;
    let snapshot = informer.store().snapshot();
    let cache = named(&snapshot);
    // Objects in a bad state are marked. The cache has older states of them, or none.
    let bad = server.bad();
    let marked: Vec<String> = snapshot.undecodable_keys().map(|key| key.name().to_string()).collect();
    assert_eq!(marked, bad);
    assert_eq!(informer.health().unwrap().undecodable.count, bad.len());
    let is_good = |object: &String| !bad.iter().any(|name| object.split('@').next() == Some(name));
    let good = |objects: &[String]| objects.iter().filter(|object| is_good(object)).cloned().collect::<Vec<_>>();
    assert_eq!(good(&cache), good(&server.contents()));
    let uids = server.uids();
    for object in &snapshot {
        assert_eq!(uids.get(object.name()).map(String::as_str), Some(object.uid()), "an object that is gone");
    }
    for view in &views {
        assert_eq!(view.contents(), cache);
    }
    running.stop().await;
    assert_eq!(server.watches(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    // SI-4, SI-11, RE-9, RE-12: the whole pipeline.
    #[test]
    fn the_cache_ends_as_the_server_and_every_view_as_the_cache(
        steps in vec(step(), 0..60), streams in any::<bool>(), in_order in any::<bool>(), merged in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let queue = if in_order { QueueKind::InOrder } else { QueueKind::DeltaFifo };
        let recreated = if merged { Recreated::Updated } else { Recreated::DeletedThenAdded };
        runtime.block_on(play(steps, streams, queue, recreated));
        // No task is left running.
        prop_assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    }
}
