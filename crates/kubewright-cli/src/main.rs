//! The `kubewright` command.

// `println!` panics on a closed pipe; use `output::print`.
#![warn(clippy::print_stdout)]

mod apiserver;
mod apply;
mod backup;
mod bundle;
mod completion;
mod connection;
mod crd;
mod dashboard;
mod delete;
mod dev;
mod edit;
mod envtest;
#[cfg(feature = "etcd")]
mod etcd;
mod export;
mod failure;
mod files;
mod get;
mod import;
mod log;
mod logs;
mod manifests;
mod output;
mod private_file;
mod progress;
mod project;
mod proxy;
mod rbac;
mod record;
mod replay;
mod resources;
mod run;
mod scale;
mod selection;
mod signals;
mod table;
mod types;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Creates are a tenth faster than with the system allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Kubernetes controller toolkit with an embedded API server.
///
/// `up` runs a whole cluster in one process, without containers or machines: use it with kubectl or
/// your own controllers. The other commands work with any cluster.
#[derive(Debug, Parser)]
#[command(name = "kubewright", version, disable_help_subcommand = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
A first look:
  kubewright up --demo                            watch a control plane work, each step explained
  kubewright up                                   a cluster, which kubectl and the commands below then use
  kubewright watch pods                           what changes, as it changes
  kubewright new shop && cd shop && kubewright dev   an operator of your own, running

Exit status: 0 all went well; 1 something failed, and standard error says what; 2 the arguments make no sense.
Commands that talk to a cluster find it as kubectl does: --kubeconfig, $KUBECONFIG, ~/.kube/config, the pod's own account.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a cluster in one process: API server, controllers, and simulated nodes.
    ///
    /// Prints one line on standard output, `ready URL`, when it is ready. In a terminal it then
    /// shows informers, queues, reconciles and events. Otherwise it writes log lines to standard
    /// error. SIGINT and SIGTERM stop it cleanly.
    #[command(after_help = UP_HELP)]
    Up(up::UpOptions),
    /// Runs the API server alone.
    ///
    /// Prints one line on standard output, `ready URL`, when it serves. SIGINT and SIGTERM stop it
    /// cleanly.
    Apiserver(apiserver::ServerOptions),
    /// Runs built-in controllers against any cluster.
    #[command(after_help = run::names())]
    Run(run::RunOptions),
    /// Creates an operator project: custom resource, reconciler, tests, manifests, chart, CI.
    #[command(after_help = project::HELP)]
    New(project::NewOptions),
    /// Adds kinds, versions and webhooks to a project.
    #[command(subcommand)]
    Create(project::CreateCommand),
    /// Runs the operator of a project, and starts it again when a file changes.
    ///
    /// By default on an embedded server with controllers and simulated nodes, which ends with the
    /// command.
    #[command(after_help = dev::HELP)]
    Dev(dev::DevOptions),
    /// Writes the role of a project, from its code or from its tests.
    #[command(after_help = rbac::HELP)]
    Rbac(rbac::RbacOptions),
    /// Prints objects as tables, JSON or YAML.
    #[command(after_help = "Examples:\n  kubewright get pods -A\n  kubewright get deployment web -o yaml")]
    Get(get::GetCommandOptions),
    /// Prints objects, then each change.
    #[command(after_help = "Examples:\n  kubewright watch pods -l app=web\n  kubewright watch deployment web")]
    Watch(get::GetCommandOptions),
    /// Creates or changes the objects of manifests, by server-side apply.
    #[command(after_help = apply::HELP)]
    Apply(apply::ApplyCommandOptions),
    /// Deletes objects, and waits until they are gone.
    #[command(after_help = delete::HELP)]
    Delete(delete::DeleteCommandOptions),
    /// Changes objects in a text editor.
    #[command(after_help = edit::HELP)]
    Edit(edit::EditCommandOptions),
    /// Sets the replicas of deployments and others.
    #[command(after_help = scale::HELP)]
    Scale(scale::ScaleCommandOptions),
    /// Prints the logs of containers.
    #[command(after_help = logs::HELP)]
    Logs(logs::LogsOptions),
    /// Prints the resources that a cluster serves.
    ApiResources(connection::Connection),
    /// Prints the groups and versions that a cluster serves.
    ApiVersions(connection::Connection),
    /// Serves a cluster on a local port, with your credentials.
    Proxy(proxy::ProxyOptions),
    /// Writes all objects of a running kubewright API server to a file.
    ///
    /// The backup has one consistent revision; the server stays available. It contains all Secrets.
    Backup(backup::BackupOptions),
    /// Creates a data directory from a backup, for `--data`.
    Restore(backup::RestoreOptions),
    /// Prints the objects of any cluster as YAML, without server-set fields and generated objects.
    ///
    /// The output contains Secrets. It is not a consistent snapshot, unlike a backup.
    #[command(after_help = "Examples:\n  kubewright export -o cluster.yaml\n  kubewright export -n shop")]
    Export(export::ExportOptions),
    /// Applies objects from YAML files to any cluster.
    #[command(after_help = "Example:\n  kubewright export --context old | kubewright import --context new -")]
    Import(import::ImportOptions),
    /// Shows a recording in the dashboard, or finds its smallest part that still fails.
    #[command(after_help = replay::HELP)]
    Replay(replay::ReplayOptions),
    /// Works with CustomResourceDefinitions.
    #[command(subcommand)]
    Crd(crd::CrdCommand),
    /// Writes Rust types of custom resources, from their definitions.
    #[command(after_help = types::HELP)]
    Types(types::TypesOptions),
    /// Writes and checks bundles of the Operator Lifecycle Manager.
    #[command(subcommand)]
    Bundle(bundle::BundleCommand),
    /// Installs `kube-apiserver` and `etcd` for envtest: Go's tests run on this server.
    #[command(after_help = envtest::HELP)]
    Envtest(envtest::EnvtestOptions),
    /// Prints a shell completion script.
    #[command(after_help = completion::HELP)]
    Completion(completion::CompletionOptions),
    /// Prints the version.
    Version,
}

const UP_HELP: &str = "\
Examples:
  kubewright up                                   in memory, on 127.0.0.1:6443
  kubewright up --apply manifests/                with these objects
  kubewright up --demo                            with a story told by real objects
  kubewright up --data ./cluster                  what is there survives the process, however that ends
  kubewright up --listen 127.0.0.1:0 --quiet      a free port, for scripts that read the line `ready URL`";

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(code) = envtest::run_by_name(std::env::args_os()).await {
        return code;
    }
    let result = match Cli::parse().command {
        Command::Up(options) => up::up(options).await,
        Command::Apiserver(options) => apiserver::run(options).await,
        Command::Run(options) => run::run(options).await,
        Command::New(options) => project::new(&options),
        Command::Create(command) => project::create(&command),
        Command::Get(options) => get::get(&options).await,
        Command::Watch(options) => get::watch(&options).await,
        Command::Apply(options) => apply::apply(&options).await,
        Command::Delete(options) => delete::delete(&options).await,
        Command::Edit(options) => edit::edit(&options).await,
        Command::Scale(options) => scale::scale(&options).await,
        Command::Logs(options) => logs::logs(&options).await,
        Command::ApiResources(connection) => resources::resources(&connection).await,
        Command::ApiVersions(connection) => resources::versions(&connection).await,
        Command::Proxy(options) => proxy::run(&options).await,
        Command::Backup(options) => backup::backup(&options).await,
        Command::Restore(options) => backup::restore(&options),
        Command::Export(options) => export::export(&options).await,
        Command::Import(options) => import::import(&options).await,
        Command::Replay(options) => replay::replay(options).await,
        Command::Crd(command) => crd::run(&command).await,
        Command::Dev(options) => dev::dev(options).await,
        Command::Rbac(options) => rbac::rbac(&options),
        Command::Bundle(command) => bundle::run(&command).await,
        Command::Types(options) => types::types(&options),
        Command::Envtest(options) => envtest::install(&options),
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
