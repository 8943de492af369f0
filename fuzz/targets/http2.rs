//! No frames on a connection of HTTP/2 stop the server. The preface comes before the input.
#![no_main]

mod connection;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    connection::serve(&[preface, input].concat());
});
