//! Responses.

use std::fmt;

use bytes::Bytes;
use kubewright_core::DecodeError;
use kubewright_core::protobuf::Wire;

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value. Empty in the event of a deletion.
    pub value: Bytes,
    /// The revision of the creation.
    pub create_revision: u64,
    /// The revision of the last write.
    pub mod_revision: u64,
    /// The number of writes since the creation.
    pub version: u64,
    /// The lease of the key. Zero for none.
    pub lease: i64,
}

impl KeyValue {
    fn decode(message: &Bytes, wire: Wire<'_>) -> Result<Self, DecodeError> {
        let mut found = KeyValue::default();
        for field in wire.fields()? {
            match field? {
                (1, wire) => found.key = message.slice_ref(wire.bytes()?),
                (2, wire) => found.create_revision = wire.varint()?,
                (3, wire) => found.mod_revision = wire.varint()?,
                (4, wire) => found.version = wire.varint()?,
                (5, wire) => found.value = message.slice_ref(wire.bytes()?),
                (6, wire) => found.lease = wire.varint()?.cast_signed(),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Leaves out the value, which may be secret.
impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(&self.key);
        f.debug_struct("KeyValue").field("key", &key).field("revision", &self.mod_revision).finish_non_exhaustive()
    }
}

/// The keys that were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RangeResponse {
    /// The revision of the database.
    pub revision: u64,
    /// The keys in order.
    pub entries: Vec<KeyValue>,
    /// Whether there are more keys in the range.
    pub has_more: bool,
    /// The number of keys in the range.
    pub count: u64,
}

impl RangeResponse {
    pub(crate) fn decode(message: &Bytes) -> Result<Self, DecodeError> {
        RangeResponse::decode_from(message, Wire::Bytes(message))
    }

    fn decode_from(message: &Bytes, wire: Wire<'_>) -> Result<Self, DecodeError> {
        let mut found = RangeResponse::default();
        for field in wire.fields()? {
            match field? {
                (1, wire) => found.revision = revision_of(wire)?,
                (2, wire) => found.entries.push(KeyValue::decode(message, wire)?),
                (3, wire) => found.has_more = wire.varint()? != 0,
                (4, wire) => found.count = wire.varint()?,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The result of a transaction.
#[derive(Debug, Default)]
pub struct TransactionResponse {
    /// The revision of the database after the transaction.
    pub revision: u64,
    /// Whether all conditions held.
    pub has_succeeded: bool,
    /// The key that each [`Get`](crate::Operation::Get) read, in order. None if it does not exist.
    pub found: Vec<Option<KeyValue>>,
}

impl TransactionResponse {
    pub(crate) fn decode(message: &Bytes) -> Result<Self, DecodeError> {
        let mut found = TransactionResponse::default();
        for field in Wire::Bytes(message).fields()? {
            match field? {
                (1, wire) => found.revision = revision_of(wire)?,
                (2, wire) => found.has_succeeded = wire.varint()? != 0,
                (3, wire) => {
                    for operation in wire.fields()? {
                        if let (1, range) = operation? {
                            let range = RangeResponse::decode_from(message, range)?;
                            found.found.push(range.entries.into_iter().next());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// Whether the key was deleted.
    pub is_deletion: bool,
    /// The key, its value, and the revision of the change.
    pub entry: KeyValue,
}

/// Events of a watch, or a notification of its progress.
#[derive(Debug, Default)]
pub struct WatchResponse {
    /// The revision of the database. Without events, there are none up to this revision that have
    /// not been sent.
    pub revision: u64,
    /// The events, in the order of their revisions.
    pub events: Vec<WatchEvent>,
    /// Confirms that the watch has been created.
    pub is_created: bool,
    /// etcd has ended the watch.
    pub is_canceled: bool,
    /// The oldest revision that can be watched, if the watch ended because its start was compacted.
    pub compact_revision: u64,
    /// Why etcd has ended the watch.
    pub cancel_reason: String,
    /// More events of the same response follow.
    pub(crate) is_fragment: bool,
}

impl WatchResponse {
    pub(crate) fn decode(message: &Bytes) -> Result<Self, DecodeError> {
        let mut found = WatchResponse::default();
        for field in Wire::Bytes(message).fields()? {
            match field? {
                (1, wire) => found.revision = revision_of(wire)?,
                (3, wire) => found.is_created = wire.varint()? != 0,
                (4, wire) => found.is_canceled = wire.varint()? != 0,
                (5, wire) => found.compact_revision = wire.varint()?,
                (6, wire) => found.cancel_reason = text(wire)?,
                (7, wire) => found.is_fragment = wire.varint()? != 0,
                (11, wire) => found.events.push(event(message, wire)?),
                _ => {}
            }
        }
        Ok(found)
    }
}

fn event(message: &Bytes, wire: Wire<'_>) -> Result<WatchEvent, DecodeError> {
    let mut found = WatchEvent { is_deletion: false, entry: KeyValue::default() };
    for field in wire.fields()? {
        match field? {
            (1, wire) => found.is_deletion = wire.varint()? == 1,
            (2, wire) => found.entry = KeyValue::decode(message, wire)?,
            _ => {}
        }
    }
    Ok(found)
}

/// The state of a member.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StatusResponse {
    /// The revision of the member's database, which may be behind the others.
    pub revision: u64,
    /// The version of etcd, such as `3.5.16`.
    pub version: String,
    /// The identifier of the leader. Zero if there is none.
    pub leader: u64,
}

impl StatusResponse {
    pub(crate) fn decode(message: &Bytes) -> Result<Self, DecodeError> {
        let mut found = StatusResponse::default();
        for field in Wire::Bytes(message).fields()? {
            match field? {
                (1, wire) => found.revision = revision_of(wire)?,
                (2, wire) => found.version = text(wire)?,
                (4, wire) => found.leader = wire.varint()?,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The remaining or granted time of a lease.
#[derive(Debug, Default)]
pub(crate) struct LeaseResponse {
    pub(crate) id: i64,
    pub(crate) seconds: u64,
}

impl LeaseResponse {
    pub(crate) fn decode(message: &Bytes) -> Result<Self, DecodeError> {
        let mut found = LeaseResponse::default();
        for field in Wire::Bytes(message).fields()? {
            match field? {
                (2, wire) => found.id = wire.varint()?.cast_signed(),
                (3, wire) => found.seconds = wire.varint()?,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The revision in a response header.
pub(crate) fn revision_of(header: Wire<'_>) -> Result<u64, DecodeError> {
    let mut revision = 0;
    for field in header.fields()? {
        if let (3, wire) = field? {
            revision = wire.varint()?;
        }
    }
    Ok(revision)
}

fn text(wire: Wire<'_>) -> Result<String, DecodeError> {
    Ok(String::from_utf8_lossy(wire.bytes()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_responses_are_errors() {
        // A range response with the header {revision: 7} and one key `a` with the value `b`.
        let whole = [0x0a, 2, 0x18, 7, 0x12, 8, 0x0a, 1, b'a', 0x18, 5, 0x2a, 1, b'b', 0x20, 1];
        let message = Bytes::copy_from_slice(&whole);
        let range = RangeResponse::decode(&message).expect("it is valid");
        assert_eq!((range.revision, range.count, range.entries.len()), (7, 1, 1));
        assert_eq!((&range.entries[0].key[..], &range.entries[0].value[..]), (&b"a"[..], &b"b"[..]));
        assert_eq!(range.entries[0].mod_revision, 5);
        for end in [1, 3, 5, 9, 13, 15] {
            assert!(RangeResponse::decode(&message.slice(..end)).is_err(), "{end}");
        }
        assert!(!format!("{:?}", range.entries[0]).contains("value"));
    }
}
