//! The decoder: its options, and the state it keeps between objects.
//!
//! Decision: a cache stays if it alone saves 10 % of the CPU or the memory of diverse pods, each
//! with its own image, probes, resources and environment. `replay --pods 20000 --diverse true` and
//! `bench-decode ADDRESS 20000 "as in a cache"` give, with one cache disabled at a time:
//!
//! | disabled | JSON µs | protobuf µs | bytes a pod | |
//! |---|---|---|---|---|
//! | none | 14.4 | 6.7 | 3,705 | |
//! | values ([`value_cache`]) | 17.4 | 7.9 | 4,917 | kept |
//! | long strings ([`pool`]) | 14.4 | 6.6 | 4,273 | kept |
//! | short strings ([`pool`]) | 15.5 | 7.5 | 3,705 | kept: 10 % of protobuf |
//! | long strings seen before | 14.5 | 6.5 | 3,747 | removed |
//! | process-wide interner, fed by the former | 14.5 | 6.5 | 3,747 | removed |

mod error;
mod pool;
mod state;
mod text;
mod value_cache;

pub use error::DecodeError;
pub use pool::StringPool;
pub use state::{Decoder, Finding, MAX_FINDINGS};
pub(crate) use value_cache::CacheMiss;
