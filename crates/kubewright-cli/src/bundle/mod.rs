//! `kubewright bundle`: bundles of the Operator Lifecycle Manager.
//!
//! `write` makes one from the manifests of a project, `read` reads one, `validation` has the rules
//! of operator-sdk, `scorecard` its tests, and `upgrade` compares two.

mod read;
mod scorecard;
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
  kubewright bundle scorecard bundle/0.2.0
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
    /// Runs the tests of operator-sdk's scorecard, on the embedded API server.
    ///
    /// It installs the definitions, and creates the examples with strict validation.
    Scorecard(ScorecardOptions),
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

/// Options of `bundle scorecard`.
#[derive(Debug, Args)]
pub struct ScorecardOptions {
    /// The folder of the bundle, with manifests/ and metadata/.
    bundle: PathBuf,
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
        BundleCommand::Create(options) => write::create(options).await,
        BundleCommand::Validate(options) => validate(options).await,
        BundleCommand::Scorecard(options) => scorecard(options).await,
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

async fn scorecard(options: &ScorecardOptions) -> Result<(), Box<dyn Error>> {
    let results = scorecard::run(&Bundle::read(&options.bundle)?).await?;
    for result in &results {
        print(format!("{}: {}\n", result.name, if result.failures.is_empty() { "pass" } else { "fail" }))?;
        for failure in &result.failures {
            print(format!("  {failure}\n"))?;
        }
    }
    match results.iter().filter(|result| !result.failures.is_empty()).count() {
        0 => Ok(()),
        count => Err(format!("{count} of {} tests fail", results.len()).into()),
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
