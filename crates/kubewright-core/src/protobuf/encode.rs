//! Writes messages as protobuf, driven by their tables.

use crate::message::{Message, Ref};
use crate::scheme::{Number, Numbers};

/// Appends `message` to `out`, without an envelope.
pub fn encode_message(message: &dyn Message, out: &mut Vec<u8>) {
    Encoder { out }.numbers(message, message.scheme().numbers);
}

/// Appends fields to a buffer.
pub struct Encoder<'w> {
    /// The buffer.
    pub out: &'w mut Vec<u8>,
}

impl Encoder<'_> {
    /// Appends a number field.
    pub fn varint(&mut self, number: u32, value: u64) {
        self.plain(u64::from(number) << 3);
        self.plain(value);
    }

    /// Appends a field of eight bytes.
    pub fn fixed64(&mut self, number: u32, value: u64) {
        self.plain(u64::from(number) << 3 | 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a field of bytes.
    pub fn bytes(&mut self, number: u32, value: &[u8]) {
        self.plain(u64::from(number) << 3 | 2);
        self.plain(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    /// Appends a field whose bytes `write` appends; its length is set in when it is known.
    pub fn delimited(&mut self, number: u32, write: impl FnOnce(&mut Encoder<'_>)) {
        self.plain(u64::from(number) << 3 | 2);
        // Room for the most common length, one byte; longer ones move what was written.
        let start = self.out.len() + 1;
        self.out.push(0);
        write(self);
        let mut length = self.out.len() - start;
        let mut at = start - 1;
        while length >= 0x80 {
            self.out[at] = length as u8 | 0x80;
            length >>= 7;
            at += 1;
            self.out.insert(at, 0);
        }
        self.out[at] = length as u8;
    }

    /// Appends the fields of a message.
    pub fn message(&mut self, message: &dyn Message) {
        self.numbers(message, message.scheme().numbers);
    }

    fn plain(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn numbers(&mut self, message: &dyn Message, numbers: Numbers) {
        for (number, entry) in numbers.iter().enumerate() {
            let (number, target) = (number as u32, usize::from(entry.target));
            if entry.target < Number::EMBEDDED {
                self.field(number, message.get(target));
            } else if *entry != Number::NONE {
                let inner = message.scheme().embedded[target - usize::from(Number::EMBEDDED)];
                self.delimited(number, |encoder| encoder.numbers(message, inner));
            }
        }
    }

    fn field(&mut self, number: u32, value: Ref<'_>) {
        match value {
            Ref::Absent => {}
            Ref::Bool(value) => self.varint(number, value.into()),
            Ref::Int(value) => self.varint(number, value as u64),
            Ref::Str(text) => self.bytes(number, text.as_bytes()),
            Ref::Strs(list) => list.iter().for_each(|text| self.bytes(number, text.as_bytes())),
            Ref::StrMap(map) => {
                for (key, text) in map.iter() {
                    self.delimited(number, |entry| {
                        entry.bytes(1, key.as_bytes());
                        entry.bytes(2, text.as_bytes());
                    });
                }
            }
            Ref::Message(message) => self.delimited(number, |encoder| encoder.message(message)),
            Ref::Messages(list) => {
                for index in 0..list.len() {
                    self.delimited(number, |encoder| encoder.message(list.get(index)));
                }
            }
            Ref::MessageMap(map) => {
                for (key, message) in (0..map.len()).map(|index| map.get(index)) {
                    self.delimited(number, |entry| {
                        entry.bytes(1, key.as_bytes());
                        entry.delimited(2, |encoder| encoder.message(message));
                    });
                }
            }
            Ref::Scalar(scalar) => scalar.encode_protobuf(number, self),
        }
    }
}
