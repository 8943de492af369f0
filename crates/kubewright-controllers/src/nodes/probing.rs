//! Readiness and liveness probes of running containers.
//!
//! A probe runs when its result may have changed, at most once a period. Containers that nobody has
//! entered with a command mostly have probes that cannot change, and cost nothing.

use std::time::Duration;

use kubewright_api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, Probe};
use kubewright_client::clock;
use kubewright_core::Time;
use kubewright_kubelet::ProbedContainer;
use kubewright_runtime::events::EventType;

use super::image_pulls::record;
use super::lifecycle::{Pending, find};
use super::timers::{PodStep, Step};
use super::{Nodes, pod_status};

/// The exit code of a container that is killed: by SIGKILL.
const KILLED: i32 = 128 + 9;

impl Nodes {
    /// Adds the steps that follow from the probes of a running container.
    pub(super) fn add_probes(&self, pod: &Pod, of: &Container, status: &ContainerStatus, pending: &mut Pending) {
        let (name, restarts) = (status.name.clone(), status.restart_count);
        let step = |kind| Step { kind, container: name.clone(), restarts };
        let readiness = self.readiness(pod, of, status);
        if status.ready
            && let (Err(_), Some(probe)) = (&readiness, &of.readiness_probe)
        {
            pending.steps.push((step(PodStep::BecomeUnready), self.slowed(pod, patience(probe))));
        }
        if !status.ready
            && readiness.is_ok()
            && let Some(delay) = self.ready_delay(pod, &status.name)
        {
            pending.steps.push((step(PodStep::BecomeReady), delay));
        }
        let probed = self.probed(pod, of, status);
        if let Some(probe) = &of.liveness_probe {
            let initial_delay = seconds(probe.initial_delay_seconds, 0);
            let wait = initial_delay.saturating_sub(time_since_start(status));
            if !wait.is_zero() {
                pending.probe_after(wait);
            } else if probed.run(probe).is_err() {
                pending.steps.push((step(PodStep::Kill), self.slowed(pod, patience(probe))));
            }
        }
        let probes = of.readiness_probe.iter().chain(&of.liveness_probe);
        for probe in probes.filter(|probe| probed.may_change(probe)) {
            pending.probe_after(self.slowed(pod, period(probe)));
        }
    }

    /// The result of the readiness probe of a running container; success if it has none.
    pub(super) fn readiness(&self, pod: &Pod, of: &Container, status: &ContainerStatus) -> Result<(), String> {
        of.readiness_probe.as_ref().map_or(Ok(()), |probe| self.probed(pod, of, status).run(probe))
    }

    fn probed<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a Container,
        status: &'a ContainerStatus,
    ) -> ProbedContainer<'a> {
        ProbedContainer { pod, container, status, files: &self.files }
    }

    /// The readiness probe of a container has failed too often.
    pub(super) fn become_unready(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, name: &str, now: Time) {
        self.report(pod, spec, status, name, "Readiness");
        pod_status::become_unready(status, name, now);
    }

    /// The liveness probe of a container has failed too often.
    pub(super) fn kill(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, step: &Step, now: Time) {
        let name = &*step.container;
        self.report(pod, spec, status, name, "Liveness");
        if let Some(container) = find(spec, name) {
            let note = format!("Container {name} failed liveness probe, will be restarted");
            record(pod, container, &self.kubelet_events, EventType::Normal, "Killing", note);
        }
        self.end_with(pod, spec, status, step, KILLED, now);
    }

    /// Records why a probe fails.
    fn report(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, name: &str, kind: &str) {
        let (Some(of), Some(status)) = (find(spec, name), pod_status::find_mut(status, name)) else { return };
        let probe = if kind == "Liveness" { &of.liveness_probe } else { &of.readiness_probe };
        let result = probe.as_ref().map_or(Ok(()), |probe| self.probed(pod, of, status).run(probe));
        if let Err(output) = result {
            let note = format!("{kind} probe failed: {output}");
            record(pod, of, &self.kubelet_events, EventType::Warning, "Unhealthy", note);
        }
    }
}

impl Pending {
    fn probe_after(&mut self, wait: Duration) {
        self.next_probe = Some(self.next_probe.unwrap_or(wait).min(wait));
    }
}

/// How long a probe fails until it counts.
fn patience(probe: &Probe) -> Duration {
    let failures = probe.failure_threshold.and_then(|number| u32::try_from(number).ok()).unwrap_or(3);
    period(probe).saturating_mul(failures.saturating_sub(1))
}

fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds, 10).max(Duration::from_secs(1))
}

fn seconds(value: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(value.and_then(|value| value.try_into().ok()).unwrap_or(default))
}

fn time_since_start(status: &ContainerStatus) -> Duration {
    let running = status.state.as_ref().and_then(|state| state.running.as_ref());
    let started = running.and_then(|running| running.started_at);
    started.and_then(|started| clock::now().duration_since(started)).unwrap_or_default()
}
