//! Apply configurations: the fields that a program manages, and the migration to server-side apply.
//!
//! A typed object cannot omit required fields: they are always serialised. client-go has a second
//! struct for each type, with every field optional, which make up a tenth of its binaries. Here a
//! builder such as `DeploymentApply` is a tree with typed setters; see
//! [`apply_configuration`](kubewright_core::apply_configuration). [`ApplyConfiguration`] addresses
//! fields by path instead. Both are applied with [`Api::apply_configuration`](crate::Api), and made
//! from what a manager owns with [`Extract`].

mod configuration;
mod extract;
mod send;
mod upgrade;

pub use configuration::ApplyConfiguration;
pub use extract::Extract;
pub use kubewright_core::apply_configuration::{ApplyFields, ApplyObject, ApplyPart, HasApply};
pub use upgrade::{upgrade_managed_fields, upgrade_patch};
