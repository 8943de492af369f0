//! Discovery of groups, versions and resources.
//!
//! [`DiscoveryClient`] requests aggregated discovery if the server supports it (since 1.26), else
//! each version of each group. The result is a [`Discovery`], which may be partial and then lists
//! its failures. [`CachedDiscovery`] caches it in memory and optionally on disk. [`RestMapper`]
//! finds resources by kind, name, short name and category, and requests discovery again on a miss.

mod aggregated;
mod cache;
mod catalog;
mod client;
mod disk;
mod document;
mod documents;
mod legacy;
mod mapper;
mod version;

pub use cache::CachedDiscovery;
pub use catalog::{ApiGroup, ApiResource, Discovery, GroupFailure, Subresource, Version};
pub use client::DiscoveryClient;
pub use disk::DiskCache;
pub use mapper::{RestMapper, RestMapping};
pub use version::ServerVersion;
