//! Controller of Widget objects of the group example.com.
//!
//! `cargo run` runs it against the cluster of the kubeconfig, or of the pod it is in; `cargo run --
//! crd` prints the definition of its custom resource.

mod reconciler;
mod resource;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::process::ExitCode;

use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::election::{LeaderElectionOptions, unique_identity};
use kubewright::runtime::{BoxError, LeaderElector, Manager, ManagerOptions, shutdown_on_signals};
use kubewright::{Client, Object, Value, yaml};

#[tokio::main]
async fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("crd") => definition().map(|text| print!("{text}")),
        Some(argument) => Err(format!("what is {argument:?}? There is `crd`, or nothing").into()),
        None => run().await,
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes: String = causes.map(|cause| format!(": {cause}")).collect();
    let _ = writeln!(std::io::stderr(), "{error}{causes}");
    ExitCode::FAILURE
}

/// Runs until SIGINT or SIGTERM, and only while this process holds the lease, so that other
/// replicas can stand by.
async fn run() -> Result<(), BoxError> {
    // Logs go through the crate `tracing`, which prints nothing without a subscriber.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    // Installed first, so that an early signal is not lost.
    let shutdown = shutdown_on_signals();
    let client = Client::try_default().await?;
    let mut manager = Manager::new(&client, ManagerOptions::default().listen("0.0.0.0:8080".parse()?));
    let (namespace, identity) = (client.default_namespace(), unique_identity());
    manager.elect(LeaderElector::new(
        &client,
        namespace,
        "widget-operator",
        identity,
        LeaderElectionOptions::default(),
    )?);
    reconciler::add_to(&mut manager)?;
    println!("running; health and metrics on port 8080");
    Ok(manager.run(&shutdown).await?)
}

/// The CustomResourceDefinition, as in `manifests/crd.yaml`.
fn definition() -> Result<String, BoxError> {
    let mut text = String::new();
    yaml::write(&Value::from_json(&resource::Widget::definition().to_json())?, &mut text);
    Ok(text)
}
