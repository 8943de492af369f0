//! Encodes messages as JSON, driven by their type tables.

use crate::codec::json::{JsonStyle, Writer};
use crate::codec::message::{Message, Ref, Scalar};
use crate::codec::scheme::{FieldInfo, Flags, Type, TypeInfo};

impl Writer<'_> {
    /// Writes an object, with `kind` and `apiVersion` where the type has them.
    pub fn object(&mut self, message: &dyn Message) {
        self.fields(message, true);
    }

    /// Writes an object without `kind` and `apiVersion`, as for list items.
    pub fn message(&mut self, message: &dyn Message) {
        self.fields(message, false);
    }

    fn fields(&mut self, message: &dyn Message, with_kind: bool) {
        let scheme = message.scheme();
        let mut separator = b'{';
        if let Some(info) = scheme.kind.as_ref().filter(|_| with_kind) {
            self.key(&mut separator, "kind");
            self.string(info.kind);
            self.key(&mut separator, "apiVersion");
            self.string(info.api_version);
        }
        let names_zeros = self.style != JsonStyle::Apply || has_content(message);
        for (index, field) in scheme.fields.iter().enumerate() {
            let value = message.get(index);
            if self.style == JsonStyle::Apply
                && (is_unset(field, value) || !names_zeros && is_required_zero(field, value))
            {
                continue;
            }
            if self.style == JsonStyle::Server && (matches!(value, Ref::Absent) || is_omitted(field, value)) {
                self.unset(&mut separator, field);
            } else if !matches!(value, Ref::Absent) {
                self.field_name(&mut separator, field);
                self.value(value, field);
            }
        }
        self.close(separator);
    }

    /// Like `key`, for names that need no escapes.
    fn field_name(&mut self, separator: &mut u8, field: &FieldInfo) {
        self.out.extend_from_slice(&[*separator, b'"']);
        self.out.extend_from_slice(field.name.as_bytes());
        self.out.extend_from_slice(b"\":");
        *separator = b',';
    }

    fn value(&mut self, value: Ref<'_>, field: &FieldInfo) {
        match value {
            Ref::Absent => self.raw("null"),
            Ref::Bool(value) => self.raw(if value { "true" } else { "false" }),
            Ref::Int(value) => self.integer(value),
            Ref::Str(text) => self.string(text),
            Ref::Strs(list) => self.items(list, |writer, text| writer.string(text)),
            Ref::StrMap(map) => {
                self.entries(map.iter().map(|(key, text)| (key.as_str(), text)), |writer, text| writer.string(text));
            }
            Ref::Message(message) => self.message(message),
            Ref::Messages(list) => {
                let typed = field.flags.has(Flags::TYPED);
                self.items(0..list.len(), |writer, index| writer.fields(list.get(index), typed));
            }
            Ref::MessageMap(map) => {
                let entries = (0..map.len()).map(|index| map.get(index));
                self.entries(entries.map(|(key, message)| (key.as_str(), message)), Writer::message);
            }
            Ref::Scalar(scalar) => scalar.encode_json(self),
        }
    }

    /// Writes what Go writes for an unset field.
    ///
    /// Our types hold required fields by value even where Go has a pointer, so they cannot
    /// represent `null`: such a field is written as after decoding.
    fn unset(&mut self, separator: &mut u8, field: &FieldInfo) {
        let required = field.flags.has(Flags::REQUIRED);
        let held = required || !field.flags.has(Flags::POINTER);
        let is_struct =
            matches!(field.ty, Type::Message(_) | Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString);
        let omits = field.flags.has(Flags::OMIT_ZERO) && !(required && field.flags.has(Flags::POINTER));
        if omits || !(required || field.flags.has(Flags::ALWAYS) || held && is_struct) {
            return;
        }
        self.field_name(separator, field);
        match field.ty {
            Type::Message(scheme) if held => self.unset_message(scheme),
            Type::Bool if held => self.raw("false"),
            Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString if held => self.raw("0"),
            Type::String if held => self.raw("\"\""),
            Type::Quantity if held => self.raw("\"0\""),
            _ => self.raw("null"),
        }
    }

    fn unset_message(&mut self, scheme: &TypeInfo) {
        let mut separator = b'{';
        for field in scheme.fields {
            self.unset(&mut separator, field);
        }
        self.close(separator);
    }
}

/// Whether any field besides the metadata is set.
fn has_content(message: &dyn Message) -> bool {
    is_any_set(message, |field| field.name != "metadata")
}

fn is_any_set(message: &dyn Message, counts: impl Fn(&FieldInfo) -> bool) -> bool {
    message.scheme().fields.iter().enumerate().any(|(index, field)| {
        let value = message.get(index);
        counts(field) && !is_unset(field, value) && !is_required_zero(field, value)
    })
}

/// Whether a field is absent: no value, a struct held by value with nothing set, or a required
/// value that would be `null`.
fn is_unset(field: &FieldInfo, value: Ref<'_>) -> bool {
    let is_required = field.flags.has(Flags::REQUIRED);
    match value {
        Ref::Absent => true,
        Ref::Message(message) => (is_required || !field.flags.has(Flags::POINTER)) && !is_any_set(message, |_| true),
        Ref::Scalar(scalar) => is_required && text_of(scalar) == b"null",
        _ => false,
    }
}

/// Whether our type holds the field by value and it is zero, which may mean that it was not set.
fn is_required_zero(field: &FieldInfo, value: Ref<'_>) -> bool {
    let is_zero = match value {
        // The codecs have no zero value of these two, because protobuf always writes them.
        Ref::Scalar(scalar) if matches!(field.ty, Type::IntOrString) => text_of(scalar) == b"0",
        Ref::Scalar(scalar) if matches!(field.ty, Type::Quantity) => text_of(scalar) == b"\"0\"",
        value => is_zero(value),
    };
    field.flags.has(Flags::REQUIRED) && is_zero
}

fn text_of(scalar: &dyn Scalar) -> Vec<u8> {
    let mut text = Vec::new();
    scalar.encode_json(&mut Writer::new(&mut text));
    text
}

fn is_zero(value: Ref<'_>) -> bool {
    match value {
        Ref::Bool(value) => !value,
        Ref::Int(value) => value == 0,
        Ref::Str(text) => text.is_empty(),
        Ref::Scalar(scalar) => scalar.is_zero(),
        _ => false,
    }
}

/// Whether Go's `omitempty` drops this value: zero, held by value, and not always written.
fn is_omitted(field: &FieldInfo, value: Ref<'_>) -> bool {
    if field.flags.has(Flags::POINTER | Flags::ALWAYS) {
        return false;
    }
    is_zero(value) && (!field.flags.has(Flags::REQUIRED) || field.flags.has(Flags::OMIT_ZERO))
}
