//! SPDY/3.1 frames needed for exec and port-forward.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::remote::error::RemoteError;

const HEAD: usize = 8;
/// Control bit and version.
const CONTROL: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// Flag of the last frame of a stream.
const FIN: u8 = 1;
/// Maximum of a 24-bit length.
const LONGEST: usize = 0x00ff_ffff;

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Data of a stream.
    Data { stream: u32, last: bool, bytes: Bytes },
    /// A stream was reset.
    Reset { stream: u32, status: u32 },
    /// A ping, or the reply to ours.
    Ping(u32),
    /// No more frames follow.
    GoAway,
    /// An irrelevant frame: headers, settings, window updates.
    Other,
}

impl Frame {
    /// Takes a frame from the buffer, if it is complete.
    pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Frame>, RemoteError> {
        let Some(head) = buffer.first_chunk::<HEAD>() else { return Ok(None) };
        let word = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let flags = head[4];
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        if buffer.len() < HEAD + length {
            return Ok(None);
        }
        let mut bytes = buffer.split_to(HEAD + length).freeze();
        bytes.advance(HEAD);
        if word >> 31 == 0 {
            return Ok(Some(Frame::Data { stream: word, last: flags & FIN != 0, bytes }));
        }
        if word >> 16 != u32::from(CONTROL) {
            return Err(RemoteError::Protocol(format!("unsupported SPDY version {}", (word >> 16) & 0x7fff)));
        }
        let short = || RemoteError::Protocol("a frame of SPDY is too short".to_owned());
        Ok(Some(match word as u16 {
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
pub(super) fn data(stream: u32, last: bool, bytes: &[u8]) -> BytesMut {
    debug_assert!(bytes.len() <= LONGEST, "callers send pieces of some kilobytes");
    let mut frame = BytesMut::with_capacity(HEAD + bytes.len());
    frame.put_u32(stream);
    frame.put_u32(u32::from(if last { FIN } else { 0 }) << 24 | bytes.len() as u32);
    frame.put_slice(bytes);
    frame
}

/// Opens a stream; `headers` are compressed.
pub(super) fn syn_stream(stream: u32, headers: &[u8]) -> BytesMut {
    let mut frame = control(SYN_STREAM, 10 + headers.len());
    frame.put_u32(stream);
    // No associated stream, highest priority, no slot.
    frame.put_u32(0);
    frame.put_u16(0);
    frame.put_slice(headers);
    frame
}

pub(super) fn ping(id: u32) -> BytesMut {
    let mut frame = control(PING, 4);
    frame.put_u32(id);
    frame
}

pub(super) fn go_away() -> BytesMut {
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
            Frame::Other,
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
    }
}
