#![doc = include_str!("../../../README.md")]

pub use kubewright_api as api;
pub use kubewright_core::*;
