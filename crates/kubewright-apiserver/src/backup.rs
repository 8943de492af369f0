//! Backups: all objects of one revision, as lines of JSON.
//!
//! The first line has the format and the revision. One line per object follows. The last line has
//! the number of objects and a checksum of everything before it, so that an incomplete or damaged
//! backup is never restored.
//!
//! A running server creates backups at `/kubewright/backup`. [`restore`] creates a data directory
//! from one. A backup contains all Secrets, so keep it private.

use std::fmt;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use bytes::Bytes;
use crc32fast::Hasher;
use kubewright_core::Value;

use kubewright_objects::object::{StoredObject, tree};
use kubewright_storage::{Encoded, Key, NewDataFile, Page, StoredRecord, StoredVersion, VersionedValue};

/// The path of the backup endpoint.
pub(crate) const PATH: &str = "/kubewright/backup";

const FORMAT: &str = "kubewright-backup";
const VERSION: i64 = 1;

/// The size at which a chunk is complete.
const CHUNK: usize = 32 << 10;

/// Maximum line length. An object has at most 1.5 MiB, and its line is slightly longer.
const MAX_LINE: u64 = 16 << 20;

/// A backup as an iterator of chunks.
pub(crate) struct Backup {
    entries: IntoIter<(Key, VersionedValue<StoredObject>)>,
    objects: usize,
    checksum: Hasher,
    /// The beginning of the next chunk.
    out: Vec<u8>,
    is_end: bool,
}

impl Backup {
    /// A backup of all objects of a page.
    pub(crate) fn new(page: Page<StoredObject>) -> Self {
        let header = tree::map([
            ("format", FORMAT.into()),
            ("version", Value::Int(VERSION)),
            ("revision", Value::from(page.revision.to_string())),
        ]);
        let objects = page.entries.len();
        let out = format!("{header}\n").into_bytes();
        Backup { entries: page.entries.into_iter(), objects, checksum: Hasher::new(), out, is_end: false }
    }

    fn push(&mut self, key: &Key, entry: &VersionedValue<StoredObject>) {
        let (resource, path) = key.parts();
        let head = tree::map([
            ("resource", resource.into()),
            ("path", path.into()),
            ("revision", Value::from(entry.revision.to_string())),
        ]);
        let head = head.to_string();
        self.out.extend_from_slice(head.strip_suffix('}').unwrap_or_default().as_bytes());
        self.out.extend_from_slice(b",\"object\":");
        self.out.extend_from_slice(entry.object.json());
        self.out.extend_from_slice(b"}\n");
    }
}

impl Iterator for Backup {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_end {
            return None;
        }
        while self.out.len() < CHUNK && !self.is_end {
            match self.entries.next() {
                Some((key, entry)) => self.push(&key, &entry),
                None => self.is_end = true,
            }
        }
        self.checksum.update(&self.out);
        if self.is_end {
            let checksum = std::mem::take(&mut self.checksum).finalize();
            let objects = Value::Int(self.objects as i64);
            let trailer = tree::map([("objects", objects), ("checksum", format!("{checksum:08x}").into())]);
            self.out.extend_from_slice(format!("{trailer}\n").as_bytes());
        }
        Some(std::mem::take(&mut self.out).into())
    }
}

impl Backup {
    /// Whether all of it was read.
    pub(crate) fn is_end(&self) -> bool {
        self.is_end
    }
}

/// The result of [`restore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Number of restored objects.
    pub objects: usize,
    /// The revision of the backup, with which a server continues.
    pub revision: u64,
}

/// Why a backup was not restored. The directory then contains no data file.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup cannot be read or is invalid.
    Backup {
        /// The invalid line, from 1.
        line: usize,
        /// The cause.
        reason: String,
    },
    /// The directory cannot be used.
    Directory {
        /// The affected file or directory.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Backup { line, reason } => write!(f, "line {line} of the backup: {reason}"),
            RestoreError::Directory { path, reason } => write!(f, "cannot restore to {}: {reason}", path.display()),
        }
    }
}

impl std::error::Error for RestoreError {}

/// Restores a backup into `directory`, which must not contain a data file.
///
/// The file is created atomically. Watches from before the backup cannot continue; they start with
/// a list.
///
/// # Errors
///
/// The backup is damaged or incomplete, or the directory cannot be used.
pub fn restore(backup: impl BufRead, directory: &Path) -> Result<Restored, RestoreError> {
    let mut lines = BackupLines { source: backup, number: 0, checksum: Hasher::new(), line: Vec::new() };
    let header = lines.next()?;
    if tree::text(&header, &["format"]) != FORMAT {
        return Err(lines.wrong("not a backup of kubewright"));
    }
    if header.get("version").and_then(Value::as_i64) != Some(VERSION) {
        return Err(lines.wrong("a later version of kubewright wrote this backup"));
    }
    let revision = lines.revision(&header)?;
    let unusable = |(path, reason)| RestoreError::Directory { path, reason };
    let mut file = NewDataFile::create(directory).map_err(unusable)?;
    let mut objects = 0;
    loop {
        let checksum = lines.checksum.clone().finalize();
        let mut line = lines.next()?;
        let Some(object) = line.as_object_mut().and_then(|line| line.remove("object")) else {
            let expected = tree::text(&line, &["checksum"]);
            let count = line.get("objects").and_then(Value::as_i64);
            if expected != format!("{checksum:08x}") || count != Some(objects as i64) {
                return Err(lines.wrong("the checksum does not match: the backup is damaged"));
            }
            break;
        };
        let revision = lines.revision(&line)?;
        let text = |field| tree::text(&line, &[field]).to_owned();
        let object = StoredObject::restored(object.to_string().into_bytes().into(), revision);
        let json = object.map_err(|reason| lines.wrong(&reason))?.to_json();
        let record =
            StoredRecord { resource: text("resource"), path: text("path"), version: StoredVersion { revision, json } };
        file.push(record).map_err(unusable)?;
        objects += 1;
    }
    file.finish(revision).map_err(unusable)?;
    Ok(Restored { objects, revision })
}

/// Reads the lines of a backup, and computes the checksum.
struct BackupLines<R> {
    source: R,
    number: usize,
    checksum: Hasher,
    line: Vec<u8>,
}

impl<R: BufRead> BackupLines<R> {
    fn next(&mut self) -> Result<Value, RestoreError> {
        self.number += 1;
        self.line.clear();
        let read = io::Read::take(&mut self.source, MAX_LINE).read_until(b'\n', &mut self.line);
        read.map_err(|error| self.wrong(&error.to_string()))?;
        if !self.line.ends_with(b"\n") {
            return Err(self.wrong("the backup ends here: it is incomplete"));
        }
        self.checksum.update(&self.line);
        Value::from_json(&self.line).map_err(|error| self.wrong(&error.to_string()))
    }

    fn revision(&self, line: &Value) -> Result<u64, RestoreError> {
        tree::text(line, &["revision"]).parse().map_err(|_| self.wrong("the revision is not a number"))
    }

    fn wrong(&self, reason: &str) -> RestoreError {
        RestoreError::Backup { line: self.number, reason: reason.to_owned() }
    }
}
