//! Startup, readiness and liveness probes of running containers.
//!
//! Until the startup probe of a container succeeds, its other probes do not run.
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
        let mut add = |kind, delay| {
            pending.steps.push((Step { kind, container: status.name.clone(), restarts: status.restart_count }, delay));
        };
        let probed = self.probed(pod, of, status);
        let wait_of = |probe| self.initial_delay(pod, probe).saturating_sub(time_since_start(status));
        let starting = of.startup_probe.as_ref().filter(|_| status.started != Some(true));
        if let Some(probe) = starting
            && wait_of(probe).is_zero()
        {
            match probed.run(probe) {
                Ok(()) => add(PodStep::BecomeStarted, Duration::ZERO),
                Err(_) => add(PodStep::Kill, self.slowed(pod, patience(probe))),
            }
        }
        if starting.is_none() {
            match &of.readiness_probe {
                Some(probe) if status.ready && probed.run(probe).is_err() => {
                    add(PodStep::BecomeUnready, self.slowed(pod, patience(probe)));
                }
                _ => {}
            }
            if !status.ready
                && let Some(delay) = self.time_to_readiness(pod, of, status)
            {
                add(PodStep::BecomeReady, delay);
            }
            if let Some(probe) = &of.liveness_probe
                && wait_of(probe).is_zero()
                && probed.run(probe).is_err()
            {
                add(PodStep::Kill, self.slowed(pod, patience(probe)));
            }
        }
        let later = of.readiness_probe.iter().chain(&of.liveness_probe).filter(|_| starting.is_none());
        for probe in starting.into_iter().chain(later) {
            let wait = wait_of(probe);
            if !wait.is_zero() {
                pending.probe_after(wait);
            } else if probed.may_change(probe) {
                pending.probe_after(self.slowed(pod, period(probe)));
            }
        }
    }

    /// The delay until a running container is ready. `None` if its probes fail, or if an annotation
    /// says that it never is.
    pub(super) fn time_to_readiness(&self, pod: &Pod, of: &Container, status: &ContainerStatus) -> Option<Duration> {
        if of.startup_probe.is_some() && status.started != Some(true) {
            return None;
        }
        let delay = self.ready_delay(pod, &status.name)?;
        let Some(probe) = &of.readiness_probe else { return Some(delay) };
        self.probed(pod, of, status).run(probe).ok()?;
        let successes = count(probe.success_threshold, 1).saturating_sub(1);
        let confirmation = self.slowed(pod, period(probe).saturating_mul(successes));
        let earliest = self.initial_delay(pod, probe) + confirmation;
        let is_early = time_since_start(status) < earliest;
        Some(delay.max(if is_early { earliest } else { confirmation }))
    }

    fn initial_delay(&self, pod: &Pod, probe: &Probe) -> Duration {
        self.slowed(pod, seconds(probe.initial_delay_seconds, 0))
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

    /// The liveness or startup probe of a container has failed too often.
    pub(super) fn kill(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, step: &Step, now: Time) {
        let name = &*step.container;
        let has_started = pod_status::find_mut(status, name).is_some_and(|status| status.started == Some(true));
        let kind = if has_started { "Liveness" } else { "Startup" };
        self.report(pod, spec, status, name, kind);
        if let Some(container) = find(spec, name) {
            let note = format!("Container {name} failed {} probe, will be restarted", kind.to_lowercase());
            record(pod, container, &self.kubelet_events, EventType::Normal, "Killing", note);
        }
        self.end_with(pod, spec, status, step, KILLED, now);
    }

    /// Records why a probe fails.
    fn report(&self, pod: &Pod, spec: &PodSpec, status: &mut PodStatus, name: &str, kind: &str) {
        let (Some(of), Some(status)) = (find(spec, name), pod_status::find_mut(status, name)) else { return };
        let probe = match kind {
            "Startup" => &of.startup_probe,
            "Liveness" => &of.liveness_probe,
            _ => &of.readiness_probe,
        };
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
    period(probe).saturating_mul(count(probe.failure_threshold, 3).saturating_sub(1))
}

fn count(value: Option<i32>, default: u32) -> u32 {
    value.and_then(|value| value.try_into().ok()).unwrap_or(default)
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
