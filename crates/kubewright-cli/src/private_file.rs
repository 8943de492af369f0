//! Files that only their owner can read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that replaces another atomically when it is complete. If dropped earlier, it is removed.
///
/// Refuses symbolic links and devices: somebody else may have created the link to read a secret.
#[derive(Debug)]
pub struct PrivateFile {
    path: PathBuf,
    draft: OsString,
    file: File,
    is_published: bool,
}

impl PrivateFile {
    /// Starts to write the next content of `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("it exists and is no regular file; remove it, or choose another path"));
        }
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        Ok(PrivateFile { path: path.to_owned(), draft, file, is_published: false })
    }

    /// Renames the file to its target, durably.
    pub fn publish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.draft, &self.path)?;
        self.is_published = true;
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for PrivateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = std::fs::remove_file(&self.draft);
        }
    }
}
