//! Requests.

use kubewright_core::protobuf::Encoder;

/// Reads keys.
#[derive(Debug, Clone, Default)]
pub struct RangeRequest {
    /// The first key.
    pub key: Vec<u8>,
    /// The end of the range, which is not part of it. Empty for one key.
    pub end: Vec<u8>,
    /// The maximum number of keys. Zero for no limit.
    pub limit: u64,
    /// The revision to read at. Zero for the newest.
    pub revision: u64,
    /// Returns the number of keys only.
    pub count_only: bool,
}

impl RangeRequest {
    /// Reads one key.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        RangeRequest { key: key.into(), ..RangeRequest::default() }
    }

    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bytes(1, &self.key);
        if !self.end.is_empty() {
            encoder.bytes(2, &self.end);
        }
        number(encoder, 3, self.limit);
        number(encoder, 4, self.revision);
        number(encoder, 9, u64::from(self.count_only));
    }
}

/// A condition of a transaction.
#[derive(Debug, Clone)]
pub enum Comparison {
    /// The key was last written at this revision. Zero if it must not exist.
    #[doc(alias = "mod_revision")]
    ModifiedAt {
        /// The key.
        key: Vec<u8>,
        /// The revision of its last write.
        revision: u64,
    },
    /// The key has been written this often since it was created. Zero if it must not exist.
    Version {
        /// The key.
        key: Vec<u8>,
        /// The number of writes.
        version: u64,
    },
}

impl Comparison {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // The result field is left out: its zero value means "equal". The union must be present
        // even if it is zero.
        let (target, key, union, value) = match self {
            Comparison::ModifiedAt { key, revision } => (2, key, 6, *revision),
            Comparison::Version { key, version } => (0, key, 4, *version),
        };
        number(encoder, 2, target);
        encoder.bytes(3, key);
        encoder.varint(union, value);
    }
}

/// An operation of a transaction.
#[derive(Clone)]
pub enum Operation {
    /// Reads a key.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Writes a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// The lease with which the key ends. Zero for none.
        lease: i64,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

impl Operation {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Operation::Get { key } => encoder.delimited(1, |range| range.bytes(1, key)),
            Operation::Put { key, value, lease } => encoder.delimited(2, |put| {
                put.bytes(1, key);
                put.bytes(2, value);
                number(put, 3, lease.cast_unsigned());
            }),
            Operation::Delete { key } => encoder.delimited(3, |delete| delete.bytes(1, key)),
        }
    }
}

/// Leaves out the value, which may be secret.
impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, key) = match self {
            Operation::Get { key } => ("Get", key),
            Operation::Put { key, .. } => ("Put", key),
            Operation::Delete { key } => ("Delete", key),
        };
        f.debug_struct(name).field("key", &String::from_utf8_lossy(key)).finish_non_exhaustive()
    }
}

/// Executes operations if all conditions hold, and others if not, all at one revision.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// The conditions.
    pub compare: Vec<Comparison>,
    /// Executed if all conditions hold.
    pub success: Vec<Operation>,
    /// Executed otherwise.
    pub failure: Vec<Operation>,
}

impl Transaction {
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        for comparison in &self.compare {
            encoder.delimited(1, |inner| comparison.encode(inner));
        }
        for operation in &self.success {
            encoder.delimited(2, |inner| operation.encode(inner));
        }
        for operation in &self.failure {
            encoder.delimited(3, |inner| operation.encode(inner));
        }
    }
}

/// Watches a range of keys.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// The first key.
    pub key: Vec<u8>,
    /// The end of the range, which is not part of it.
    pub end: Vec<u8>,
    /// The first revision whose events are sent.
    pub start_revision: u64,
}

impl WatchRequest {
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.delimited(1, |create| {
            create.bytes(1, &self.key);
            create.bytes(2, &self.end);
            number(create, 3, self.start_revision);
            // Progress notifications while there are no events, and large responses in fragments.
            create.varint(4, 1);
            create.varint(8, 1);
        });
    }
}

/// Requests a progress notification of all watches of a stream.
pub(crate) fn encode_progress_request(encoder: &mut Encoder<'_>) {
    encoder.delimited(3, |_| {});
}

/// Appends a number. Zero is left out.
pub(crate) fn number(encoder: &mut Encoder<'_>, field: u32, value: u64) {
    if value != 0 {
        encoder.varint(field, value);
    }
}
