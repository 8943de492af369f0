//! The pod status that a kubelet would write.

use std::time::Duration;

use kubewright_api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, Pod, PodIP, PodSpec, PodStatus,
};
use kubewright_core::{Object, Str, Time};

use super::scheduler::is_sidecar;
use crate::pods::new_condition;

/// The reason of a container that waits for its restart.
const CRASHED: &str = "CrashLoopBackOff";

/// The containers run, but are not ready yet.
pub(super) fn start(spec: Option<&PodSpec>, status: &mut PodStatus, address: &str, host: &str, now: Time) {
    status.phase = Some("Running".into());
    status.start_time = Some(status.start_time.unwrap_or(now));
    status.host_ip = Some(host.into());
    status.host_ips = [HostIP { ip: host.into() }].into();
    let is_on_host = spec.is_some_and(|spec| spec.host_network == Some(true));
    let address = if is_on_host { host } else { address };
    status.pod_ip = Some(address.into());
    status.pod_ips = [PodIP { ip: address.into() }].into();
    let containers = spec.map(|spec| &spec.containers[..]).unwrap_or_default();
    status.container_statuses = containers.iter().map(|container| running(container, now)).collect();
    let first = spec.map(|spec| &spec.init_containers[..]).unwrap_or_default();
    if !first.is_empty() {
        let started = |container: &Container| match is_sidecar(container) {
            true => ContainerStatus { ready: true, ..running(container, now) },
            false => initialized(container, now),
        };
        status.init_container_statuses = first.iter().map(started).collect();
    }
    for (type_, is_true) in [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("Ready", false),
        ("ContainersReady", false),
        ("PodScheduled", true),
    ] {
        set_condition(status, type_, is_true, now);
    }
}

/// All containers are ready.
pub(super) fn become_ready(spec: Option<&PodSpec>, status: &mut PodStatus, now: Time) {
    if status.container_statuses.is_empty() {
        let containers = spec.map(|spec| &spec.containers[..]).unwrap_or_default();
        status.container_statuses = containers.iter().map(|container| running(container, now)).collect();
    }
    for container in &mut status.container_statuses {
        container.ready = true;
    }
    set_condition(status, "ContainersReady", true, now);
    set_condition(status, "Ready", true, now);
}

/// All containers have ended with this code, and the pod with them.
pub(super) fn end(status: &mut PodStatus, code: i32, now: Time) {
    status.phase = Some(Str::from(if code == 0 { "Succeeded" } else { "Failed" }));
    for container in &mut status.container_statuses {
        container.state = Some(terminated(container, code, now));
        container.ready = false;
        container.started = Some(false);
    }
    // Sidecars are stopped when the containers have ended.
    for sidecar in status.init_container_statuses.iter_mut().filter(|container| is_now_running(container)) {
        sidecar.state = Some(terminated(sidecar, 0, now));
        sidecar.ready = false;
        sidecar.started = Some(false);
    }
    set_condition(status, "Ready", false, now);
    set_condition(status, "ContainersReady", false, now);
    let reason: Str = if code == 0 { "PodCompleted".into() } else { "PodFailed".into() };
    for condition in status.conditions.iter_mut().filter(|one| matches!(&*one.type_, "Ready" | "ContainersReady")) {
        condition.reason = Some(reason.clone());
    }
}

/// The containers have ended with this code, and wait to be started again. Sidecars keep running.
pub(super) fn crash(pod: &Pod, status: &mut PodStatus, code: i32, now: Time) {
    for container in &mut status.container_statuses {
        let delay = back_off(container.restart_count).as_secs();
        let delay = if delay < 60 { format!("{delay}s") } else { format!("{}m{}s", delay / 60, delay % 60) };
        let message = format!(
            "back-off {delay} restarting failed container={} pod={}_{}({})",
            container.name,
            pod.name(),
            pod.namespace(),
            pod.uid()
        );
        container.last_state = Some(terminated(container, code, now));
        let waiting = ContainerStateWaiting { reason: Some(CRASHED.into()), message: Some(message.into()) };
        container.state = Some(ContainerState { waiting: Some(waiting.into()), ..Default::default() });
        container.ready = false;
        container.started = Some(false);
    }
    set_condition(status, "ContainersReady", false, now);
    set_condition(status, "Ready", false, now);
}

/// The containers were started again.
pub(super) fn restart(status: &mut PodStatus, now: Time) {
    for container in &mut status.container_statuses {
        container.restart_count += 1;
        container.state = Some(is_running(now));
        container.started = Some(true);
    }
}

/// The number of restarts of a pod whose containers wait for the next one.
pub(super) fn backing_off(pod: &Pod) -> Option<i32> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter());
    let waiting = statuses.filter(|container| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some(CRASHED))
    });
    waiting.map(|container| container.restart_count).max()
}

/// The delay of the next restart: ten seconds, doubled up to five minutes.
pub(super) fn back_off(restarts: i32) -> Duration {
    let doublings = u32::try_from(restarts.saturating_sub(1)).unwrap_or_default().min(5);
    Duration::from_secs((10 << doublings).min(300))
}

/// Sets a condition; its time changes only with its status.
fn set_condition(status: &mut PodStatus, type_: &str, is_true: bool, now: Time) {
    let new = new_condition(type_, is_true, now);
    match status.conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(have) if have.status == new.status => {}
        Some(have) => *have = new,
        None => status.conditions.push(new),
    }
}

fn running(container: &Container, now: Time) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    ContainerStatus {
        name: container.name.clone(),
        state: Some(is_running(now)),
        image_id: format!("simulated://{image}").into(),
        image,
        container_id: Some(format!("simulated://{}", container.name).into()),
        started: Some(true),
        ..Default::default()
    }
}

fn initialized(container: &Container, now: Time) -> ContainerStatus {
    let mut status = running(container, now);
    status.state = Some(terminated(&status, 0, now));
    status.ready = true;
    status.started = Some(false);
    status
}

fn is_now_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn is_running(now: Time) -> ContainerState {
    ContainerState { running: Some(ContainerStateRunning { started_at: Some(now) }), ..Default::default() }
}

fn terminated(container: &ContainerStatus, code: i32, now: Time) -> ContainerState {
    let running = container.state.as_ref().and_then(|state| state.running.as_ref());
    let terminated = ContainerStateTerminated {
        exit_code: code,
        reason: Some(Str::from(if code == 0 { "Completed" } else { "Error" })),
        started_at: running.and_then(|running| running.started_at),
        finished_at: Some(now),
        container_id: container.container_id.clone(),
        ..Default::default()
    };
    ContainerState { terminated: Some(terminated.into()), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_up_to_five_minutes() {
        let delays: Vec<u64> = [1, 2, 3, 4, 5, 6, 7, i32::MAX].map(|restarts| back_off(restarts).as_secs()).into();
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_sidecar_runs_until_the_pod_has_ended() {
        let now = Time::now();
        let container = |name: &str, policy: Option<&str>| {
            let mut container = Container { name: name.into(), ..Default::default() };
            container.restart_policy = policy.map(Str::from);
            container
        };
        let mut spec = PodSpec { containers: [container("main", None)].into(), ..Default::default() };
        spec.init_containers = [container("first", None), container("proxy", Some("Always"))].into();
        let pod = Pod { spec: Some(spec.clone()), ..Default::default() };
        let mut status = PodStatus::default();
        let states = |status: &PodStatus| {
            let all = status.init_container_statuses.iter().chain(&status.container_statuses);
            let text = |container: &ContainerStatus| match &container.state {
                Some(state) if state.running.is_some() => "running".to_owned(),
                Some(state) => match (&state.waiting, &state.terminated) {
                    (Some(waiting), _) => waiting.reason.clone().unwrap_or_default().to_string(),
                    (_, terminated) => terminated.as_ref().map_or(0, |one| one.exit_code).to_string(),
                },
                None => String::new(),
            };
            all.map(text).collect::<Vec<_>>().join(" ")
        };
        start(Some(&spec), &mut status, "10.0.0.1", "10.0.0.2", now);
        assert_eq!(states(&status), "0 running running");
        crash(&pod, &mut status, 3, now);
        assert_eq!(states(&status), "0 running CrashLoopBackOff");
        let crashed = Pod { status: Some(status.clone()), ..pod.clone() };
        assert_eq!(backing_off(&crashed), Some(0));
        restart(&mut status, now);
        assert_eq!((states(&status).as_str(), status.container_statuses[0].restart_count), ("0 running running", 1));
        end(&mut status, 0, now);
        assert_eq!(states(&status), "0 0 0");
    }
}
