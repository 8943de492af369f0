//! Encodes messages as Go writes them: with the zero values of fields that it holds by value.
//!
//! Readers do not need these bytes, so that responses leave them out. In a database that several
//! servers share, equal objects have equal bytes.

use crate::codec::message::{Message, Ref};
use crate::codec::messages::envelope::Envelope;
use crate::codec::protobuf::Encoder;
use crate::codec::scheme::{FieldInfo, Flags, Number, Numbers, Type, TypeInfo};

impl Envelope<'_> {
    /// Appends `message` in an envelope, as kube-apiserver stores it.
    pub fn encode_stored(message: &dyn Message, out: &mut Vec<u8>) {
        let (api_version, kind) = match &message.scheme().kind {
            Some(info) => (info.api_version, info.kind),
            None => ("", ""),
        };
        Envelope::encode_with(api_version, kind, out, |encoder| encoder.stored(message, message.scheme().numbers));
    }
}

impl Encoder<'_> {
    fn stored(&mut self, message: &dyn Message, numbers: Numbers) {
        let scheme = message.scheme();
        for (number, entry) in numbers.iter().enumerate() {
            let (number, target) = (number as u32, usize::from(entry.target));
            if entry.target < Number::EMBEDDED {
                self.stored_field(number, &scheme.fields[target], message.get(target));
            } else if let Some(table) = entry.table() {
                self.delimited(number, |encoder| encoder.stored(message, scheme.embedded[table]));
            }
        }
    }

    fn stored_field(&mut self, number: u32, field: &FieldInfo, value: Ref<'_>) {
        match value {
            Ref::Absent => self.zero(number, field),
            Ref::Message(message) => self.delimited(number, |encoder| encoder.stored_message(message)),
            Ref::Messages(list) => {
                for index in 0..list.len() {
                    self.delimited(number, |encoder| encoder.stored_message(list.get(index)));
                }
            }
            Ref::MessageMap(map) => {
                for (key, message) in (0..map.len()).map(|index| map.get(index)) {
                    self.delimited(number, |entry| {
                        entry.bytes(1, key.as_bytes());
                        entry.delimited(2, |encoder| encoder.stored_message(message));
                    });
                }
            }
            value => self.field(number, value),
        }
    }

    fn stored_message(&mut self, message: &dyn Message) {
        self.stored(message, message.scheme().numbers);
    }

    /// The zero value of an absent field, if Go holds the field by value.
    fn zero(&mut self, number: u32, field: &FieldInfo) {
        if field.flags.has(Flags::POINTER) {
            return;
        }
        match field.ty {
            Type::Bool | Type::Int32 | Type::Int64 => self.varint(number, 0),
            Type::Double => self.fixed64(number, 0),
            Type::String | Type::Time | Type::MicroTime | Type::Raw => self.bytes(number, b""),
            Type::Quantity => self.delimited(number, |quantity| quantity.bytes(1, b"0")),
            Type::IntOrString => self.delimited(number, |encoder| {
                encoder.varint(1, 0);
                encoder.varint(2, 0);
                encoder.bytes(3, b"");
            }),
            Type::Message(scheme) => self.delimited(number, |encoder| encoder.zeros(scheme, scheme.numbers)),
            // Empty slices and maps are not written.
            _ => {}
        }
    }

    /// The zero values of a message of which nothing is set.
    fn zeros(&mut self, scheme: &TypeInfo, numbers: Numbers) {
        for (number, entry) in numbers.iter().enumerate() {
            let (number, target) = (number as u32, usize::from(entry.target));
            if entry.target < Number::EMBEDDED {
                self.zero(number, &scheme.fields[target]);
            } else if let Some(table) = entry.table() {
                self.delimited(number, |encoder| encoder.zeros(scheme, scheme.embedded[table]));
            }
        }
    }
}
