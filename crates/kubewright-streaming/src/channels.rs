//! The messages of channels over WebSocket.
//!
//! A binary message starts with the number of its channel. In the base64 protocols, for clients
//! that can only handle text, it is a text: the number as a digit, then the bytes in base64.

use bytes::{BufMut, Bytes, BytesMut};
use kubewright_core::ByteString;
use tokio_tungstenite::tungstenite::Message;

/// How messages of channels are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelEncoding {
    /// As bytes.
    Binary,
    /// As texts.
    Base64,
}

impl ChannelEncoding {
    /// The encoding of a protocol.
    pub(crate) fn of(protocol: &str) -> Self {
        if protocol.contains("base64.") { ChannelEncoding::Base64 } else { ChannelEncoding::Binary }
    }

    /// The message of a channel.
    pub(crate) fn encode(self, channel: u8, bytes: &[u8]) -> Message {
        match self {
            ChannelEncoding::Binary => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(channel);
                message.extend_from_slice(bytes);
                Message::Binary(message.freeze())
            }
            ChannelEncoding::Base64 => {
                let digit = char::from(b'0'.saturating_add(channel));
                Message::text(format!("{digit}{}", ByteString::from(bytes).to_base64()))
            }
        }
    }

    /// The channel and the bytes of a message. `None` for an empty one and for pings.
    ///
    /// # Errors
    /// If a text is not base64, or has no channel.
    pub(crate) fn decode(self, message: &Message) -> Result<Option<(u8, Bytes)>, &'static str> {
        let bytes = match message {
            Message::Binary(bytes) => bytes.clone(),
            Message::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
            _ => return Ok(None),
        };
        let Some(first) = bytes.first().copied() else { return Ok(None) };
        match self {
            ChannelEncoding::Binary => Ok(Some((first, bytes.slice(1..)))),
            ChannelEncoding::Base64 => {
                let channel = first.checked_sub(b'0').ok_or("the message has no channel")?;
                let decoded = ByteString::from_base64(&bytes[1..]).map_err(|_| "the message is not base64")?;
                Ok(Some((channel, Bytes::copy_from_slice(&decoded))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_carry_a_channel_and_bytes() {
        for (protocol, message) in [
            ("v4.channel.k8s.io", Message::Binary(Bytes::from_static(b"\x02\xffhi"))),
            ("v4.base64.channel.k8s.io", Message::text("2/2hp")),
            ("base64.channel.k8s.io", Message::text("2/2hp")),
        ] {
            let encoding = ChannelEncoding::of(protocol);
            assert_eq!(encoding.encode(2, b"\xffhi"), message);
            assert_eq!(encoding.decode(&message), Ok(Some((2, Bytes::from_static(b"\xffhi")))));
            assert_eq!(encoding.decode(&Message::Ping(Bytes::new())), Ok(None));
        }
        let base64 = ChannelEncoding::Base64;
        assert!(base64.decode(&Message::text("1*")).is_err() && base64.decode(&Message::text("!")).is_err());
        assert_eq!(base64.decode(&Message::text("")), Ok(None));
    }
}
