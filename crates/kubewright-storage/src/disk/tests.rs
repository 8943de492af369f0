//! Tests of the content of the data file, and of failing disks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::file::NAME;
use super::full_disk::Directory;
use super::*;
use crate::event::EventKind;
use crate::private_file;
use crate::record::{StoredRecord, StoredVersion, Undo};

/// Follows a disk without a store, and knows what the keys held before.
#[derive(Default)]
struct Recorder {
    committed: Mutex<Vec<u64>>,
    undo: Mutex<Vec<Undo>>,
}

impl Follower for Recorder {
    fn commit(&self, revision: u64) {
        self.committed.lock().expect("not poisoned").push(revision);
    }

    fn roll_back(&self, fence: &mut dyn FnMut()) -> Vec<Undo> {
        fence();
        std::mem::take(&mut *self.undo.lock().expect("not poisoned"))
    }
}

fn open(directory: &Directory, durability: Durability) -> (OpenDisk, DataFileContents) {
    OpenDisk::open(&directory.0, durability).expect("the file can be opened")
}

fn json(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

fn created(path: &str, revision: u64) -> WriteRecord {
    let (resource, path) = ("configmaps".to_owned(), path.to_owned());
    WriteRecord { resource, path, revision, kind: EventKind::Created, json: json("{}"), previous: None }
}

fn paths(contents: &DataFileContents) -> Vec<&str> {
    contents.objects.iter().map(|object| &*object.path).collect()
}

/// Writes records and closes the file.
async fn write(directory: &Directory, records: Vec<WriteRecord>, forgotten: u64) {
    let (disk, _) = open(directory, Durability::Immediate);
    let backend = disk.backend();
    let disk = disk.start(Arc::new(Recorder::default())).expect("a thread can be started");
    let last = records.last().map_or(0, |record| record.revision);
    for record in records {
        backend.queue.push(record, forgotten).expect("there is room");
    }
    disk.wait(0, last).await.expect("there is room");
}

#[tokio::test]
async fn a_write_to_a_full_disk_fails_and_is_undone() {
    let (directory, is_full) = (Directory::new("full"), Arc::new(AtomicBool::new(false)));
    let opened = OpenDisk::on_full_disk(&directory.0, Durability::Immediate, &is_full);
    let (disk, _) = opened.expect("the file can be opened");
    let (backend, recorder) = (disk.backend(), Arc::new(Recorder::default()));
    let disk = disk.start(Arc::clone(&recorder)).expect("a thread can be started");
    backend.queue.push(created("before", 1), 0).expect("there is room");
    disk.wait(1, 1).await.expect("there is room");

    is_full.store(true, Ordering::SeqCst);
    let (resource, path) = ("configmaps".to_owned(), "during".to_owned());
    recorder.undo.lock().expect("not poisoned").push(Undo { resource, path, version: None });
    backend.queue.push(created("during", 2), 0).expect("the failure is not known yet");
    let failed = disk.wait(2, 2).await.expect_err("there is no room").to_string();
    assert!(failed.starts_with("objects cannot be written: "), "{failed}");
    assert!(backend.queue.push(created("rejected", 3), 0).is_err() && disk.failure().is_some());
    assert_eq!(disk.failures(), 1);

    is_full.store(false, Ordering::SeqCst);
    let mut progress = disk.queue.progress.subscribe();
    progress.wait_for(|progress| progress.failure.is_none()).await.expect("the writer runs");
    disk.wait(2, 2).await.expect_err("a failed write stays failed");
    backend.queue.push(created("after", 4), 0).expect("the disk has recovered");
    disk.wait(4, 4).await.expect("there is room");
    assert_eq!(*recorder.committed.lock().expect("not poisoned"), [1, 4]);
    drop((backend, disk));

    let (_, contents) = open(&directory, Durability::Immediate);
    assert_eq!(paths(&contents), ["after", "before"]);
    assert_eq!(contents.events.iter().map(|event| event.revision).collect::<Vec<_>>(), [1, 4]);
}

#[tokio::test]
async fn with_eventual_durability_writes_resume_when_a_full_disk_has_space() {
    let (directory, is_full) = (Directory::new("eventual"), Arc::new(AtomicBool::new(false)));
    let opened = OpenDisk::on_full_disk(&directory.0, Durability::Eventual, &is_full);
    let (disk, _) = opened.expect("the file can be opened");
    let backend = disk.backend();
    let disk = disk.start(Arc::new(Recorder::default())).expect("a thread can be started");
    is_full.store(true, Ordering::SeqCst);
    backend.queue.push(created("during", 1), 0).expect("the failure is not known yet");
    let mut progress = disk.queue.progress.subscribe();
    progress.wait_for(|progress| progress.failure.is_some()).await.expect("the writer runs");
    assert!(backend.queue.push(created("rejected", 2), 0).is_err());
    is_full.store(false, Ordering::SeqCst);
    progress.wait_for(|progress| progress.failure.is_none()).await.expect("the writer runs");
    drop((backend, disk));
    let (_, contents) = open(&directory, Durability::Immediate);
    assert_eq!((paths(&contents), contents.revision), (vec!["during"], Some(1)));
}

#[test]
fn with_eventual_durability_a_crash_uses_up_the_reserved_revisions() {
    let directory = Directory::new("reserved");
    let mut before = None;
    for _ in 0..3 {
        // Dropped as a crash would: without the closing mark.
        let (disk, contents) = open(&directory, Durability::Eventual);
        assert!(contents.revision >= before.map(|before| before + format::RESERVED), "{before:?}");
        before = Some(contents.revision.unwrap_or_default());
        drop(disk);
    }
    let (_, contents) = open(&directory, Durability::Immediate);
    assert!(contents.events.is_empty() && contents.revision >= before.map(|before| before + format::RESERVED));
    let (_, again) = open(&directory, Durability::Immediate);
    assert_eq!(again.revision, contents.revision, "an immediate server reserves nothing");
}

#[test]
fn a_file_opens_after_a_crash_without_a_walk_over_all_of_it() {
    let (directory, crashed) = (Directory::new("quick"), Directory::new("quick-crashed"));
    let (disk, _) = open(&directory, Durability::Immediate);
    format::write(&disk.database, &[created("a", 1), created("b", 2)], 0, false).expect("there is room");
    // A copy of the open file is what a killed process leaves behind.
    let path = crashed.0.join(NAME);
    std::fs::copy(directory.0.join(NAME), &path).expect("it can be copied");
    let repairs = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&repairs);
    let mut builder = Database::builder();
    builder.set_repair_callback(move |_| *counted.lock().expect("not poisoned") += 1);
    let database = builder.open(&path).expect("it is complete");
    assert_eq!(paths(&format::read(&database).expect("it can be read")), ["a", "b"]);
    assert_eq!(*repairs.lock().expect("not poisoned"), 0);
}

#[tokio::test]
async fn the_stored_event_log_is_trimmed_with_that_of_the_store() {
    let directory = Directory::new("events");
    let version = |revision| StoredVersion { revision, json: json("{}") };
    let modified = WriteRecord { kind: EventKind::Modified, previous: Some(version(1)), ..created("a", 2) };
    let (kind, json) = (EventKind::Deleted, json("{\"last\":true}"));
    let deleted = WriteRecord { kind, previous: Some(version(2)), json: json.clone(), ..created("a", 3) };
    write(&directory, vec![created("a", 1), modified, deleted], 0).await;
    let (disk, contents) = open(&directory, Durability::Immediate);
    let events: Vec<_> = contents.events.iter().map(|event| (event.revision, event.kind)).collect();
    assert_eq!(events, [(1, EventKind::Created), (2, EventKind::Modified), (3, EventKind::Deleted)]);
    assert_eq!(contents.events[1].previous, Some(version(1)));
    assert_eq!((&contents.events[2].previous, &contents.events[2].last), (&Some(version(2)), &json));
    assert!(contents.objects.is_empty());
    drop(disk);
    write(&directory, vec![created("b", 4)], 2).await;
    let (_, contents) = open(&directory, Durability::Immediate);
    assert_eq!(contents.events.iter().map(|event| event.revision).collect::<Vec<_>>(), [3, 4]);
}

/// The places of `needle` in the file.
fn find_all(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    (0..bytes.len() - needle.len()).filter(|at| bytes[*at..].starts_with(needle)).collect()
}

#[tokio::test]
async fn a_flipped_bit_is_reported_and_the_record_is_set_aside() {
    let directory = Directory::new("flipped");
    let record = |path: &str, revision, text| WriteRecord { json: json(text), ..created(path, revision) };
    write(&directory, vec![record("bad", 1, "{\"a\":\"marker\"}"), record("good", 2, "{}")], 0).await;
    let file = directory.0.join(NAME);
    let mut bytes = std::fs::read(&file).expect("it is there");
    for at in find_all(&bytes, b"marker") {
        bytes[at] ^= 1;
    }
    std::fs::write(&file, bytes).expect("it can be written");

    let (disk, contents) = open(&directory, Durability::Immediate);
    assert_eq!(paths(&contents), ["good"]);
    assert_eq!(contents.damaged.len(), 1);
    let damage = &contents.damaged[0];
    assert_eq!((&*damage.path, &*damage.reason), ("bad", "its checksum does not match"));
    let disk = disk.start(Arc::new(Recorder::default())).expect("a thread can be started");
    disk.discard("configmaps".to_owned(), "bad".to_owned()).await.expect("it can be removed");
    drop(disk);
    let (_, contents) = open(&directory, Durability::Immediate);
    assert_eq!((paths(&contents), contents.damaged.len()), (vec!["good"], 0));
}

#[tokio::test]
async fn a_damaged_event_ends_the_log_before_it() {
    let directory = Directory::new("damaged-event");
    let version = StoredVersion { revision: 1, json: json("{\"a\":\"marker\"}") };
    let modified = WriteRecord { kind: EventKind::Modified, previous: Some(version), ..created("a", 2) };
    write(&directory, vec![created("a", 1), modified, created("b", 3)], 0).await;
    let file = directory.0.join(NAME);
    let mut bytes = std::fs::read(&file).expect("it is there");
    for at in find_all(&bytes, b"marker") {
        bytes[at] ^= 1;
    }
    std::fs::write(&file, bytes).expect("it can be written");
    let (_, contents) = open(&directory, Durability::Immediate);
    assert_eq!((paths(&contents), contents.damaged.len()), (vec!["a", "b"], 0));
    assert_eq!(contents.events.iter().map(|event| event.revision).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_file_of_format_1_is_converted() {
    const FACTS: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("kubewright");
    const OBJECTS: redb::TableDefinition<'_, (&str, &str), (u64, &[u8])> = redb::TableDefinition::new("objects");
    let directory = Directory::new("format-1");
    let database = Database::create(directory.0.join(NAME)).expect("it can be created");
    let transaction = database.begin_write().expect("it is open");
    {
        let mut facts = transaction.open_table(FACTS).expect("it is open");
        facts.insert("format", 1).expect("there is room");
        facts.insert("revision", 100_007).expect("there is room");
        let mut objects = transaction.open_table(OBJECTS).expect("it is open");
        objects.insert(("configmaps", "default/a"), (7, &b"{}"[..])).expect("there is room");
    }
    transaction.commit().expect("there is room");
    drop(database);
    for _ in 0..2 {
        let (_, contents) = open(&directory, Durability::Immediate);
        let version = StoredVersion { revision: 7, json: json("{}") };
        let (resource, path) = ("configmaps".to_owned(), "default/a".to_owned());
        assert_eq!(contents.objects, [StoredRecord { resource, path, version }]);
        assert_eq!(contents.revision, Some(100_007));
        assert!(contents.events.is_empty() && contents.damaged.is_empty());
    }
}

#[test]
fn a_file_of_a_later_format_is_refused_with_its_version() {
    const FACTS: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("kubewright");
    let directory = Directory::new("format-9");
    let database = Database::create(directory.0.join(NAME)).expect("it can be created");
    let transaction = database.begin_write().expect("it is open");
    transaction.open_table(FACTS).expect("it is open").insert("format", 9).expect("there is room");
    transaction.commit().expect("there is room");
    drop(database);
    let refused = OpenDisk::open(&directory.0, Durability::Immediate).err().expect("it is unknown").to_string();
    assert!(refused.contains("it has format 9"), "{refused}");
}

#[tokio::test]
async fn a_file_that_is_mostly_free_is_compacted() {
    let directory = Directory::new("compacted");
    let text = format!("{{\"a\":{:?}}}", "x".repeat(1 << 20));
    let large = |path: &str, revision| WriteRecord { json: json(&text), ..created(path, revision) };
    write(&directory, (1..=120).map(|revision| large(&revision.to_string(), revision)).collect(), 120).await;
    let file = directory.0.join(NAME);
    let before = std::fs::metadata(&file).expect("it is there").len();
    let gone = |revision: u64| {
        let previous = Some(StoredVersion { revision, json: json("{}") });
        WriteRecord { kind: EventKind::Deleted, previous, ..created(&revision.to_string(), revision + 200) }
    };
    write(&directory, (1..=119).map(gone).collect(), 400).await;
    let (_, contents) = open(&directory, Durability::Immediate);
    assert_eq!(paths(&contents), ["120"]);
    let after = std::fs::metadata(&file).expect("it is there").len();
    assert!(after < before / 4, "{before} bytes became {after}");
}

#[test]
fn the_space_that_a_file_reserves_does_not_count_as_used() {
    let directory = Directory::new("sparse");
    let path = directory.0.join("file");
    let file = std::fs::File::create(&path).expect("the directory is writable");
    file.set_len(1 << 30).expect("the file system has sparse files");
    assert!(super::file::disk_usage(&path) < 1 << 20);
    std::fs::write(&path, vec![1; 1 << 20]).expect("there is room");
    assert!(super::file::disk_usage(&path) >= 1 << 20);
}

#[test]
fn a_truncated_file_is_rejected_and_not_modified() {
    let directory = Directory::new("cut");
    drop(open(&directory, Durability::Immediate));
    let path = directory.0.join(NAME);
    let whole = std::fs::read(&path).expect("it is there");
    for length in [0, 10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).expect("it can be written");
        let refused = OpenDisk::open(&directory.0, Durability::Immediate).err();
        let refused = refused.expect("it is damaged").to_string();
        assert!(refused.contains(NAME), "{refused}");
        assert_eq!(refused.contains("it is empty"), length == 0, "{refused}");
        assert_eq!(std::fs::metadata(&path).expect("it is there").len(), length as u64);
    }
}

#[test]
fn an_incomplete_file_after_a_crash_is_recreated() {
    let directory = Directory::new("begun");
    let draft = private_file::draft_of(&directory.0.join(NAME));
    std::fs::write(&draft, b"half").expect("it can be written");
    let (_disk, contents) = open(&directory, Durability::Immediate);
    assert!(contents.revision.is_none() && contents.objects.is_empty() && !draft.exists());
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn directory_and_file_become_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("private");
    let path = directory.0.join(NAME);
    let open_up = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    open_up(&directory.0, 0o755).expect("it is ours");
    drop(open(&directory, Durability::Immediate));
    assert_eq!((mode(&directory.0), mode(&path)), (0o700, 0o600));
    // As an earlier version left them.
    open_up(&directory.0, 0o755).expect("it is ours");
    open_up(&path, 0o644).expect("it is ours");
    drop(open(&directory, Durability::Immediate));
    assert_eq!((mode(&directory.0), mode(&path)), (0o700, 0o600));
}

#[test]
fn a_directory_with_other_files_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("shared");
    std::fs::write(directory.0.join("mail"), b"").expect("it can be written");
    std::fs::set_permissions(&directory.0, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let refused = OpenDisk::open(&directory.0, Durability::Immediate).err().expect("others can read it").to_string();
    assert!(refused.contains("other users can open it"), "{refused}");
    assert_eq!(mode(&directory.0), 0o777);
}
