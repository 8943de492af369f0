//! Leader election with a Lease: run it twice, and stop the leader.
//!
//! `cargo run -p kubewright-examples --example leader_election -- --kubeconfig kubeconfig --id one`

use std::time::Duration;

use clap::Parser;
use kubewright::runtime::election::{LeaderCallbacks, LeaderElectionOptions};
use kubewright::runtime::{LeaderElector, shutdown_on_signals};
use kubewright_examples::{Arguments, Outcome};

#[derive(Parser)]
struct Candidate {
    #[command(flatten)]
    arguments: Arguments,
    /// The identity of this process, which must be unique.
    #[arg(long)]
    id: String,
    /// The lease duration in seconds. Renew deadline and retry period are a quarter and a twelfth
    /// of it.
    #[arg(long, default_value_t = 60.0)]
    lease: f64,
}

#[tokio::main]
async fn main() -> Outcome {
    let candidate = Candidate::parse();
    // Installed first, so that an early signal is not lost.
    let shutdown = shutdown_on_signals();
    let connection = candidate.arguments.connect().await?;
    let options = LeaderElectionOptions::default()
        .lease_duration(Duration::from_secs_f64(candidate.lease))
        .renew_deadline(Duration::from_secs_f64(candidate.lease / 4.0))
        .retry_period(Duration::from_secs_f64(candidate.lease / 12.0))
        // A clean exit releases the lease, so the next leader need not wait for its expiry.
        .release_on_cancel(true);
    let elector = LeaderElector::new(&connection.client, "default", "example", candidate.id.as_str(), options)?;

    let me = candidate.id.clone();
    let callbacks = LeaderCallbacks::new(
        |leading| async move {
            println!("Controller loop...");
            leading.cancelled().await;
        },
        move || println!("leader lost: {me}"),
    );
    let me = candidate.id.clone();
    let callbacks = callbacks.on_new_leader(move |leader| {
        if leader == me { println!("I am the leader: {leader}") } else { println!("new leader elected: {leader}") }
    });
    elector.run(callbacks, &shutdown).await?;
    Ok(())
}
