//! No bytes on a connection of HTTP/1.1 stop the server.
#![no_main]

mod connection;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| connection::serve(input));
