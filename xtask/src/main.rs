//! Chores of the project: `cargo xtask generate`.

fn main() {}
