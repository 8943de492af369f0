//! Server-side apply: field ownership, and the merge of applied configurations.
//!
//! Everything works on value trees and the merge semantics of their [`MergeSchema`]; there is no
//! I/O and no clock. Start at [`Managers::apply`] and [`Managers::update`]. Fields are identified
//! by [`FieldSet`]s in the format of `fieldsV1`.

mod check;
mod compare;
mod error;
mod extract;
mod field_set;
mod keep;
mod managers;
mod merge;
mod prune;
mod schema;

pub use check::check;
pub use compare::{FieldDifferences, compare};
pub use error::{ApplyError, Conflict};
pub use extract::field_set;
pub use field_set::{Element, FieldSet};
pub use keep::keep_fields;
pub use managers::{ManagedFieldsOperation, ManagerIdentifier, Managers};
pub use merge::merge;
pub use prune::remove_fields;
pub use schema::MergeSchema;

#[cfg(test)]
mod tests;
