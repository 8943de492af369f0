//! Options of a recording.

/// Default size limit of a file: 256 MiB.
const LIMIT: u64 = 256 << 20;

/// Options of a recording. By default a file has at most 256 MiB, and the contents of Secrets are
/// replaced.
#[derive(Debug, Clone)]
pub struct RecordingOptions {
    pub(crate) limit: u64,
    pub(crate) is_redacted: bool,
    pub(crate) program: String,
}

impl Default for RecordingOptions {
    fn default() -> Self {
        let path = std::env::args_os().next().unwrap_or_default();
        let name = std::path::Path::new(&path).file_name().unwrap_or_default();
        RecordingOptions { limit: LIMIT, is_redacted: true, program: name.to_string_lossy().into_owned() }
    }
}

impl RecordingOptions {
    /// The maximum size of the compressed file. 256 MiB by default. The recording ends when it is
    /// reached; the program continues.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Records the contents of Secrets and tokens as they are. By default each value is replaced.
    /// Only for test clusters: a reader of the file has the credentials.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.is_redacted = false;
        self
    }

    /// The name of the program in the file. That of the executable by default.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = name.into();
        self
    }
}
