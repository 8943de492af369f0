//! The `kubewright` command.

mod apiserver;
mod connection;
mod get;
mod proxy;
mod resources;
mod table;

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
    /// Prints objects as tables, JSON or YAML.
    Get(get::Options),
    /// Prints objects and each change as it comes.
    Watch(get::Options),
    /// Prints the resources that a cluster serves.
    ApiResources(connection::Connection),
    /// Prints the groups and versions that a cluster serves.
    ApiVersions(connection::Connection),
    /// Serves a cluster on a port of this machine, with your credentials.
    Proxy(proxy::Options),
    /// Prints the version.
    Version,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Apiserver(options) => apiserver::run(options).await,
        Command::Up(options) => apiserver::up(options).await,
        Command::Get(options) => get::get(&options).await,
        Command::Watch(options) => get::watch(&options).await,
        Command::ApiResources(connection) => resources::resources(&connection).await,
        Command::ApiVersions(connection) => resources::versions(&connection).await,
        Command::Proxy(options) => proxy::run(&options).await,
        Command::Version => {
            println!("kubewright v{} (Kubernetes {})", env!("CARGO_PKG_VERSION"), kubewright_apiserver::GIT_VERSION);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has read enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
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
