//! The pod status that a kubelet would write.

use kubewright_api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, HostIP, PodIP,
    PodSpec, PodStatus,
};
use kubewright_core::{Str, Time};

use crate::pods::new_condition;

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
        status.init_container_statuses = first.iter().map(|container| initialized(container, now)).collect();
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
    set_condition(status, "Ready", false, now);
    set_condition(status, "ContainersReady", false, now);
    let reason: Str = if code == 0 { "PodCompleted".into() } else { "PodFailed".into() };
    for condition in status.conditions.iter_mut().filter(|one| matches!(&*one.type_, "Ready" | "ContainersReady")) {
        condition.reason = Some(reason.clone());
    }
}

/// All containers have ended with this code, and were started again.
pub(super) fn restart(status: &mut PodStatus, code: i32, now: Time) {
    for container in &mut status.container_statuses {
        container.last_state = Some(terminated(container, code, now));
        container.restart_count += 1;
        container.state = Some(is_running(now));
        container.ready = false;
    }
    set_condition(status, "ContainersReady", false, now);
    set_condition(status, "Ready", false, now);
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
