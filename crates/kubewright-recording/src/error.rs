//! Why a recording cannot be written or read.

use std::io;
use std::path::PathBuf;

use crate::recording::FORMAT;

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be created, opened or read.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a recording of kubewright: {reason}", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file has another version of the format.
    #[error(
        "{} has version {found} of the format, and this program reads version {FORMAT}: record again, or use a \
         kubewright of the version that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file ends too early. The program that wrote it was killed, or the file was cut.
    #[error("{} is truncated after {entries} entries: the prefix can be read on request", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The number of readable entries.
        entries: u64,
    },
    /// The file is damaged.
    #[error("{} is damaged at line {line}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line of the decompressed file, from 1.
        line: u64,
        /// The reason.
        reason: String,
    },
    /// The file is larger than a reader accepts.
    #[error("{} has more than {limit} bytes when decompressed", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
}
