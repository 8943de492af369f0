//! Files and directories that only their owner can read: objects, keys and certificates.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Replaces a file with one that only its owner can read.
///
/// Atomic: a crash leaves either the old file or the new one. A symbolic link at `path` is
/// replaced, not followed, so that no one can redirect a key to another file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = draft_of(path);
    let mut file = create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    publish(&draft, path)
}

/// The path of the draft that replaces a file.
pub fn draft_of(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    draft.into()
}

/// Creates an empty file that only its owner can read. Replaces an existing file or link.
pub fn create(path: &Path) -> io::Result<File> {
    // It may be the draft of a crashed process, or a link by another user.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Renames a finished draft. The name survives a power failure once this has returned.
pub fn publish(draft: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(draft, path)?;
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Creates a directory that only its owner can open, or restricts an existing one to its owner.
///
/// # Errors
/// If it cannot be created or changed.
pub fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    restrict(path, 0o700)
}

/// Restricts a file or directory to its owner.
pub fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    if is_open_to_others(path)? {
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Whether users other than the owner have any right to a file or directory.
pub fn is_open_to_others(path: &Path) -> io::Result<bool> {
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The test below runs this one in a process of its own, under strace.
    const FILE: &str = "KUBEWRIGHT_PUBLISHED_FILE";

    #[test]
    fn writes_the_file_named_by_the_environment() {
        if let Some(path) = std::env::var_os(FILE) {
            write(Path::new(&path), b"key").expect("the directory is writable");
        }
    }

    #[test]
    #[allow(clippy::print_stderr)]
    fn a_file_is_flushed_before_its_rename_and_the_directory_after_it() {
        let directory = std::env::temp_dir().join(format!("kubewright-flush-{}", std::process::id()));
        self::directory(&directory).expect("it can be created");
        let file = directory.join("key");
        let strace = Command::new("strace")
            .args(["-f", "-y", "-e", "trace=fsync,rename,renameat,renameat2"])
            .arg(std::env::current_exe().expect("it is running"))
            .args(["--exact", "private_file::tests::writes_the_file_named_by_the_environment"])
            .env(FILE, &file)
            .output();
        let is_written = file.exists();
        std::fs::remove_dir_all(&directory).expect("it is ours");
        let Ok(output) = strace else {
            eprintln!("SKIPPED: strace is not installed (Debian: apt-get install strace)");
            return;
        };
        let calls = String::from_utf8_lossy(&output.stderr).into_owned();
        if calls.contains("PTRACE_TRACEME: Operation not permitted") {
            eprintln!("SKIPPED: strace may not trace processes here");
            return;
        }
        assert!(is_written, "{calls}");
        let position = |call: &str, target: &str| {
            let found = calls.lines().position(|line| line.contains(call) && line.contains(target));
            found.unwrap_or_else(|| panic!("no {call} of {target} among:\n{calls}"))
        };
        let renamed = position("rename", "/key.new\"");
        assert!(position("fsync(", "/key.new>") < renamed, "{calls}");
        assert!(position("fsync(", &format!("{}>", directory.display())) > renamed, "{calls}");
    }
}
