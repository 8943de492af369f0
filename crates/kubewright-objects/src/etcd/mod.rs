//! Keys and values of objects in etcd, as kube-apiserver writes them.

mod definition;
mod layout;
#[cfg(test)]
mod tests;
mod value;

pub use layout::Layout;
pub use value::{decode, encode};
