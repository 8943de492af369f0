//! Keeps the objects of a store in a file, so that the next server finds them.
//!
//! Events are handed over in memory and written by a thread of their own, all that have come meanwhile in one
//! transaction; whoever answers a client [waits](Disk::wait) for it first. So a write that was answered is in the file and
//! flushed, and writers share the time that flushing takes.
//!
//! A watcher may hear of a write before it is in the file, and the process may end in between. So that its revision
//! never comes to mean something else, the file also holds a revision that no write has reached yet, and the next server
//! begins there.
//!
//! A file that cannot be written, because the disk is full, is tried again until it can. Meanwhile writes are refused.

#[cfg(test)]
pub(crate) mod crowded;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::watch;

use crate::private_file;

/// How far the revision in the file is ahead of the writes.
const REVISIONS_AHEAD: u64 = 100_000;

/// How long a file that could not be written is left alone before it is tried again.
const REST: Duration = Duration::from_secs(1);

const FILE: &str = "objects.redb";
const FORMAT: u64 = 1;

/// How the names begin of what a server keeps beside the objects: keys and certificates. A file
/// system has `lost+found`.
const OWN_NAMES: [&str; 4] = [FILE, "service-accounts.key", "pki", "lost+found"];

/// Objects as JSON by resource and path.
const OBJECTS: TableDefinition<'_, (&str, &str), (u64, &[u8])> = TableDefinition::new("objects");
/// What there is to know about the file itself.
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("kubewright");

/// An object as the file holds it.
pub(crate) struct Record {
    pub(crate) resource: String,
    pub(crate) path: String,
    pub(crate) revision: u64,
    /// The object, or nothing where it was deleted.
    pub(crate) json: Option<bytes::Bytes>,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub(crate) struct OpenError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot keep objects in {}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for OpenError {}

/// A file of objects that is being written.
pub(crate) struct Disk {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    pending: Mutex<Pending>,
    arrived: Condvar,
    progress: watch::Sender<Progress>,
    /// The revision of a write that was refused, until somebody has been [told](Recovery) that it would be taken.
    refused: watch::Sender<Option<u64>>,
}

#[derive(Default)]
struct Pending {
    records: Vec<Record>,
    is_over: bool,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    /// All writes up to this revision are in the file.
    revision: u64,
    /// Why no more are at the moment.
    failure: Option<Arc<str>>,
}

/// Tells those who do not try again by themselves when they should. Keeps nothing open.
pub(crate) struct Recovery {
    shared: Arc<Shared>,
}

impl Recovery {
    /// Waits until a write has been refused and the like of it would be taken. Cancel safe.
    pub(crate) async fn recovered(&self) {
        let mut refused = self.shared.refused.subscribe();
        // Neither fails, since we hold the senders.
        let refused =
            refused.wait_for(Option::is_some).await.map(|refused| *refused).ok().flatten().unwrap_or_default();
        let is_over =
            |progress: &Progress| progress.failure.is_none() && refused <= progress.revision + REVISIONS_AHEAD / 4;
        let _ = self.shared.progress.subscribe().wait_for(is_over).await;
        self.shared.refused.send_replace(None);
    }
}

/// What a file held when it was opened.
pub(crate) struct Found {
    pub(crate) objects: Vec<Record>,
    /// The revision to begin with, or none if the file is new.
    pub(crate) revision: Option<u64>,
}

impl Disk {
    /// Opens the file in `directory`, or makes both. A file that is damaged or of something else is left as it is.
    pub(crate) fn open(directory: &Path) -> Result<(Self, Found), OpenError> {
        Disk::open_with(directory, open_file)
    }

    fn open_with(
        directory: &Path,
        open: impl Fn(&Path) -> Result<Database, String> + Send + 'static,
    ) -> Result<(Self, Found), OpenError> {
        let path = directory.join(FILE);
        let refused = |why: String| OpenError { path: path.clone(), why };
        claim(directory).map_err(|why| OpenError { path: directory.to_owned(), why })?;
        let is_new = prepare(&path).map_err(refused)?;
        let database = open(&path).map_err(refused)?;
        let found = if is_new { Ok(Found { objects: Vec::new(), revision: None }) } else { read(&database) };
        let found = found.map_err(refused)?;
        // What is written first is seen before it is in the file. Its revision must not be given out again, whatever happens.
        try_write(&database, &[], found.revision.unwrap_or_default()).map_err(refused)?;
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            arrived: Condvar::new(),
            progress: watch::Sender::new(Progress { revision: found.revision.unwrap_or_default(), failure: None }),
            refused: watch::Sender::default(),
        });
        let writer = std::thread::Builder::new().name("kubewright-disk".to_owned()).spawn({
            let (shared, path) = (Arc::clone(&shared), path.clone());
            // A file that is gone, with its disk perhaps, is not made again: it would lack all that was written before.
            move || shared.write_all(database, || open(&path))
        });
        let writer = writer.map_err(|error| refused(error.to_string()))?;
        Ok((Disk { shared, writer: Some(writer) }, found))
    }

    /// Why objects cannot be written at the moment, if they cannot.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.shared.progress.borrow().failure.clone()
    }

    /// Takes events, in the order of their revisions.
    pub(crate) fn journal(&self) -> impl FnMut(Record) -> io::Result<()> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move |record| {
            if let Some(why) = shared.refusal(record.revision) {
                shared.refused.send_if_modified(|refused| refused.replace(record.revision).is_none());
                return Err(io::Error::other(why));
            }
            shared.pending.lock().unwrap_or_else(PoisonError::into_inner).records.push(record);
            shared.arrived.notify_one();
            Ok(())
        }
    }

    /// Tells when writes that were refused would be taken.
    pub(crate) fn recovery(&self) -> Recovery {
        Recovery { shared: Arc::clone(&self.shared) }
    }

    /// Waits until all writes up to `revision` are in the file.
    pub(crate) async fn wait(&self, revision: u64) -> io::Result<()> {
        let mut progress = self.shared.progress.subscribe();
        let progress = progress.wait_for(|progress| progress.revision >= revision || progress.failure.is_some()).await;
        match progress {
            Ok(progress) => match &progress.failure {
                Some(failure) if progress.revision < revision => Err(io::Error::other(failure.to_string())),
                _ => Ok(()),
            },
            Err(_) => Err(io::Error::other("the file was closed")),
        }
    }
}

impl Drop for Disk {
    /// What was handed over is written before the file is closed.
    fn drop(&mut self) {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.shared.arrived.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so already.
            let _ = writer.join();
        }
    }
}

impl Shared {
    /// Why a write of this revision cannot be taken now, if it cannot.
    fn refusal(&self, revision: u64) -> Option<String> {
        let progress = self.progress.borrow();
        match &progress.failure {
            Some(failure) => Some(failure.to_string()),
            None if revision > progress.revision + REVISIONS_AHEAD / 2 => {
                Some("the disk is too slow for so many writes".to_owned())
            }
            None => None,
        }
    }

    fn write_all(&self, mut database: Database, open: impl Fn() -> Result<Database, String>) {
        loop {
            let records = {
                let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                let idle = |pending: &mut Pending| pending.records.is_empty() && !pending.is_over;
                let mut pending = self.arrived.wait_while(pending, idle).unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut pending.records)
            };
            let Some(revision) = records.last().map(|record| record.revision) else { return };
            while let Err(error) = try_write(&database, &records, revision) {
                self.failed(&error);
                // After an error redb takes nothing more until the file is opened anew.
                drop(database);
                database = loop {
                    if self.is_over_after_a_rest() {
                        return;
                    }
                    if let Ok(database) = open() {
                        break database;
                    }
                };
            }
            self.progress.send_modify(|progress| *progress = Progress { revision, failure: None });
        }
    }

    /// Tells all who wait that they wait in vain.
    fn failed(&self, error: &str) {
        if self.progress.borrow().failure.is_none() {
            tracing::error!(error, "objects cannot be written, and writes are refused until they can");
        }
        let failure = Arc::from(format!("objects cannot be written: {error}"));
        self.progress.send_modify(|progress| progress.failure = Some(failure));
    }

    fn is_over_after_a_rest(&self) -> bool {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = self.arrived.wait_timeout_while(pending, REST, |pending| !pending.is_over);
        rested.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

/// Creates the directory, or makes it private if it is the server's own.
///
/// A directory that holds other files keeps its permissions: they may be needed by somebody else,
/// as those of `/tmp` are.
fn claim(directory: &Path) -> Result<(), String> {
    let is_own_name =
        |name: &std::ffi::OsStr| OWN_NAMES.iter().any(|own| name.as_encoded_bytes().starts_with(own.as_bytes()));
    let is_own = match std::fs::read_dir(directory) {
        Ok(mut entries) => {
            let all_own = entries.all(|entry| entry.is_ok_and(|entry| is_own_name(&entry.file_name())));
            all_own || directory.join(FILE).exists()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error.to_string()),
    };
    if is_own {
        return private_file::directory(directory).map_err(|error| error.to_string());
    }
    if private_file::is_open_to_others(directory).map_err(|error| error.to_string())? {
        let remedy = "choose a directory for the server alone, or take others' rights to this one (chmod 700)";
        return Err(format!("other users can open it, and it holds other files; {remedy}"));
    }
    Ok(())
}

/// Makes the file if there is none, and makes sure that only its owner can read it. Returns whether
/// it is new.
///
/// A new file gets its name when its first transaction is complete. So an empty file was truncated.
fn prepare(path: &Path) -> Result<bool, String> {
    match std::fs::metadata(path) {
        Ok(file) if file.len() == 0 => Err("it is empty, because something has truncated it. \
             Restore it from a copy, or move it away to begin without objects"
            .to_owned()),
        Ok(_) => {
            private_file::restrict(path, 0o600).map_err(|error| error.to_string())?;
            Ok(false)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_file(path)?;
            Ok(true)
        }
        Err(error) => Err(error.to_string()),
    }
}

fn create_file(path: &Path) -> Result<(), String> {
    let draft = private_file::draft_of(path);
    private_file::create(&draft).map_err(|error| error.to_string())?;
    let database = undamaged(|| Database::create(&draft))?.map_err(|error| error.to_string())?;
    try_write(&database, &[], 0)?;
    drop(database);
    private_file::publish(&draft, path).map_err(|error| error.to_string())
}

fn open_file(path: &Path) -> Result<Database, String> {
    use redb::{DatabaseError, StorageError};
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    let opened = undamaged(|| Database::open(path))?;
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => "another server uses it".to_owned(),
        DatabaseError::Storage(StorageError::Io(error)) if !matches!(error.kind(), InvalidData | UnexpectedEof) => {
            error.to_string()
        }
        error => format!("{error}; is it a file of kubewright? Choose another directory, or move it away"),
    })
}

/// Does something with a file that may be damaged: what cannot be, such as a length that is not the one it was given, is a panic in redb.
fn undamaged<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let damaged = |_| "it is damaged. Restore it from a copy, choose another directory, or move it away".to_owned();
    catch_unwind(AssertUnwindSafe(work)).map_err(damaged)
}

/// Writes, and tells in words why not. All wait for the thread that does it, so that it must not end by a panic.
fn try_write(database: &Database, records: &[Record], last: u64) -> Result<(), String> {
    undamaged(|| write(database, records, last))?.map_err(|error| error.to_string())
}

/// Writes what was handed over, up to the revision `last`, and that a few more may be given out.
fn write(database: &Database, records: &[Record], last: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut facts = transaction.open_table(FACTS)?;
        for Record { resource, path, revision, json } in records {
            let key = (resource.as_str(), path.as_str());
            match json {
                Some(json) => drop(objects.insert(key, (*revision, &json[..]))?),
                None => drop(objects.remove(key)?),
            }
        }
        facts.insert("format", FORMAT)?;
        let ahead = facts.get("revision")?.map_or(0, |revision| revision.value());
        // Seldom, because it costs a page.
        if ahead < last + REVISIONS_AHEAD / 2 {
            facts.insert("revision", last + REVISIONS_AHEAD)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn read(database: &Database) -> Result<Found, String> {
    let read = || -> Result<Found, redb::Error> {
        let transaction = database.begin_read()?;
        let facts = match transaction.open_table(FACTS) {
            // The last server ended before its first write.
            Err(redb::TableError::TableDoesNotExist(_)) if transaction.list_tables()?.next().is_none() => {
                return Ok(Found { objects: Vec::new(), revision: None });
            }
            facts => facts?,
        };
        let fact = |name: &str| facts.get(name).map(|fact| fact.map(|fact| fact.value()));
        if fact("format")? != Some(FORMAT) {
            return Err(redb::Error::Corrupted("the format is not one that this version knows".to_owned()));
        }
        let mut objects = Vec::new();
        for entry in transaction.open_table(OBJECTS)?.iter()? {
            let (key, value) = entry?;
            let ((resource, path), (revision, json)) = (key.value(), value.value());
            let json = Some(bytes::Bytes::copy_from_slice(json));
            objects.push(Record { resource: resource.to_owned(), path: path.to_owned(), revision, json });
        }
        Ok(Found { objects, revision: fact("revision")? })
    };
    undamaged(read)?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::crowded::Directory;
    use super::*;

    fn record(path: &str, revision: u64) -> Record {
        let json = Some(bytes::Bytes::from_static(b"{}"));
        Record { resource: "configmaps".to_owned(), path: path.to_owned(), revision, json }
    }

    #[tokio::test]
    async fn a_full_disk_is_written_again_when_there_is_room() {
        let (directory, is_full) = (Directory::new("full"), Arc::new(AtomicBool::new(false)));
        let (disk, _) = Disk::crowded(&directory.0, &is_full).expect("it opens");
        let mut journal = disk.journal();
        journal(record("before", 1)).expect("nothing is wrong yet");
        disk.wait(1).await.expect("there is room");

        is_full.store(true, Ordering::SeqCst);
        journal(record("during", 2)).expect("nobody knows yet");
        let refused = disk.wait(2).await.expect_err("there is no room").to_string();
        assert!(refused.starts_with("objects cannot be written: "), "{refused}");
        assert!(journal(record("refused", 3)).is_err() && disk.failure().is_some());

        is_full.store(false, Ordering::SeqCst);
        let mut progress = disk.shared.progress.subscribe();
        progress.wait_for(|progress| progress.failure.is_none()).await.expect("the writer works");
        disk.wait(2).await.expect("what was shown is kept");
        journal(record("after", 3)).expect("all is well again");
        disk.wait(3).await.expect("there is room");
        drop((journal, disk));

        let (_, found) = Disk::open(&directory.0).expect("the file is sound");
        let paths: Vec<&str> = found.objects.iter().map(|object| &*object.path).collect();
        assert_eq!(paths, ["after", "before", "during"]);
    }

    #[test]
    fn a_file_that_was_cut_off_is_refused_and_left_as_it_is() {
        let directory = Directory::new("cut");
        drop(Disk::open(&directory.0).expect("it can be made"));
        let path = directory.0.join(FILE);
        let whole = std::fs::read(&path).expect("it is there");
        for length in [10, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).expect("it can be written");
            let refused = Disk::open(&directory.0).err().expect("it is damaged").to_string();
            assert!(refused.contains(FILE), "{refused}");
            assert_eq!(std::fs::metadata(&path).expect("it is there").len(), length as u64);
        }
    }

    #[test]
    fn a_revision_is_never_given_out_twice_even_if_nothing_was_written() {
        let directory = Directory::new("revisions");
        let mut before = None;
        for _ in 0..3 {
            let (disk, found) = Disk::open(&directory.0).expect("it can be opened");
            assert!(
                found.revision >= before.map(|before| before + REVISIONS_AHEAD),
                "{before:?}, {:?}",
                found.revision
            );
            before = Some(found.revision.unwrap_or_default());
            // As if the process had died with its first writes on their way.
            drop(disk);
        }
    }

    #[test]
    fn an_empty_file_is_refused_and_not_taken_for_an_empty_cluster() {
        let directory = Directory::new("truncated");
        drop(Disk::open(&directory.0).expect("it can be made"));
        std::fs::write(directory.0.join(FILE), b"").expect("it can be written");
        let refused = Disk::open(&directory.0).err().expect("its objects are lost").to_string();
        assert!(refused.contains("it is empty"), "{refused}");
        assert_eq!(std::fs::metadata(directory.0.join(FILE)).expect("it is there").len(), 0);
    }

    #[test]
    fn a_file_that_a_crash_left_half_made_is_made_again() {
        let directory = Directory::new("begun");
        let draft = private_file::draft_of(&directory.0.join(FILE));
        std::fs::write(&draft, b"half").expect("it can be written");
        let (_disk, found) = Disk::open(&directory.0).expect("it can be opened");
        assert_eq!(found.revision, None);
        assert!(found.objects.is_empty() && !draft.exists());
    }

    fn mode(path: &Path) -> u32 {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn directory_and_file_are_private_whatever_they_were_before() {
        use std::os::unix::fs::PermissionsExt;
        let directory = Directory::new("private");
        let path = directory.0.join(FILE);
        let open_up = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        open_up(&directory.0, 0o755).expect("it is ours");
        drop(Disk::open(&directory.0).expect("it can be made"));
        assert_eq!((mode(&directory.0), mode(&path)), (0o700, 0o600));
        // As an earlier version left them.
        open_up(&directory.0, 0o755).expect("it is ours");
        open_up(&path, 0o644).expect("it is ours");
        drop(Disk::open(&directory.0).expect("it can be opened"));
        assert_eq!((mode(&directory.0), mode(&path)), (0o700, 0o600));
    }

    #[test]
    fn a_directory_with_other_files_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let directory = Directory::new("shared");
        std::fs::write(directory.0.join("mail"), b"").expect("it can be written");
        std::fs::set_permissions(&directory.0, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
        let refused = Disk::open(&directory.0).err().expect("others can read it").to_string();
        assert!(refused.contains("other users can open it"), "{refused}");
        assert_eq!(mode(&directory.0), 0o777);
    }
}
