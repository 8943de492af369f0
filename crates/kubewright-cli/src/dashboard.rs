//! The dashboard of `up` and `run`.

use std::net::SocketAddr;

use clap::Args;
use kubewright_controllers::ControllerContext;
use kubewright_dashboard::{Dashboard, ObservedReconcile};

/// Options of the dashboard.
#[derive(Debug, Args)]
pub struct DashboardOptions {
    /// Where a page is served that shows informers, queues and workers; `off` serves none.
    ///
    /// Loopback addresses only; port 0 picks a free port. The URL has a token.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = address)]
    dashboard: DashboardAddress,
}

/// Where the dashboard is served.
#[derive(Debug, Clone, Copy)]
enum DashboardAddress {
    At(SocketAddr),
    Off,
}

fn address(text: &str) -> Result<DashboardAddress, String> {
    if text == "off" {
        return Ok(DashboardAddress::Off);
    }
    text.parse().map(DashboardAddress::At).map_err(|error| format!("{error}; it is ADDR:PORT, or off"))
}

impl DashboardOptions {
    /// The dashboard of these controllers, if one is wanted.
    pub fn dashboard(&self, context: &ControllerContext) -> Option<Dashboard> {
        let DashboardAddress::At(address) = self.dashboard else { return None };
        let (activity, mut finished) = (context.activity().clone(), context.activity().observe());
        let gated = activity.clone();
        let dashboard =
            Dashboard::new(context.client()).informers(context.factory()).listen(address).queues(move |limit| {
                activity.queues(limit).into_iter().map(|(name, view)| (name.to_owned(), view)).collect()
            });
        let dashboard = dashboard.gates(move |name| gated.gate(name));
        let reconciles = dashboard.reconciles();
        // Ends with the controllers.
        tokio::spawn(async move {
            while let Some(ended) = finished.recv().await {
                let mut reconcile = ObservedReconcile::now(ended.controller, ended.key, ended.elapsed);
                reconcile.requeue_after = ended.requeue_after.map(|delay| delay.as_secs_f64() * 1000.0);
                reconcile.error = ended.error;
                reconciles.send(reconcile);
            }
        });
        Some(dashboard)
    }
}
