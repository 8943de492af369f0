//! Standard input and output of simulated commands.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Interrupt;

/// Maximum number of bytes between the commands of a pipe, and of a file that is read or written.
const BUFFER_MAX: usize = 64 << 20;
/// Maximum number of parts of a recording.
const PARTS_MAX: usize = 100_000;
/// The status of a command whose reader has gone: by SIGPIPE.
const BROKEN_PIPE: i32 = 128 + 13;

/// The standard streams of a command. Clones share them.
#[derive(Debug, Clone)]
pub struct Streams {
    /// Standard input.
    pub input: Input,
    /// Standard output.
    pub output: Output,
    /// Standard error.
    pub error: Output,
}

/// Standard input. Clones share the position.
#[derive(Debug, Clone)]
pub struct Input(Arc<tokio::sync::Mutex<Source>>);

#[derive(Debug)]
struct Source {
    rest: Bytes,
    live: Option<mpsc::Receiver<Bytes>>,
}

impl Input {
    /// These bytes.
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        Input(Arc::new(tokio::sync::Mutex::new(Source { rest: bytes.into(), live: None })))
    }

    /// The input of a client, as it arrives.
    pub fn live(chunks: mpsc::Receiver<Bytes>) -> Self {
        Input(Arc::new(tokio::sync::Mutex::new(Source { rest: Bytes::new(), live: Some(chunks) })))
    }

    /// The next bytes, or `None` at the end.
    pub async fn chunk(&self) -> Option<Bytes> {
        self.0.lock().await.chunk().await
    }

    /// The next line with its end, or `None` at the end.
    pub async fn line(&self) -> Option<Vec<u8>> {
        let mut source = self.0.lock().await;
        let mut line = Vec::new();
        while line.len() < BUFFER_MAX {
            let Some(mut chunk) = source.chunk().await else { break };
            if let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
                line.extend(chunk.split_to(end + 1));
                source.rest = chunk;
                return Some(line);
            }
            line.extend(chunk);
        }
        (!line.is_empty()).then_some(line)
    }

    /// All bytes up to the end. `None` if they are too many.
    pub async fn rest(&self) -> Option<Bytes> {
        let mut source = self.0.lock().await;
        let mut all = Vec::new();
        while let Some(chunk) = source.chunk().await {
            if all.len() + chunk.len() > BUFFER_MAX {
                return None;
            }
            all.extend(chunk);
        }
        Some(all.into())
    }
}

impl Source {
    async fn chunk(&mut self) -> Option<Bytes> {
        if !self.rest.is_empty() {
            return Some(std::mem::take(&mut self.rest));
        }
        loop {
            let chunk = self.live.as_mut()?.recv().await?;
            if !chunk.is_empty() {
                return Some(chunk);
            }
        }
    }
}

/// Standard output. Clones share it.
#[derive(Debug, Clone)]
pub enum Output {
    /// Nobody reads it.
    Null,
    /// A client reads it.
    Channel(mpsc::Sender<Bytes>),
    /// It is collected, for a pipe, a file or a substitution.
    Buffer(Buffer),
    /// It is collected with the time of each part.
    Recording(Recording),
}

/// Collected output.
#[derive(Debug, Clone, Default)]
pub struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    /// Takes what was written.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Output with its times. The oldest parts are dropped beyond a limit.
#[derive(Debug, Clone)]
pub struct Recording(Arc<Mutex<Entries>>);

#[derive(Debug)]
struct Entries {
    entries: VecDeque<(Duration, Bytes)>,
    bytes: usize,
    bytes_max: usize,
}

impl Recording {
    /// A recording of at most this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Recording(Arc::new(Mutex::new(Entries { entries: VecDeque::new(), bytes: 0, bytes_max })))
    }

    /// Takes the parts with their times.
    pub fn take(&self) -> VecDeque<(Duration, Bytes)> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.bytes = 0;
        std::mem::take(&mut entries.entries)
    }

    fn push(&self, time: Duration, bytes: Bytes) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.bytes += bytes.len();
        entries.entries.push_back((time, bytes));
        while entries.bytes > entries.bytes_max || entries.entries.len() > PARTS_MAX {
            let Some((_, oldest)) = entries.entries.pop_front() else { break };
            entries.bytes -= oldest.len();
        }
    }
}

impl Output {
    /// Writes bytes at this time since the start of the container.
    ///
    /// # Errors
    /// The end of the command, if its reader has gone or it has written too much.
    pub async fn write(&self, time: Duration, bytes: impl Into<Bytes>) -> Result<(), Interrupt> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Ok(());
        }
        match self {
            Output::Null => Ok(()),
            Output::Channel(channel) => channel.send(bytes).await.map_err(|_| Interrupt::Exit(BROKEN_PIPE)),
            Output::Buffer(Buffer(buffer)) => {
                let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
                if buffer.len() + bytes.len() > BUFFER_MAX {
                    return Err(Interrupt::Exit(BROKEN_PIPE));
                }
                buffer.extend_from_slice(&bytes);
                Ok(())
            }
            Output::Recording(recording) => {
                recording.push(time, bytes);
                Ok(())
            }
        }
    }
}
