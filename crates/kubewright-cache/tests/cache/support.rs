//! Test objects.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kubewright_cache::{Deleted, Delta};
use kubewright_core::{DynamicObject, GroupVersionKind, Object, ObjectKey, Str};

/// An object of the namespace `default` at this version, with a uid made of its name.
pub fn object(name: &str, version: impl ToString) -> Arc<DynamicObject> {
    labelled(name, version, &[])
}

/// The same, with labels.
pub fn labelled(name: &str, version: impl ToString, labels: &[(&str, &str)]) -> Arc<DynamicObject> {
    let mut object = DynamicObject::new(&GroupVersionKind::new("example.com", "v1", "Foo"), name);
    object.set_namespace("default");
    object.metadata.uid = Some(Str::from(format!("uid-{name}")));
    object.set_resource_version(&version.to_string());
    for (key, value) in labels {
        object.metadata.labels.insert(*key, Str::from(*value));
    }
    Arc::new(object)
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// Names and versions, sorted.
pub fn named<'a>(objects: impl IntoIterator<Item = &'a Arc<DynamicObject>>) -> Vec<String> {
    let mut names: Vec<String> =
        objects.into_iter().map(|object| format!("{}@{}", object.name(), object.resource_version())).collect();
    names.sort();
    names
}

/// A delta as `Added a@1`, a tombstone as `Gone a@1`.
pub fn shown(delta: &Delta<DynamicObject>) -> String {
    let about = |object: &Arc<DynamicObject>| format!("{}@{}", object.name(), object.resource_version());
    match delta {
        Delta::Added(object) => format!("Added {}", about(object)),
        Delta::Updated(object) => format!("Updated {}", about(object)),
        Delta::Replaced(object) => format!("Replaced {}", about(object)),
        Delta::Sync(object) => format!("Sync {}", about(object)),
        Delta::Deleted(Deleted::Final(object)) => format!("Deleted {}", about(object)),
        Delta::Deleted(Deleted::LastKnown { key, object }) => {
            format!("Gone {}@{}", key.name(), object.as_ref().map_or("?", |object| object.resource_version()))
        }
        Delta::Undecodable(object) => format!("Undecodable {}@{}", object.key.name(), object.resource_version),
        Delta::ReplacedAll { list, .. } => {
            let objects = list.objects.iter().map(about);
            let undecodable =
                list.undecodable.iter().map(|object| format!("?{}@{}", object.key.name(), object.resource_version));
            let all: Vec<String> = objects.chain(undecodable).collect();
            format!("ReplacedAll {} at {}", all.join(" "), list.version)
        }
        Delta::SyncAll => "SyncAll".to_owned(),
        Delta::Bookmark { version, .. } => format!("Bookmark {version}"),
    }
}

/// Several deltas, separated by commas.
pub fn all_shown(deltas: &[Delta<DynamicObject>]) -> String {
    deltas.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Runs a future that completes without waiting.
pub fn now<R>(future: impl Future<Output = R>) -> R {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing was there to be had"),
    }
}

/// Objects written as `a@1 b@2`.
pub fn objects(text: &str) -> Vec<Arc<DynamicObject>> {
    let words = text.split_whitespace();
    words.map(|word| word.split_once('@').map(|(name, version)| object(name, version)).expect("name@version")).collect()
}
