//! A controller with a planted race: it looks into its cache before it creates a child, and the
//! cache may be older than its last write.

use kubewright_api::core::v1::ConfigMap;
use kubewright_core::{Object, ObjectKey, Selector};
use kubewright_runtime::replay::{Replay, ReplayOutcome, ShrinkOptions};
use kubewright_runtime::{BoxError, Freshness, Manager, Outcome};

use crate::support::{Folder, map, maps, record, writes};

/// Creates a copy of each wanted map, once. `is_fixed` waits until the cache shows its own writes.
fn add_copies(manager: &mut Manager, is_fixed: bool) -> Result<(), BoxError> {
    let copies = manager.controller::<ConfigMap>("copies").workers(2);
    manager.add(copies.reconciling(move |map, context| async move {
        if map.labels().get("wanted").is_none() {
            return Ok(Outcome::Done);
        }
        let selector: Selector = format!("copy-of={}", map.name()).parse()?;
        let copies = context.api::<ConfigMap>(map.namespace());
        let freshness = if is_fixed { Freshness::AtLeastMyWrites } else { Freshness::Cached };
        if !copies.list(&selector, freshness).await?.is_empty() {
            return Ok(Outcome::Done);
        }
        let mut copy = ConfigMap::default();
        copy.metadata.generate_name = Some(format!("{}-", map.name()).into());
        copy.metadata.labels.insert("copy-of", map.name().into());
        copy.data = map.data.clone();
        if is_fixed {
            copies.create(&copy).await?;
        } else {
            // The race: nothing waits until the cache shows this object.
            copies.untracked().create(&copy).await?;
        }
        // Asks again, as after a change of the map.
        Ok(Outcome::requeue_after(std::time::Duration::ZERO))
    }))?;
    Ok(())
}

fn racy(manager: &mut Manager) -> Result<(), BoxError> {
    add_copies(manager, false)
}

fn fixed(manager: &mut Manager) -> Result<(), BoxError> {
    add_copies(manager, true)
}

fn creates_twice(outcome: &ReplayOutcome) -> bool {
    let created = outcome.writes.iter().filter(|write| write.method == "POST");
    let mut keys: Vec<&str> = created.map(|write| write.key.as_str()).collect();
    let total = keys.len();
    keys.sort_unstable();
    keys.dedup();
    keys.len() < total
}

#[tokio::test(flavor = "multi_thread")]
async fn a_race_is_repeated_shrunk_and_found_fixed() {
    let folder = Folder::new("race");
    let recording = record(&folder.file("run"), racy, |client| async move {
        for number in 0..20 {
            let mut map = map(&format!("map-{number}"));
            if number % 2 == 0 {
                map.metadata.labels.insert("wanted", "yes".into());
            }
            maps(&client).create(&map).await.unwrap();
        }
    })
    .await;
    let count = writes(&recording).len();
    assert!(count > 10, "the race did not show: {count} writes");

    // The same controller writes the same, every time.
    let replay = Replay::of(recording.clone(), racy);
    for _ in 0..3 {
        let outcome = replay.run().unwrap();
        assert!(outcome.difference.is_none(), "{}", outcome.difference.unwrap());
        assert_eq!(outcome.writes.len(), count);
        assert!(creates_twice(&outcome));
    }

    // The smallest history has one object and two reconciles.
    let minimal = replay.shrink(&ShrinkOptions::default(), creates_twice).unwrap().unwrap();
    let outcome = Replay::of(minimal.clone(), racy).run().unwrap();
    assert_eq!((outcome.reconciles, outcome.writes.len()), (2, 2), "{:#?}", minimal.entries());

    // The mended controller does not do what was recorded, and does not create twice.
    let outcome = Replay::of(minimal.clone(), fixed).run().unwrap();
    assert!(!creates_twice(&outcome), "{outcome:?}");
    let difference = outcome.difference.unwrap().to_string();
    assert!(difference.contains("recorded  POST /api/v1/namespaces/default/configmaps"), "{difference}");
    assert!(difference.contains("replayed  nothing"), "{difference}");

    // The smallest history is a file again, for `replay!`.
    let file = folder.file("minimal");
    minimal.write(&file).unwrap();
    kubewright_runtime::replay::assert_replay(&file, racy);
    let failed = std::panic::catch_unwind(|| kubewright_runtime::replay::assert_replay(&file, fixed));
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("differs from the recording") && message.contains("controller copies"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn another_body_is_shown_field_by_field() {
    let folder = Folder::new("body");
    let add = |value: &'static str| {
        move |manager: &mut Manager| -> Result<(), BoxError> {
            let controller = manager.controller::<ConfigMap>("marks");
            manager.add(controller.reconciling(move |map, context| async move {
                if !map.name().starts_with("mark") || map.data.get("value").is_some() {
                    return Ok(Outcome::Done);
                }
                let mut map = (*map).clone();
                map.data.insert("value", value.into());
                context.api::<ConfigMap>("default").update(&map).await?;
                Ok(Outcome::Done)
            }))?;
            Ok(())
        }
    };
    let recording = record(&folder.file("run"), add("1"), |client| async move {
        maps(&client).create(&map("mark-a")).await.unwrap();
    })
    .await;
    assert_eq!(writes(&recording).len(), 1);
    assert!(Replay::of(recording.clone(), add("1")).run().unwrap().difference.is_none());
    let difference = Replay::of(recording, add("2")).run().unwrap().difference.unwrap().to_string();
    assert!(difference.contains("controller marks, key default/mark-a"), "{difference}");
    assert!(difference.contains("because configmaps default/mark-a added"), "{difference}");
    assert!(difference.contains(r#"~ data.value: "1" → "2""#), "{difference}");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_recorded_is_named() {
    let folder = Folder::new("unknown");
    let recording = record(&folder.file("run"), racy, |client| async move {
        maps(&client).create(&map("a")).await.unwrap();
    })
    .await;
    let other = |manager: &mut Manager| -> Result<(), BoxError> {
        let secrets = manager.controller::<kubewright_api::core::v1::Secret>("copies");
        manager.add(secrets.reconciling(|_, _| async { Ok(Outcome::Done) }))?;
        Ok(())
    };
    let error = Replay::of(recording.clone(), other).run().unwrap_err().to_string();
    assert!(error.contains("no cache of secrets"), "{error}");
    let renamed = |manager: &mut Manager| -> Result<(), BoxError> {
        let requests = manager.request_controller::<ObjectKey>("renamed");
        manager.add(requests.reconciling(|_, _| async { Ok(Outcome::Done) }))?;
        Ok(())
    };
    let error = Replay::of(recording.clone(), renamed).run().unwrap_err().to_string();
    assert!(error.contains("renamed") && error.contains("copies"), "{error}");
    // A read that the recording cannot answer.
    let reading = |manager: &mut Manager| -> Result<(), BoxError> {
        let maps = manager.controller::<ConfigMap>("copies");
        manager.add(maps.reconciling(|_, context| async move {
            context.client().api::<ConfigMap>("default").get_opt("elsewhere").await?;
            Ok(Outcome::Done)
        }))?;
        Ok(())
    };
    let difference = Replay::of(recording, reading).run().unwrap().difference.unwrap().to_string();
    assert!(difference.contains("no answer to this request"), "{difference}");
}
