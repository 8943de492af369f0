//! The `kubewright` command.

mod apiserver;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Kubernetes controller machinery, with an API server in the box.
#[derive(Debug, Parser)]
#[command(name = "kubewright", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the API server alone.
    Apiserver(apiserver::Options),
    /// Runs a cluster in one process: the API server, controllers, and simulated nodes that run pods.
    Up(apiserver::UpOptions),
    /// Prints the version.
    Version,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Apiserver(options) => apiserver::run(options).await,
        Command::Up(options) => apiserver::up(options).await,
        Command::Version => {
            println!("kubewright v{} (Kubernetes {})", env!("CARGO_PKG_VERSION"), kubewright_apiserver::GIT_VERSION);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error and its causes, each once.
#[allow(clippy::print_stderr)]
fn report(error: &dyn std::error::Error) {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    eprintln!("{text}");
}
