//! Discovery that is remembered.

use std::sync::{Arc, Mutex, PoisonError};

use super::catalog::{Discovery, GroupFailure};
use super::client::DiscoveryClient;
use super::disk::DiskCache;
use super::legacy;
use crate::client::Client;
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
    /// Raised by whoever wants to know what the server has from then on.
    age: u64,
    /// The age in which the asking for what is known began: what came to the server later may be missing.
    known_age: u64,
    /// The age of the last time it was told to forget. What was asked for earlier is not remembered.
    forgotten_age: u64,
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

    /// The client that asks.
    #[inline]
    pub(super) fn client(&self) -> &Client {
        self.client.client()
    }

    /// What the server has, as far as it is remembered.
    ///
    /// # Errors
    /// When nothing is remembered and the server cannot be asked.
    #[inline]
    pub async fn get(&self) -> Result<Arc<Discovery>> {
        self.get_if(|known| !known.failures.iter().any(|failure| failure.is_transient)).await
    }

    /// What is remembered, however much of it failed. Only where that is nothing is the server asked.
    #[inline]
    pub(super) async fn known(&self) -> Result<Arc<Discovery>> {
        self.get_if(|_| true).await
    }

    /// What the server has from now on. What is remembered stays so until there is an answer.
    #[inline]
    pub(super) async fn refresh(&self) -> Result<Arc<Discovery>> {
        let wanted = {
            let mut memory = self.memory();
            memory.age += 1;
            memory.age
        };
        let _asking = self.asking.lock().await;
        // Somebody may have asked for all who wait, but what was under way before they came is too old for them.
        match self.remembered() {
            (Some(known), age) if age >= wanted => Ok(known),
            _ => self.discover().await,
        }
    }

    /// Whether what is remembered was asked from the server, and not from the disk, since the last [`invalidate`](Self::invalidate).
    #[doc(alias = "Fresh")]
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.memory().is_fresh
    }

    /// Forgets everything, so that the server is asked with the next use. What is being asked for at this moment, by others,
    /// is not remembered either.
    #[doc(alias = "Invalidate")]
    #[inline]
    pub async fn invalidate(&self) {
        {
            let mut memory = self.memory();
            let age = memory.age + 1;
            *memory = Memory { age, forgotten_age: age, ..Memory::default() };
        }
        if let Some(disk) = &self.disk {
            disk.remove().await;
        }
    }

    #[inline]
    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered, and its age.
    #[inline]
    fn remembered(&self) -> (Option<Arc<Discovery>>, u64) {
        let memory = self.memory();
        (memory.known.clone(), memory.known_age)
    }

    /// What is remembered if it `is_enough`; else the server is asked for what is missing.
    #[inline]
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
            // Somebody has asked while we waited, and what failed then would fail again.
            (_, (Some(known), _)) => Ok(known),
            (_, (None, _)) => match self.read_disk().await {
                Some(known) => Ok(known),
                None => self.discover().await,
            },
        }
    }

    /// Asks the server for everything.
    #[inline]
    async fn discover(&self) -> Result<Arc<Discovery>> {
        let age = self.memory().age;
        let known = self.remember(self.client.discover().await?, age).await;
        // What is on disk is older than this, of which not all may be kept.
        if let Some(disk) = self.disk.as_ref().filter(|_| !known.failures.is_empty()) {
            disk.remove().await;
        }
        Ok(known)
    }

    /// Remembers an answer of the server of this age, unless it was told to forget meanwhile.
    #[inline]
    async fn remember(&self, discovery: Discovery, age: u64) -> Arc<Discovery> {
        let known = Arc::new(discovery);
        if self.keep(&known, age, true)
            && let Some(disk) = self.disk.as_ref().filter(|_| known.failures.is_empty())
        {
            disk.write(&known).await;
            // Whoever says so now looks for a file to remove, and it may have come later.
            if age < self.memory().forgotten_age {
                disk.remove().await;
            }
        }
        known
    }

    /// Keeps what is known in memory, unless it was told to forget meanwhile; whether it did.
    #[inline]
    fn keep(&self, known: &Arc<Discovery>, age: u64, is_fresh: bool) -> bool {
        let mut memory = self.memory();
        let is_wanted = age >= memory.forgotten_age;
        if is_wanted {
            (memory.known, memory.known_age, memory.is_fresh) = (Some(Arc::clone(known)), age, is_fresh);
        }
        is_wanted
    }

    /// What the disk has, unless it was told to forget: another process may have kept what is too old for this one.
    #[inline]
    async fn read_disk(&self) -> Option<Arc<Discovery>> {
        let disk = self.disk.as_ref().filter(|_| self.memory().forgotten_age == 0)?;
        let known = Arc::new(disk.read().await?);
        self.keep(&known, 0, false).then_some(known)
    }

    /// Asks for the versions that failed in passing.
    #[inline]
    async fn mend(&self, partial: &Discovery) -> Discovery {
        let mut mended = partial.clone();
        let (failed, lasting): (Vec<GroupFailure>, _) =
            std::mem::take(&mut mended.failures).into_iter().partition(|one| one.is_transient);
        mended.failures = lasting;
        let wanted: Vec<_> = failed.iter().map(|one| one.group_version.clone()).collect();
        for (version, found) in legacy::ask(&self.client, wanted).await {
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
