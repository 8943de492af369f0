//! Discovery that is remembered.

use std::sync::{Arc, Mutex, PoisonError};

use super::catalog::Discovery;
use super::client::DiscoveryClient;
use super::disk::DiskCache;
use super::legacy;
use crate::error::Result;

/// What a server has, asked for once and then remembered until it is told to forget.
///
/// What failed in passing is asked for again with the next use; the rest is not. A handle: clones remember together.
#[derive(Debug, Clone)]
#[doc(alias = "CachedDiscoveryInterface")]
#[doc(alias = "NewMemCacheClient")]
pub struct CachedDiscovery {
    client: DiscoveryClient,
    disk: Option<DiskCache>,
    memory: Arc<Mutex<Memory>>,
    /// Held while the server is asked, so that many who miss at once ask once.
    asking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Memory {
    known: Option<Arc<Discovery>>,
    /// Whether what is known was asked from the server since the last time it was told to forget.
    is_fresh: bool,
}

impl CachedDiscovery {
    /// Remembers in memory what `client` finds out.
    #[inline]
    pub fn new(client: DiscoveryClient) -> Self {
        CachedDiscovery { client, disk: None, memory: Arc::default(), asking: Arc::default() }
    }

    /// Also remembers on disk. Off by default.
    #[must_use]
    #[inline]
    pub fn disk(mut self, disk: DiskCache) -> Self {
        self.client = self.client.documents_on(disk.clone());
        self.disk = Some(disk);
        self
    }

    /// What the server has, as far as it is remembered.
    ///
    /// # Errors
    /// When nothing is remembered and the server cannot be asked.
    #[inline]
    pub async fn get(&self) -> Result<Arc<Discovery>> {
        if let Some(known) = self.complete() {
            return Ok(known);
        }
        let _asking = self.asking.lock().await;
        if let Some(known) = self.complete() {
            return Ok(known);
        }
        let partial = self.memory().known.clone();
        let discovery = match partial {
            Some(partial) => self.mend(&partial).await,
            None => match self.read_disk().await {
                Some(kept) => return Ok(self.remember(kept, false)),
                None => self.client.discover().await?,
            },
        };
        if let Some(disk) = self.disk.as_ref().filter(|_| discovery.failures.is_empty()) {
            disk.write(&discovery).await;
        }
        Ok(self.remember(discovery, true))
    }

    /// Whether what is remembered was asked from the server, and not from the disk, since the last [`invalidate`](Self::invalidate).
    #[doc(alias = "Fresh")]
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.memory().is_fresh
    }

    /// Forgets everything, so that the server is asked with the next use.
    #[doc(alias = "Invalidate")]
    #[inline]
    pub async fn invalidate(&self) {
        if let Some(disk) = &self.disk {
            disk.remove().await;
        }
        *self.memory() = Memory::default();
    }

    #[inline]
    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered, unless a part of it is worth asking for again.
    #[inline]
    fn complete(&self) -> Option<Arc<Discovery>> {
        let memory = self.memory();
        let known = memory.known.as_ref()?;
        (!known.failures.iter().any(|failure| failure.is_transient)).then(|| Arc::clone(known))
    }

    #[inline]
    fn remember(&self, discovery: Discovery, is_fresh: bool) -> Arc<Discovery> {
        let known = Arc::new(discovery);
        *self.memory() = Memory { known: Some(Arc::clone(&known)), is_fresh };
        known
    }

    #[inline]
    async fn read_disk(&self) -> Option<Discovery> {
        self.disk.as_ref()?.read().await
    }

    /// Asks for the versions that failed in passing.
    #[inline]
    async fn mend(&self, partial: &Discovery) -> Discovery {
        let mut mended = partial.clone();
        for failure in std::mem::take(&mut mended.failures) {
            if !failure.is_transient {
                mended.failures.push(failure);
                continue;
            }
            match self.client.version(&failure.group_version).await {
                Ok(resources) => mended.add(&failure.group_version, resources),
                Err(error) => mended.failures.push(legacy::failure(failure.group_version, &error)),
            }
        }
        mended
    }
}
