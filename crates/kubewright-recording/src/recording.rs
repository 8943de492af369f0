//! Reads recordings.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::block_writer::{line, packed};
use crate::entry::{End, Entry, Header};
use crate::error::RecordingError;

/// The version of the format that is written and read.
pub const FORMAT: u32 = 1;

/// The name of the format in the header.
pub(crate) const NAME: &str = "kubewright-recording";

/// Maximum size of a decompressed file, which is read into memory.
const MAX_SIZE: u64 = 1 << 30;

/// Maximum size of the header.
const MAX_HEADER: u64 = 64 << 10;

/// A complete recording, in memory.
#[derive(Debug, Clone)]
pub struct Recording {
    header: Header,
    entries: Arc<Vec<Entry>>,
}

/// Where a reader stopped.
enum Stop {
    /// At the last entry.
    End,
    /// Before it.
    Truncated,
}

impl Recording {
    /// Reads a file, and checks all of it. At most 1 GiB after decompression.
    ///
    /// # Errors
    /// If the file is not a recording, has another version of the format, is truncated, or is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        match Self::read(path)? {
            (recording, Stop::End) => Ok(recording),
            (recording, Stop::Truncated) => {
                Err(RecordingError::Truncated { path: path.to_owned(), entries: recording.entries.len() as u64 })
            }
        }
    }

    /// Like [`open`](Self::open), also for a file that is truncated because its program was killed.
    /// Reconciles without an end are part of it.
    ///
    /// # Errors
    /// If the file is not a recording, has another version of the format, or is damaged.
    pub fn open_prefix(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        Ok(Self::read(path.as_ref())?.0)
    }

    /// A recording of these entries.
    pub fn from_entries(header: Header, entries: Vec<Entry>) -> Self {
        Recording { header, entries: Arc::new(entries) }
    }

    /// The first line of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The entries, in order, without the last one.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The same entries, shared.
    pub fn shared_entries(&self) -> Arc<Vec<Entry>> {
        self.entries.clone()
    }

    /// Writes the recording to a new file that only its owner can read.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RecordingError> {
        let writer = crate::block_writer::BlockWriter::create(path.as_ref(), &self.header, u64::MAX)?;
        self.entries.iter().for_each(|entry| writer.append(entry));
        Ok(())
    }

    /// The recording as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = packed(&line(&self.header));
        let mut lines: Vec<u8> = self.entries.iter().flat_map(line).collect();
        lines.extend(line(&Entry::End(End { entries: self.entries.len() as u64 })));
        bytes.extend(packed(&lines));
        bytes
    }

    fn read(path: &Path) -> Result<(Self, Stop), RecordingError> {
        let file = File::open(path).map_err(|source| RecordingError::File { path: path.to_owned(), source })?;
        Reader {
            path: path.to_owned(),
            lines: BufReader::new(MultiGzDecoder::new(BufReader::new(file))),
            line: 0,
            size: 0,
        }
        .read()
    }
}

/// Reads the lines of a file.
struct Reader {
    path: PathBuf,
    lines: BufReader<MultiGzDecoder<BufReader<File>>>,
    line: u64,
    size: u64,
}

impl Reader {
    fn read(mut self) -> Result<(Recording, Stop), RecordingError> {
        let header = self.header()?;
        let mut entries = Vec::new();
        let mut text = Vec::new();
        loop {
            if self.next_line(&mut text, MAX_SIZE - self.size)?.is_none() {
                return Ok((Recording::from_entries(header, entries), Stop::Truncated));
            }
            let entry = match serde_json::from_slice(&text) {
                Ok(entry) => entry,
                // A kind of entry that a later program of the same format writes.
                Err(error) if error.to_string().starts_with("unknown variant") => continue,
                Err(error) => return Err(self.damaged(error.to_string())),
            };
            match entry {
                Entry::End(End { entries: count }) if count == entries.len() as u64 => {
                    let stop = self.end()?;
                    return Ok((Recording::from_entries(header, entries), stop));
                }
                Entry::End(End { entries: count }) => {
                    let why = format!("the file has {} entries, and its end says {count}", entries.len());
                    return Err(self.damaged(why));
                }
                entry => entries.push(entry),
            }
        }
    }

    fn header(&mut self) -> Result<Header, RecordingError> {
        let not_ours = |path: &Path, reason: String| RecordingError::NotARecording { path: path.to_owned(), reason };
        let mut text = Vec::new();
        match self.next_line(&mut text, MAX_HEADER) {
            Ok(Some(())) => {}
            Ok(None) => return Err(not_ours(&self.path, "it has no header".to_owned())),
            Err(RecordingError::Damaged { reason, .. }) => return Err(not_ours(&self.path, reason)),
            Err(RecordingError::TooLarge { .. }) => {
                return Err(not_ours(&self.path, "its first line is too long".to_owned()));
            }
            Err(error) => return Err(error),
        }
        // The version is checked before fields that it may not have.
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| not_ours(&self.path, format!("its first line: {error}")))?;
        if value["format"] != NAME {
            return Err(not_ours(&self.path, "its first line does not name the format".to_owned()));
        }
        let found = value["version"].as_u64().and_then(|version| u32::try_from(version).ok());
        match found {
            Some(FORMAT) => {}
            Some(found) => return Err(RecordingError::Version { path: self.path.clone(), found }),
            None => return Err(not_ours(&self.path, "its first line has no version".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| not_ours(&self.path, format!("its first line: {error}")))
    }

    /// The next line; `None` at the end of the file, wherever that is.
    fn next_line(&mut self, text: &mut Vec<u8>, limit: u64) -> Result<Option<()>, RecordingError> {
        text.clear();
        self.line += 1;
        let read = (&mut self.lines).take(limit + 1).read_until(b'\n', text);
        match read {
            Ok(_) if text.last() == Some(&b'\n') => {
                self.size += text.len() as u64;
                Ok(Some(()))
            }
            Ok(read) if read as u64 > limit => Err(RecordingError::TooLarge { path: self.path.clone(), limit }),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(self.damaged(error.to_string())),
        }
    }

    /// Reads the checksum after the last entry.
    fn end(&mut self) -> Result<Stop, RecordingError> {
        let mut byte = [0];
        match self.lines.read(&mut byte) {
            Ok(0) => Ok(Stop::End),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Stop::Truncated),
            Ok(_) => Err(self.damaged("something follows the end".to_owned())),
            Err(error) => Err(self.damaged(error.to_string())),
        }
    }

    fn damaged(&self, reason: String) -> RecordingError {
        RecordingError::Damaged { path: self.path.clone(), line: self.line, reason }
    }
}
