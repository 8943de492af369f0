//! Which groups, versions and resources a server has.
//!
//! [`DiscoveryClient`] asks the server: for one aggregated document where it has them (since 1.26), else for each version
//! of each group by itself. Either way the answer is a [`Discovery`], partial where parts of the server failed, with what
//! failed beside it. [`CachedDiscovery`] keeps it, in memory and if wanted on disk. [`RestMapper`] finds resources by the names
//! that people and objects use, and asks again once where it finds none.

mod aggregated;
mod cache;
mod catalog;
mod client;
mod disk;
mod documents;
mod legacy;
mod mapper;
mod version;

pub use cache::CachedDiscovery;
pub use catalog::{Discovery, Group, GroupFailure, Resource, Subresource, Version};
pub use client::DiscoveryClient;
pub use disk::DiskCache;
pub use mapper::{RestMapper, RestMapping};
pub use version::ServerVersion;
