//! `kubewright bundle`: bundles of the Operator Lifecycle Manager.
//!
//! `write` makes one from the manifests of a project, `read` reads one, `validation` has the rules
//! of operator-sdk, and `upgrade` compares two.

mod read;
mod upgrade;
mod validation;
mod write;

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::output::print;
use read::Bundle;
use validation::{Level, Optional};

pub const CREATE_HELP: &str = "\
Example:
  kubewright bundle create --version 0.2.0 --image registry.example.org/shop:0.2.0 --replaces shop.v0.1.0
  kubewright bundle validate bundle/0.2.0
  kubewright bundle upgrade bundle/0.1.0 bundle/0.2.0";

/// The commands for bundles.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Writes a bundle from the manifests and samples of a project, in a folder of its own for each
    /// version.
    #[command(after_help = CREATE_HELP)]
    Create(write::CreateOptions),
    /// Checks a bundle with the rules of operator-sdk, under their names.
    ///
    /// ClusterServiceVersion, definitions and bundle are always checked. Definitions are checked by
    /// the embedded API server.
    Validate(ValidateOptions),
    /// Says whether the operator can be upgraded from one bundle to another: definitions, stored
    /// versions, conversions, and the order of versions.
    Upgrade(UpgradeOptions),
}

/// Options of `bundle validate`.
#[derive(Debug, Args)]
pub struct ValidateOptions {
    /// The folder of the bundle, with manifests/ and metadata/.
    bundle: PathBuf,
    /// More rules: name=good-practices, name=standardcapabilities, name=standardcategories, or
    /// suite=operatorframework for all of them. May be repeated.
    #[arg(long, value_name = "SELECTOR", value_parser = validation::selector)]
    select_optional: Vec<Optional>,
}

/// Options of `bundle upgrade`.
#[derive(Debug, Args)]
pub struct UpgradeOptions {
    /// The folder of the installed bundle.
    old: PathBuf,
    /// The folder of the next bundle.
    new: PathBuf,
}

/// Runs the command.
pub async fn run(command: &BundleCommand) -> Result<(), Box<dyn Error>> {
    match command {
        BundleCommand::Create(options) => write::create(options),
        BundleCommand::Validate(options) => validate(options).await,
        BundleCommand::Upgrade(options) => upgrade(options),
    }
}

async fn validate(options: &ValidateOptions) -> Result<(), Box<dyn Error>> {
    let bundle = Bundle::read(&options.bundle)?;
    let findings = validation::validate(&bundle, &options.select_optional).await?;
    for finding in &findings {
        print(format!("{finding}\n"))?;
    }
    match findings.iter().filter(|finding| finding.level == Level::Error).count() {
        0 => Ok(print("all validation tests have completed successfully\n")?),
        count => Err(format!("{} is not valid: {count} errors", options.bundle.display()).into()),
    }
}

fn upgrade(options: &UpgradeOptions) -> Result<(), Box<dyn Error>> {
    let (old, new) = (Bundle::read(&options.old)?, Bundle::read(&options.new)?);
    let problems = upgrade::problems(&old, &new);
    for problem in &problems {
        print(format!("{problem}\n"))?;
    }
    match problems.len() {
        0 => Ok(print(format!("{} can be upgraded to {}\n", old.name(), new.name()))?),
        count => Err(format!("{} cannot be upgraded to {}: {count} problems", old.name(), new.name()).into()),
    }
}
