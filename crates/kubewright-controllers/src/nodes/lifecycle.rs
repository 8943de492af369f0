//! The lifecycle of a pod on a node: start, readiness, end, and stop on deletion.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubewright_api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use kubewright_client::Api;
use kubewright_client::clock;
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Object, Time};
use kubewright_kubelet::behaviour::{self, Behaviour, ReadyDelay};
use kubewright_kubelet::image::pull_error;
use kubewright_kubelet::plan::{End, Plan};

use super::heartbeat::slowdown;
use super::image_pulls::{ERROR_SHOWN, ImagePulls, ImageWait};
use super::pod_status::ContainerStart;
use super::registration::pod_network;
use super::scheduler::is_sidecar;
use super::timers::{PodStep, Step};
use super::{NodeOptions, Nodes, pod_status};
use crate::indices;
use crate::pods::{is_finished, is_ready, node_name, phase};
use crate::worker::Synced;

/// Size of a node's pod network.
const ADDRESSES: usize = 256 * 254;
/// Retry delay when all addresses are in use.
const NO_ADDRESS: Duration = Duration::from_secs(5);
/// Pods are looked at again after this time, even if they wait for years.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of events about malformed annotations of a pod.
const PROBLEMS_MAX: usize = 10;
/// The exit code of a stopped container: by SIGTERM.
const STOPPED: i32 = 128 + 15;

/// The pending steps and probes of a pod.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The steps, with their delays.
    pub(super) steps: Vec<(Step, Duration)>,
    /// The time until the next probe whose result may have changed.
    pub(super) next_probe: Option<Duration>,
}

impl Pending {
    fn of_pod(step: PodStep, delay: Duration) -> Self {
        Pending { steps: vec![(Step::of_pod(step), delay)], next_probe: None }
    }
}

impl Nodes {
    /// Performs the due steps of an assigned pod.
    pub(super) async fn move_on(&self, pod: &Arc<Pod>) -> Synced {
        let Some(spec) = pod.spec.as_ref() else { return Ok(None) };
        let mut status = pod.status.clone().unwrap_or_default();
        let pending = self.pending_steps(pod, spec, &status);
        let (due, next) = self.timers.due(&pod.key(), pod.uid(), &pending.steps);
        if due.is_empty() {
            return Ok([next, pending.next_probe].into_iter().flatten().min().map(|wait| wait.min(LONGEST_WAIT)));
        }
        let now = clock::now();
        for step in due {
            match step.kind {
                PodStep::Start => {
                    let (Some(address), host) = self.addresses(pod) else { return Ok(Some(NO_ADDRESS)) };
                    behaviour::problems(pod).into_iter().take(PROBLEMS_MAX).for_each(|problem| {
                        self.kubelet_events.warning(&**pod, "InvalidBehaviour", problem);
                    });
                    pod_status::start(spec, &mut status, &address, &host, now, |one| self.begin(pod, one));
                    self.become_ready_at_once(pod, spec, &mut status, now);
                }
                PodStep::Pull => {
                    let Some(container) = find(spec, &step.container) else { continue };
                    pod_status::retry_pull(container, &mut status);
                    pod_status::initialize(spec, &mut status, now, |one| self.begin(pod, one));
                    self.become_ready_at_once(pod, spec, &mut status, now);
                }
                PodStep::BackOff => self.back_off(pod, spec, &mut status, &step.container),
                PodStep::BecomeStarted => {
                    pod_status::become_started(&mut status, &step.container);
                    // The next init container waits until a sidecar has started.
                    if spec.init_containers.iter().any(|one| one.name == step.container) {
                        pod_status::initialize(spec, &mut status, now, |one| self.begin(pod, one));
                    }
                    self.become_ready_at_once(pod, spec, &mut status, now);
                }
                PodStep::BecomeReady => pod_status::become_ready(spec, &mut status, &step.container, now),
                PodStep::BecomeUnready => self.become_unready(pod, spec, &mut status, &step.container, now),
                PodStep::Kill => {
                    self.kill(pod, spec, &mut status, &step, now);
                    self.become_ready_at_once(pod, spec, &mut status, now);
                }
                PodStep::End => {
                    self.end(pod, spec, &mut status, &step, now);
                    self.become_ready_at_once(pod, spec, &mut status, now);
                }
                PodStep::Restart => {
                    let Some(container) = find(spec, &step.container) else { continue };
                    pod_status::restart(container, &mut status, now);
                    self.become_ready_at_once(pod, spec, &mut status, now);
                }
                PodStep::Stop if is_finished(pod) || pod.metadata.finalizers.is_empty() => return self.stop(pod).await,
                // A holder of a finalizer may wait for the end of the pod.
                PodStep::Stop => pod_status::stop(spec, &mut status, STOPPED, now),
            }
        }
        self.write(pod, status).await
    }

    /// The pending steps and probes of a pod.
    fn pending_steps(&self, pod: &Pod, spec: &PodSpec, status: &PodStatus) -> Pending {
        if pod.is_being_deleted() {
            // A pod held by a finalizer is done once its end is recorded.
            let is_held = pod.metadata.deletion_grace_period_seconds == Some(0) && !pod.metadata.finalizers.is_empty();
            if is_held && is_finished(pod) {
                return Pending::default();
            }
            let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
            let grace = Duration::from_secs(grace.unwrap_or_default());
            return Pending::of_pod(PodStep::Stop, self.slowed(pod, self.options.stop_delay).min(grace));
        }
        if is_finished(pod) {
            return Pending::default();
        }
        let is_running = phase(pod) == "Running";
        if !is_running && status.container_statuses.is_empty() {
            let delay = Behaviour::of(pod, "").start_delay.unwrap_or(self.options.start_delay);
            return Pending::of_pod(PodStep::Start, self.slowed(pod, delay));
        }
        let mut pending = Pending::default();
        let statuses = status.init_container_statuses.iter().chain(&status.container_statuses);
        for container in statuses {
            let Some(of) = find(spec, &container.name) else { continue };
            let (name, restarts) = (container.name.clone(), container.restart_count);
            let mut add = |kind, delay| pending.steps.push((Step { kind, container: name.clone(), restarts }, delay));
            if pod_status::is_backing_off(container) {
                add(PodStep::Restart, pod_status::back_off(restarts));
            } else if let Some(wait) = pod_status::image_wait(container) {
                match wait {
                    // Another image is pulled at once.
                    _ if Some(&*container.image) != of.image.as_deref() => add(PodStep::Pull, Duration::ZERO),
                    ImageWait::Failed => add(PodStep::BackOff, ERROR_SHOWN),
                    ImageWait::BackingOff => add(PodStep::Pull, self.image_pulls.delay(pod, &name)),
                }
            } else if pod_status::is_running(container) {
                if let Some(end) = self.planned_end(pod, spec, of, restarts) {
                    add(PodStep::End, end.after);
                }
                let is_init = spec.init_containers.iter().any(|one| one.name == name);
                if !is_init || is_sidecar(of) {
                    self.add_probes(pod, of, container, &mut pending);
                }
            }
        }
        // A status that somebody else wrote may lack containers or conditions.
        if is_running && !is_ready(pod) && status.container_statuses.iter().all(|container| container.ready) {
            pending.steps.push((Step::of_pod(PodStep::BecomeReady), self.slowed(pod, self.options.ready_delay)));
        }
        pending
    }

    /// Marks containers as ready that are so without a delay.
    fn become_ready_at_once(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, now: Time) {
        let running = status.container_statuses.iter().filter(|one| pod_status::is_running(one) && !one.ready);
        let is_ready = |one: &&ContainerStatus| {
            find(spec, &one.name).is_some_and(|of| self.time_to_readiness(pod, of, one) == Some(Duration::ZERO))
        };
        let names: Vec<_> = running.filter(is_ready).map(|container| container.name.clone()).collect();
        for name in &names {
            pod_status::become_ready(spec, status, name, now);
        }
    }

    /// The delay until a running container is ready. `None` if it never is.
    pub(super) fn ready_delay(&self, pod: &Pod, container: &str) -> Option<Duration> {
        match Behaviour::of(pod, container).ready_delay {
            Some(ReadyDelay::Never) => None,
            Some(ReadyDelay::After(delay)) => Some(self.slowed(pod, delay)),
            None => Some(self.slowed(pod, self.options.ready_delay)),
        }
    }

    /// How a container ends, if it does.
    fn planned_end(&self, pod: &Pod, spec: &PodSpec, container: &Container, restarts: i32) -> Option<End> {
        let is_of_job = || {
            let owners = &pod.metadata.owner_references;
            owners.iter().any(|reference| reference.controller == Some(true) && reference.kind == "Job")
        };
        let is_init = spec.init_containers.iter().any(|one| one.name == container.name);
        let default = match is_init {
            true if is_sidecar(container) => None,
            true => Some(Duration::ZERO),
            false => is_of_job().then_some(self.options.run_time),
        };
        let restarts = u32::try_from(restarts).unwrap_or_default();
        let plan = Plan::new(pod, container, restarts).slowed(self.slowdown_of(pod));
        plan.end(default, self.options.run_time)
    }

    /// How a container begins. Records a failed pull of its image.
    fn begin(&self, pod: &Pod, container: &Container) -> ContainerStart {
        match pull_error(pod, container) {
            Some(error) => ContainerStart::Waits(self.image_pulls.fail(pod, container, &error, &self.kubelet_events)),
            None if self.ends_at_once(pod, container) => ContainerStart::EndsAtOnce,
            None => ContainerStart::Runs,
        }
    }

    /// A container shows that the next pull of its image is due later.
    fn back_off(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, name: &str) {
        let (Some(container), Some(status)) = (find(spec, name), pod_status::find_mut(status, name)) else { return };
        let error = pod_status::waiting_message(status).unwrap_or_default().to_owned();
        let waiting = ImagePulls::back_off(pod, container, &error, &self.kubelet_events);
        pod_status::wait(container, status, waiting);
    }

    /// Whether an init container succeeds in no time.
    fn ends_at_once(&self, pod: &Pod, container: &Container) -> bool {
        let Some(spec) = &pod.spec else { return true };
        let end = self.planned_end(pod, spec, container, 0);
        end.is_some_and(|end| end.code == 0 && end.after.is_zero())
    }

    /// A time, as it is on the node of the pod.
    pub(super) fn slowed(&self, pod: &Pod, time: Duration) -> Duration {
        Duration::try_from_secs_f64(time.as_secs_f64() * self.slowdown_of(pod)).unwrap_or(Duration::MAX)
    }

    fn slowdown_of(&self, pod: &Pod) -> f64 {
        self.nodes.get(node_name(pod)).map_or(1.0, |node| slowdown(&node))
    }

    /// Ends a container as planned.
    fn end(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, step: &Step, now: Time) {
        let Some(container) = find(spec, &step.container) else { return };
        let Some(End { code, .. }) = self.planned_end(pod, spec, container, step.restarts) else { return };
        self.end_with(pod, spec, status, step, code, now);
    }

    /// Ends a container with this code, and the pod with it unless its restart policy restarts it.
    pub(super) fn end_with(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        status: &mut PodStatus,
        step: &Step,
        code: i32,
        now: Time,
    ) {
        let (name, restarts) = (&*step.container, step.restarts);
        let Some(container) = find(spec, name) else { return };
        let is_init = spec.init_containers.iter().any(|one| one.name == container.name);
        let of_pod = spec.restart_policy.as_deref().unwrap_or("Always");
        let policy = match container.restart_policy.as_deref() {
            Some(policy) => policy,
            // Init containers run until they succeed once.
            None if is_init && of_pod == "Always" => "OnFailure",
            None => of_pod,
        };
        match (policy, code) {
            ("Never", _) | ("OnFailure", 0) => {
                pod_status::end(spec, status, name, code, now);
                if is_init && code == 0 {
                    pod_status::initialize(spec, status, now, |one| self.begin(pod, one));
                }
            }
            _ => {
                pod_status::crash(pod, status, name, code, now);
                // As by a kubelet, the first restart does not wait.
                if restarts == 0 {
                    pod_status::restart(container, status, now);
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

/// A container of any kind.
pub(super) fn find<'a>(spec: &'a PodSpec, name: &str) -> Option<&'a Container> {
    spec.init_containers.iter().chain(&spec.containers).find(|container| container.name == *name)
}

/// The next free address of a network; `None` after all were tried.
fn free_address(network: u32, next: impl Fn() -> usize, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    let address = |number: usize| format!("10.{network}.{}.{}", number / 254 % 256, number % 254 + 1);
    (0..ADDRESSES).map(|_| address(next())).find(|address| !is_taken(address))
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
