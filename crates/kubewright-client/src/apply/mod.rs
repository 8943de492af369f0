//! What a program wants to be true of an object, and what it has made so before.
//!
//! An object of a type cannot say "leave this field alone" for fields that its kind requires: written out, they are there.
//! Client-go has a second type for each type, with every field optional, at a tenth of the size of its binaries. Here an
//! [`ApplyConfiguration`] is a tree that belongs to a type: fields are named by paths, and checked against the type
//! before anything is sent.

mod configuration;
mod upgrade;

pub use configuration::ApplyConfiguration;
pub use upgrade::{upgrade_managed_fields, upgrade_patch};
