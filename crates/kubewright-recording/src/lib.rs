//! Recordings of what controllers saw and did.
//!
//! A [`Recorder`] observes a program: the changes of its caches, its reconciles with their clock
//! readings and random draws, and each request with its response. It writes them to a file in the
//! order in which they happened. A [`Recording`] reads such a file.
//!
//! - `entry`: the entries of a file. Their fields are its format.
//! - `recorder`: the observer.
//! - `request_log`: the transport that records requests.
//! - `redaction`: what replaces the contents of Secrets.
//! - `block_writer`: compression, the size limit and the file, on a thread of its own.
//! - `recording`: the reader, which checks a file before any of it is used.
//!
//! # Format
//!
//! A file is a sequence of gzip members, so that `zcat` prints it. Each line is a JSON object. The
//! first line is the [`Header`], the others are of type [`Entry`], such as
//! `{"began":{"at":1763570000000000,"reconcile":1,"controller":"maps","key":"default/a",…}}`. Times
//! are microseconds since 1970. The last line is an `end` with the number of entries. A file
//! without it is truncated.
//!
//! The version of the format is in the header. It changes whenever a reader of the old format would
//! misunderstand a new file. New kinds of entries and new optional fields do not change it.
//!
//! ```no_run
//! use kubewright_recording::Recording;
//!
//! let recording = Recording::open("run.kwrec")?;
//! println!("{} entries", recording.entries().len());
//! # Ok::<(), kubewright_recording::RecordingError>(())
//! ```

mod block_writer;
mod entry;
mod error;
mod options;
mod recorder;
mod recording;
mod redaction;
mod request_log;

pub use entry::{
    Applied, Began, Body, Cache, CacheEntry, Clock, End, Ended, Entry, Header, Limit, Outcome, Random, Read, Reason,
    Request, Response,
};
pub use error::RecordingError;
pub use options::RecordingOptions;
pub use recorder::Recorder;
pub use recording::{FORMAT, Recording};
