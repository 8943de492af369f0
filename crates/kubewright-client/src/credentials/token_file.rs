//! A bearer token in a file that somebody else keeps fresh.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::secret::Secret;

/// How long a token that has been read is good without looking again: a minute, less what a request may take.
const FRESH: Duration = Duration::from_secs(50);

/// A token file and what was last read from it.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// What counts until the file has been read.
    fallback: Option<Secret<String>>,
    cached: Mutex<Option<Cached>>,
}

#[derive(Debug, Clone)]
struct Cached {
    token: Secret<String>,
    read_at: Instant,
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf, fallback: Option<Secret<String>>) -> Self {
        TokenFile { path, fallback, cached: Mutex::new(None) }
    }

    /// The token, read again if it is not fresh. A file that cannot be read leaves the last token in force.
    pub(crate) fn token(&self) -> std::io::Result<Secret<String>> {
        let mut cached = self.cached.lock().expect("nothing panics under this lock");
        if let Some(cached) = cached.as_ref().filter(|cached| cached.read_at.elapsed() < FRESH) {
            return Ok(cached.token.clone());
        }
        match self.read() {
            Ok(token) => {
                *cached = Some(Cached { token: token.clone(), read_at: Instant::now() });
                Ok(token)
            }
            Err(error) => match cached.as_ref().map(|cached| &cached.token).or(self.fallback.as_ref()) {
                Some(token) => {
                    tracing::warn!(file = %self.path.display(), %error, "cannot read the token file, using the last token");
                    Ok(token.clone())
                }
                None => Err(error),
            },
        }
    }

    /// Looks again although the token seems fresh. Whether there is another one now.
    pub(crate) fn refresh(&self, rejected: &str) -> bool {
        let mut cached = self.cached.lock().expect("nothing panics under this lock");
        let Ok(token) = self.read() else { return false };
        let is_new = token.expose() != rejected;
        *cached = Some(Cached { token, read_at: Instant::now() });
        is_new
    }

    fn read(&self) -> std::io::Result<Secret<String>> {
        // The file is small and local; a thread of its own would cost more than reading it.
        let text = std::fs::read_to_string(&self.path)?;
        let token = text.trim();
        match token.is_empty() {
            true => Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "the file is empty")),
            false => Ok(Secret::from(token)),
        }
    }
}
