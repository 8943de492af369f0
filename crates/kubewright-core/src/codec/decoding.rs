//! Decodes whole objects.

use super::decoder::{DecodeError, Decoder};
use super::json;
use super::message::Message;
use super::messages::{self, Envelope};

impl Decoder {
    /// Decodes one JSON object, followed by nothing but white space.
    pub fn json<T: Message + Default>(&mut self, bytes: &[u8]) -> Result<T, DecodeError> {
        let mut object = T::default();
        self.json_into(&mut object, bytes)?;
        Ok(object)
    }

    /// Decodes one JSON object into `object`; fields that are not mentioned keep their values.
    pub fn json_into(&mut self, object: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        self.depth = 0;
        let mut reader = json::Reader::new(bytes, self);
        reader.message(object)?;
        reader.end()
    }

    /// Decodes one protobuf object in its envelope (`k8s\\0` and `runtime.Unknown`), as servers
    /// send it.
    pub fn protobuf<T: Message + Default>(&mut self, bytes: &[u8]) -> Result<T, DecodeError> {
        let mut object = T::default();
        self.protobuf_into(&mut object, bytes)?;
        Ok(object)
    }

    /// Decodes one protobuf object in its envelope into `object`.
    pub fn protobuf_into(&mut self, object: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        let envelope = Envelope::decode(bytes)?;
        if let Some(info) = &object.scheme().kind {
            envelope.check_kind(&info.into())?;
        }
        self.protobuf_message_into(object, envelope.raw)
    }

    /// Decodes one protobuf message without an envelope into `message`.
    pub fn protobuf_message_into(&mut self, message: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        self.depth = 0;
        messages::decode_message(message, bytes, self)
    }

    /// Decodes a nested message, for [`Scalar`](crate::codec::message::Scalar)s that contain
    /// messages.
    #[inline]
    pub fn nested_message(&mut self, message: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        messages::decode_message(message, bytes, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::json::Reader;
    use crate::meta::v1::PartialObjectMetadata;
    use crate::{Finding, Str, Value};

    #[test]
    fn findings_name_the_path_once() {
        let mut decoder = Decoder::new().report_findings();
        let json = br#"{"metadata": {"labels": {"a": "1", "a": "2"}, "name": "x", "name": "y", "nope": 1}}"#;
        let object: PartialObjectMetadata = decoder.json(json).expect("duplicates are no errors here");
        assert_eq!(object.metadata.labels.get("a").map(Str::as_str), Some("2"));
        let duplicate = |path: &str| Finding::DuplicateField(path.to_owned());
        let unknown = Finding::UnknownField("metadata.nope".to_owned());
        assert_eq!(decoder.take_findings(), [duplicate("metadata.labels.a"), duplicate("metadata.name"), unknown]);

        Reader::new(br#"{"spec": [{"k": 1, "k": 2}]}"#, &mut decoder).tree().expect("valid JSON");
        assert_eq!(decoder.take_findings(), [duplicate("spec[0].k")]);
        let error = Value::from_json(br#"{"spec": {"k": 1, "k": 2}}"#).expect_err("without findings it is an error");
        assert_eq!(error.path(), "spec.k");
    }
}
