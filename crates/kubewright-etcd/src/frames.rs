//! gRPC messages in a stream of bytes: a flag, a length, and the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::error::EtcdError;

/// The bytes before a message.
const HEAD: usize = 5;
/// The maximum size of a message. A page of a list has 1000 objects of 1.5 MiB at most.
const MAX_MESSAGE: usize = 2 << 30;

/// A message with its head.
pub(crate) fn framed(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = vec![0; HEAD];
    write(&mut out);
    let length = u32::try_from(out.len() - HEAD).unwrap_or(u32::MAX);
    (&mut out[1..HEAD]).put_u32(length);
    out.into()
}

/// Splits received bytes into messages.
#[derive(Default)]
pub(crate) struct MessageReader {
    received: BytesMut,
}

impl MessageReader {
    /// Adds received bytes.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.received.extend_from_slice(chunk);
    }

    /// The next complete message.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, EtcdError> {
        let Some(head) = self.received.first_chunk::<HEAD>() else { return Ok(None) };
        if head[0] != 0 {
            return Err(EtcdError::malformed("a compressed message was not requested"));
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > MAX_MESSAGE {
            return Err(EtcdError::malformed(format!("a message of {length} bytes")));
        }
        if self.received.len() - HEAD < length {
            return Ok(None);
        }
        self.received.advance(HEAD);
        Ok(Some(self.received.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_wherever_the_stream_is_cut() {
        let stream =
            [framed(|out| out.extend_from_slice(b"first")), framed(|_| {}), framed(|out| out.push(7))].concat();
        for cut in 0..=stream.len() {
            let (mut reader, mut found) = (MessageReader::default(), Vec::new());
            for part in [&stream[..cut], &stream[cut..]] {
                reader.push(part);
                while let Some(message) = reader.next().expect("the stream is valid") {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"first"[..], b"", &[7]], "cut at {cut}");
        }
        let mut reader = MessageReader::default();
        reader.push(&[1, 0, 0, 0, 0]);
        assert!(reader.next().is_err());
        let mut reader = MessageReader::default();
        reader.push(&[0, 255, 255, 255, 255]);
        assert!(reader.next().is_err());
    }
}
