//! Errors of reads and writes.

use std::{error::Error, fmt, io};

use crate::event::VersionedValue;

/// The log no longer has all events after the requested revision. List again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The requested revision, or the position of a slow watcher.
    pub requested: u64,
    /// The oldest available revision at the time of the error.
    pub oldest: u64,
}

impl fmt::Display for Compacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {} is compacted, the oldest known is {}", self.requested, self.oldest)
    }
}

impl Error for Compacted {}

/// Why a list at a given revision failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The revision is too old.
    Compacted(Compacted),
    /// No write has this revision yet; see [`Store::wait_until`](crate::Store::wait_until).
    Future {
        /// The requested revision.
        requested: u64,
        /// The revision of the last write.
        current: u64,
    },
}

impl From<Compacted> for ReadError {
    fn from(compacted: Compacted) -> Self {
        ReadError::Compacted(compacted)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Compacted(compacted) => compacted.fmt(f),
            ReadError::Future { requested, current } => {
                write!(f, "revision {requested} is in the future, the current one is {current}")
            }
        }
    }
}

impl Error for ReadError {}

/// Why a write failed. A failed write changes nothing and uses no revision.
#[non_exhaustive]
pub enum WriteError<V> {
    /// The object to create already exists.
    AlreadyExists(VersionedValue<V>),
    /// The object to change or delete does not exist.
    NotFound,
    /// The object has changed since the caller read it.
    Conflict {
        /// The revision that the caller expected to find.
        expected: u64,
        /// The current entry.
        found: VersionedValue<V>,
    },
    /// Another key that was to be written [together](crate::Store::write_together) with the object
    /// has changed.
    Contended,
    /// The backend rejects writes at present.
    Backend(io::Error),
}

impl<V> fmt::Display for WriteError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::AlreadyExists(found) => write!(f, "object exists already at revision {}", found.revision),
            WriteError::NotFound => f.write_str("object not found"),
            WriteError::Conflict { expected, found } => {
                write!(f, "object is at revision {}, not at {expected}", found.revision)
            }
            WriteError::Contended => f.write_str("a key that is written together with the object has changed"),
            WriteError::Backend(_) => f.write_str("write could not be stored"),
        }
    }
}

/// Omits the object, so that values need not implement `Debug`.
impl<V> fmt::Debug for WriteError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::AlreadyExists(found) => f.debug_tuple("AlreadyExists").field(&found.revision).finish(),
            WriteError::NotFound => f.write_str("NotFound"),
            WriteError::Conflict { expected, found } => {
                f.debug_struct("Conflict").field("expected", expected).field("found", &found.revision).finish()
            }
            WriteError::Contended => f.write_str("Contended"),
            WriteError::Backend(error) => f.debug_tuple("Backend").field(error).finish(),
        }
    }
}

impl<V> Error for WriteError<V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WriteError::Backend(error) => Some(error),
            _ => None,
        }
    }
}
