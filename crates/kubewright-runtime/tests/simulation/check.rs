//! Invariants after a quiet period.

use std::collections::BTreeMap;

use kubewright_core::{Object, ObjectKey};

use crate::process::{Current, MIRROR, mirrored_size};
use crate::view::{Contents, identity};
use crate::widget::good_size;
use crate::world::World;

/// A widget as the server has it.
struct Expected {
    identity: (String, String),
    /// `None` if no cache can hold the widget.
    size: Option<i64>,
}

/// Differences between the caches and the server.
pub async fn caches(world: &World) -> Vec<String> {
    let expected = expected(world).await;
    let mut problems = world.truth.violations();
    for (number, replica) in world.replicas.iter().enumerate() {
        match replica.current() {
            Some(current) => problems.extend(cache(&format!("replica {number}"), &current, &expected)),
            None => problems.push(format!("replica {number} does not run")),
        }
    }
    problems
}

/// Differences between the server and the caches, handlers and mirrors.
pub async fn everything(world: &World) -> Vec<String> {
    let mut problems = caches(world).await;
    for current in world.replicas.iter().filter_map(|replica| replica.current()) {
        let store = contents(&current);
        for view in &current.views {
            let heard = view.contents();
            if heard != store {
                problems.push(format!("{} heard of {heard:?}, the cache has {store:?}", view.name()));
            }
        }
    }
    problems.extend(reconciles(world).await);
    problems
}

async fn expected(world: &World) -> BTreeMap<ObjectKey, Expected> {
    let widgets = world.widgets().await;
    widgets.iter().map(|one| (one.key(), Expected { identity: identity(one), size: good_size(one) })).collect()
}

fn contents(current: &Current) -> Contents {
    let widgets = current.informer.store().list();
    widgets.iter().map(|widget| (widget.key(), identity(&**widget))).collect()
}

fn cache(name: &str, current: &Current, expected: &BTreeMap<ObjectKey, Expected>) -> Vec<String> {
    if !current.informer.has_synced() {
        return vec![format!("{name} has not synced")];
    }
    let mut problems = Vec::new();
    if !current.informer.health().is_some_and(|health| health.is_healthy()) {
        problems.push(format!("{name} does not watch"));
    }
    let store = contents(current);
    for (key, (uid, version)) in &store {
        match expected.get(key) {
            None => problems.push(format!("{name} has {key}, which does not exist")),
            Some(widget) if widget.identity.0 != *uid => problems.push(format!("{name} has an earlier {key}")),
            Some(widget) if widget.size.is_some() && widget.identity.1 != *version => {
                problems.push(format!("{name} has {key} at {version}, the server at {}", widget.identity.1));
            }
            Some(_) => {}
        }
    }
    let snapshot = current.informer.store().snapshot();
    for (key, widget) in expected {
        if widget.size.is_some() && !store.contains_key(key) {
            problems.push(format!("{name} lacks {key}"));
        }
        if snapshot.is_undecodable(key) != widget.size.is_none() {
            problems.push(format!(
                "{name} says that {key} {}",
                if widget.size.is_none() { "is decodable" } else { "is not" }
            ));
        }
    }
    for key in snapshot.undecodable_keys().filter(|key| !expected.contains_key(key)) {
        problems.push(format!("{name} says that {key} is not decodable, which does not exist"));
    }
    problems
}

/// Every widget has its mirror, no mirror is without its widget, and every change was reconciled.
async fn reconciles(world: &World) -> Vec<String> {
    let expected = expected(world).await;
    let mirrors = world.mirrors().await;
    let mut problems = Vec::new();
    for mirror in &mirrors {
        let parent = mirror.annotations().get(MIRROR).unwrap_or_default();
        match expected.get(&mirror.key()) {
            Some(widget) if widget.identity.0 == parent => {}
            // The controller cannot know the state of a widget that it cannot read.
            Some(widget) if widget.size.is_none() => {}
            _ => problems.push(format!("the mirror {} outlives its widget", mirror.key())),
        }
    }
    let mirrors: BTreeMap<ObjectKey, Option<i64>> =
        mirrors.iter().map(|mirror| (mirror.key(), mirrored_size(mirror))).collect();
    for (key, widget) in &expected {
        let Some(size) = widget.size else { continue };
        if mirrors.get(key) != Some(&Some(size)) {
            problems.push(format!("{key} has size {size}, its mirror {:?}", mirrors.get(key)));
        }
        let reconciled = world.truth.last_reconciled(key);
        if reconciled.as_ref() != Some(&widget.identity.1) {
            problems.push(format!("{key} at {} was last reconciled at {reconciled:?}", widget.identity.1));
        }
    }
    problems
}
