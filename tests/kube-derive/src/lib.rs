//! This crate has only tests: see `tests/derived.rs`.
