//! Decode loops of single types, for generated code.

/// Generates a specialised protobuf decode loop for a type. Arguments: its table, the numbers of
/// its length-delimited fields, and those of its varint fields; of either, also those that are
/// rarely set but that Go writes as zero. Position, type and flags of each field are compile-time
/// constants. Fields that are not listed, or that have another wire type, go to the generic loop.
/// Meant for the few types that make up most of a cluster's data.
#[doc(hidden)]
#[macro_export]
macro_rules! own_loop {
    ($table:ident, [$($value:literal),*], [$($number:literal),*], [$($empty:literal),*], [$($zero:literal),*]) => {
        #[inline]
        fn decode_fields(
            &mut self,
            bytes: &[u8],
            decoder: &mut $crate::Decoder,
        ) -> Option<Result<(), $crate::DecodeError>> {
            use $crate::generated_support::{
                decode_number, decode_other, decode_value, name_number, take_bytes, take_varint,
            };
            let mut decode = || {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let start = rest;
                    let tag = take_varint(&mut rest)?;
                    let done = if tag & 7 == 2 {
                        match (take_bytes(&mut rest), tag >> 3) {
                            $((Ok(value), $value) => {
                                decode_value(self, &$table.numbers[$value], value, start, &mut rest, decoder)
                            })*
                            $((Ok([]), $empty) => Ok(()),)*
                            _ => Ok(decode_other(self, start, &mut rest, decoder)?),
                        }
                    } else if tag & 7 == 0 {
                        match (take_varint(&mut rest), tag >> 3) {
                            $((Ok(value), $number) => decode_number(self, &$table.numbers[$number], value, decoder),)*
                            $((Ok(0), $zero) => Ok(()),)*
                            _ => Ok(decode_other(self, start, &mut rest, decoder)?),
                        }
                    } else {
                        Ok(decode_other(self, start, &mut rest, decoder)?)
                    };
                    if let Err(error) = done {
                        return Err(name_number(error, self.scheme(), tag));
                    }
                }
                Ok(())
            };
            Some(decode())
        }
    };
}
