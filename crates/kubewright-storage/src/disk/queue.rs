//! The writes on their way to the data file, and the thread that writes them.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::Database;
use tokio::sync::{oneshot, watch};

use super::Durability;
use super::file::attempt;
use super::format;
use crate::backend::Follower;
use crate::record::WriteRecord;

/// The maximum number of writes that wait for the file. More are rejected.
pub(super) const MAX_QUEUED: u64 = format::RESERVED / 2;

/// The pause before a file that could not be written is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The number of failures that are remembered, for tasks that wait for an older write.
const MAX_ROLLBACKS: usize = 64;

/// The queue between a store and the data file.
pub(super) struct WriteQueue {
    pub(super) durability: Durability,
    pending: Mutex<PendingWrites>,
    pub(super) arrived: Condvar,
    pub(super) progress: watch::Sender<CommitProgress>,
    /// The revision of a write that failed, until the recovery was [reported](super::Recovery).
    pub(super) failed: watch::Sender<Option<u64>>,
}

#[derive(Default)]
pub(super) struct PendingWrites {
    records: Vec<WriteRecord>,
    /// Events up to this revision are no longer needed.
    forgotten: u64,
    pub(super) discards: Vec<Discard>,
    pub(super) is_over: bool,
}

/// A request to remove a record that cannot be used.
pub(super) struct Discard {
    pub(super) resource: String,
    pub(super) path: String,
    pub(super) reply: oneshot::Sender<Result<(), String>>,
}

#[derive(Debug, Default)]
pub(super) struct CommitProgress {
    /// All writes up to this revision are committed or undone.
    pub(super) revision: u64,
    /// Why writes fail at the moment.
    pub(super) failure: Option<Arc<str>>,
    /// The revisions that were undone: after the first, up to and including the second.
    pub(super) rollbacks: Vec<(u64, u64)>,
    /// The number of times that writes were undone.
    pub(super) failures: u64,
}

impl WriteQueue {
    pub(super) fn new(durability: Durability, revision: u64) -> Self {
        WriteQueue {
            durability,
            pending: Mutex::default(),
            arrived: Condvar::new(),
            progress: watch::Sender::new(CommitProgress { revision, ..CommitProgress::default() }),
            failed: watch::Sender::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PendingWrites> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a write. Events up to revision `forgotten` are no longer needed.
    pub(super) fn push(&self, record: WriteRecord, forgotten: u64) -> io::Result<()> {
        if let Some(why) = self.rejection(record.revision) {
            self.note_failure(record.revision);
            return Err(io::Error::other(why));
        }
        let mut pending = self.lock();
        pending.records.push(record);
        pending.forgotten = forgotten;
        drop(pending);
        self.arrived.notify_one();
        Ok(())
    }

    /// Why a write of this revision cannot be queued now, if it cannot.
    fn rejection(&self, revision: u64) -> Option<String> {
        let progress = self.progress.borrow();
        match &progress.failure {
            Some(failure) => Some(failure.to_string()),
            None if revision > progress.revision + MAX_QUEUED => {
                Some("the disk is too slow for so many writes".to_owned())
            }
            None => None,
        }
    }

    fn note_failure(&self, revision: u64) {
        self.failed.send_if_modified(|failed| failed.replace(revision).is_none());
    }

    /// Writes batches until the disk is closed.
    pub(super) fn write_all(
        &self,
        mut database: Database,
        follower: &impl Follower,
        open: &dyn Fn() -> Result<Database, String>,
    ) {
        let reserves = self.durability == Durability::Eventual;
        loop {
            let (records, forgotten, discards) = {
                let is_idle = |pending: &mut PendingWrites| {
                    pending.records.is_empty() && pending.discards.is_empty() && !pending.is_over
                };
                let pending = self.arrived.wait_while(self.lock(), is_idle);
                let mut pending = pending.unwrap_or_else(PoisonError::into_inner);
                let records = std::mem::take(&mut pending.records);
                (records, pending.forgotten, std::mem::take(&mut pending.discards))
            };
            if records.is_empty() && discards.is_empty() {
                return self.close(&database, forgotten);
            }
            for Discard { resource, path, reply } in discards {
                // The receiver may be gone.
                let _ = reply.send(attempt(|| format::discard(&database, &resource, &path)));
            }
            let Some(revision) = records.last().map(|record| record.revision) else { continue };
            let retry = |database: &Database| attempt(|| format::write(database, &records, forgotten, reserves));
            if let Err(error) = retry(&database) {
                let recovered = match self.durability {
                    Durability::Immediate => {
                        let committed = self.progress.borrow().revision;
                        let undone = follower.roll_back(&mut || self.fail(&error, committed, revision));
                        let undo = |database: &Database| attempt(|| format::undo(database, committed, &undone));
                        self.recover(database, open, &undo)
                    }
                    Durability::Eventual => {
                        self.fail(&error, revision, revision);
                        self.recover(database, open, &retry)
                    }
                };
                let Some(recovered) = recovered else { return };
                database = recovered;
            } else if self.durability == Durability::Immediate {
                follower.commit(revision);
            }
            self.progress.send_modify(|progress| {
                progress.revision = progress.revision.max(revision);
                progress.failure = None;
            });
        }
    }

    /// Rejects writes from now on. Those after revision `committed` are undone, if there are any.
    fn fail(&self, error: &str, committed: u64, revision: u64) {
        if self.progress.borrow().failure.is_none() {
            tracing::error!(error, "objects cannot be written, and writes are rejected until they can");
        }
        let mut revision = revision;
        if self.durability == Durability::Immediate {
            let mut pending = self.lock();
            revision = pending.records.last().map_or(revision, |newest| newest.revision);
            pending.records.clear();
            drop(pending);
            self.note_failure(revision);
        }
        let failure = Arc::from(format!("objects cannot be written: {error}"));
        self.progress.send_modify(|progress| {
            progress.failure = Some(failure);
            if self.durability == Durability::Immediate {
                progress.revision = revision;
                progress.failures += 1;
                progress.rollbacks.push((committed, revision));
                let surplus = progress.rollbacks.len().saturating_sub(MAX_ROLLBACKS);
                progress.rollbacks.drain(..surplus);
            }
        });
    }

    /// Reopens the file until `work` succeeds. None if the disk is closed before.
    ///
    /// After an error redb rejects everything until the file is opened again.
    fn recover(
        &self,
        mut database: Database,
        open: &dyn Fn() -> Result<Database, String>,
        work: &dyn Fn(&Database) -> Result<(), String>,
    ) -> Option<Database> {
        loop {
            drop(database);
            database = loop {
                if self.is_over_after_delay() {
                    return None;
                }
                if let Ok(database) = open() {
                    break database;
                }
            };
            if work(&database).is_ok() {
                tracing::info!("objects can be written again");
                return Some(database);
            }
        }
    }

    fn is_over_after_delay(&self) -> bool {
        let waited = self.arrived.wait_timeout_while(self.lock(), RETRY_DELAY, |pending| !pending.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// Gives the reserved revisions back: all writes are in the file.
    fn close(&self, database: &Database, forgotten: u64) {
        let revision = self.progress.borrow().revision;
        if self.durability == Durability::Eventual
            && let Err(error) = attempt(|| format::mark(database, revision, forgotten, false))
        {
            tracing::warn!(error, "the data file was not closed cleanly");
        }
    }
}
