//! Times: text in JSON, seconds and nanoseconds in protobuf.

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::{Reader, Writer};
use crate::codec::message::Scalar;
use crate::codec::protobuf::{Encoder, Wire, WireFields};
use crate::{MicroTime, Time};

/// Seconds since 1970, for the common encoding: whole seconds, which take five bytes from 1978 to
/// 3058.
#[inline]
fn whole_seconds(bytes: &[u8]) -> Option<i64> {
    let [0x08, a, b, c, d, e @ 0..0x80, 0x10, 0] = *bytes else { return None };
    let groups = [a, b, c, d].map(|group| i64::from(group & 0x7f));
    let seconds = groups[0] | groups[1] << 7 | groups[2] << 14 | groups[3] << 21 | i64::from(e) << 28;
    (a & b & c & d >= 0x80).then_some(seconds)
}

/// Seconds and nanoseconds of a time.
fn time_parts(bytes: &[u8]) -> Result<(i64, i32), DecodeError> {
    let (mut fields, mut seconds, mut nanos) = (WireFields::new(bytes), 0, 0);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => seconds = wire.varint()? as i64,
            2 => nanos = wire.int32()?,
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

/// Times; Go's zero time means none: `null` in JSON, an empty message in protobuf.
macro_rules! times {
    ($($time:ty => $from_parts:expr, $to_parts:expr);*) => { $(
        impl Scalar for $time {
            crate::scalar_equality!();
            fn is_zero(&self) -> bool {
                *self == <$time>::default()
            }
            fn clear(&mut self) {
                *self = <$time>::default();
            }
            fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
                let text = reader.string()?;
                *self = <$time>::parse(text.as_bytes()).map_err(|error| DecodeError::new(error.to_string()))?;
                Ok(())
            }
            fn encode_json(&self, writer: &mut Writer<'_>) {
                if Scalar::is_zero(self) {
                    writer.raw("null");
                } else {
                    writer.plain_string(self.encode(&mut [0; <$time>::TEXT_LENGTH]));
                }
            }
            fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
                let bytes = wire.bytes()?;
                let (seconds, nanos) = match whole_seconds(bytes) {
                    Some(seconds) => (seconds, 0),
                    None => time_parts(bytes)?,
                };
                let time: Option<$time> = if bytes.is_empty() { Some(Default::default()) } else { $from_parts(seconds, nanos) };
                *self = time.ok_or_else(|| DecodeError::new("time is outside of the years 0 to 9999"))?;
                Ok(())
            }
            fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
                encoder.delimited(number, |inner| {
                    if !Scalar::is_zero(self) {
                        let (seconds, nanos): (i64, i32) = $to_parts(self);
                        inner.varint(1, seconds as u64);
                        inner.varint(2, nanos as u64);
                    }
                });
            }
        }
    )* };
}

times!(
    Time => |seconds, _| Time::from_unix(seconds), |time: &Time| (time.as_unix(), 0);
    MicroTime => |seconds: i64, nanos: i32| {
        seconds.checked_mul(1_000_000)?.checked_add(i64::from(nanos / 1000)).and_then(MicroTime::from_unix_micros)
    }, |time: &MicroTime| {
        let micros = time.as_unix_micros();
        (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as i32 * 1000)
    }
);
