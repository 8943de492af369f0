//! A list decodes equally in chunks and as a whole: the same items, then the same end or an error.
#![no_main]

mod pieces;

use kubewright_api::core::v1::Pod;
use kubewright_core::meta::v1::{ListMeta, PartialObjectMetadata};
use kubewright_core::stream::{Encoding, ListDecoder};
use kubewright_core::{Decoder, DynamicObject, Object};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((which, sizes, bytes)) = pieces::split(input) else { return };
    let encoding = if which & 1 == 0 { Encoding::Json } else { Encoding::Protobuf };
    match which >> 1 & 3 {
        0 => check::<Pod>(encoding, sizes, bytes),
        1 => check::<PartialObjectMetadata>(encoding, sizes, bytes),
        _ => check::<DynamicObject>(encoding, sizes, bytes),
    }
});

fn check<T: Object + PartialEq + std::fmt::Debug>(encoding: Encoding, sizes: &[u8], bytes: &[u8]) {
    let whole = decode::<T>(encoding, [bytes]);
    assert_eq!(decode::<T>(encoding, pieces::pieces(sizes, bytes)), whole);
}

fn decode<'a, T: Object>(encoding: Encoding, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<T>, Option<ListMeta>) {
    let mut stream = ListDecoder::new(encoding);
    let (mut decoder, mut items) = (Decoder::new().skip_managed_fields(), Vec::new());
    for piece in pieces {
        stream.push(piece);
        loop {
            match stream.next(&mut decoder) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(_) => return (items, None),
            }
        }
    }
    (items, stream.finish().ok())
}
