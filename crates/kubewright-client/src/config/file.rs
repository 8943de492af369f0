//! Files that several processes write: one at a time, each of them whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::error::ConfigError;

/// How long another writer is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// A lock older than this, which nobody has touched while it was waited for, was left by a process that has died: writing takes
/// milliseconds.
const LOCK_STALE: Duration = Duration::from_secs(60);
/// Links that lead to more links than this lead in a circle.
const LINKS_MAX: usize = 40;

/// The file behind links, so that a link stays a link, also one to a file that is yet to be made. An error if they lead in a
/// circle.
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

/// Puts a new file in place of the old one in one step.
#[inline]
pub(super) fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let temporary = with_suffix(file, &format!(".{}.tmp", std::process::id()));
    let written = private_file(&temporary).and_then(|mut target| {
        keep_owner(file, &target);
        target.write_all(content)?;
        // The name must not reach the disk before the content.
        target.sync_all()
    });
    written.and_then(|()| std::fs::rename(&temporary, file)).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// Gives a new file the owner of the one whose place it takes: who writes may be root, for somebody else.
#[cfg(unix)]
fn keep_owner(file: &Path, target: &File) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (Ok(before), Ok(after)) = (std::fs::metadata(file), target.metadata()) else { return };
    if before.uid() != after.uid() {
        // Only root can, and whoever else may put a file here may own it.
        let _ = fchown(target, Some(before.uid()), Some(before.gid()));
    }
}

#[cfg(not(unix))]
fn keep_owner(_file: &Path, _target: &File) {}

/// A new file that only its owner may read.
#[inline]
fn private_file(path: &Path) -> io::Result<File> {
    // What a dead process of the same id has left is of no use to anybody.
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

/// A file beside the one that is written, as kubectl makes it. Removed when dropped.
pub(super) struct Lock {
    path: PathBuf,
}

impl Lock {
    #[inline]
    pub(super) fn take(file: &Path) -> Result<Lock, ConfigError> {
        let path = with_suffix(file, ".lock");
        if let Some(directory) = file.parent() {
            let made = std::fs::create_dir_all(directory);
            made.map_err(|source| ConfigError::Write { file: file.to_owned(), source })?;
        }
        let failed = |source| ConfigError::Write { file: file.to_owned(), source };
        let (mut start, mut first) = (Instant::now(), None);
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(Lock { path }),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                Err(_) => {}
            }
            let modified = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
            let first_modified = *first.get_or_insert(modified);
            if start.elapsed() <= LOCK_WAIT {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            // The clock of a file server may differ from ours, and then the locks of those who live seem old as well: but theirs
            // come and go.
            match modified.filter(|modified| first_modified == Some(*modified) && is_old(*modified)) {
                Some(modified) => remove_stale(file, &path, modified)?,
                None => return Err(ConfigError::Locked { file: file.to_owned() }),
            }
            (start, first) = (Instant::now(), None);
        }
    }
}

/// Removes a lock of `file` that was left behind and still is as it was `modified`. One at a time: another who has found it as well
/// would otherwise remove the lock that the first has taken since.
#[inline]
fn remove_stale(file: &Path, path: &Path, modified: SystemTime) -> Result<(), ConfigError> {
    let _turn = match Lock::take(path) {
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

impl Drop for Lock {
    #[inline]
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[inline]
fn is_old(modified: SystemTime) -> bool {
    // One of the future is of a clock that was wrong, and would be waited for until that time comes.
    SystemTime::now().duration_since(modified).unwrap_or_else(|ahead| ahead.duration()) > LOCK_STALE
}
