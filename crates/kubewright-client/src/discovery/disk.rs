//! Discovery cached on disk, for short-lived programs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use kubewright_core::Value;

use super::aggregated;
use super::catalog::Discovery;
use super::document::DiscoveryDocument;

/// The name of the file in the directory of a server.
const FILE: &str = "discovery.json";

/// A file with the discovery of one server.
///
/// Its age is its modification time. It is replaced atomically, and only complete discovery is
/// stored. An unreadable file is ignored, and so is a failure to write. The server's documents are
/// stored next to it with their ETags: expired ones are revalidated and transferred again only if
/// they have changed.
#[derive(Debug, Clone)]
#[doc(alias = "NewCachedDiscoveryClientForConfig")]
pub struct DiskCache {
    directory: PathBuf,
    ttl: Duration,
}

impl DiskCache {
    /// Caches discovery in `directory`, which must be specific to the server, for `ttl`.
    pub fn new(directory: impl Into<PathBuf>, ttl: Duration) -> Self {
        DiskCache { directory: directory.into(), ttl }
    }

    /// A directory name for a server, derived from its address.
    #[doc(alias = "ComputeDiscoverCacheDir")]
    #[inline]
    pub fn directory_name(host: &str) -> String {
        let host = host.split_once("://").map_or(host, |(_, rest)| rest);
        host.chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-./".contains(c) { c } else { '_' })
            .collect::<String>()
            .replace("..", "__")
    }

    #[inline]
    pub(super) async fn read(&self) -> Option<Discovery> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.read_file()).await.ok()?
    }

    #[inline]
    pub(super) async fn write(&self, discovery: &Discovery) {
        let text = aggregated::write(discovery).to_string();
        let this = self.clone();
        let written = tokio::task::spawn_blocking(move || this.replace_file(FILE, text.as_bytes())).await;
        if let Ok(Err(error)) = written {
            tracing::debug!(error = &error as &dyn std::error::Error, "discovery is not kept on disk");
        }
    }

    /// A document with an ETag, however old: the server revalidates it.
    #[inline]
    pub(super) async fn read_document(&self, name: &str) -> Option<DiscoveryDocument> {
        let path = self.directory.join(name);
        let read = tokio::task::spawn_blocking(move || fs::read(path)).await.ok()?;
        DiscoveryDocument::from_file(&read.ok()?)
    }

    #[inline]
    pub(super) async fn write_document(&self, name: &'static str, document: &DiscoveryDocument) {
        let (this, file) = (self.clone(), document.to_file());
        let written = tokio::task::spawn_blocking(move || this.replace_file(name, &file)).await;
        if let Ok(Err(error)) = written {
            tracing::debug!(error = &error as &dyn std::error::Error, "a document of discovery is not kept on disk");
        }
    }

    #[inline]
    pub(super) async fn remove(&self) {
        let path = self.directory.join(FILE);
        // A missing file need not be removed.
        let _ = tokio::task::spawn_blocking(move || fs::remove_file(path)).await;
    }

    #[inline]
    fn read_file(&self) -> Option<Discovery> {
        let path = self.directory.join(FILE);
        let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok()?;
        // A file from the future comes from a wrong clock, and may have any age.
        let age = SystemTime::now().duration_since(changed).unwrap_or_else(|ahead| ahead.duration());
        if age > self.ttl {
            return None;
        }
        let mut discovery = Discovery::default();
        aggregated::read(&Value::from_json(&fs::read(&path).ok()?).ok()?, &mut discovery);
        (!discovery.groups.is_empty()).then_some(discovery)
    }

    #[inline]
    fn replace_file(&self, name: &str, text: &[u8]) -> io::Result<()> {
        create_directory(&self.directory)?;
        // A unique name per write: several clients of a process may share a directory.
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let write = WRITES.fetch_add(1, Ordering::Relaxed);
        let temporary = self.directory.join(format!(".{name}.{}-{write}", std::process::id()));
        let result = write_file(&temporary, text).and_then(|()| fs::rename(&temporary, self.directory.join(name)));
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result
    }
}

#[inline]
fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
    builder.create(path)
}

#[inline]
fn write_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o660);
    let mut file = options.open(path)?;
    io::Write::write_all(&mut file, text)?;
    // The content must be on disk before the name.
    file.sync_all()
}
