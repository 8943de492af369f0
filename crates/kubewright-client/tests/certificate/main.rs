//! Client certificates that are requested, stored and rotated.

mod certificate_files;
mod certificate_manager;
#[allow(dead_code, reason = "the tests of connections use the rest")]
#[path = "../../../kubewright-net/tests/net/directory.rs"]
mod directory;
#[allow(dead_code, reason = "the tests of connections use the rest")]
#[path = "../../../kubewright-net/tests/net/scripted.rs"]
mod scripted;
mod signer;
