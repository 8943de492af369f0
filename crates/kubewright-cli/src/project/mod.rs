//! Projects: `kubewright new` and `kubewright create`.
//!
//! kubebuilder inserts code at marker comments of the files that users edit. Here nothing is ever
//! inserted into such a file. A project has three sorts of files:
//!
//! - Files of the user: everything but the following. They are written once, and a command that
//!   would have to write one that exists fails before it has written anything.
//! - `src/kinds.rs`, which lists modules, definitions, controllers and webhooks. It follows from
//!   `kubewright.yaml`, and is replaced as a whole. It contains a checksum: if that does not match,
//!   someone has edited the file, and the command fails.
//! - `kubewright.yaml`, the record of what was created. `create` adds lines at its end; with
//!   `kustomization.yaml` it does the same. After that, the file must read as before, with one item
//!   more.
//!
//! A further version of a kind starts as a copy of the newest one, since users have changed that.
//! Manifests that follow from the code are written by the program itself: `cargo run -- manifests`.

mod create;
mod files;
mod kinds;
mod names;
mod new;
mod record;
mod template;

pub use create::{CreateCommand, create};
pub use files::rustfmt;
pub use names::{module_of, struct_of};
pub use new::{HELP, NewOptions, new};
pub use record::ProjectRecord;
