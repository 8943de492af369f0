//! Helpers that the tests of several crates share. Not published, and only a dev-dependency.

mod complexity;
mod etcd;

pub use complexity::{assert_linear, processor_time};
pub use etcd::{EtcdCluster, EtcdTls};
