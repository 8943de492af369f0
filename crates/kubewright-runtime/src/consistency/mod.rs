//! A controller sees what it has written.
//!
//! Writes through [`OwnApi`] are noted with the version that the server gave. The next run for the same key waits until the
//! cache of the kind shows them, without holding a worker; other keys go on. Reads say how fresh they have to be
//! ([`Freshness`]). As in KEP-5647, versions that cannot be compared are not waited for.
//!
//! A cache that keeps only a part of a resource is known to do so: reads outside of that part ask
//! the server, and writes outside of it are not waited for.

mod create_or_update;
mod cut;
mod delete_controlled;
mod ledger;
mod own_api;
mod write;

pub use create_or_update::Operation;
pub(crate) use cut::Cut;
pub(crate) use ledger::Ledger;
pub use own_api::{Freshness, OwnApi, StaleCache};
pub(crate) use write::Write;
