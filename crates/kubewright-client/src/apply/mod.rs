//! Apply configurations: the fields that a program manages, and the migration to server-side apply.
//!
//! A typed object cannot omit required fields: they are always serialised. client-go has a second
//! type for each type, with every field optional, which make up a tenth of its binaries. Here an
//! [`ApplyConfiguration`] is a tree with a type: fields are addressed by path, and checked against
//! the type before anything is sent.

mod configuration;
mod upgrade;

pub use configuration::ApplyConfiguration;
pub use upgrade::{upgrade_managed_fields, upgrade_patch};
