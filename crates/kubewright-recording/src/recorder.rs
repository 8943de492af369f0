//! The observer that writes a recording.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::MicroTime;
use kubewright_net::clock;
use kubewright_net::observation::{
    self, CacheChange, CacheScope, CacheWriter, ObservedWork, Observer, ReconcileEnd, ReconcileStart,
};
use kubewright_net::transport::Transport;
use serde_json::value::RawValue;

use crate::block_writer::BlockWriter;
use crate::entry::{Applied, Began, Cache, CacheEntry, Clock, Ended, Entry, Header, Outcome, Random, Read, Reason};
use crate::error::RecordingError;
use crate::options::RecordingOptions;
use crate::recording::{FORMAT, NAME};
use crate::redaction::{Redaction, SecretPart};
use crate::request_log::RecordedTransport;

/// Number of changes in one entry. Larger batches are split, so that lines stay short.
const CHANGES: usize = 256;

/// Writes what it observes to a file. A handle: clones write to one file. It is complete after
/// [`finish`](Self::finish), or when the last clone is dropped.
#[derive(Clone)]
pub struct Recorder {
    pub(crate) log: Arc<RecordingLog>,
}

/// The file, and the numbers of the next entries.
pub(crate) struct RecordingLog {
    writer: BlockWriter,
    pub(crate) redaction: Redaction,
    path: PathBuf,
    next_cache: AtomicU64,
    next_reconcile: AtomicU64,
    next_request: AtomicU64,
    /// The caches of Secrets.
    secret_caches: Mutex<HashSet<u64>>,
}

impl Recorder {
    /// Creates a file that only its owner can read.
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn create(path: impl AsRef<Path>, options: RecordingOptions) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let failed = |source| RecordingError::File { path: path.to_owned(), source };
        let redaction = Redaction::new(options.is_redacted).map_err(failed)?;
        let header = Header {
            format: NAME.to_owned(),
            version: FORMAT,
            program: options.program,
            started: now(),
            redacted: redaction.is_on(),
        };
        let log = RecordingLog {
            writer: BlockWriter::create(path, &header, options.limit)?,
            redaction,
            path: path.to_owned(),
            next_cache: AtomicU64::new(1),
            next_reconcile: AtomicU64::new(1),
            next_request: AtomicU64::new(1),
            secret_caches: Mutex::default(),
        };
        Ok(Recorder { log: Arc::new(log) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.log.path
    }

    /// Completes the file. Blocks until it is written. Later events are not recorded.
    pub fn finish(&self) {
        self.log.finish();
    }

    /// A transport that records the requests that it passes on.
    pub fn transport(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(RecordedTransport::new(inner, self.log.clone()))
    }

    /// The observer of caches and reconciles.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }
}

/// The time of an entry.
pub(crate) fn now() -> i64 {
    clock::unobserved_now().as_unix_micros()
}

impl RecordingLog {
    pub(crate) fn append(&self, entry: &Entry) {
        self.writer.append(entry);
    }

    fn finish(&self) {
        self.writer.finish();
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    /// An object as it is written.
    fn object(&self, json: Vec<u8>, is_secret: bool) -> Box<RawValue> {
        let json = if is_secret && self.redaction.is_on() {
            self.redaction.text(&json, SecretPart::Contents).unwrap_or_else(|| b"{}".to_vec())
        } else {
            json
        };
        let text = String::from_utf8(json).unwrap_or_else(|_| "{}".to_owned());
        RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    fn secret_caches(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.secret_caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Recorder {
    fn began(&self, start: ReconcileStart<'_>) -> Arc<dyn ObservedWork> {
        let reconcile = self.log.next_reconcile.fetch_add(1, Ordering::Relaxed);
        let reasons = start.reasons.into_iter().map(|reason| Reason {
            source: reason.source.to_string(),
            object: reason.object.map(|key| key.to_string()),
            kind: reason.kind.to_string(),
        });
        self.log.append(&Entry::Began(Began {
            at: now(),
            reconcile,
            controller: start.controller.to_owned(),
            key: start.key.to_owned(),
            reasons: reasons.collect(),
            attempt: start.attempt,
            id: start.id,
        }));
        Arc::new(RecordedWork { log: self.log.clone(), reconcile, reads: Mutex::default() })
    }

    fn cache_created(&self, scope: &CacheScope, _: Box<dyn CacheWriter>) -> u64 {
        let cache = self.log.next_cache.fetch_add(1, Ordering::Relaxed);
        let resource = &scope.resource;
        if resource.group.is_empty() && resource.resource == "secrets" {
            self.log.secret_caches().insert(cache);
        }
        self.log.append(&Entry::Cache(Cache {
            at: now(),
            cache,
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.resource.to_string(),
            namespaces: scope.namespaces.iter().map(ToString::to_string).collect(),
            labels: scope.labels.clone(),
            fields: scope.fields.clone(),
            metadata: scope.is_metadata,
        }));
        cache
    }

    fn applied(&self, cache: u64, generation: u64, version: &str, changes: &mut dyn Iterator<Item = CacheChange<'_>>) {
        let is_secret = self.log.secret_caches().contains(&cache);
        let at = now();
        let mut changes = changes.map(|change| match change {
            CacheChange::Set(encode) => CacheEntry::Set(self.log.object(encode(), is_secret)),
            CacheChange::Deleted(key) => CacheEntry::Deleted(key.to_string()),
        });
        let mut part: Vec<CacheEntry> = changes.by_ref().take(CHANGES).collect();
        loop {
            let next: Vec<CacheEntry> = changes.by_ref().take(CHANGES).collect();
            let continues = !next.is_empty();
            let version = version.to_owned();
            self.log.append(&Entry::Applied(Applied { at, cache, generation, version, changes: part, continues }));
            if !continues {
                return;
            }
            part = next;
        }
    }
}

/// Writes what one reconcile sees.
struct RecordedWork {
    log: Arc<RecordingLog>,
    reconcile: u64,
    /// The number of reads of each cache, and the generation that the last one saw.
    reads: Mutex<HashMap<u64, (u64, Option<u64>)>>,
}

impl ObservedWork for RecordedWork {
    fn number(&self) -> u64 {
        self.reconcile
    }

    fn clock(&self, reading: MicroTime) -> MicroTime {
        self.log.append(&Entry::Clock(Clock { reconcile: self.reconcile, reading: reading.as_unix_micros() }));
        reading
    }

    fn random(&self, draw: u64) -> u64 {
        self.log.append(&Entry::Random(Random { reconcile: self.reconcile, draw }));
        draw
    }

    fn cache_reading(&self, _: u64) {}

    fn cache_read(&self, cache: u64, generation: u64) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, last) = reads.entry(cache).or_insert((0, None));
        *count += 1;
        if *last != Some(generation) {
            *last = Some(generation);
            self.log.append(&Entry::Read(Read { reconcile: self.reconcile, cache, generation, read: *count }));
        }
    }

    fn ended(&self, end: ReconcileEnd<'_>) {
        let outcome = match end {
            ReconcileEnd::Done => Outcome::Done,
            ReconcileEnd::Requeue(delay) => {
                Outcome::Requeue(delay.map(|delay| u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)))
            }
            ReconcileEnd::Failed(error) => Outcome::Failed(error.to_owned()),
            ReconcileEnd::Dropped => Outcome::Dropped,
        };
        // The error of a reconcile may read the clock.
        let _left = observation::enter(None);
        self.log.append(&Entry::Ended(Ended { at: now(), reconcile: self.reconcile, outcome }));
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("path", &self.log.path).finish_non_exhaustive()
    }
}
