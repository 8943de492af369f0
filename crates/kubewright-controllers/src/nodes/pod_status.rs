//! The pod status that a kubelet would write.

use std::time::Duration;

use kubewright_api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, Pod, PodIP, PodSpec, PodStatus,
};
use kubewright_core::{Object, Str, Time};

use super::image_pulls::{self, ImageWait, Waiting};
use super::scheduler::is_sidecar;
use crate::pods::new_condition;

/// The reason of a container that waits for its restart.
const CRASHED: &str = "CrashLoopBackOff";
/// The reason of a container that waits for the init containers.
const INITIALIZING: &str = "PodInitializing";

/// How a container begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContainerStart {
    /// It runs.
    Runs,
    /// It runs and has ended already, if it is an init container.
    EndsAtOnce,
    /// Its image is not there.
    Waits(Waiting),
}

/// The pod is on its node. Init containers begin one after the other; the next one only when the
/// one before has ended. After the last one, all containers begin, and are not ready yet.
pub(super) fn start(
    spec: &PodSpec,
    status: &mut PodStatus,
    address: &str,
    host: &str,
    now: Time,
    begin: impl Fn(&Container) -> ContainerStart,
) {
    status.start_time = Some(status.start_time.unwrap_or(now));
    status.host_ip = Some(host.into());
    status.host_ips = [HostIP { ip: host.into() }].into();
    let address = if spec.host_network == Some(true) { host } else { address };
    status.pod_ip = Some(address.into());
    status.pod_ips = [PodIP { ip: address.into() }].into();
    status.container_statuses = spec.containers.iter().map(initializing).collect();
    status.init_container_statuses = spec.init_containers.iter().map(initializing).collect();
    for (type_, is_true) in [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("Ready", false),
        ("ContainersReady", false),
        ("PodScheduled", true),
    ] {
        set_condition(status, type_, is_true, now);
    }
    initialize(spec, status, now, begin);
}

/// Begins the next init container, or all containers after the last one.
pub(super) fn initialize(
    spec: &PodSpec,
    status: &mut PodStatus,
    now: Time,
    begin: impl Fn(&Container) -> ContainerStart,
) {
    for (container, status) in spec.init_containers.iter().zip(&mut status.init_container_statuses) {
        if image_wait(status).is_some() {
            break;
        }
        if !is_initializing(status) {
            if is_sidecar(container) && !has_started(status) {
                break;
            }
            continue;
        }
        let begun = begin(container);
        if let ContainerStart::Waits(waiting) = begun {
            wait(container, status, waiting);
            break;
        }
        *status = running(container, now);
        if is_sidecar(container) {
            status.ready = container.startup_probe.is_none() && container.readiness_probe.is_none();
            if !has_started(status) {
                break;
            }
        } else if begun == ContainerStart::EndsAtOnce {
            complete(status, 0, now);
            status.ready = true;
        } else {
            break;
        }
    }
    let is_initialized = has_initialized(spec, status);
    if is_initialized {
        let containers = spec.containers.iter().zip(&mut status.container_statuses);
        for (container, status) in containers.filter(|(_, status)| is_initializing(status)) {
            match begin(container) {
                ContainerStart::Waits(waiting) => wait(container, status, waiting),
                ContainerStart::Runs | ContainerStart::EndsAtOnce => *status = running(container, now),
            }
        }
    }
    let has_begun = is_initialized && status.container_statuses.iter().all(|status| image_wait(status).is_none());
    status.phase = Some(Str::from(if has_begun { "Running" } else { "Pending" }));
    set_condition(status, "Initialized", is_initialized, now);
    if !is_initialized {
        for condition in status.conditions.iter_mut().filter(|condition| condition.type_ == "Initialized") {
            condition.reason = Some("ContainersNotInitialized".into());
        }
    }
}

/// Whether all init containers have ended or, if they are sidecars, started.
pub(super) fn has_initialized(spec: &PodSpec, status: &PodStatus) -> bool {
    spec.init_containers.iter().all(|container| {
        let status = status.init_container_statuses.iter().find(|status| status.name == container.name);
        status.is_some_and(|status| match is_sidecar(container) {
            true => has_started(status),
            false => exit_code(status) == Some(0),
        })
    })
}

/// Whether a sidecar has run, and has passed its startup probe if it runs now.
fn has_started(sidecar: &ContainerStatus) -> bool {
    let is_starting = is_running(sidecar) && sidecar.started != Some(true);
    !is_initializing(sidecar) && image_wait(sidecar).is_none() && !is_starting
}

/// The startup probe of a container has succeeded.
pub(super) fn become_started(status: &mut PodStatus, name: &str) {
    if let Some(container) = find_mut(status, name) {
        container.started = Some(true);
    }
}

/// The container is ready, and the pod if all are. Without a name, the whole pod is.
pub(super) fn become_ready(spec: &PodSpec, status: &mut PodStatus, name: &str, now: Time) {
    if status.container_statuses.is_empty() {
        status.container_statuses = spec.containers.iter().map(|container| running(container, now)).collect();
    }
    for container in &mut status.container_statuses {
        if name.is_empty() || container.name == *name {
            container.ready = is_running(container);
        }
    }
    let sidecars = status.init_container_statuses.iter_mut().filter(|container| container.name == *name);
    sidecars.for_each(|container| container.ready = true);
    let sidecars = status
        .init_container_statuses
        .iter()
        .filter(|container| spec.init_containers.iter().any(|one| one.name == container.name && is_sidecar(one)));
    if status.container_statuses.iter().chain(sidecars).all(|container| container.ready) {
        set_condition(status, "ContainersReady", true, now);
        set_condition(status, "Ready", true, now);
    }
}

/// A container is not ready any more, nor is its pod.
pub(super) fn become_unready(status: &mut PodStatus, name: &str, now: Time) {
    let Some(container) = find_mut(status, name) else { return };
    container.ready = false;
    unready(status, now);
}

/// A container waits for its image.
pub(super) fn wait(container: &Container, status: &mut ContainerStatus, waiting: Waiting) {
    let waiting = ContainerStateWaiting { reason: Some(waiting.reason.into()), message: Some(waiting.message.into()) };
    status.state = Some(ContainerState { waiting: Some(waiting.into()), ..Default::default() });
    status.image = container.image.clone().unwrap_or_default();
}

/// The image of a container is pulled again when the containers begin next.
pub(super) fn retry_pull(container: &Container, status: &mut PodStatus) {
    if let Some(status) = find_mut(status, &container.name) {
        *status = initializing(container);
    }
}

/// All containers are stopped with this code, and the pod with them.
pub(super) fn stop(spec: &PodSpec, status: &mut PodStatus, code: i32, now: Time) {
    for container in &mut status.container_statuses {
        if exit_code(container).is_none() {
            complete(container, code, now);
        }
    }
    finish(spec, status, now);
}

/// A container has ended with this code, and is not started again. Ends the pod if it was the last.
pub(super) fn end(spec: &PodSpec, status: &mut PodStatus, name: &str, code: i32, now: Time) {
    let Some(container) = find_mut(status, name) else { return };
    complete(container, code, now);
    let init = spec.init_containers.iter().find(|container| container.name == *name);
    match init {
        Some(container) if is_sidecar(container) => {}
        // A completed init container counts as ready.
        Some(_) if code == 0 => {
            container.ready = true;
            return;
        }
        Some(_) => return finish(spec, status, now),
        None if status.container_statuses.iter().all(|container| exit_code(container).is_some()) => {
            return finish(spec, status, now);
        }
        None => {}
    }
    unready(status, now);
}

/// The pod has ended.
fn finish(spec: &PodSpec, status: &mut PodStatus, now: Time) {
    // Sidecars are stopped when the containers have ended.
    for sidecar in status.init_container_statuses.iter_mut().filter(|container| is_running(container)) {
        complete(sidecar, 0, now);
    }
    let has_succeeded = has_initialized(spec, status)
        && status.container_statuses.iter().all(|container| exit_code(container) == Some(0));
    status.phase = Some(Str::from(if has_succeeded { "Succeeded" } else { "Failed" }));
    unready(status, now);
    let reason: Str = if has_succeeded { "PodCompleted".into() } else { "PodFailed".into() };
    for condition in status.conditions.iter_mut().filter(|one| matches!(&*one.type_, "Ready" | "ContainersReady")) {
        condition.reason = Some(reason.clone());
    }
}

/// A container has ended with this code, and waits to be started again.
pub(super) fn crash(pod: &Pod, status: &mut PodStatus, name: &str, code: i32, now: Time) {
    let Some(container) = find_mut(status, name) else { return };
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
    unready(status, now);
}

/// A container was started again.
pub(super) fn restart(of: &Container, status: &mut PodStatus, now: Time) {
    let Some(container) = find_mut(status, &of.name) else { return };
    container.restart_count += 1;
    container.container_id = Some(container_id(&container.name, container.restart_count));
    container.state = Some(runs_since(now));
    container.started = Some(of.startup_probe.is_none());
}

/// Whether a container waits for its restart.
pub(super) fn is_backing_off(container: &ContainerStatus) -> bool {
    waits_because(container) == Some(CRASHED)
}

/// Why a container waits for its image, if it does.
pub(super) fn image_wait(container: &ContainerStatus) -> Option<ImageWait> {
    waits_because(container).and_then(image_pulls::image_wait)
}

/// The message of a container that waits.
pub(super) fn waiting_message(container: &ContainerStatus) -> Option<&str> {
    container.state.as_ref()?.waiting.as_ref()?.message.as_deref()
}

fn is_initializing(container: &ContainerStatus) -> bool {
    waits_because(container) == Some(INITIALIZING)
}

fn waits_because(container: &ContainerStatus) -> Option<&str> {
    container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

/// The exit code of a container that has ended.
fn exit_code(container: &ContainerStatus) -> Option<i32> {
    Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)
}

pub(super) fn find_mut<'a>(status: &'a mut PodStatus, name: &str) -> Option<&'a mut ContainerStatus> {
    if status.container_statuses.iter().any(|container| container.name == *name) {
        return status.container_statuses.iter_mut().find(|container| container.name == *name);
    }
    status.init_container_statuses.iter_mut().find(|container| container.name == *name)
}

fn unready(status: &mut PodStatus, now: Time) {
    set_condition(status, "ContainersReady", false, now);
    set_condition(status, "Ready", false, now);
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
        state: Some(runs_since(now)),
        image_id: format!("simulated://{image}").into(),
        image,
        container_id: Some(container_id(&container.name, 0)),
        started: Some(container.startup_probe.is_none()),
        ..Default::default()
    }
}

/// A container that waits for the init containers.
fn initializing(container: &Container) -> ContainerStatus {
    let waiting = ContainerStateWaiting { reason: Some(INITIALIZING.into()), ..Default::default() };
    ContainerStatus {
        name: container.name.clone(),
        state: Some(ContainerState { waiting: Some(waiting.into()), ..Default::default() }),
        image: container.image.clone().unwrap_or_default(),
        started: Some(false),
        ..Default::default()
    }
}

fn container_id(name: &str, restarts: i32) -> Str {
    match restarts {
        0 => format!("simulated://{name}").into(),
        restarts => format!("simulated://{name}-{restarts}").into(),
    }
}

/// Marks a container as ended.
fn complete(container: &mut ContainerStatus, code: i32, now: Time) {
    container.state = Some(terminated(container, code, now));
    container.ready = false;
    container.started = Some(false);
}

pub(super) fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn runs_since(now: Time) -> ContainerState {
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
        start(&spec, &mut status, "10.0.0.1", "10.0.0.2", now, |_| ContainerStart::Runs);
        assert_eq!(
            (states(&status).as_str(), status.phase.as_deref()),
            ("running PodInitializing PodInitializing", Some("Pending"))
        );
        end(&spec, &mut status, "first", 0, now);
        initialize(&spec, &mut status, now, |_| ContainerStart::Runs);
        assert_eq!((states(&status).as_str(), status.phase.as_deref()), ("0 running running", Some("Running")));
        let at_once = &mut PodStatus::default();
        start(&spec, at_once, "10.0.0.1", "10.0.0.2", now, |_| ContainerStart::EndsAtOnce);
        assert_eq!(states(at_once), "0 running running");
        become_ready(&spec, &mut status, "main", now);
        assert!(status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"));
        crash(&pod, &mut status, "main", 3, now);
        assert_eq!(states(&status), "0 running CrashLoopBackOff");
        restart(&spec.containers[0], &mut status, now);
        assert_eq!((states(&status).as_str(), status.container_statuses[0].restart_count), ("0 running running", 1));
        end(&spec, &mut status, "main", 0, now);
        assert_eq!((states(&status).as_str(), status.phase.as_deref()), ("0 0 0", Some("Succeeded")));
    }

    #[test]
    fn an_init_container_that_fails_fails_the_pod() {
        let now = Time::now();
        let container = |name: &str| Container { name: name.into(), ..Default::default() };
        let mut spec = PodSpec { containers: [container("main")].into(), ..Default::default() };
        spec.init_containers = [container("first")].into();
        let mut status = PodStatus::default();
        start(&spec, &mut status, "10.0.0.1", "10.0.0.2", now, |_| ContainerStart::Runs);
        end(&spec, &mut status, "first", 2, now);
        assert_eq!(status.phase.as_deref(), Some("Failed"));
        assert!(is_initializing(&status.container_statuses[0]));
    }
}
