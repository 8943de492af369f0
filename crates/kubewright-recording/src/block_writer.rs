//! Compresses blocks of entries and writes them to the file, on a thread of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::entry::{End, Entry, Header, Limit};
use crate::error::RecordingError;

/// Size of a block before compression.
const BLOCK: usize = 256 << 10;

/// Number of blocks that wait for the thread. A program that records faster waits.
const WAITING_BLOCKS: usize = 64;

/// How long an entry may stay in memory. A killed program loses as much.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Space that is reserved for the last entries.
const RESERVE: u64 = 256;

/// Appends entries to the file. Dropping it completes the file.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    block: Arc<Mutex<Block>>,
    /// `Some` until the file is complete.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The entries that have not been handed over.
#[derive(Debug)]
struct Block {
    lines: Vec<u8>,
    entries: u64,
    /// `None` once the recording has ended.
    sender: Option<SyncSender<FullBlock>>,
}

#[derive(Debug)]
struct FullBlock {
    lines: Vec<u8>,
    entries: u64,
}

impl BlockWriter {
    /// Creates the file, which only its owner can read, and writes the header.
    pub(crate) fn create(path: &Path, header: &Header, limit: u64) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::File { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                failed(io::Error::new(error.kind(), "the file exists, and a recording does not overwrite it"))
            }
            _ => failed(error),
        })?;
        let mut file = RecordingFile { file, path: path.to_owned(), written: 0, limit };
        file.write(&line(header)).map_err(failed)?;
        let (sender, receiver) = sync_channel(WAITING_BLOCKS);
        let block = Arc::new(Mutex::new(Block { lines: Vec::new(), entries: 0, sender: Some(sender) }));
        let waiting = block.clone();
        let thread = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || file.follow(&receiver, &waiting))
            .map_err(failed)?;
        Ok(BlockWriter { block, thread: Mutex::new(Some(thread)) })
    }

    /// Appends an entry. Waits if the file is far behind. Does nothing once the recording has
    /// ended.
    pub(crate) fn append(&self, entry: &Entry) {
        let line = line(entry);
        let mut block = lock(&self.block);
        if block.sender.is_none() {
            return;
        }
        block.lines.extend_from_slice(&line);
        block.entries += 1;
        if block.lines.len() >= BLOCK {
            // Sent under the lock, so that blocks stay in order.
            let full = block.take();
            let sent = block.sender.as_ref().map(|sender| sender.send(full));
            if !matches!(sent, Some(Ok(()))) {
                block.sender = None;
            }
        }
    }
}

impl BlockWriter {
    /// Completes the file. Later entries are ignored.
    pub(crate) fn finish(&self) {
        let mut block = lock(&self.block);
        let rest = block.take();
        if let Some(sender) = block.sender.take() {
            let _ = sender.send(rest);
        }
        drop(block);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Block {
    fn take(&mut self) -> FullBlock {
        FullBlock { lines: std::mem::take(&mut self.lines), entries: std::mem::take(&mut self.entries) }
    }
}

fn lock(block: &Mutex<Block>) -> MutexGuard<'_, Block> {
    block.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file with its size.
struct RecordingFile {
    file: File,
    path: PathBuf,
    written: u64,
    limit: u64,
}

impl RecordingFile {
    /// Writes blocks until all senders are gone, the limit is reached, or the disk fails.
    fn follow(mut self, receiver: &Receiver<FullBlock>, waiting: &Mutex<Block>) {
        let (mut total, mut result) = (0, Ok(()));
        while result.is_ok() {
            let block = match receiver.recv_timeout(FLUSH_INTERVAL) {
                Ok(block) => block,
                Err(RecvTimeoutError::Timeout) => {
                    let mut waiting = lock(waiting);
                    // A block that was sent meanwhile is older.
                    match receiver.try_recv() {
                        Ok(block) => block,
                        Err(_) => waiting.take(),
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if block.lines.is_empty() {
                continue;
            }
            let packed = packed(&block.lines);
            if self.written + packed.len() as u64 + RESERVE > self.limit {
                lock(waiting).sender = None;
                tracing::warn!(file = %self.path.display(), limit = self.limit, "the recording has reached its size limit");
                result = self.write(&line(&Entry::Limit(Limit { bytes: self.limit })));
                total += 1;
                break;
            }
            result = self.append(&packed);
            total += block.entries;
        }
        let ended = result.and_then(|()| self.write(&line(&Entry::End(End { entries: total }))));
        if let Err(error) = ended.and_then(|()| self.file.sync_data()) {
            lock(waiting).sender = None;
            tracing::error!(file = %self.path.display(), %error, "the recording ends: its file cannot be written");
        }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.append(&packed(lines))
    }

    fn append(&mut self, packed: &[u8]) -> io::Result<()> {
        self.written += packed.len() as u64;
        self.file.write_all(packed)
    }
}

/// A gzip member.
pub(crate) fn packed(lines: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(lines.len() / 4), Compression::fast());
    encoder.write_all(lines).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}

/// A value as a line of JSON.
pub(crate) fn line(value: &impl serde::Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("entries have string keys only");
    line.push(b'\n');
    line
}
