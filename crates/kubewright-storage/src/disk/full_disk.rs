//! Disks for tests: temporary directories, and files on a disk that can be full.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

impl OpenDisk {
    /// Opens the file in `directory` on a disk that is full while `is_full`.
    pub fn on_full_disk(
        directory: &Path,
        durability: Durability,
        is_full: &Arc<AtomicBool>,
    ) -> Result<(Self, DataFileContents), OpenError> {
        let is_full = Arc::clone(is_full);
        OpenDisk::open_with(directory, durability, Box::new(move |path| FullDisk::open(path, &is_full)))
    }
}

impl Recovery {
    /// Whether a write has failed.
    pub fn has_failed(&self) -> bool {
        self.queue.failed.borrow().is_some()
    }
}

/// A directory of one test, removed at its end.
pub struct Directory(pub PathBuf);

impl Directory {
    /// Creates the directory, whose name contains `name`.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kubewright-disk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file on a disk that can be full.
#[derive(Debug)]
struct FullDisk(redb::backends::FileBackend, Arc<AtomicBool>);

impl FullDisk {
    fn open(path: &Path, is_full: &Arc<AtomicBool>) -> Result<Database, String> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = redb::backends::FileBackend::new(file.map_err(|error| error.to_string())?);
        let file = FullDisk(file.map_err(|error| error.to_string())?, Arc::clone(is_full));
        Database::builder().create_with_backend(file).map_err(|error| error.to_string())
    }

    fn room(&self) -> io::Result<()> {
        if self.1.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl redb::StorageBackend for FullDisk {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.room().and_then(|()| self.0.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.room().and_then(|()| self.0.write(offset, bytes))
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}
