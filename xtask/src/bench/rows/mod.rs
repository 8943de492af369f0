//! The rows of the table: each says what it needs, plays its cases, and knows its goals.

mod controller;
mod growth;
mod handlers;
mod hello;
mod queue;
mod relist;
mod server;
mod store;
mod sync;
mod updates;

use super::Session;
use super::figures::Figures;
use super::goals::Goals;

/// One row.
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    /// The metric that the chart shows.
    pub charted: &'static str,
    /// Packages of the bench's workspace.
    pub packages: &'static [&'static str],
    /// Folders of Go programs, and the programs' names.
    pub go: &'static [(&'static str, &'static str)],
    /// Measures all contestants that there are.
    pub play: fn(&Session, &mut Figures) -> Result<(), String>,
    pub goals: fn(&Figures, &mut Goals),
}

pub const ALL: &[Row] = &[
    sync::ROW,
    updates::ROW,
    relist::ROW,
    handlers::ROW,
    store::ROW,
    queue::ROW,
    controller::ROW,
    server::ROW,
    hello::ROW,
    growth::ROW,
];

const OURS: &str = "kubewright";
const COMPACT: &str = "kubewright, compact";
const GO: &str = "client-go";
const KUBE: &str = "kube-rs";

/// A count of pods as people say it.
fn size(pods: u64) -> String {
    match pods {
        1_000_000.. => format!("{}M", pods / 1_000_000),
        _ => format!("{}k", pods / 1000),
    }
}
