//! The chapter "Record and replay" of the book, step by step.

#[path = "main.rs"]
mod planted_race;

use std::path::{Path, PathBuf};

use kubewright::recording::{Recorder, Recording, RecordingOptions};
use kubewright::replay::{Replay, ReplayOutcome, ShrinkOptions};
use kubewright::runtime::testing::TestCluster;
use kubewright::runtime::{Manager, ManagerOptions};
use planted_race::{act, add_controllers, add_mended_controllers};

/// The smallest history of a bad run, as the first test writes it.
const BAD_RUN: &str = "replay/bad-run.kwrec";

/// Whether some object got two backups.
fn backs_up_twice(outcome: &ReplayOutcome) -> bool {
    let mut keys: Vec<&str> = outcome
        .writes
        .iter()
        .filter(|write| write.method == "POST" && write.status == 201)
        .map(|write| write.key.as_str())
        .collect();
    let total = keys.len();
    keys.sort_unstable();
    keys.dedup();
    keys.len() < total
}

/// Records runs until one is bad.
async fn bad_run(folder: &Path) -> Recording {
    for attempt in 0.. {
        let file = folder.join(format!("run-{attempt}.kwrec"));
        let cluster = TestCluster::start().await.expect("a server");
        let recorder = Recorder::create(&file, RecordingOptions::default()).expect("a new file");
        let mut manager = Manager::new(&cluster.client(), ManagerOptions::default().record(recorder));
        add_controllers(&mut manager).expect("a new name");
        let running = cluster.run(manager);
        running.until_idle().await;
        act(&cluster.client(), 20).await.expect("they are created");
        running.until_idle().await;
        running.stop().await.expect("it stops");
        let recording = Recording::open(&file).expect("a complete file");
        let outcome = Replay::of(recording.clone(), add_controllers).run().expect("it can be replayed");
        assert!(outcome.difference.is_none(), "{}", outcome.difference.expect("some"));
        if backs_up_twice(&outcome) {
            return recording;
        }
        assert!(attempt < 100, "the race never shows");
    }
    unreachable!("the loop has no end")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_run_becomes_a_small_test() {
    let folder = Folder::new();
    let recording = bad_run(&folder.0).await;
    let replay = Replay::of(recording, add_controllers);
    let minimal = replay.shrink(&ShrinkOptions::default(), backs_up_twice).expect("it can be replayed");
    let minimal = minimal.expect("the run is bad");
    let outcome = Replay::of(minimal.clone(), add_controllers).run().expect("it can be replayed");
    assert_eq!((outcome.reconciles, outcome.writes.len()), (2, 2));
    minimal.write(folder.0.join("bad-run.kwrec")).expect("a new file");
    if let Some(wanted) = std::env::var_os("KUBEWRIGHT_WRITE_BAD_RUN") {
        minimal.write(wanted).expect("a new file");
    }
}

#[test]
fn the_bad_run_is_repeated() {
    kubewright::replay!(BAD_RUN, add_controllers);
}

#[test]
fn the_mended_controller_backs_up_once() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(BAD_RUN);
    let racy = Replay::open(&file, add_controllers).expect("a recording").run().expect("a replay");
    assert!(backs_up_twice(&racy));
    let mended = Replay::open(&file, add_mended_controllers).expect("a recording").explore().expect("a replay");
    assert!(!backs_up_twice(&mended));
    // Both reconciles wrote, and the second write was refused.
    assert_eq!(mended.writes.iter().map(|write| write.status).collect::<Vec<_>>(), [201, 409]);
    let difference = mended.difference.expect("it writes something else").to_string();
    assert!(difference.contains("- metadata.generateName"), "{difference}");
    assert!(difference.contains("+ metadata.name"), "{difference}");
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("kubewright-bad-run-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
