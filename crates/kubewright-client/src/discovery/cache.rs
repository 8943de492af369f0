//! Cached discovery.

use std::sync::{Arc, Mutex, PoisonError};

use super::catalog::{Discovery, GroupFailure};
use super::client::DiscoveryClient;
use super::disk::DiskCache;
use super::legacy;
use crate::error::Result;
use crate::rest::Client;

/// Cached discovery: requested once, then cached until it is invalidated.
///
/// Transient failures are retried on the next use. A handle: clones share one cache.
#[derive(Debug, Clone)]
#[doc(alias = "CachedDiscoveryInterface")]
#[doc(alias = "NewMemCacheClient")]
pub struct CachedDiscovery {
    client: DiscoveryClient,
    disk: Option<DiskCache>,
    memory: Arc<Mutex<CacheState>>,
    /// Held during a request, so that concurrent misses cause one request.
    asking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct CacheState {
    known: Option<Arc<Discovery>>,
    /// Whether the cached data was requested after the last invalidation.
    is_fresh: bool,
    /// Incremented by each caller that needs data newer than now.
    age: u64,
    /// The age when the request for the cached data started: later changes on the server may be
    /// missing.
    known_age: u64,
    /// The age of the last invalidation. Data requested earlier is not cached.
    forgotten_age: u64,
}

impl CachedDiscovery {
    /// A memory cache over `client`.
    #[inline]
    pub fn new(client: DiscoveryClient) -> Self {
        CachedDiscovery { client, disk: None, memory: Arc::default(), asking: Arc::default() }
    }

    /// Also caches on disk. Off by default.
    #[must_use]
    #[inline]
    pub fn disk(mut self, disk: DiskCache) -> Self {
        self.client = self.client.documents_on(disk.clone());
        self.disk = Some(disk);
        self
    }

    /// The client.
    #[inline]
    pub(super) fn client(&self) -> &Client {
        self.client.client()
    }

    /// The cached discovery, requested if needed.
    ///
    /// # Errors
    /// If nothing is cached and the request fails.
    #[inline]
    pub async fn get(&self) -> Result<Arc<Discovery>> {
        self.get_if(|known| !known.failures.iter().any(|failure| failure.is_transient)).await
    }

    /// The cached discovery including failures. Requested only if nothing is cached.
    #[inline]
    pub(super) async fn known(&self) -> Result<Arc<Discovery>> {
        self.get_if(|_| true).await
    }

    /// Requests the current discovery. The cache stays in use until there is a response.
    #[inline]
    pub(super) async fn refresh(&self) -> Result<Arc<Discovery>> {
        let wanted = {
            let mut memory = self.memory();
            memory.age += 1;
            memory.age
        };
        let _asking = self.asking.lock().await;
        // Another caller may have requested it since; a request that started before we came is too
        // old.
        match self.remembered() {
            (Some(known), age) if age >= wanted => Ok(known),
            _ => self.discover().await,
        }
    }

    /// Whether the cached data was requested from the server, and not read from disk, since the
    /// last [`invalidate`](Self::invalidate).
    #[doc(alias = "Fresh")]
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.memory().is_fresh
    }

    /// Invalidates the cache, so that the next use requests discovery. Results of requests in
    /// progress are not cached either.
    #[doc(alias = "Invalidate")]
    #[inline]
    pub async fn invalidate(&self) {
        {
            let mut memory = self.memory();
            let age = memory.age + 1;
            *memory = CacheState { age, forgotten_age: age, ..CacheState::default() };
        }
        if let Some(disk) = &self.disk {
            disk.remove().await;
        }
    }

    #[inline]
    fn memory(&self) -> std::sync::MutexGuard<'_, CacheState> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached data and its age.
    #[inline]
    fn remembered(&self) -> (Option<Arc<Discovery>>, u64) {
        let memory = self.memory();
        (memory.known.clone(), memory.known_age)
    }

    /// The cached data if `is_enough`; otherwise requests the missing parts.
    async fn get_if(&self, is_enough: impl Fn(&Discovery) -> bool) -> Result<Arc<Discovery>> {
        let (before, _) = self.remembered();
        if let Some(known) = before.as_ref().filter(|known| is_enough(known)) {
            return Ok(Arc::clone(known));
        }
        let _asking = self.asking.lock().await;
        match (before, self.remembered()) {
            (Some(before), (Some(known), age)) if Arc::ptr_eq(&before, &known) => {
                let mended = self.mend(&known).await;
                Ok(self.remember(mended, age).await)
            }
            // Another caller has just requested it, and its failures would repeat.
            (_, (Some(known), _)) => Ok(known),
            (_, (None, _)) => match self.read_disk().await {
                Some(known) => Ok(known),
                None => self.discover().await,
            },
        }
    }

    /// Requests everything.
    #[inline]
    async fn discover(&self) -> Result<Arc<Discovery>> {
        let age = self.memory().age;
        let known = self.remember(self.client.discover().await?, age).await;
        // The file on disk is older than this, and a partial result is not stored.
        if let Some(disk) = self.disk.as_ref().filter(|_| !known.failures.is_empty()) {
            disk.remove().await;
        }
        Ok(known)
    }

    /// Caches a response of this age, unless it was invalidated since.
    #[inline]
    async fn remember(&self, discovery: Discovery, age: u64) -> Arc<Discovery> {
        let known = Arc::new(discovery);
        if self.keep(&known, age, true)
            && let Some(disk) = self.disk.as_ref().filter(|_| known.failures.is_empty())
        {
            disk.write(&known).await;
            // An invalidation at this moment removes the file, which may have been written
            // afterwards.
            if age < self.memory().forgotten_age {
                disk.remove().await;
            }
        }
        known
    }

    /// Caches the data in memory, unless it was invalidated since; returns whether it did.
    #[inline]
    fn keep(&self, known: &Arc<Discovery>, age: u64, is_fresh: bool) -> bool {
        let mut memory = self.memory();
        let is_wanted = age >= memory.forgotten_age;
        if is_wanted {
            (memory.known, memory.known_age, memory.is_fresh) = (Some(Arc::clone(known)), age, is_fresh);
        }
        is_wanted
    }

    /// The data on disk, unless the cache was invalidated: another process may have stored data
    /// that is too old for this one.
    #[inline]
    async fn read_disk(&self) -> Option<Arc<Discovery>> {
        let disk = self.disk.as_ref().filter(|_| self.memory().forgotten_age == 0)?;
        let known = Arc::new(disk.read().await?);
        self.keep(&known, 0, false).then_some(known)
    }

    /// Requests the versions with transient failures.
    #[inline]
    async fn mend(&self, partial: &Discovery) -> Discovery {
        let mut mended = partial.clone();
        let (failed, lasting): (Vec<GroupFailure>, _) =
            std::mem::take(&mut mended.failures).into_iter().partition(|one| one.is_transient);
        mended.failures = lasting;
        let wanted: Vec<_> = failed.iter().map(|one| one.group_version.clone()).collect();
        for (version, found) in legacy::ask(wanted, &self.client.fetch()).await {
            let before = failed.iter().find(|one| one.group_version == version);
            let order = before.map(|one| Arc::clone(&one.order)).unwrap_or_default();
            match found {
                Ok(resources) => mended.add(version, &order, resources),
                Err(error) => mended.failures.push(legacy::failure(version, order, &error)),
            }
        }
        mended
    }
}
