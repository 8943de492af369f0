//! The file: limits, damage, other versions.

use kubewright_api::core::v1::ConfigMap;
use kubewright_recording::{Recorder, Recording, RecordingError, RecordingOptions};
use kubewright_runtime::{BoxError, Manager, Outcome};

use crate::support::{Folder, map, maps, record};

fn nothing(manager: &mut Manager) -> Result<(), BoxError> {
    manager.add(manager.controller::<ConfigMap>("nothing").reconciling(|_, _| async { Ok(Outcome::Done) }))?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_prefix_and_every_flipped_bit_is_an_error() {
    let folder = Folder::new("damage");
    let recording = record(&folder.file("run"), nothing, |client| async move {
        for number in 0..5 {
            maps(&client).create(&map(&format!("map-{number}"))).await.unwrap();
        }
    })
    .await;
    let (bytes, file) = (std::fs::read(folder.file("run")).unwrap(), folder.file("damaged"));
    let open = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        Recording::open(&file)
    };
    assert_eq!(open(&bytes).unwrap().entries().len(), recording.entries().len());
    for end in (0..bytes.len()).step_by(7) {
        let error = open(&bytes[..end]).unwrap_err();
        let is_named = matches!(error, RecordingError::NotARecording { .. } | RecordingError::Truncated { .. });
        assert!(is_named, "{end} of {}: {error}", bytes.len());
        if matches!(error, RecordingError::Truncated { .. }) {
            let prefix = Recording::open_prefix(&file).unwrap();
            assert!(prefix.entries().len() <= recording.entries().len());
        }
    }
    for place in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        // The name, the time and the system of a gzip header are not part of the content.
        if let Ok(read) = open(&damaged) {
            assert_eq!(read.entries().len(), recording.entries().len(), "at {place}");
        }
    }
    let mut longer = bytes.clone();
    longer.extend_from_slice(&bytes);
    assert!(matches!(open(&longer).unwrap_err(), RecordingError::Damaged { .. }));
}

#[test]
fn other_files_and_other_versions_are_refused() {
    let folder = Folder::new("versions");
    let file = folder.file("file");
    let open = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        std::fs::write(&file, encoder.finish().unwrap()).unwrap();
        Recording::open(&file).unwrap_err().to_string()
    };
    let error = open("{\"format\":\"kubewright-recording\",\"version\":2}\n");
    assert!(error.contains("has version 2 of the format") && error.contains("reads version 1"), "{error}");
    let error = open("{\"format\":\"kubewright-recording\",\"version\":0}\n");
    assert!(error.contains("record again, or use a kubewright of the version that wrote it"), "{error}");
    for text in ["", "hello\n", "{}\n", "{\"format\":\"kubewright-recording\"}\n"] {
        assert!(open(text).contains("is not a recording of kubewright"), "{text}");
    }
    let started = "{\"format\":\"kubewright-recording\",\"version\":1,\"started\":0}\n";
    let error = open(&format!("{started}{{\"began\":{{}}}}\n"));
    assert!(error.contains("is damaged at line 2: missing field"), "{error}");
    let error = open(&format!("{started}{{\"end\":{{\"entries\":3}}}}\n"));
    assert!(error.contains("its end says 3"), "{error}");
    std::fs::write(&file, "plain text").unwrap();
    assert!(Recording::open(&file).unwrap_err().to_string().contains("is not a recording"));
    let error = Recording::open(folder.file("missing")).unwrap_err();
    assert!(matches!(error, RecordingError::File { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_file_keeps_its_limit_and_its_rights() {
    let folder = Folder::new("limit");
    let file = folder.file("run");
    let cluster = kubewright_runtime::testing::TestCluster::start().await.unwrap();
    let recorder = Recorder::create(&file, RecordingOptions::default().limit(8 << 10)).unwrap();
    let options = kubewright_runtime::ManagerOptions::default().record(recorder);
    let mut manager = Manager::new(&cluster.client(), options);
    nothing(&mut manager).unwrap();
    let running = cluster.run(manager);
    for number in 0..100 {
        let mut map = map(&format!("map-{number}"));
        let noise: String = (0..40_000).map(|_| fastrand::alphanumeric()).collect();
        map.data.insert("noise", noise.into());
        maps(&cluster.client()).create(&map).await.unwrap();
    }
    running.until_idle().await;
    running.stop().await.unwrap();
    let metadata = std::fs::metadata(&file).unwrap();
    assert!(metadata.len() <= 8 << 10, "{}", metadata.len());
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, 0o600);
    let recording = Recording::open(&file).unwrap();
    assert!(
        matches!(recording.entries().last(), Some(kubewright_recording::Entry::Limit(limit)) if limit.bytes == 8 << 10)
    );
    let error = Recorder::create(&file, RecordingOptions::default()).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("does not overwrite"), "{error:?}");
}
