//! The lifecycle of a pod on a node: start, readiness, end, and stop on deletion.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubewright_api::core::v1::{Pod, PodStatus};
use kubewright_client::Api;
use kubewright_client::clock;
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Object, Time};

use super::options::EXIT_CODE_ANNOTATION;
use super::registration::pod_network;
use super::timers::PodStep;
use super::{NodeOptions, Nodes, pod_status};
use crate::indices;
use crate::owner_events::controller;
use crate::pods::{is_finished, is_ready, node_name, phase, restarts};
use crate::worker::Synced;

/// Size of a node's pod network.
const ADDRESSES: usize = 256 * 254;
/// Retry delay when all addresses are in use.
const NO_ADDRESS: Duration = Duration::from_secs(5);
/// The exit code of a stopped container: by SIGTERM.
const STOPPED: i32 = 128 + 15;

impl Nodes {
    /// Performs the next step of an assigned pod when it is due.
    pub(super) async fn move_on(&self, pod: &Arc<Pod>) -> Synced {
        let Some((step, delay)) = self.next_step(pod) else { return Ok(None) };
        if let Some(wait) = self.timers.wait(&pod.key(), pod.uid(), step, delay) {
            return Ok(Some(wait));
        }
        let now = clock::now();
        let spec = pod.spec.as_ref();
        let mut status = pod.status.clone().unwrap_or_default();
        match step {
            PodStep::Start => {
                let (Some(address), host) = self.addresses(pod) else { return Ok(Some(NO_ADDRESS)) };
                pod_status::start(spec, &mut status, &address, &host, now);
                if self.options.ready_delay.is_zero() {
                    pod_status::become_ready(spec, &mut status, now);
                }
            }
            PodStep::BecomeReady => pod_status::become_ready(spec, &mut status, now),
            PodStep::End => self.end(pod, &mut status, now),
            PodStep::Restart => pod_status::restart(&mut status, now),
            PodStep::Stop if is_finished(pod) || pod.metadata.finalizers.is_empty() => return self.stop(pod).await,
            // A holder of a finalizer may wait for the end of the pod.
            PodStep::Stop => pod_status::end(&mut status, STOPPED, now),
        }
        self.write(pod, status).await
    }

    /// The next step of a pod and its delay.
    fn next_step(&self, pod: &Arc<Pod>) -> Option<(PodStep, Duration)> {
        if pod.is_being_deleted() {
            // A pod held by a finalizer is done once its end is recorded.
            let is_held = pod.metadata.deletion_grace_period_seconds == Some(0) && !pod.metadata.finalizers.is_empty();
            if is_held && is_finished(pod) {
                return None;
            }
            let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
            let grace = Duration::from_secs(grace.unwrap_or_default());
            return Some((PodStep::Stop, self.options.stop_delay.min(grace)));
        }
        if is_finished(pod) {
            return None;
        }
        if phase(pod) != "Running" {
            return Some((PodStep::Start, self.options.start_delay));
        }
        if let Some(restarts) = pod_status::backing_off(pod) {
            return Some((PodStep::Restart, pod_status::back_off(restarts)));
        }
        if !is_ready(pod) {
            return Some((PodStep::BecomeReady, self.options.ready_delay));
        }
        let is_of_job = controller(pod).is_some_and(|reference| reference.kind == "Job");
        let ends = is_of_job || exit_code(pod).is_some();
        ends.then_some((PodStep::End, self.options.run_time))
    }

    /// Ends the containers, and the pod with them unless its restart policy restarts them.
    fn end(&self, pod: &Pod, status: &mut PodStatus, now: Time) {
        let code = exit_code(pod).unwrap_or_default();
        let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
        match (policy, code) {
            ("Never", _) | ("OnFailure", 0) => pod_status::end(status, code, now),
            _ => {
                pod_status::crash(pod, status, code, now);
                // As by a kubelet, the first restart does not wait.
                if restarts(pod) == 0 {
                    pod_status::restart(status, now);
                }
            }
        }
    }

    /// Confirms the end of the last container as a kubelet does: by a deletion without grace
    /// period.
    async fn stop(&self, pod: &Pod) -> Synced {
        let options = DeleteOptions::default().grace_period_seconds(0).uid(pod.uid());
        match Api::<Pod>::namespaced(&self.client, pod.namespace()).delete_with(pod.name(), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(None),
        }
    }

    async fn write(&self, pod: &Pod, status: PodStatus) -> Synced {
        let changed = Pod { status: Some(status), ..pod.clone() };
        match Api::<Pod>::namespaced(&self.client, pod.namespace()).update_status(&changed).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(None),
        }
    }

    /// A free pod address, if there is one, and the node's address.
    fn addresses(&self, pod: &Pod) -> (Option<String>, String) {
        let number = self.options.number_of(node_name(pod)).unwrap_or_default();
        let next = || self.addresses.fetch_add(1, Ordering::Relaxed);
        let address = free_address(pod_network(number), next, |address| indices::has_address(&self.pods, address));
        (address, NodeOptions::address_of(number))
    }
}

/// The next free address of a network; `None` after all were tried.
fn free_address(network: u32, next: impl Fn() -> usize, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    let address = |number: usize| format!("10.{network}.{}.{}", number / 254 % 256, number % 254 + 1);
    (0..ADDRESSES).map(|_| address(next())).find(|address| !is_taken(address))
}

fn exit_code(pod: &Pod) -> Option<i32> {
    pod.annotations().get(EXIT_CODE_ANNOTATION)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_network_that_is_full_has_no_address_to_give() {
        let (numbers, taken) = (Cell::new(1), std::cell::RefCell::new(HashSet::new()));
        let give = || {
            let next = || numbers.replace(numbers.get() + 1);
            let address = free_address(129, next, |address| taken.borrow().contains(address))?;
            taken.borrow_mut().insert(address.clone());
            Some(address)
        };
        for _ in 0..ADDRESSES {
            assert!(give().is_some_and(|address| address.parse::<std::net::Ipv4Addr>().is_ok()));
        }
        assert_eq!(taken.borrow().len(), ADDRESSES);
        assert_eq!(give(), None);
        // A released address is found, wherever the counter is.
        taken.borrow_mut().remove("10.129.17.4");
        assert_eq!(give().as_deref(), Some("10.129.17.4"));
    }
}
