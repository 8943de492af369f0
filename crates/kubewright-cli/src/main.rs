//! The `kubewright` command.

// It panics when nobody reads; `output::print` tells.
#![warn(clippy::print_stdout)]

mod apiserver;
mod completion;
mod connection;
mod failure;
mod files;
mod get;
mod log;
mod new;
mod output;
mod progress;
mod proxy;
mod resources;
mod run;
mod signals;
mod table;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Creates go through a server a tenth quicker than with the system's, see `bench/README.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Kubernetes controller machinery, with an API server in the box.
///
/// `up` runs a whole cluster in one process, with no container or machine behind it: point kubectl at it, or your own
/// controllers. The other commands talk to any cluster, that one or a real one.
#[derive(Debug, Parser)]
#[command(name = "kubewright", version, disable_help_subcommand = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
A first look:
  kubewright up --demo                            watch a control plane work, each step explained
  kubewright up --write-kubeconfig kubeconfig     then: kubectl --kubeconfig kubeconfig get nodes
  kubewright watch pods --kubeconfig kubeconfig   what changes, as it changes

Exit status: 0 all went well; 1 something failed, and standard error says what; 2 the arguments make no sense.
Commands that talk to a cluster find it as kubectl does: --kubeconfig, $KUBECONFIG, ~/.kube/config, the pod's own account.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a cluster in one process: the API server, controllers, and simulated nodes that run pods.
    ///
    /// Prints one line on standard output, `ready URL`, when it serves. In a terminal it then shows what happens: informers,
    /// queues, reconciles, events. Elsewhere it writes log lines to standard error. SIGINT and SIGTERM stop it cleanly.
    #[command(after_help = UP_HELP)]
    Up(up::Options),
    /// Runs the API server alone.
    ///
    /// Prints one line on standard output, `ready URL`, when it serves. SIGINT and SIGTERM stop it cleanly.
    Apiserver(apiserver::Options),
    /// Runs shipped controllers against any cluster.
    #[command(after_help = run::names())]
    Run(run::Options),
    /// Makes a controller project: custom resource, reconciler, tests, manifests.
    #[command(after_help = new::HELP)]
    New(new::Options),
    /// Prints objects as tables, JSON or YAML.
    #[command(after_help = "Examples:\n  kubewright get pods -A\n  kubewright get deployment web -o yaml")]
    Get(get::Options),
    /// Prints objects and each change as it comes.
    #[command(after_help = "Examples:\n  kubewright watch pods -l app=web\n  kubewright watch deployment web")]
    Watch(get::Options),
    /// Prints the resources that a cluster serves.
    ApiResources(connection::Connection),
    /// Prints the groups and versions that a cluster serves.
    ApiVersions(connection::Connection),
    /// Serves a cluster on a port of this machine, with your credentials.
    Proxy(proxy::Options),
    /// Prints a script that completes commands in a shell.
    #[command(after_help = completion::HELP)]
    Completion(completion::Options),
    /// Prints the version.
    Version,
}

const UP_HELP: &str = "\
Examples:
  kubewright up                                   in memory, on 127.0.0.1:6443
  kubewright up --demo                            with a story told by real objects
  kubewright up --data ./cluster                  what is there survives the process, however that ends
  kubewright up --listen 127.0.0.1:0 --quiet      a free port, for scripts that read the line `ready URL`";

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Up(options) => up::up(options).await,
        Command::Apiserver(options) => apiserver::run(options).await,
        Command::Run(options) => run::run(options).await,
        Command::New(options) => new::new(&options),
        Command::Get(options) => get::get(&options).await,
        Command::Watch(options) => get::watch(&options).await,
        Command::ApiResources(connection) => resources::resources(&connection).await,
        Command::ApiVersions(connection) => resources::versions(&connection).await,
        Command::Proxy(options) => proxy::run(&options).await,
        Command::Completion(options) => completion::print(&options),
        Command::Version => {
            let (own, served) = (env!("CARGO_PKG_VERSION"), kubewright_apiserver::GIT_VERSION);
            output::print(format!("kubewright v{own} (Kubernetes {served})\n")).map_err(Into::into)
        }
    };
    failure::report(result)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_well_formed() {
        super::Cli::command().debug_assert();
    }
}
