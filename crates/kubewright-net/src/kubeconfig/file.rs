//! Atomic, locked writes to files shared by several processes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::ConfigError;

/// How long to wait for another writer.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// A lock that is older than this, and unchanged while we waited, was left by a dead process:
/// writing takes milliseconds.
const LOCK_STALE: Duration = Duration::from_secs(60);
/// More links than this are considered a cycle.
const LINKS_MAX: usize = 40;

/// Resolves links, including a link to a file that does not exist yet, so that the link stays. An
/// error if there is a cycle.
#[inline]
pub(super) fn real_path(file: &Path) -> Result<PathBuf, ConfigError> {
    let mut file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    for _ in 0..LINKS_MAX {
        if let Ok(real) = std::fs::canonicalize(&file) {
            return Ok(real);
        }
        let Ok(target) = std::fs::read_link(&file) else { return Ok(file) };
        file = file.parent().unwrap_or(Path::new("/")).join(target);
    }
    let source = io::Error::other("too many links, which lead in a circle");
    Err(ConfigError::Write { file, source })
}

/// Atomically replaces a file.
#[inline]
pub(super) fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let temporary = with_suffix(file, &format!(".{}.tmp", std::process::id()));
    let written = private_file(&temporary).and_then(|mut target| {
        keep_owner(file, &target);
        target.write_all(content)?;
        // The content must be on disk before the name.
        target.sync_all()
    });
    written.and_then(|()| std::fs::rename(&temporary, file)).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// Gives the new file the owner of the old one: the writer may be root.
#[cfg(unix)]
fn keep_owner(file: &Path, target: &File) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (Ok(before), Ok(after)) = (std::fs::metadata(file), target.metadata()) else { return };
    if before.uid() != after.uid() {
        // Only root can; other writers may own the file.
        let _ = fchown(target, Some(before.uid()), Some(before.gid()));
    }
}

#[cfg(not(unix))]
fn keep_owner(_file: &Path, _target: &File) {}

/// A new file that only its owner may read.
#[inline]
fn private_file(path: &Path) -> io::Result<File> {
    // Removes a leftover of a dead process with the same id.
    let _ = std::fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[inline]
fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A lock file next to the target, as kubectl creates it. Removed on drop.
pub(super) struct LockFile {
    path: PathBuf,
}

impl LockFile {
    #[inline]
    pub(super) fn take(file: &Path) -> Result<LockFile, ConfigError> {
        let path = with_suffix(file, ".lock");
        if let Some(directory) = file.parent() {
            let made = std::fs::create_dir_all(directory);
            made.map_err(|source| ConfigError::Write { file: file.to_owned(), source })?;
        }
        let failed = |source| ConfigError::Write { file: file.to_owned(), source };
        let (mut start, mut first) = (Instant::now(), None);
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(LockFile { path }),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                Err(_) => {}
            }
            let modified = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
            let first_modified = *first.get_or_insert(modified);
            if start.elapsed() <= LOCK_WAIT {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            // With a skewed file server clock, live locks seem old too; but those change while we
            // wait.
            match modified.filter(|modified| first_modified == Some(*modified) && is_old(*modified)) {
                Some(modified) => remove_stale(file, &path, modified)?,
                None => return Err(ConfigError::Locked { file: file.to_owned() }),
            }
            (start, first) = (Instant::now(), None);
        }
    }
}

/// Removes a stale lock of `file` that is unchanged since `modified`. Serialised by another lock:
/// otherwise a second process could remove the lock that the first one has just taken.
#[inline]
fn remove_stale(file: &Path, path: &Path, modified: SystemTime) -> Result<(), ConfigError> {
    let _turn = match LockFile::take(path) {
        Err(ConfigError::Locked { .. }) => return Err(ConfigError::Locked { file: file.to_owned() }),
        turn => turn?,
    };
    if std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok() != Some(modified) {
        return Ok(());
    }
    tracing::warn!(lock = %path.display(), "removing a lock that its process has left behind");
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ConfigError::Write { file: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

impl Drop for LockFile {
    #[inline]
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[inline]
fn is_old(modified: SystemTime) -> bool {
    // A lock from the future comes from a wrong clock, and would otherwise be waited for until that
    // time.
    SystemTime::now().duration_since(modified).unwrap_or_else(|ahead| ahead.duration()) > LOCK_STALE
}
