//! The recording of `up` and `run`.

use std::path::PathBuf;

use clap::Args;
use kubewright_recording::{Recorder, RecordingError, RecordingOptions};

/// Options of the recording.
#[derive(Debug, Args)]
pub struct RecordOptions {
    /// Writes a recording of all caches, reconciles and requests, for `kubewright replay`.
    ///
    /// The file must not exist. Only its owner can read it.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Maximum size of the recording in MiB; it ends there.
    #[arg(long, value_name = "MIB", default_value_t = 256, requires = "record")]
    record_limit: u32,
    /// Records the contents of Secrets as they are, instead of replacing each value.
    #[arg(long, requires = "record")]
    record_secrets: bool,
}

impl RecordOptions {
    /// The recorder, if one is wanted.
    pub fn recorder(&self) -> Result<Option<Recorder>, RecordingError> {
        let Some(file) = &self.record else { return Ok(None) };
        let mut options = RecordingOptions::default().limit(u64::from(self.record_limit) << 20);
        if self.record_secrets {
            options = options.with_secrets();
        }
        Recorder::create(file, options).map(Some)
    }
}
