//! The inputs of a reconcile in a recording, and in a replay.

use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_client::{Api, clock};
use kubewright_core::{ByteString, Object};
use kubewright_recording::{Entry, Outcome as RecordedOutcome};
use kubewright_runtime::replay::Replay;
use kubewright_runtime::{BoxError, Freshness, Manager, Outcome, Owns};

use crate::support::{Folder, map, maps, record, writes};

/// Writes the time, a random number, and what it reads live and after a sleep.
fn stamps(manager: &mut Manager) -> Result<(), BoxError> {
    let controller = manager.controller::<ConfigMap>("stamps");
    manager.add(controller.reconciling(|map, context| async move {
        if !map.name().starts_with("stamp") || map.data.get("time").is_some() {
            return Ok(Outcome::Done);
        }
        let maps = context.api::<ConfigMap>("default");
        let mut stamped = (*map).clone();
        stamped.data.insert("time", clock::now_micros().to_string().into());
        stamped.data.insert("random", context.random().to_string().into());
        stamped.data.insert("id", context.reconcile_id().into());
        let (one, other) = tokio::join!(maps.get("one", Freshness::Live), maps.get("other", Freshness::Live));
        tokio::time::sleep(Duration::from_millis(250)).await;
        let later = maps.untracked().get_opt("later").await?;
        stamped.data.insert("found", format!("{} {} {}", one?.is_some(), other?.is_some(), later.is_some()).into());
        stamped.data.insert("later", clock::now().to_string().into());
        maps.update(&stamped).await?;
        Ok(Outcome::Done)
    }))?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn time_random_numbers_and_answers_are_repeated() {
    let folder = Folder::new("inputs");
    let recording = record(&folder.file("run"), stamps, |client| async move {
        maps(&client).create(&map("other")).await.unwrap();
        for number in 0..5 {
            maps(&client).create(&map(&format!("stamp-{number}"))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        maps(&client).create(&map("later")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    })
    .await;
    assert_eq!(writes(&recording).len(), 5);
    let clocks = recording.entries().iter().filter(|entry| matches!(entry, Entry::Clock(_))).count();
    let draws = recording.entries().iter().filter(|entry| matches!(entry, Entry::Random(_))).count();
    assert_eq!((clocks, draws), (10, 5));
    for _ in 0..2 {
        let outcome = Replay::of(recording.clone(), stamps).run().unwrap();
        assert!(outcome.difference.is_none(), "{}", outcome.difference.unwrap());
        assert_eq!(outcome.writes.len(), 5);
    }
}

/// Fails on a conflict, and reads owned Secrets from the cache.
fn secrets(manager: &mut Manager) -> Result<(), BoxError> {
    let controller = manager.controller::<ConfigMap>("secrets").owns_with(Owns::<Secret>::new()).workers(3);
    manager.add(controller.reconciling(|map, context| async move {
        if !map.name().starts_with("owner") {
            return Ok(Outcome::Done);
        }
        let secrets = context.api::<Secret>("default");
        let source = secrets.get("source", Freshness::Cached).await?;
        let Some(source) = source else { return Ok(Outcome::requeue_after(Duration::from_millis(10))) };
        let name = format!("{}-copy", map.name());
        if let Some(copy) = secrets.get(&name, Freshness::Cached).await?
            && copy.data == source.data
        {
            return Ok(Outcome::Done);
        }
        let mut copy = Secret::default();
        copy.set_name(&name);
        copy.data = source.data.clone();
        secrets.create(&copy).await?;
        Ok(Outcome::Done)
    }))?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_in_the_file_and_the_replay_copies_replacements() {
    let folder = Folder::new("secrets");
    let file = folder.file("run");
    let recording = record(&file, secrets, |client| async move {
        maps(&client).create(&map("owner-a")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut source = Secret::default();
        source.set_name("source");
        source.data.insert("password", ByteString::from(b"correct horse".to_vec()));
        Api::<Secret>::namespaced(&client, "default").create(&source).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        maps(&client).create(&map("owner-b")).await.unwrap();
    })
    .await;
    assert_eq!(writes(&recording).len(), 2);
    let text = String::from_utf8(
        std::io::Read::bytes(flate2::read::MultiGzDecoder::new(std::fs::File::open(&file).unwrap()))
            .collect::<Result<Vec<u8>, _>>()
            .unwrap(),
    )
    .unwrap();
    let encoded = ByteString::from(b"correct horse".to_vec()).to_base64();
    assert!(!text.contains("correct horse") && !text.contains(&encoded), "{text}");
    assert!(text.contains("owner-b-copy"));
    let outcome = Replay::of(recording, secrets).run().unwrap();
    assert!(outcome.difference.is_none(), "{}", outcome.difference.unwrap());
    assert_eq!(outcome.writes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_and_requeues_are_recorded() {
    let folder = Folder::new("outcomes");
    let failing = |manager: &mut Manager| -> Result<(), BoxError> {
        let controller = manager.controller::<ConfigMap>("failing").reconcile_timeout(Duration::from_secs(5));
        manager.add(controller.reconciling(|map, context| async move {
            match map.name() {
                "failing" if context.attempt() == 1 => Err("not yet".into()),
                "slow" if context.attempt() == 1 => std::future::pending().await,
                "later" if context.reasons().to_string().contains("added") => {
                    Ok(Outcome::requeue_after(Duration::from_secs(3)))
                }
                _ => Ok(Outcome::Done),
            }
        }))?;
        Ok(())
    };
    let recording = record(&folder.file("run"), failing, |client| async move {
        for name in ["failing", "slow", "later"] {
            maps(&client).create(&map(name)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
    })
    .await;
    let ended = |wanted: &str| -> Vec<RecordedOutcome> {
        let number = |entry: &Entry| match entry {
            Entry::Began(began) if began.key == format!("default/{wanted}") => Some(began.reconcile),
            _ => None,
        };
        let numbers: Vec<u64> = recording.entries().iter().filter_map(number).collect();
        let ended = recording.entries().iter().filter_map(|entry| match entry {
            Entry::Ended(ended) if numbers.contains(&ended.reconcile) => Some(ended.outcome.clone()),
            _ => None,
        });
        ended.collect()
    };
    assert_eq!(ended("failing"), [RecordedOutcome::Failed("not yet".to_owned()), RecordedOutcome::Done]);
    assert!(matches!(&ended("slow")[0], RecordedOutcome::Failed(why) if why.contains("longer than 5s")));
    assert_eq!(ended("later"), [RecordedOutcome::Requeue(Some(3_000_000)), RecordedOutcome::Done]);
    let outcome = Replay::of(recording.clone(), failing).run().unwrap();
    assert!(outcome.difference.is_none(), "{}", outcome.difference.unwrap());
}
