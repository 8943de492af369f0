//! The data directory and the data file in it: private, complete, and opened by one server.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::Database;

use super::format::{self, FORMAT};
use crate::private_file;
use crate::record::{DataFileContents, StoredRecord};

/// The name of the data file.
pub(super) const NAME: &str = "objects.redb";

/// How the names of a server's other files begin: keys and certificates. Some file systems have
/// `lost+found`.
const OWN_NAMES: [&str; 4] = [NAME, "service-accounts.key", "pki", "lost+found"];

/// A file is compacted when it takes this much more of the disk than twice its content.
const SLACK: u64 = 64 << 20;

/// Opens the data file at `path`, which must exist.
pub(super) type OpenDatabase = Box<dyn Fn(&Path) -> Result<Database, String> + Send>;

/// The memory in which redb caches pages of the file.
///
/// All objects are in memory anyway, and the file is read only once, at start. Pages that a write
/// needs again are still in the cache of the operating system. redb's default is 1 GiB.
const CACHE_BYTES: usize = 1 << 20;

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Creates the directory, or makes it private if it is the server's own.
///
/// A directory that holds other files keeps its permissions: others may need them, as those of
/// `/tmp`.
pub(super) fn claim(directory: &Path) -> Result<(), String> {
    let is_own_name = |name: &OsStr| OWN_NAMES.iter().any(|own| name.as_encoded_bytes().starts_with(own.as_bytes()));
    let is_own = match std::fs::read_dir(directory) {
        Ok(mut entries) => {
            let all_own = entries.all(|entry| entry.is_ok_and(|entry| is_own_name(&entry.file_name())));
            all_own || directory.join(NAME).exists()
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

/// Creates the file if there is none, and makes sure that only its owner can read it.
///
/// A new file gets its name when its first transaction is complete. So an empty file was truncated.
pub(super) fn prepare(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(file) if file.len() == 0 => Err("it is empty, because something has truncated it. \
             Restore it from a backup, or move it away to begin without objects"
            .to_owned()),
        Ok(_) => private_file::restrict(path, 0o600).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let database = create_draft(path)?;
            publish_draft(database, path)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Creates a file under another name.
fn create_draft(path: &Path) -> Result<Database, String> {
    let draft = private_file::draft_of(path);
    private_file::create(&draft).map_err(|error| error.to_string())?;
    undamaged(|| builder().create(&draft))?.map_err(|error| error.to_string())
}

/// Closes a complete draft, and gives it its name.
fn publish_draft(database: Database, path: &Path) -> Result<(), String> {
    drop(database);
    private_file::publish(&private_file::draft_of(path), path).map_err(|error| error.to_string())
}

/// How many objects are written to a new file in one transaction.
const BATCH: usize = 10_000;

/// A data file that is being filled, and has no name yet.
pub struct NewDataFile {
    path: PathBuf,
    database: Database,
    batch: Vec<StoredRecord>,
}

impl NewDataFile {
    /// Creates the directory if necessary. Fails if it has a data file.
    pub fn create(directory: &Path) -> Result<Self, (PathBuf, String)> {
        claim(directory).map_err(|why| (directory.to_owned(), why))?;
        let path = directory.join(NAME);
        if path.symlink_metadata().is_ok() {
            let reason = "it exists already. Choose another directory, or move it away";
            return Err((path, reason.to_owned()));
        }
        let database = create_draft(&path).map_err(|why| (path.clone(), why))?;
        Ok(NewDataFile { path, database, batch: Vec::new() })
    }

    /// Adds an object.
    pub fn push(&mut self, record: StoredRecord) -> Result<(), (PathBuf, String)> {
        self.batch.push(record);
        if self.batch.len() < BATCH { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), (PathBuf, String)> {
        let batch = std::mem::take(&mut self.batch);
        attempt(|| format::fill(&self.database, &batch)).map_err(|why| (self.path.clone(), why))
    }

    /// Gives the file its name. A server goes on from `revision`.
    pub fn finish(mut self, revision: u64) -> Result<(), (PathBuf, String)> {
        self.flush()?;
        let NewDataFile { path, database, .. } = self;
        let marked = attempt(|| format::mark(&database, revision, revision, false));
        marked.and_then(|()| publish_draft(database, &path)).map_err(|why| (path, why))
    }
}

pub(super) fn open(path: &Path) -> Result<Database, String> {
    use redb::{DatabaseError, StorageError};
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    let opened = undamaged(|| builder().open(path))?;
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => "another server uses it".to_owned(),
        DatabaseError::Storage(StorageError::Io(error)) if !matches!(error.kind(), InvalidData | UnexpectedEof) => {
            error.to_string()
        }
        error => format!("{error}; is it a file of kubewright? Choose another directory, or move it away"),
    })
}

/// Reads the content of a file, of an older version too, and compacts a file that is mostly free
/// space.
pub(super) fn load(database: &mut Database, path: &Path) -> Result<DataFileContents, String> {
    match attempt(|| format::version(database))? {
        // The last server ended before its first write.
        None => return Ok(DataFileContents::default()),
        Some(1) => {
            tracing::info!(path = %path.display(), "converting the data file from format 1 to {FORMAT}");
            attempt(|| format::migrate(database))?;
        }
        Some(FORMAT) => {}
        Some(other) => {
            return Err(format!(
                "it has format {other}, and this version of kubewright knows 1 to {FORMAT}. Use the version that wrote it"
            ));
        }
    }
    let contents = attempt(|| format::read(database))?;
    let before = disk_usage(path);
    if before > 2 * contents.size() + SLACK {
        undamaged(|| database.compact())?.map_err(|error| error.to_string())?;
        let bytes = disk_usage(path);
        tracing::info!(path = %path.display(), before, bytes, "compacted the data file");
    }
    Ok(contents)
}

/// The bytes of the disk that a file takes; 0 if that is unknown.
///
/// redb grows a file ahead of its content. Parts that were never written take no space, so the
/// length of the file would lead to a compaction that frees nothing.
pub(super) fn disk_usage(path: &Path) -> u64 {
    /// The unit of `st_blocks`, on every file system.
    const BLOCK: u64 = 512;
    std::fs::metadata(path).map_or(0, |file| file.blocks() * BLOCK)
}

/// Works on a file, and describes a failure in words.
///
/// redb panics on some damage, such as a file that is shorter than it was.
pub(super) fn attempt<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, String> {
    undamaged(work)?.map_err(|error| error.to_string())
}

fn undamaged<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let damaged = |_| "it is damaged. Restore it from a backup, choose another directory, or move it away".to_owned();
    catch_unwind(AssertUnwindSafe(work)).map_err(damaged)
}
