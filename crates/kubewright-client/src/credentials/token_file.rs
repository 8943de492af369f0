//! A bearer token in a file that somebody else keeps fresh.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};

use crate::secret::Secret;
use crate::task;

/// How long a token that has been read is good without looking again: a minute, less what a request may take.
const FRESH: Duration = Duration::from_secs(50);

/// How long a caller that has an old token waits for the file.
const READ_WAIT: Duration = Duration::from_secs(1);

/// A token file and what was last read from it.
///
/// The file is read on a thread that may block, by one caller at a time. While a stale token is
/// read again, the other callers use the old one, and so does the reader if the file system does
/// not answer in time.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// What counts until the file has been read.
    fallback: Option<Secret<String>>,
    cached: Arc<Mutex<Option<Cached>>>,
    /// Held while the file is read.
    reading: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Clone)]
struct Cached {
    token: Secret<String>,
    read_at: Instant,
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf, fallback: Option<Secret<String>>) -> Self {
        TokenFile { path, fallback, cached: Arc::default(), reading: Arc::default() }
    }

    /// The token, read again if it is not fresh. A file that cannot be read leaves the last token in force.
    pub(crate) async fn token(&self) -> io::Result<Secret<String>> {
        let turn = match self.cached() {
            Some(cached) if cached.is_fresh() => return Ok(cached.token),
            Some(cached) => match Arc::clone(&self.reading).try_lock_owned() {
                Ok(turn) => turn,
                // Somebody reads it already.
                Err(_) => return Ok(cached.token),
            },
            None => Arc::clone(&self.reading).lock_owned().await,
        };
        // Somebody may have read it while we waited for our turn.
        if let Some(cached) = self.cached().filter(Cached::is_fresh) {
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

    /// Looks again although the token seems fresh. Whether there is another one now.
    pub(crate) async fn refresh(&self, rejected: &str) -> bool {
        let Ok(turn) = timeout(READ_WAIT, Arc::clone(&self.reading).lock_owned()).await else { return false };
        if self.cached().is_some_and(|cached| cached.token.expose() != rejected && cached.is_fresh()) {
            return true;
        }
        self.read_in_time(turn).await.is_ok_and(|token| token.expose() != rejected)
    }

    async fn read_in_time(&self, turn: OwnedMutexGuard<()>) -> io::Result<Secret<String>> {
        timeout(READ_WAIT, self.read(turn)).await.unwrap_or_else(|elapsed| Err(io::Error::other(elapsed)))
    }

    /// Reads the file, and keeps the token even if the caller gives up meanwhile.
    async fn read(&self, turn: OwnedMutexGuard<()>) -> io::Result<Secret<String>> {
        let (path, cached) = (self.path.clone(), Arc::clone(&self.cached));
        task::blocking(move || {
            let _turn = turn;
            let token = read_token(&path)?;
            *lock(&cached) = Some(Cached { token: token.clone(), read_at: Instant::now() });
            Ok(token)
        })
        .await
    }

    fn cached(&self) -> Option<Cached> {
        lock(&self.cached).clone()
    }
}

impl Cached {
    fn is_fresh(&self) -> bool {
        self.read_at.elapsed() < FRESH
    }
}

fn lock(cached: &Mutex<Option<Cached>>) -> MutexGuard<'_, Option<Cached>> {
    cached.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_token(path: &Path) -> io::Result<Secret<String>> {
    let text = std::fs::read_to_string(path)?;
    match text.trim() {
        "" => Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty")),
        token => Ok(Secret::from(token)),
    }
}
