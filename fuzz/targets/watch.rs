//! A watch in pieces gives what it gives whole: the same events, then the same end or an error.
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
/// An event that is broken is refused at once if it is there in whole, and otherwise when its end
/// has come; of that difference nothing is said here. Where events stand on lines, one may be
/// waited for until its line ends, so that a line is ended here at the last.
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
