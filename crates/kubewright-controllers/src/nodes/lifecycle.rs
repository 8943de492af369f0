//! What happens to a pod on a node: it starts, becomes ready, perhaps ends, and stops when it is deleted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubewright_api::core::v1::{Pod, PodStatus};
use kubewright_client::Api;
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Object, Time};

use super::options::EXIT_CODE_ANNOTATION;
use super::registration::pod_network;
use super::timers::Step;
use super::{NodeOptions, Nodes, pod_status};
use crate::indices;
use crate::owner_events::controller;
use crate::pods::{is_finished, is_ready, node_name, phase};
use crate::worker::Synced;

impl Nodes {
    /// Takes the next step of a pod that has a node, when it is due.
    pub(super) async fn move_on(&self, pod: &Arc<Pod>) -> Synced {
        let Some((step, delay)) = self.next_step(pod) else { return Ok(None) };
        if let Some(wait) = self.timers.wait(&pod.key(), pod.uid(), step, delay) {
            return Ok(Some(wait));
        }
        let now = self.clock.now();
        let spec = pod.spec.as_ref();
        let mut status = pod.status.clone().unwrap_or_default();
        match step {
            Step::Start => {
                let (address, host) = self.addresses(pod);
                pod_status::start(spec, &mut status, &address, &host, now);
                if self.options.ready_delay.is_zero() {
                    pod_status::become_ready(spec, &mut status, now);
                }
            }
            Step::BecomeReady => pod_status::become_ready(spec, &mut status, now),
            Step::End => self.end(pod, &mut status, now),
            Step::Stop => return self.stop(pod).await,
        }
        self.write(pod, status).await
    }

    /// What a pod is to do next, and after how long.
    fn next_step(&self, pod: &Arc<Pod>) -> Option<(Step, Duration)> {
        if pod.is_being_deleted() {
            // What a finalizer still holds has stopped all the same.
            if pod.metadata.deletion_grace_period_seconds == Some(0) && !pod.metadata.finalizers.is_empty() {
                return None;
            }
            let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
            let grace = Duration::from_secs(grace.unwrap_or_default());
            return Some((Step::Stop, self.options.stop_delay.min(grace)));
        }
        if is_finished(pod) {
            return None;
        }
        if phase(pod) != "Running" {
            return Some((Step::Start, self.options.start_delay));
        }
        if !is_ready(pod) {
            return Some((Step::BecomeReady, self.options.ready_delay));
        }
        let is_of_job = controller(pod).is_some_and(|reference| reference.kind == "Job");
        let ends = is_of_job || exit_code(pod).is_some();
        ends.then_some((Step::End, self.options.run_time))
    }

    /// Ends the containers: the pod with them, unless its policy starts them again.
    fn end(&self, pod: &Pod, status: &mut PodStatus, now: Time) {
        let code = exit_code(pod).unwrap_or_default();
        let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
        match (policy, code) {
            ("Never", _) | ("OnFailure", 0) => pod_status::end(status, code, now),
            _ => pod_status::restart(status, code, now),
        }
    }

    /// Says that the last container has stopped, as a kubelet does: by a deletion without grace.
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

    /// An address for a pod that no other has, and that of its node.
    fn addresses(&self, pod: &Pod) -> (String, String) {
        let number = self.options.number_of(node_name(pod)).unwrap_or_default();
        let address = loop {
            let next = self.addresses.fetch_add(1, Ordering::Relaxed);
            let (third, fourth) = (next / 254 % 256, next % 254 + 1);
            let address = format!("10.{}.{third}.{fourth}", pod_network(number));
            if !indices::has_address(&self.pods, &address) {
                break address;
            }
        };
        (address, NodeOptions::address_of(number))
    }
}

fn exit_code(pod: &Pod) -> Option<i32> {
    pod.annotations().get(EXIT_CODE_ANNOTATION)?.parse().ok()
}
