//! News as lines of text.

use std::time::Duration;

use kubewright_controllers::ControllerContext;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use super::news::{self, News};
use super::usage;
use super::workloads::Workloads;

/// Maximum number of event lines per second: a thousand deployments cause twenty thousand events.
const LINES: u32 = 20;
/// Idle time after which the cluster counts as settled.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// Prints all events, or only warnings, until cancelled.
pub async fn tell(context: &ControllerContext, tells_all: bool, stop: &CancellationToken) -> std::io::Result<()> {
    let (sender, mut news) = mpsc::channel(1024);
    let following = tokio::spawn(news::follow(context.client().clone(), sender));
    let workloads = Workloads::new(context.factory());
    let mut second = interval(Duration::from_millis(100));
    let (mut lines, mut left_out, mut since) = (0, 0_u64, Instant::now());
    let mut settling = Settling::new(Instant::now());
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(News { is_warning, reason, object, message, .. }) = news.recv() => {
                if !tells_all && !is_warning {
                    continue;
                }
                lines += 1;
                match (lines > LINES, is_warning) {
                    (true, _) => left_out += 1,
                    (_, true) => tracing::warn!("{object}: {reason}: {message}"),
                    (_, false) => tracing::info!("{object}: {reason}: {message}"),
                }
            }
            _ = second.tick() => {
                if since.elapsed() >= Duration::from_secs(1) {
                    if left_out > 0 {
                        tracing::info!("… and {left_out} more events");
                    }
                    (lines, left_out, since) = (0, 0, Instant::now());
                }
                let controllers = context.activity().controllers();
                let is_idle = controllers.iter().all(|controller| controller.depth == 0 && controller.busy == 0);
                let reconciles = controllers.iter().map(|controller| controller.reconciles).sum();
                if let Some(took) = settling.look(Instant::now(), reconciles, is_idle) {
                    let (pods, rollouts) = (workloads.pods(), workloads.rollouts());
                    let complete = rollouts.iter().filter(|rollout| rollout.is_complete()).count();
                    let usage = usage::now().map_or_else(String::new, |usage| format!("; {usage}"));
                    tracing::info!(
                        "settled after {:.1} s: {} pods, {} ready; {} deployments, {complete} complete{usage}",
                        took.as_secs_f64(), pods.all, pods.ready, rollouts.len(),
                    );
                }
            }
        }
    }
    following.abort();
    Ok(())
}

/// Detects when all pending work is done.
struct Settling {
    reconciles: u64,
    /// When the current work began.
    began: Option<Instant>,
    last_change: Instant,
}

impl Settling {
    fn new(now: Instant) -> Self {
        Settling { reconciles: 0, began: None, last_change: now }
    }

    /// The duration of the work, when it has just settled.
    fn look(&mut self, now: Instant, reconciles: u64, is_idle: bool) -> Option<Duration> {
        if reconciles != self.reconciles || !is_idle {
            self.began.get_or_insert(now);
            (self.reconciles, self.last_change) = (reconciles, now);
            return None;
        }
        if now - self.last_change < SETTLED_AFTER {
            return None;
        }
        self.began.take().map(|began| self.last_change - began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_settled_after_an_idle_period() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut settling = Settling::new(start);
        assert_eq!(settling.look(at(100), 5, false), None);
        assert_eq!(settling.look(at(1500), 9, true), None, "something has happened since");
        assert_eq!(settling.look(at(2400), 9, true), None, "too early");
        assert_eq!(settling.look(at(2500), 9, true), Some(Duration::from_millis(1400)));
        assert_eq!(settling.look(at(9000), 9, true), None, "it is told once");
    }
}
