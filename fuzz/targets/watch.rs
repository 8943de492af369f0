//! A watch decodes equally in chunks and as a whole: the same events, then the same end or an
//! error.
#![no_main]

mod pieces;

use kubewright_api::core::v1::Pod;
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::stream::{Encoding, WatchDecoder, WatchEvent};
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

/// The events, and whether the stream then ended between two of them.
///
/// An invalid event may be rejected early or at its end; the test accepts both. A decoder may wait
/// for the line break after an event, so a final line break is added.
fn decode<'a, T: Object>(encoding: Encoding, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<WatchEvent<T>>, bool) {
    let mut stream = WatchDecoder::new(encoding);
    let (mut decoder, mut events) = (Decoder::new(), Vec::new());
    let line_end: &[u8] = if encoding == Encoding::Json { b"\n" } else { b"" };
    for piece in pieces.into_iter().chain([line_end]) {
        stream.push(piece);
        loop {
            match stream.next(&mut decoder) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, false),
            }
        }
    }
    (events, !stream.is_mid_event())
}
