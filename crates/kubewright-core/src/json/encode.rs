//! Writes messages as JSON, driven by their tables.

use super::plain_text::end_of_plain_text;
use crate::message::{Message, Ref, Scalar};
use crate::scheme::{FieldInfo, Flags, Type, TypeInfo};

/// Appends JSON to a buffer.
///
/// By default optional fields are written if they are set, and required fields always, which is
/// what creating and updating want. [`as_server`](Self::as_server) writes what an API server
/// answers with: Go also writes empty structs (`"status":{}`), unset times (`"eventTime":null`) and
/// some empty lists, and leaves out zero values that were set in vain. [`as_apply`](Self::as_apply)
/// also leaves out required fields that were not set.
pub struct Writer<'w> {
    out: &'w mut Vec<u8>,
    style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Request,
    Server,
    Apply,
}

impl<'w> Writer<'w> {
    /// Appends to `out`.
    pub fn new(out: &'w mut Vec<u8>) -> Self {
        Writer { out, style: Style::Request }
    }

    /// Writes as an API server does.
    #[must_use]
    pub fn as_server(mut self) -> Self {
        self.style = Style::Server;
        self
    }

    /// Writes a configuration for server-side apply, which owns every field that it names.
    ///
    /// A struct that Go or our type holds by value is left out if nothing in it is set. A required
    /// number, truth value or text that is zero is written only if something else beside it is set,
    /// because our types hold it by value: `value: 0` may have been meant. Optional fields are
    /// written if they are set, also to zero, and so are empty structs that Go holds by a pointer,
    /// such as `emptyDir: {}`.
    #[must_use]
    pub fn as_apply(mut self) -> Self {
        self.style = Style::Apply;
        self
    }

    /// Writes an object, with `kind` and `apiVersion` where the type has them.
    pub fn object(&mut self, message: &dyn Message) {
        self.fields(message, true);
    }

    /// Writes an object without `kind` and `apiVersion`, as items of a list are.
    pub fn message(&mut self, message: &dyn Message) {
        self.fields(message, false);
    }

    /// Writes text that is JSON already.
    pub fn raw(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        use std::io::Write;
        write!(self.out, "{value}").expect("writing to memory does not fail");
    }

    /// Writes text that needs no escapes, in quotes.
    pub fn plain_string(&mut self, text: &str) {
        self.out.push(b'"');
        self.raw(text);
        self.out.push(b'"');
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.out.push(b'"');
        let bytes = text.as_bytes();
        let mut from = 0;
        loop {
            let end = end_of_plain_text(bytes, from);
            self.out.extend_from_slice(&bytes[from..end]);
            let Some(byte) = bytes.get(end) else { break };
            match byte {
                b'"' => self.out.extend_from_slice(br#"\""#),
                b'\\' => self.out.extend_from_slice(br"\\"),
                b'\n' => self.out.extend_from_slice(br"\n"),
                b'\r' => self.out.extend_from_slice(br"\r"),
                b'\t' => self.out.extend_from_slice(br"\t"),
                byte => self.display(format_args!("\\u{byte:04x}")),
            }
            from = end + 1;
        }
        self.out.push(b'"');
    }

    /// Writes an integer.
    pub fn integer(&mut self, value: i64) {
        let mut digits = [0; 20];
        let (mut at, mut rest) = (digits.len(), value.unsigned_abs());
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        self.out.extend_from_slice(&digits[at..]);
    }

    /// Writes a floating-point number, so that it is read as one again.
    pub fn float(&mut self, value: f64) {
        if value.is_finite() {
            self.display(format_args!("{value:?}"));
        } else {
            // JSON has no word for it; Go refuses to write it at all.
            self.raw("null");
        }
    }

    /// Writes an array.
    pub fn items<T>(&mut self, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        self.out.push(b'[');
        for (index, value) in items.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            item(self, value);
        }
        self.out.push(b']');
    }

    /// Writes an object from keys and values.
    pub fn entries<'k, T>(
        &mut self,
        entries: impl IntoIterator<Item = (&'k str, T)>,
        mut value: impl FnMut(&mut Self, T),
    ) {
        let mut separator = b'{';
        for (key, item) in entries {
            self.key(&mut separator, key);
            value(self, item);
        }
        self.close(separator);
    }

    /// Writes what comes before a value of an object; `separator` is `{` before the first.
    pub fn key(&mut self, separator: &mut u8, key: &str) {
        self.out.push(*separator);
        *separator = b',';
        self.string(key);
        self.out.push(b':');
    }

    /// Ends an object that was written with [`key`](Self::key).
    pub fn close(&mut self, separator: u8) {
        self.out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
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
        let names_zeros = self.style != Style::Apply || has_content(message);
        for (index, field) in scheme.fields.iter().enumerate() {
            let value = message.get(index);
            if self.style == Style::Apply && (is_unset(field, value) || !names_zeros && is_required_zero(field, value))
            {
                continue;
            }
            if self.style == Style::Server && (matches!(value, Ref::Absent) || is_omitted(field, value)) {
                self.unset(&mut separator, field);
            } else if !matches!(value, Ref::Absent) {
                self.field_name(&mut separator, field);
                self.value(value, field);
            }
        }
        self.close(separator);
    }

    /// As `key`, for names that need no escapes.
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

    /// What Go writes for a field that is not set.
    ///
    /// What is required our types hold by value even where Go holds a pointer, so that there is no `null` to keep:
    /// such a field is written as it would be after decoding.
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

/// Whether a message has any field set beside its metadata, which all objects have.
fn has_content(message: &dyn Message) -> bool {
    is_any_set(message, |field| field.name != "metadata")
}

fn is_any_set(message: &dyn Message, counts: impl Fn(&FieldInfo) -> bool) -> bool {
    message.scheme().fields.iter().enumerate().any(|(index, field)| {
        let value = message.get(index);
        counts(field) && !is_unset(field, value) && !is_required_zero(field, value)
    })
}

/// Whether a field is absent, a struct with nothing set that cannot be told from an absent one
/// because Go or our type holds it by value, or a required value that would be `null`.
fn is_unset(field: &FieldInfo, value: Ref<'_>) -> bool {
    let is_required = field.flags.has(Flags::REQUIRED);
    match value {
        Ref::Absent => true,
        Ref::Message(message) => (is_required || !field.flags.has(Flags::POINTER)) && !is_any_set(message, |_| true),
        Ref::Scalar(scalar) => is_required && text_of(scalar) == b"null",
        _ => false,
    }
}

/// Whether our type holds a field by value, so that zero may mean that it was not set.
fn is_required_zero(field: &FieldInfo, value: Ref<'_>) -> bool {
    let is_zero = match value {
        // The codecs have no zero of these two, because protobuf always writes them.
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

/// Whether Go's `omitempty` drops this value: zero, held by value, and not written always.
fn is_omitted(field: &FieldInfo, value: Ref<'_>) -> bool {
    if field.flags.has(Flags::POINTER | Flags::ALWAYS) {
        return false;
    }
    is_zero(value) && (!field.flags.has(Flags::REQUIRED) || field.flags.has(Flags::OMIT_ZERO))
}
