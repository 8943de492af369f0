//! `kubewright dev`: runs the operator of a project, and starts it again when a file changes.
//!
//! `project_files` notices changes, and `operator` builds and runs the program.

mod operator;
mod project_files;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_client::Client;
use kubewright_controllers::{ControllerContext, RunningControllers};
use kubewright_dashboard::RunningDashboard;

use crate::apiserver::write_private;
use crate::apply;
use crate::connection::Connection;
use crate::dashboard::DashboardOptions;
use crate::files::raise_limit;
use crate::log::Verbosity;
use crate::output::print;
use crate::project::ProjectRecord;
use crate::signals::TerminationSignals;
use crate::up::start_controllers;
use operator::Operator;
use project_files::ProjectFiles;

pub const HELP: &str = "\
Examples:
  kubewright dev                        an API server with controllers and nodes, and the operator
  kubewright dev --context kind-kind    the operator, on a real cluster
  kubewright dev -- --log-level debug   arguments of the operator

It installs the definitions and, on the embedded server, the objects of samples/. Webhooks are not
called: an API server reaches them by a Service, or from a test.";

/// The folder of what the command writes, which git ignores.
const FOLDER: &str = ".kubewright";

/// How often files are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// How the operator is run.
#[derive(Debug, Args)]
pub struct DevOptions {
    /// The folder of the project.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    #[command(flatten)]
    connection: Connection,
    /// Number of simulated nodes of the embedded server.
    #[arg(long, value_name = "N", default_value_t = 2)]
    nodes: u32,
    /// Does not create the objects of samples/.
    #[arg(long)]
    no_samples: bool,
    #[command(flatten)]
    dashboard: DashboardOptions,
    #[command(flatten)]
    verbosity: Verbosity,
    /// Arguments of the operator.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the operator until a termination signal.
pub async fn dev(options: DevOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = TerminationSignals::new()?;
    let (record, _) = ProjectRecord::of_folder(&options.project)?;
    options.verbosity.start();
    let folder = options.project.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // The operator runs in the folder of the project.
    let folder = folder.canonicalize()?;
    let cluster =
        if options.connection.is_given() { None } else { Some(EmbeddedCluster::start(&options, &folder).await?) };
    let (client, kubeconfig) = match &cluster {
        Some(cluster) => (cluster.server.client().add_user_agent("dev"), cluster.kubeconfig.clone().into_os_string()),
        None => (options.connection.client()?, options.connection.variable(&folder.join("context.yaml"))?),
    };
    let mut operator = Operator::new(&options.project, &record, &folder, kubeconfig, &options.arguments);
    let ended = tokio::select! {
        () = signals.wait() => Ok(()),
        ended = follow(&options, &record, &client, &mut operator) => ended,
    };
    operator.stop().await;
    if let Some(cluster) = cluster {
        cluster.stop().await?;
    }
    ended
}

/// Builds, starts, and waits for changes, again and again.
async fn follow(
    options: &DevOptions,
    record: &ProjectRecord,
    client: &Client,
    operator: &mut Operator,
) -> Result<(), Box<dyn Error>> {
    let mut files = ProjectFiles::new(&options.project);
    let mut has_samples = options.no_samples || options.connection.is_given();
    let mut is_first = true;
    loop {
        match start(options, client, operator, &mut has_samples).await {
            Ok(()) if is_first => {
                is_first = false;
                let kind =
                    record.kinds.first().map(|kind| format!("{}.{}", kind.plural, kind.group)).unwrap_or_default();
                let kubeconfig = if options.connection.is_given() {
                    String::new()
                } else {
                    format!(" --kubeconfig {}", kubeconfig_of(options))
                };
                print(format!(
                    "watching {}\nnext:  kubewright get {kind} -A{kubeconfig}\n",
                    options.project.display()
                ))?;
            }
            Ok(()) => {}
            // The next change may mend it.
            Err(problem) => tracing::error!("{problem}; waiting for a change"),
        }
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if let Some(ended) = operator.ended() {
                tracing::error!("the operator ended ({ended}); waiting for a change");
            }
            if let Some(file) = files.changed() {
                tracing::info!("{file} changed");
                break;
            }
        }
    }
}

fn kubeconfig_of(options: &DevOptions) -> String {
    options.project.join(FOLDER).join("kubeconfig").display().to_string()
}

/// Builds the program, applies its definitions, and starts it. A running one goes on if the build
/// fails.
async fn start(
    options: &DevOptions,
    client: &Client,
    operator: &mut Operator,
    has_samples: &mut bool,
) -> Result<(), Box<dyn Error>> {
    operator.build().await?;
    let definitions = operator.definitions().await?;
    apply::load(client, &[definitions]).await?;
    operator.stop().await;
    operator.start()?;
    if !*has_samples {
        let samples = yaml_files(&options.project.join("samples"));
        apply::load(client, &samples).await?;
        *has_samples = true;
    }
    Ok(())
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
    files.sort();
    files
}

/// The embedded server with controllers, nodes and a dashboard.
struct EmbeddedCluster {
    server: RunningServer,
    controllers: RunningControllers,
    dashboard: Option<RunningDashboard>,
    kubeconfig: PathBuf,
}

impl EmbeddedCluster {
    async fn start(options: &DevOptions, folder: &Path) -> Result<Self, Box<dyn Error>> {
        raise_limit();
        let server = ApiServer::in_memory().listen(([127, 0, 0, 1], 0).into()).start().await?;
        let context = ControllerContext::new(&server.client());
        let controllers = start_controllers(&server, context, options.nodes).await?;
        let dashboard = match options.dashboard.dashboard(controllers.context()) {
            Some(dashboard) => Some(dashboard.allow_actions().start().await?),
            None => None,
        };
        let kubeconfig = folder.join("kubeconfig");
        let unwritten = |error| format!("cannot write {}: {error}", kubeconfig.display());
        write_private(&kubeconfig, &server.kubeconfig()).map_err(unwritten)?;
        print(format!("ready {}\n", server.url().unwrap_or_default()))?;
        if let Some(dashboard) = &dashboard {
            print(format!("dashboard {}\n", dashboard.url()))?;
        }
        Ok(EmbeddedCluster { server, controllers, dashboard, kubeconfig })
    }

    async fn stop(self) -> Result<(), Box<dyn Error>> {
        if let Some(dashboard) = self.dashboard {
            dashboard.stop().await;
        }
        let stopped = self.controllers.stop().await;
        self.server.stop().await;
        Ok(stopped?)
    }
}
