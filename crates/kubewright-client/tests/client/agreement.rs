//! Responses to writes, watch events and lists agree under concurrent writers.

use std::collections::{BTreeMap, HashMap};

use kubewright_api::core::v1::Pod;
use kubewright_client::{Api, DeleteResponse, Result};
use kubewright_core::options::{ApplyOptions, DeleteOptions, ListOptions, Patch, WatchOptions};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Decoder, Object, json};

use crate::support::test_client;

/// Number of concurrent writers, and of steps of each.
const WRITERS: u64 = 4;
const WRITES: usize = 120;

fn pod(name: &str) -> Pod {
    // Neither scheduler nor kubelet changes it.
    let spec = json!({"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]});
    let json = json!({"metadata": {"name": name}, "spec": spec});
    Decoder::new().json(json.to_string().as_bytes()).unwrap()
}

/// One random step of a writer; returns the written object.
async fn write(pods: &Api<Pod>, step: u64) -> Result<Option<Pod>> {
    let name = ["a", "b", "c"][(step >> 8) as usize % 3];
    let label = format!("v{}", step >> 20 & 7);
    Ok(Some(match step % 9 {
        0 | 1 => pods.create(&pod(name)).await?,
        2 => {
            let mut held = pod(name);
            held.metadata.finalizers.push("example.com/hold".into());
            pods.create(&held).await?
        }
        3 => {
            let mut read = pods.get(name).await?;
            read.metadata.labels.insert("updated", label.as_str().into());
            pods.update(&read).await?
        }
        4 => pods.patch(name, Patch::merge(json!({"metadata": {"labels": {"patched": label}}}))).await?,
        5 => pods.patch(name, Patch::merge(json!({"metadata": {"finalizers": null}}))).await?,
        6 => {
            let mut applied = pod(name);
            applied.metadata.labels.insert("applied", label.as_str().into());
            pods.apply(&applied, &ApplyOptions::new("writer").force()).await?
        }
        _ => match pods.delete_with(name, &DeleteOptions::default().grace_period_seconds(0)).await? {
            DeleteResponse::Object(last) => *last,
            DeleteResponse::Status(_) => return Ok(None),
        },
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_watches_and_lists_agree() {
    let server = test_client().await;
    if !server.serves(&["v1 pods"]).await {
        return;
    }
    let pods = server.client.core_v1().pods(server.namespace.as_str());
    let start = pods.list(&ListOptions::default()).await.unwrap();
    let from = start.metadata.resource_version.unwrap();
    let mut watch = pods.watch(&WatchOptions::default().resource_version(from)).await.unwrap();
    let writers = (1..=WRITERS).map(|seed| {
        let pods = pods.clone();
        tokio::spawn(async move {
            let (mut chance, mut told) = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), Vec::new());
            for _ in 0..WRITES {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match write(&pods, chance >> 32).await {
                    Ok(object) => told.extend(object),
                    Err(error) => {
                        let loses = error.is_not_found() || error.is_conflict() || error.is_already_exists();
                        // Adding a finalizer to an object that is being deleted is rejected.
                        assert!(loses || error.is_invalid(), "{error}");
                    }
                }
            }
            told
        })
    });
    let mut told = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        told.extend(writer.await.unwrap());
    }
    pods.create(&pod("last")).await.unwrap();

    let (mut state, mut seen, mut latest) = (BTreeMap::new(), HashMap::new(), 0);
    while !state.contains_key("last") {
        let event = watch.next().await.unwrap().unwrap();
        let (object, is_new, is_gone) = match event {
            WatchEvent::Added(object) => (object, true, false),
            WatchEvent::Modified(object) => (object, false, false),
            WatchEvent::Deleted(object) => (object, false, true),
            other => panic!("{other:?}"),
        };
        let before =
            if is_gone { state.remove(object.name()) } else { state.insert(object.name().to_owned(), object.clone()) };
        assert_eq!(before.is_none(), is_new, "{} at {}", object.name(), object.resource_version());
        let version: u64 = object.resource_version().parse().unwrap();
        assert!(version > latest, "{version} after {latest}");
        latest = version;
        seen.insert(version.to_string(), object);
    }
    let listed = pods.list(&ListOptions::default()).await.unwrap().items;
    assert_eq!(listed.iter().collect::<Vec<_>>(), state.values().collect::<Vec<_>>());
    assert!(told.len() > WRITES / 2, "only {} were written", told.len());
    // Removing the last finalizer returns the object as it would have been written.
    let is_gone = |pod: &Pod| pod.metadata.deletion_timestamp.is_some() && pod.finalizers().is_empty();
    for object in told.iter().filter(|pod| !is_gone(pod)) {
        let shown = seen.get(object.resource_version());
        assert!(
            shown == Some(object),
            "{} at {} is not what the watch has shown",
            object.name(),
            object.resource_version()
        );
    }
}
