//! Images of simulated containers: their names, whether they can be pulled, and the few that serve
//! files.

mod files;
mod pull;
mod reference;

pub(crate) use files::{create_files, served_folder};
pub use pull::{PullError, pull_error};
