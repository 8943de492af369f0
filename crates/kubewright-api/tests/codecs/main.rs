//! The codecs, driven over all types of the API.
//!
//! Types are reached through their tables, so that one generator of random values (`model`) serves
//! them all.

mod applying;
mod bad_json;
mod bad_protobuf;
mod documentation;
mod interop;
mod kinds;
mod model;
mod oracles;
mod recorded;
mod round_trip;
mod rules;
mod samples;
mod streams;
