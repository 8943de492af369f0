//! Nothing but tests: see `tests/derived.rs`.
