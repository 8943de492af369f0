//! The `kubewright` command.

fn main() {}
