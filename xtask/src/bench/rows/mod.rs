//! The rows of the report. Each declares its programs, runs its cases, and checks its goals.

mod controller;
mod growth;
mod handlers;
mod hello;
mod queue;
mod recording;
mod relist;
mod server;
mod server_etcd;
mod server_growth;
mod server_restart;
mod store;
mod sync;
mod sync_diverse;
mod updates;

use super::row::Row;

pub const ALL: &[Row] = &[
    sync::ROW,
    sync_diverse::ROW,
    updates::ROW,
    relist::ROW,
    handlers::ROW,
    store::ROW,
    queue::ROW,
    controller::ROW,
    recording::ROW,
    server::ROW,
    server_growth::ROW,
    server_restart::ROW,
    server_etcd::ROW,
    hello::ROW,
    growth::ROW,
];

const OURS: &str = "kubewright";
const COMPACT: &str = "kubewright, compact";
const GO: &str = "client-go";
const KUBE: &str = "kube-rs";

/// A count of pods in short form, such as `100k`.
fn size(pods: u64) -> String {
    match pods {
        1_000_000.. => format!("{}M", pods / 1_000_000),
        _ => format!("{}k", pods / 1000),
    }
}
