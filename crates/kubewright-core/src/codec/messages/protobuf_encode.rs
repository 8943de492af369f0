//! Encodes messages as protobuf, driven by their type tables.

use crate::codec::message::{Message, Ref};
use crate::codec::protobuf::Encoder;
use crate::codec::scheme::{Number, Numbers};

/// Appends `message` to `out`, without an envelope.
pub fn encode_message(message: &dyn Message, out: &mut Vec<u8>) {
    Encoder { out }.numbers(message, message.scheme().numbers);
}

impl Encoder<'_> {
    /// Appends the fields of a message.
    pub fn message(&mut self, message: &dyn Message) {
        self.numbers(message, message.scheme().numbers);
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

    pub(super) fn field(&mut self, number: u32, value: Ref<'_>) {
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
