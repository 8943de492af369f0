//! `kubewright up`: a cluster in one process.
//!
//! `news` follows events, which `view` shows in a terminal and `plain` as lines; `demo`
//! demonstrates a rollout.

mod demo;
mod kubeconfig_context;
mod news;
mod plain;
mod screen;
mod story;
mod usage;
mod view;
mod workloads;

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use kubewright_apiserver::RunningServer;
use kubewright_cache::{FactoryOptions, SharedInformerFactory};
use kubewright_client::Client;
use kubewright_controllers::{
    ControllerContext, ControllerSet, MetricsServer, NodeOptions, RunningControllers, SigningAuthority, nodes,
};
use kubewright_recording::Recorder;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::apiserver::{self, announce, start};
use crate::apply;
use crate::dashboard::DashboardOptions;
use crate::progress;
use crate::record::RecordOptions;
use crate::signals::TerminationSignals;
use kubeconfig_context::KubeconfigContext;
use screen::Screen;
use story::Story;

/// Options of `up` besides those of the server.
#[derive(Debug, Args)]
pub struct UpOptions {
    #[command(flatten)]
    server: apiserver::ServerOptions,
    /// Number of simulated nodes; without nodes, pods stay pending.
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
    /// Demonstrates a control plane, explaining each step.
    ///
    /// A replica set is scaled from 1 to 2, a deleted pod is replaced, a deployment of 8 is rolled
    /// out. All of it happens to real objects in the namespace `demo`, which stay.
    #[arg(long)]
    demo: bool,
    /// Applies the manifests of this file or directory before the cluster is ready. May be
    /// repeated.
    #[arg(long, value_name = "FILE | DIR")]
    apply: Vec<PathBuf>,
    /// Leaves your kubeconfig as it is. By default it has the context `kubewright` while the
    /// cluster runs, unless --write-kubeconfig writes another file.
    #[arg(long)]
    no_context: bool,
    #[command(flatten)]
    dashboard: DashboardOptions,
    #[command(flatten)]
    record: RecordOptions,
    /// Writes log lines even if standard output is a terminal.
    #[arg(long)]
    plain: bool,
}

/// Runs a cluster: API server, controllers, and nodes.
pub async fn up(options: UpOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = TerminationSignals::new()?;
    let verbosity = options.server.verbosity;
    verbosity.start();
    if options.demo && options.nodes == 0 {
        return Err("without nodes no pod of --demo would ever run; leave --nodes out".into());
    }
    let recorder = options.record.recorder()?;
    let server = start(&options.server).await?;
    let context = match &recorder {
        Some(recorder) => recorded(&server.client(), recorder),
        None => ControllerContext::new(&server.client()),
    };
    let mut controllers = start_controllers(&server, context, options.nodes).await?;
    let context = controllers.context().clone();
    let dashboard = match options.dashboard.dashboard(&context) {
        // The server is embedded, and its data belongs to the user who opens the page.
        Some(dashboard) => Some(dashboard.allow_actions().start().await?),
        None => None,
    };
    apply::load(&server.client(), &options.apply).await?;
    let kubeconfig_context = options.add_context(&server).await;
    announce(&options.server, &server)?;

    let is_live = Screen::is_possible() && !options.plain && !verbosity.is_quiet();
    if let Some(dashboard) = dashboard.as_ref().filter(|_| !is_live) {
        tracing::info!(url = dashboard.url(), "dashboard");
    }
    let (stop, mut onlookers) = (CancellationToken::new(), JoinSet::new());
    let story = Story::new(is_live);
    if is_live {
        let shown = view::Shown {
            url: server.url().unwrap_or_default().to_owned(),
            dashboard: dashboard.as_ref().map(|dashboard| dashboard.url().to_owned()),
            kubectl: match &options.server.write_kubeconfig {
                Some(file) => Some(format!("kubectl --kubeconfig {}", file.display())),
                None => kubeconfig_context.as_ref().map(|_| "kubectl".to_owned()),
            },
            context: context.clone(),
            story: story.clone(),
        };
        let stop = stop.clone();
        onlookers.spawn(async move { view::show(shown, &stop).await });
    } else if !verbosity.is_quiet() {
        let (context, stop) = (context.clone(), stop.clone());
        onlookers.spawn(async move {
            progress::until_synced(context.factory()).await;
            // The demo prints its own lines.
            plain::tell(&context, !options.demo, &stop).await
        });
    }
    if options.demo {
        let (context, stop) = (context.clone(), stop.clone());
        onlookers.spawn(async move {
            match stop.run_until_cancelled(demo::play(&context, &story)).await {
                Some(Err(error)) => Err(std::io::Error::other(format!("the demo failed: {error}"))),
                _ => Ok(()),
            }
        });
    }
    // Otherwise it would keep the caches and the queued events from being finished.
    drop(context);

    let ended = tokio::select! {
        () = signals.wait() => Ok(()),
        ended = controllers.ended() => Err(ended.err().map_or("a controller ended unexpectedly".into(), Box::<dyn Error>::from)),
        failed = first_failure(&mut onlookers) => Err(Box::<dyn Error>::from(failed)),
    };
    stop.cancel();
    if let Some(dashboard) = dashboard {
        dashboard.stop().await;
    }
    while onlookers.join_next().await.is_some() {}
    // Controllers stop first: their running reconciles still need the server.
    let stopped = controllers.stop().await;
    server.stop().await;
    if let Some(recorder) = recorder {
        recorder.finish();
    }
    ended?;
    if !verbosity.is_quiet()
        && let Some(usage) = usage::now()
    {
        tracing::info!("stopped; {usage}");
    }
    Ok(stopped?)
}

impl UpOptions {
    /// Adds the context to the user's kubeconfig. The cluster runs without it as well.
    async fn add_context(&self, server: &RunningServer) -> Option<KubeconfigContext> {
        if self.no_context || self.server.write_kubeconfig.is_some() {
            return None;
        }
        match KubeconfigContext::add(server).await {
            Ok(context) => {
                let file = context.file().unwrap_or_default();
                tracing::info!("the context {:?} is the current one of {}", kubeconfig_context::NAME, file.display());
                Some(context)
            }
            Err(error) => {
                tracing::warn!("{}", kubeconfig_context::advice(&*error));
                None
            }
        }
    }
}

/// Starts the controllers of a cluster with simulated nodes.
pub async fn start_controllers(
    server: &RunningServer,
    context: ControllerContext,
    nodes: u32,
) -> Result<RunningControllers, Box<dyn Error>> {
    let mut controllers = ControllerSet::over(context).nodes(NodeOptions::default().count(nodes));
    if let Some(authority) = server.certificate_authority() {
        controllers = controllers.root_ca(authority);
        if let Some(key) = server.certificate_authority_key() {
            controllers = controllers.signing_authority(SigningAuthority::from_pem(authority, key)?);
        }
    }
    let controllers = controllers.start();
    if nodes > 0 {
        let context = controllers.context();
        server.connect_network(nodes::network(context));
        server.connect_in_process(MetricsServer::AUTHORITY, MetricsServer::new(context));
        MetricsServer::register(&server.client()).await?;
    }
    Ok(controllers)
}

/// The context of controllers whose caches, reconciles and requests are recorded.
fn recorded(client: &Client, recorder: &Recorder) -> ControllerContext {
    let client = client.clone().json_objects().layered(|transport| recorder.transport(transport));
    let caches = FactoryOptions::default().observer(recorder.observer());
    ControllerContext::over(&SharedInformerFactory::new(&client, caches)).observer(recorder.observer())
}

/// Waits until an observer fails. Observers that end without an error are ignored.
async fn first_failure(onlookers: &mut JoinSet<std::io::Result<()>>) -> std::io::Error {
    while let Some(ended) = onlookers.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(error) => return std::io::Error::other(error),
        }
    }
    std::future::pending().await
}
