//! A bearer token in a file that is refreshed externally.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};

use crate::secret::Secret;
use crate::task;

/// How long a token is used without reading the file again: a minute, minus the duration of a
/// request.
const REFRESH_INTERVAL: Duration = Duration::from_secs(50);

/// How long a caller with a stale token waits for the file.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// A token file and its last content.
///
/// The file is read in a blocking task, by one caller at a time. While a stale token is reloaded,
/// other callers use the old one; so does the reader if the file system does not respond in time.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// The token until the file has been read.
    fallback: Option<Secret<String>>,
    cached: Arc<Mutex<Option<CachedToken>>>,
    /// Held while the file is read.
    reading: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Clone)]
struct CachedToken {
    token: Secret<String>,
    read_at: Instant,
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf, fallback: Option<Secret<String>>) -> Self {
        TokenFile { path, fallback, cached: Arc::default(), reading: Arc::default() }
    }

    /// The token, reloaded if stale. If the file cannot be read, the last token stays in use.
    pub(crate) async fn token(&self) -> io::Result<Secret<String>> {
        let turn = match self.cached() {
            Some(cached) if cached.is_fresh() => return Ok(cached.token),
            Some(cached) => match Arc::clone(&self.reading).try_lock_owned() {
                Ok(turn) => turn,
                // Another caller is reading it.
                Err(_) => return Ok(cached.token),
            },
            None => Arc::clone(&self.reading).lock_owned().await,
        };
        // Another caller may have read it while we waited for the lock.
        if let Some(cached) = self.cached().filter(CachedToken::is_fresh) {
            return Ok(cached.token);
        }
        let Some(last) = self.cached().map(|cached| cached.token).or(self.fallback.clone()) else {
            return self.read(turn).await;
        };
        Ok(self.read_in_time(turn).await.unwrap_or_else(|error| {
            tracing::warn!(file = %self.path.display(), %error, "cannot read the token file, using the last token");
            last
        }))
    }

    /// Reloads the file although the token seems fresh. Returns whether the token changed.
    pub(crate) async fn refresh(&self, rejected: &str) -> bool {
        let Ok(turn) = timeout(READ_TIMEOUT, Arc::clone(&self.reading).lock_owned()).await else { return false };
        if self.cached().is_some_and(|cached| cached.token.expose() != rejected && cached.is_fresh()) {
            return true;
        }
        self.read_in_time(turn).await.is_ok_and(|token| token.expose() != rejected)
    }

    async fn read_in_time(&self, turn: OwnedMutexGuard<()>) -> io::Result<Secret<String>> {
        timeout(READ_TIMEOUT, self.read(turn)).await.unwrap_or_else(|elapsed| Err(io::Error::other(elapsed)))
    }

    /// Reads the file, and stores the token even if the caller is dropped.
    async fn read(&self, turn: OwnedMutexGuard<()>) -> io::Result<Secret<String>> {
        let (path, cached) = (self.path.clone(), Arc::clone(&self.cached));
        task::blocking(move || {
            let _turn = turn;
            let token = read_token(&path)?;
            *lock(&cached) = Some(CachedToken { token: token.clone(), read_at: Instant::now() });
            Ok(token)
        })
        .await
    }

    fn cached(&self) -> Option<CachedToken> {
        lock(&self.cached).clone()
    }
}

impl CachedToken {
    fn is_fresh(&self) -> bool {
        self.read_at.elapsed() < REFRESH_INTERVAL
    }
}

fn lock(cached: &Mutex<Option<CachedToken>>) -> MutexGuard<'_, Option<CachedToken>> {
    cached.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_token(path: &Path) -> io::Result<Secret<String>> {
    let text = std::fs::read_to_string(path)?;
    match text.trim() {
        "" => Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty")),
        token => Ok(Secret::from(token)),
    }
}
