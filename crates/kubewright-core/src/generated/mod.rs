//! Types written by `cargo xtask generate`.

pub(crate) mod meta_v1;
