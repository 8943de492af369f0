//! Runs the controllers and webhooks of `kinds` against the cluster of the kubeconfig, or of the
//! pod that it is in.

mod kinds;
mod manifests;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kubewright::Client;
use kubewright::runtime::certificates::ServingCertificate;
use kubewright::runtime::manager::SecureMetrics;
use kubewright::runtime::webhook::WebhookServer;
use kubewright::runtime::{BoxError, Manager, ManagerOptions, shutdown_on_signals};
use tracing_subscriber::filter::LevelFilter;

/// The operator widget-operator.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The log level on standard error: off, error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    /// Where /healthz and /readyz are served, for the kubelet.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    health_address: SocketAddr,
    /// Where /metrics is served over HTTPS. Callers need a token of the cluster and the permission
    /// `get` on the path.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8443")]
    metrics_address: SocketAddr,
    /// Where webhooks are served, if there are any.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9443")]
    webhook_address: SocketAddr,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Writes the generated manifests: definitions, role, webhooks.
    Manifests {
        /// The folder of the project.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Prints the ClusterRole that the controllers declare.
    Rbac,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Libraries log through the crate `tracing`, which prints nothing without a subscriber.
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(arguments.log_level).init();
    let done = match &arguments.command {
        Some(Command::Manifests { folder }) => manifests::write(folder),
        Some(Command::Rbac) => manifests::role().map(|role| print!("{role}")),
        None => run(&arguments).await,
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes: String = causes.map(|cause| format!(": {cause}")).collect();
    let _ = writeln!(std::io::stderr(), "error: {error}{causes}");
    ExitCode::FAILURE
}

/// Runs until SIGINT or SIGTERM. Controllers run only while this process holds the lease, so that
/// other replicas can stand by.
async fn run(arguments: &Arguments) -> Result<(), BoxError> {
    // Installed first, so that an early signal is not lost.
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    // Clients that verify the certificate need one of an authority: see `ServingCertificate`.
    let certificate = ServingCertificate::self_signed(["localhost", "127.0.0.1"])?;
    let options = ManagerOptions::default()
        .listen(arguments.health_address)
        .secure_metrics(SecureMetrics::new(arguments.metrics_address, certificate));
    let mut manager = Manager::new(&client, options);
    manager.elect_by_lease(manifests::NAME)?;
    kinds::add_to(&mut manager)?;
    if let Some(webhooks) = kinds::webhooks() {
        let certificates = manifests::webhook_certificates(&client, &webhooks);
        manager.add_webhooks("webhooks", WebhookServer::new(arguments.webhook_address, certificates, webhooks))?;
    }
    #[cfg(feature = "dashboard")]
    kubewright::dashboard::Dashboard::new(&client).add_to(&mut manager)?;
    println!("running; health on {}, metrics on {}", arguments.health_address, arguments.metrics_address);
    Ok(manager.run(&shutdown).await?)
}
