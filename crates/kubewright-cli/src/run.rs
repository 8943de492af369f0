//! `kubewright run`: built-in controllers against any cluster.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_client::rest::log_warnings_once;
use kubewright_client::{Api, Client};
use kubewright_controllers::{ControllerContext, Shipped, SigningAuthority};
use kubewright_core::{DynamicObject, Object};
use kubewright_runtime::custom::until_served;
use kubewright_runtime::election::{LeaderElectionOptions, unique_identity};
use kubewright_runtime::{LeaderElector, Manager, ManagerOptions};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::dashboard::DashboardOptions;
use crate::log::Verbosity;
use crate::progress;
use crate::record::RecordOptions;
use crate::signals::TerminationSignals;

/// Controllers and cluster.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The controllers to run.
    #[arg(required = true, value_name = "CONTROLLER")]
    controllers: Vec<Shipped>,
    /// Restricts them to this namespace; the whole cluster by default.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Runs only while this process holds a lease, so that other replicas can stand by.
    #[arg(long)]
    leader_elect: bool,
    /// The lease.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "default/kubewright", requires = "leader_elect",
        value_parser = lease)]
    lease: (String, String),
    /// Also runs controllers that the cluster has already. Both may interfere with each other.
    #[arg(long)]
    force: bool,
    /// Creates missing CustomResourceDefinitions of the controllers.
    #[arg(long)]
    install: bool,
    /// Serves /healthz, /readyz and /metrics here; port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Number of workers per controller.
    #[arg(long, value_name = "N", default_value_t = 5)]
    workers: usize,
    /// Certificate of the authority that csr-signing signs with, in PEM.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// Key of that authority, in PEM (PKCS 8).
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    cluster_signing_key_file: Option<PathBuf>,
    #[command(flatten)]
    dashboard: DashboardOptions,
    #[command(flatten)]
    record: RecordOptions,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    connection: Connection,
}

/// The controller names, for `--help`.
pub fn names() -> String {
    let mut text = "Controllers:\n".to_owned();
    let width = Shipped::ALL.map(|shipped| shipped.name().len()).into_iter().max().unwrap_or_default();
    for shipped in Shipped::ALL {
        let mark = if shipped.twin().is_some() { "*" } else { " " };
        text += &format!("  {:width$} {mark} {}\n", shipped.name(), shipped.about());
    }
    text + "  * a real cluster has one already: refused without --force\n\nEXAMPLES:\n  \
            kubewright run ingress-manager --namespace shop\n  \
            kubewright run hooks --install\n  \
            kubewright run sample --install --leader-elect --listen 127.0.0.1:8080"
}

/// Runs the controllers until a termination signal.
pub async fn run(options: RunOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = TerminationSignals::new()?;
    options.verbosity.start();
    options.check()?;
    let client = options.connection.client()?.on_warning(log_warnings_once());
    // Reports a wrong address or wrong credentials immediately, instead of retrying forever.
    let version = client.discovery().server_version().await?;
    tracing::info!(version = %version.git_version, "connected");
    options.check_definitions(&client).await?;

    let shutdown = CancellationToken::new();
    let manager = options.manager(&client)?;
    let run = manager.run(&shutdown);
    tokio::pin!(run);
    tokio::select! {
        ended = &mut run => return Ok(ended?),
        () = signals.wait() => {}
    }
    tracing::info!("stopping");
    shutdown.cancel();
    tokio::select! {
        ended = run => ended?,
        () = signals.wait() => return Err("told to stop a second time".into()),
    }
    tracing::info!("stopped");
    Ok(())
}

impl RunOptions {
    /// Checks the options.
    fn check(&self) -> Result<(), Box<dyn Error>> {
        let taken = |shipped: &&Shipped| !self.force && shipped.twin().is_some();
        if let Some(shipped) = self.controllers.iter().find(taken) {
            let twin = shipped.twin().unwrap_or_default();
            return Err(format!(
                "a cluster has a {shipped} controller already ({twin}), and two undo each other's work; \
                 --force runs it all the same, where nobody else does"
            )
            .into());
        }
        let wide = |shipped: &&Shipped| self.namespace.is_some() && !shipped.is_namespaced();
        match self.controllers.iter().find(wide) {
            Some(shipped) => Err(format!("{shipped} looks after the whole cluster; leave --namespace out").into()),
            None => Ok(()),
        }
    }

    /// Checks that the server has the custom resources of the controllers.
    async fn check_definitions(&self, client: &Client) -> Result<(), Box<dyn Error>> {
        for definition in self.controllers.iter().filter_map(|shipped| shipped.definition()) {
            self.check_definition(client, &definition).await?;
        }
        Ok(())
    }

    async fn check_definition(&self, client: &Client, definition: &DynamicObject) -> Result<(), Box<dyn Error>> {
        let definition: CustomResourceDefinition = definition.to_typed()?;
        let (definitions, name) = (Api::<CustomResourceDefinition>::all(client), definition.name());
        if definitions.get_opt(name).await?.is_some() {
            return Ok(());
        }
        if !self.install {
            return Err(format!("the cluster has no definition {name}; --install creates it").into());
        }
        match definitions.create(&definition).await {
            Ok(_) => tracing::info!(name, "definition created"),
            // Created concurrently by another process.
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(until_served(client, &definition).await?)
    }

    fn manager(&self, client: &Client) -> Result<Manager, Box<dyn Error>> {
        let mut of_manager = ManagerOptions::default();
        if let Some(namespace) = &self.namespace {
            of_manager = of_manager.namespace(namespace.as_str());
        }
        if let Some(address) = self.listen {
            let (tell, told) = oneshot::channel();
            of_manager = of_manager.listen(address).tell_address(tell);
            tokio::spawn(async move {
                if let Ok(address) = told.await {
                    tracing::info!(%address, "health and metrics are served");
                }
            });
        }
        let recorder = self.record.recorder()?;
        if let Some(recorder) = &recorder {
            of_manager = of_manager.record(recorder.clone());
        }
        let mut manager = Manager::new(client, of_manager);
        let factory = manager.factory().clone();
        let queues = manager.metrics().controllers.queues().clone();
        let mut context = ControllerContext::over(&factory).workers(self.workers).queue_metrics(&queues);
        if let Some(recorder) = &recorder {
            context = context.observer(recorder.observer());
        }
        if self.controllers.contains(&Shipped::RootCaCertPublisher) {
            let authorities = self.connection.authorities()?;
            context =
                context.root_ca(authorities.ok_or("the kubeconfig names no certificate authority to be published")?);
        }
        if self.controllers.contains(&Shipped::CertificateSigning) {
            context = context.signing_authority(self.signing_authority()?);
        }
        if let Some(dashboard) = self.dashboard.dashboard(&context) {
            manager.add_task("dashboard", |stop| async move { Ok(dashboard.run(&stop).await?) })?;
        }
        for shipped in &self.controllers {
            let (context, shipped) = (context.clone(), *shipped);
            manager.add_leader_task(shipped.name(), move |stop| async move {
                tracing::info!(controller = shipped.name(), "starting");
                Ok(shipped.run(&context, &stop).await?)
            })?;
        }
        let seen = factory.clone();
        manager.add_leader_task("progress", move |stop| async move {
            stop.run_until_cancelled(progress::until_synced(&seen)).await;
            Ok(())
        })?;
        manager.checks().readiness("caches", move || match &factory.unsynced()[..] {
            [] => Ok(()),
            [first, ..] => Err(first.to_string()),
        });
        if self.leader_elect {
            let ((namespace, name), identity) = (&self.lease, unique_identity());
            tracing::info!(lease = %format_args!("{namespace}/{name}"), identity, "standing by until the lease is ours");
            let of_election = LeaderElectionOptions::default();
            manager.elect(LeaderElector::new(client, namespace.as_str(), name.as_str(), identity, of_election)?);
        }
        Ok(manager)
    }

    /// The authority that signs certificate requests.
    fn signing_authority(&self) -> Result<SigningAuthority, Box<dyn Error>> {
        let (Some(certificate), Some(key)) = (&self.cluster_signing_cert_file, &self.cluster_signing_key_file) else {
            return Err("csr-signing needs --cluster-signing-cert-file and --cluster-signing-key-file".into());
        };
        Ok(SigningAuthority::from_pem(&read(certificate)?, &read(key)?.into())?)
    }
}

/// The text of a file. The error contains its path.
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Parses a lease.
fn lease(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("it is not of the form NAMESPACE/NAME".to_owned()),
    }
}
