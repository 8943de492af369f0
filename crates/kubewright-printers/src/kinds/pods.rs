//! Cells of pods: the shown status combines the phase, the conditions and all container states.

use kubewright_core::{Time, Value, tree};

use crate::object::{PrintedObject, number_at, time_at};

/// Name, ready, status, restarts, age; IP, node, nominated node, readiness gates.
pub(super) fn pod(pod: &PrintedObject<'_>) -> Vec<Value> {
    let state = PodState::of(pod);
    let mut restarts = state.restarts.count.to_string();
    if let (1.., Some(last)) = (state.restarts.count, state.restarts.last) {
        restarts += &format!(" ({} ago)", crate::human_duration(pod.now.as_unix() - last.as_unix()));
    }
    let ip = pod.items(&["status", "podIPs"]).first().map_or("", |ip| tree::text(ip, &["ip"]));
    let ip = if ip.is_empty() { pod.text(&["status", "podIP"]) } else { ip };
    vec![
        pod.name(),
        format!("{}/{}", state.ready, state.total).into(),
        state.reason.into(),
        restarts.into(),
        pod.age(),
        if ip.is_empty() { Value::from("<none>") } else { ip.into() },
        pod.text_or(&["spec", "nodeName"], "<none>"),
        pod.text_or(&["status", "nominatedNodeName"], "<none>"),
        readiness_gates(pod),
    ]
}

/// The row conditions: whether the pod has completed.
pub(crate) fn conditions(pod: &PrintedObject<'_>) -> Option<Value> {
    if pod.text(&["kind"]) != "Pod" || pod.text(&["apiVersion"]) != "v1" {
        return None;
    }
    let (reason, message) = match pod.text(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(tree::array([tree::map([
        ("type", Value::from("Completed")),
        ("status", Value::from("True")),
        ("reason", Value::from(reason)),
        ("message", Value::from(message)),
    ])]))
}

struct PodState {
    reason: String,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Time>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += number_at(container, &["restartCount"]);
        self.last = self.last.max(time_at(container, &["lastState", "terminated", "finishedAt"]));
    }
}

impl PodState {
    fn of(pod: &PrintedObject<'_>) -> PodState {
        let phase = pod.text(&["status", "phase"]);
        let mut reason = match pod.text(&["status", "reason"]) {
            "" => phase.to_owned(),
            reason => reason.to_owned(),
        };
        if pod.conditions().iter().any(is_gated) {
            reason = "SchedulingGated".to_owned();
        }
        let sidecars: Vec<&str> = pod
            .items(&["spec", "initContainers"])
            .iter()
            .filter(|container| tree::text(container, &["restartPolicy"]) == "Always")
            .map(|container| tree::text(container, &["name"]))
            .collect();
        let total = pod.items(&["spec", "containers"]).len() + sidecars.len();
        let mut state = PodState { reason, ready: 0, total, restarts: Restarts::default() };
        let (initializing, sidecar_restarts) = state.initialize(pod, &sidecars);
        if !initializing || pod.condition("Initialized") == Some("True") {
            state.restarts = sidecar_restarts;
            state.run(pod);
        }
        if pod.is_terminating() {
            if pod.text(&["status", "reason"]) == "NodeLost" {
                state.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Failed" | "Succeeded") {
                state.reason = "Terminating".to_owned();
            }
        }
        state
    }

    /// Evaluates init containers up to the first one that has not finished.
    fn initialize(&mut self, pod: &PrintedObject<'_>, sidecars: &[&str]) -> (bool, Restarts) {
        let mut sidecar_restarts = Restarts::default();
        for (index, container) in pod.items(&["status", "initContainerStatuses"]).iter().enumerate() {
            let is_sidecar = sidecars.contains(&tree::text(container, &["name"]));
            self.restarts.add(container);
            if is_sidecar {
                sidecar_restarts.add(container);
            }
            let flag = |key| tree::get(container, &[key]).and_then(Value::as_bool) == Some(true);
            let waiting = tree::text(container, &["state", "waiting", "reason"]);
            let terminated = tree::get(container, &["state", "terminated"]);
            self.reason = match terminated {
                Some(terminated) if number_at(terminated, &["exitCode"]) == 0 => continue,
                _ if is_sidecar && flag("started") => {
                    self.ready += usize::from(flag("ready"));
                    continue;
                }
                Some(terminated) => format!("Init:{}", end_of(terminated)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", pod.items(&["spec", "initContainers"]).len()),
            };
            return (true, sidecar_restarts);
        }
        (false, sidecar_restarts)
    }

    /// Evaluates the containers. The reason of the first container wins.
    fn run(&mut self, pod: &PrintedObject<'_>) {
        let mut running = false;
        for container in pod.items(&["status", "containerStatuses"]).iter().rev() {
            self.restarts.add(container);
            let waiting = tree::text(container, &["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(terminated) = tree::get(container, &["state", "terminated"]) {
                self.reason = end_of(terminated);
            } else if tree::get(container, &["ready"]).and_then(Value::as_bool) == Some(true)
                && tree::get(container, &["state", "running"]).is_some()
            {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            let ready = pod.condition("Ready") == Some("True");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

fn is_gated(condition: &Value) -> bool {
    tree::text(condition, &["type"]) == "PodScheduled" && tree::text(condition, &["reason"]) == "SchedulingGated"
}

/// The reason for which a container terminated.
fn end_of(terminated: &Value) -> String {
    match (tree::text(terminated, &["reason"]), number_at(terminated, &["signal"])) {
        ("", 0) => format!("ExitCode:{}", number_at(terminated, &["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: &PrintedObject<'_>) -> Value {
    let gates = pod.items(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return Value::from("<none>");
    }
    let open = gates.iter().filter(|gate| pod.condition(tree::text(gate, &["conditionType"])) == Some("True"));
    format!("{}/{}", open.count(), gates.len()).into()
}
