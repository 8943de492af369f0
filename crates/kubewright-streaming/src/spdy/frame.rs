//! SPDY/3.1 frames needed for exec and port-forward, at both ends.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

const HEAD: usize = 8;
/// Control bit and version.
const CONTROL: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// Flag of the last frame of a stream.
const FIN: u8 = 1;
/// Maximum of a 24-bit length.
const LONGEST: usize = 0x00ff_ffff;
/// Longer control frames are refused, before they are in memory.
const CONTROL_MAX: usize = 256 << 10;
/// The status of a stream that is not accepted.
pub const REFUSED_STREAM: u32 = 3;

/// Why a frame cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameError(String);

impl FrameError {
    pub(super) fn new(message: &str) -> Self {
        FrameError(message.to_owned())
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FrameError {}

impl From<FrameError> for std::io::Error {
    fn from(error: FrameError) -> Self {
        std::io::Error::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// Data of a stream.
    Data {
        /// The stream.
        stream: u32,
        /// Whether the peer sends no more on it.
        last: bool,
        /// The bytes.
        bytes: Bytes,
    },
    /// The peer opened a stream.
    Open {
        /// The stream.
        stream: u32,
        /// Whether the peer sends nothing on it.
        last: bool,
        /// Its headers, compressed.
        headers: Bytes,
    },
    /// A stream was reset.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        status: u32,
    },
    /// A ping, or the reply to ours.
    Ping(u32),
    /// No more frames follow.
    GoAway,
    /// An irrelevant frame: replies, headers, settings, window updates.
    Other,
}

impl Frame {
    /// Takes a frame from the buffer, if it is complete.
    ///
    /// # Errors
    /// If it is malformed, or of another version.
    pub fn take(buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(head) = buffer.first_chunk::<HEAD>() else { return Ok(None) };
        let word = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let flags = head[4];
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        if word >> 31 == 1 && length > CONTROL_MAX {
            return Err(FrameError(format!("a control frame of SPDY has {length} bytes")));
        }
        if buffer.len() < HEAD + length {
            return Ok(None);
        }
        let mut bytes = buffer.split_to(HEAD + length).freeze();
        bytes.advance(HEAD);
        if word >> 31 == 0 {
            return Ok(Some(Frame::Data { stream: word, last: flags & FIN != 0, bytes }));
        }
        if word >> 16 != u32::from(CONTROL) {
            return Err(FrameError(format!("unsupported SPDY version {}", (word >> 16) & 0x7fff)));
        }
        let short = || FrameError("a frame of SPDY is too short".to_owned());
        Ok(Some(match word as u16 {
            SYN_STREAM if bytes.len() < 10 => return Err(short()),
            SYN_STREAM => {
                let stream = bytes.get_u32() & !(1 << 31);
                // The associated stream, the priority and the slot.
                bytes.advance(6);
                Frame::Open { stream, last: flags & FIN != 0, headers: bytes }
            }
            RST_STREAM if bytes.len() < 8 => return Err(short()),
            RST_STREAM => Frame::Reset { stream: bytes.get_u32() & !(1 << 31), status: bytes.get_u32() },
            PING if bytes.len() < 4 => return Err(short()),
            PING => Frame::Ping(bytes.get_u32()),
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        }))
    }
}

/// A data frame.
pub fn data(stream: u32, last: bool, bytes: &[u8]) -> BytesMut {
    debug_assert!(bytes.len() <= LONGEST, "callers send pieces of some kilobytes");
    let mut frame = BytesMut::with_capacity(HEAD + bytes.len());
    frame.put_u32(stream);
    frame.put_u32(u32::from(if last { FIN } else { 0 }) << 24 | bytes.len() as u32);
    frame.put_slice(bytes);
    frame
}

/// Opens a stream; `headers` are compressed.
pub fn syn_stream(stream: u32, headers: &[u8]) -> BytesMut {
    let mut frame = control(SYN_STREAM, 10 + headers.len());
    frame.put_u32(stream);
    // No associated stream, highest priority, no slot.
    frame.put_u32(0);
    frame.put_u16(0);
    frame.put_slice(headers);
    frame
}

/// Accepts a stream of the peer; `headers` are compressed.
pub fn syn_reply(stream: u32, headers: &[u8]) -> BytesMut {
    let mut frame = control(SYN_REPLY, 4 + headers.len());
    frame.put_u32(stream);
    frame.put_slice(headers);
    frame
}

/// Resets a stream.
pub fn reset(stream: u32, status: u32) -> BytesMut {
    let mut frame = control(RST_STREAM, 8);
    frame.put_u32(stream);
    frame.put_u32(status);
    frame
}

/// A ping, or its answer.
pub fn ping(id: u32) -> BytesMut {
    let mut frame = control(PING, 4);
    frame.put_u32(id);
    frame
}

/// The end of a connection.
pub fn go_away() -> BytesMut {
    let mut frame = control(GOAWAY, 8);
    // No peer stream was accepted; status OK.
    frame.put_u64(0);
    frame
}

fn control(kind: u16, length: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEAD + length);
    frame.put_u16(CONTROL);
    frame.put_u16(kind);
    frame.put_u32(length as u32);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_parsed_regardless_of_chunk_boundaries() {
        let stream = [data(5, true, b"hello"), ping(2), syn_stream(1, b"..."), data(7, false, b""), go_away()].concat();
        let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
        for byte in stream {
            buffer.put_u8(byte);
            frames.extend(Frame::take(&mut buffer).unwrap());
        }
        let expected = [
            Frame::Data { stream: 5, last: true, bytes: Bytes::from_static(b"hello") },
            Frame::Ping(2),
            Frame::Open { stream: 1, last: false, headers: Bytes::from_static(b"...") },
            Frame::Data { stream: 7, last: false, bytes: Bytes::new() },
            Frame::GoAway,
        ];
        assert_eq!(frames, expected);
    }

    #[test]
    fn other_versions_and_short_frames_are_errors() {
        let mut version_2 = BytesMut::from(&[0x80, 2, 0, 6, 0, 0, 0, 0][..]);
        assert!(Frame::take(&mut version_2).unwrap_err().to_string().contains("version 2"));
        let mut short = BytesMut::from(&[0x80, 3, 0, 3, 0, 0, 0, 1, 0][..]);
        assert!(Frame::take(&mut short).is_err());
        let mut long = BytesMut::from(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff][..]);
        assert!(Frame::take(&mut long).is_err());
    }
}
