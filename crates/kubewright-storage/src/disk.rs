//! Makes the writes of a store durable, in a file that the next server reads.
//!
//! The store proposes each event to the [backend](OpenDisk::backend), which only queues it. A
//! thread writes all queued events in one transaction (group commit), so that writers share the
//! time of a flush. Then it tells the [`Follower`], and readers see the writes.
//!
//! A batch that cannot be written, because the disk is full, is undone in the store and in the
//! file. Requests that wait for it get an error. Until the file can be written again, the backend
//! rejects all writes.
//!
//! With [`Durability::Eventual`], readers see writes at once, and a failed batch is tried again. A
//! crash then loses the newest writes. So that their revisions never come to mean something else,
//! the file reserves revisions ahead of the writes, and the next server begins behind them.

mod file;
mod format;
#[cfg(any(test, feature = "faults"))]
pub mod full_disk;
mod queue;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{fmt, io};

use redb::Database;
use tokio::sync::oneshot;

pub use file::NewDataFile;
use file::{OpenDatabase, attempt};
use queue::{CommitProgress, Discard, MAX_QUEUED, WriteQueue};

use crate::backend::{Backend, Follower};
use crate::event::StoreEvent;
use crate::record::{DataFileContents, Encoded, WriteRecord};

/// When readers see a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is in the file and flushed.
    #[default]
    Immediate,
    /// At once. A crash loses the newest writes.
    Eventual,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub struct OpenError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot keep objects in {}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for OpenError {}

/// An open data file whose writer has not started yet.
pub struct OpenDisk {
    queue: Arc<WriteQueue>,
    database: Database,
    path: PathBuf,
    open: OpenDatabase,
}

/// Queues the writes of a store for the data file.
pub struct DiskBackend {
    queue: Arc<WriteQueue>,
}

impl<V: Encoded> Backend<V> for DiskBackend {
    fn propose(&mut self, event: &StoreEvent<V>, forgotten: u64) -> io::Result<()> {
        self.queue.push(WriteRecord::of(event), forgotten)
    }
}

/// A data file that is being written.
pub struct Disk {
    queue: Arc<WriteQueue>,
    writer: Option<JoinHandle<()>>,
}

/// Reports when writes that failed would succeed. Keeps nothing open.
pub struct Recovery {
    queue: Arc<WriteQueue>,
}

impl OpenDisk {
    /// Opens the file in `directory`, or creates both. A damaged file, or a file of another
    /// program, stays as it is.
    pub fn open(directory: &Path, durability: Durability) -> Result<(Self, DataFileContents), OpenError> {
        OpenDisk::open_with(directory, durability, Box::new(file::open))
    }

    fn open_with(
        directory: &Path,
        durability: Durability,
        open: OpenDatabase,
    ) -> Result<(Self, DataFileContents), OpenError> {
        let path = directory.join(file::NAME);
        let refused = |why: String| OpenError { path: path.clone(), why };
        file::claim(directory).map_err(|why| OpenError { path: directory.to_owned(), why })?;
        file::prepare(&path).map_err(refused)?;
        let mut database = open(&path).map_err(refused)?;
        let contents = file::load(&mut database, &path).map_err(refused)?;
        let revision = contents.revision.unwrap_or_default();
        let forgotten = contents.events.first().map_or(revision, |oldest| oldest.revision.saturating_sub(1));
        let reserves = durability == Durability::Eventual;
        attempt(|| format::mark(&database, revision, forgotten, reserves)).map_err(refused)?;
        let queue = Arc::new(WriteQueue::new(durability, revision));
        Ok((OpenDisk { queue, database, path, open }, contents))
    }

    /// When readers see a write.
    pub fn durability(&self) -> Durability {
        self.queue.durability
    }

    /// The backend for [`StoreOptions::backend`](crate::StoreOptions::backend).
    pub fn backend(&self) -> DiskBackend {
        DiskBackend { queue: Arc::clone(&self.queue) }
    }

    /// Starts to write.
    pub fn start(self, follower: impl Follower) -> Result<Disk, OpenError> {
        let OpenDisk { queue, database, path, open } = self;
        let refused = { |error: io::Error| OpenError { path: path.clone(), why: error.to_string() } };
        let writer = std::thread::Builder::new().name("kubewright-disk".to_owned()).spawn({
            let queue = Arc::clone(&queue);
            let path = path.clone();
            // A file that is gone is not created again: it would lack everything written before.
            move || queue.write_all(database, &follower, &|| open(&path))
        });
        Ok(Disk { queue, writer: Some(writer.map_err(refused)?) })
    }
}

impl Disk {
    /// Why objects cannot be written at the moment, if they cannot.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.queue.progress.borrow().failure.clone()
    }

    /// How often writes have been undone.
    pub fn failures(&self) -> u64 {
        self.queue.progress.borrow().failures
    }

    /// Tells when writes that failed would succeed.
    pub fn recovery(&self) -> Recovery {
        Recovery { queue: Arc::clone(&self.queue) }
    }

    /// Waits until the writes from revision `first` to `last` are durable.
    ///
    /// # Errors
    /// If one of them was undone. With [`Durability::Eventual`], writers do not wait.
    pub async fn wait(&self, first: u64, last: u64) -> io::Result<()> {
        if self.queue.durability == Durability::Eventual {
            return Ok(());
        }
        let mut progress = self.queue.progress.subscribe();
        match progress.wait_for(|progress| progress.revision >= last).await {
            Ok(progress) if progress.rollbacks.iter().any(|(after, until)| first <= *until && *after < last) => {
                let failure = progress.failure.as_deref().unwrap_or("objects could not be written");
                Err(io::Error::other(failure.to_owned()))
            }
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the data file was closed")),
        }
    }

    /// Removes a record that cannot be used from the file.
    pub async fn discard(&self, resource: String, path: String) -> io::Result<()> {
        let (reply, done) = oneshot::channel();
        self.queue.lock().discards.push(Discard { resource, path, reply });
        self.queue.arrived.notify_one();
        let done = done.await.map_err(|_| io::Error::other("the data file was closed"))?;
        done.map_err(io::Error::other)
    }
}

impl Drop for Disk {
    /// Queued writes are written before the file is closed.
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.arrived.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has logged it.
            let _ = writer.join();
        }
    }
}

impl Recovery {
    /// Waits until a write has failed and one like it would succeed. Cancel safe.
    pub async fn recovered(&self) {
        let mut failed = self.queue.failed.subscribe();
        // Neither fails, since we hold the senders.
        let failed = failed.wait_for(Option::is_some).await.map(|failed| *failed).ok().flatten().unwrap_or_default();
        let is_over =
            |progress: &CommitProgress| progress.failure.is_none() && failed <= progress.revision + MAX_QUEUED / 2;
        let _ = self.queue.progress.subscribe().wait_for(is_over).await;
        self.queue.failed.send_replace(None);
    }
}
