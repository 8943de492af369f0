//! `kubewright crd`: CustomResourceDefinitions.

mod definitions;
mod diff;
mod objects;

pub use definitions::compare;

use std::error::Error;

use clap::Subcommand;

/// The commands for definitions.
#[derive(Debug, Subcommand)]
pub enum CrdCommand {
    /// Says whether a change of a definition is compatible.
    ///
    /// Prints one line for each incompatible change: definition, version, field and what changes. A
    /// change is compatible if every object that is valid before is valid after it and loses no
    /// field, and every request that works before works after it. What cannot be decided counts as
    /// incompatible.
    ///
    /// With --kubeconfig or --context it also names the stored objects that the new definition
    /// makes invalid, and the fields that it removes from them. Nothing is changed.
    #[command(after_help = diff::HELP)]
    Diff(diff::DiffOptions),
}

/// Runs the command.
pub async fn run(command: &CrdCommand) -> Result<(), Box<dyn Error>> {
    match command {
        CrdCommand::Diff(options) => diff::diff(options).await,
    }
}
