//! Sources other than watches: streams of keys and signals, and files.

use futures_util::stream;
use kubewright_core::ObjectKey;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::support::{Journal, config_map, config_maps, controller, key, noting, seconds, server};

/// A channel as a stream.
fn stream_of<I: Send + 'static>(receiver: mpsc::Receiver<I>) -> impl stream::Stream<Item = I> + Send + 'static {
    stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|item| (item, receiver)))
}

#[tokio::test(start_paused = true)]
async fn streams_name_keys_or_all_objects() {
    let (server, journal) = (server().await, Journal::default());
    for name in ["a", "b"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    let ((key_sender, keys), (signal_sender, signals)) = (mpsc::channel(4), mpsc::channel(4));
    let built = controller(&server)
        .reconcile_on("keys", stream_of::<ObjectKey>(keys))
        .reconcile_all_on("settings", stream_of::<()>(signals))
        .reconcile_on("ended", stream::empty());
    let running = noting(&journal, built).working().await;
    running.idle().await;
    journal.take();
    key_sender.send(key("b")).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["b 1: keys requested"]);
    signal_sender.send(()).await.unwrap();
    running.idle().await;
    let mut told = journal.take();
    told.sort();
    assert_eq!(told, ["a 1: settings requested", "b 1: settings requested"]);
    // A stream that ends is no failure; one that is closed stops to request reconciles.
    drop(signal_sender);
    key_sender.send(key("a")).await.unwrap();
    running.idle().await;
    assert_eq!(journal.take(), ["a 1: keys requested"]);
    assert!(running.handle.health().is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_reconciles_all_objects() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let folder = std::env::temp_dir().join(format!("kubewright-sources-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("settings");
    let built = controller(&server).reconcile_all_on_file(&file, seconds(10.0));
    let running = noting(&journal, built).working().await;
    running.idle().await;
    journal.take();
    let requested = format!("a 1: {} requested", file.display());
    for (content, expected) in [
        (Some("one"), vec![requested.clone()]),
        (Some("one"), vec![]),
        (Some("two"), vec![requested.clone()]),
        (None, vec![requested]),
    ] {
        match content {
            Some(content) => std::fs::write(&file, content).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        // Reads of the file take real time, which does not pass while the clock is paused.
        for _ in 0..50 {
            sleep(seconds(1.0)).await;
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(journal.take(), expected, "{content:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let error = controller(&server).reconcile_all_on_file(&file, seconds(0.0));
    let error = error.reconciling(|_, _| async { Ok(kubewright_runtime::Outcome::Done) });
    assert!(error.run(&Default::default()).await.is_err());
}
