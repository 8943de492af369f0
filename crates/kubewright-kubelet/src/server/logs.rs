//! The logs of containers, as a kubelet gives them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Response, StatusCode};
use kubewright_api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kubewright_core::options::QueryParameters;
use kubewright_core::{MicroTime, Object, Time};
use kubewright_net::clock;
use kubewright_net::transport::Body;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{ClusterNetwork, find_container, text};
use crate::plan::{LogLine, Plan};

/// How long a follower waits until it looks at the container again.
const POLL: Duration = Duration::from_millis(500);
/// How much of the log is computed ahead.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum size of a part of a response.
const PART: usize = 32 << 10;

/// A run of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The restarts before it.
    restarts: i32,
    started: Time,
    /// `None` while it runs.
    ended: Option<Time>,
}

/// The options of a request for a log.
struct LogOptions {
    follow: bool,
    timestamps: bool,
    since: Option<Time>,
    tail: Option<usize>,
    /// The bytes that may still be sent.
    limit: usize,
    /// Whether standard output is wanted, which all lines are said to be.
    has_output: bool,
}

impl LogOptions {
    fn parse(query: &QueryParameters) -> Self {
        let number = |name: &str| query.integer(name).ok().flatten().and_then(|number| usize::try_from(number).ok());
        let seconds = number("sinceSeconds").map(|seconds| Duration::from_secs(seconds as u64));
        let since = seconds.and_then(|seconds| Time::from(clock::now_micros()).checked_sub(seconds));
        LogOptions {
            follow: query.flag("follow") == Some(true),
            timestamps: query.flag("timestamps") == Some(true),
            since: since.or_else(|| query.get("sinceTime").and_then(|time| time.parse().ok())),
            tail: number("tailLines"),
            limit: number("limitBytes").unwrap_or(usize::MAX),
            has_output: query.get("stream") != Some("Stderr"),
        }
    }

    /// The text of a line. Lines before `since` have none.
    fn show(&self, run: &Run, line: &LogLine, out: &mut Vec<u8>) {
        let time = run.started.checked_add(line.after).unwrap_or(Time::MAX);
        if self.since.is_some_and(|since| time < since) || !self.has_output {
            return;
        }
        if self.timestamps {
            let seconds = time.to_string();
            out.extend(format!("{}.{:09}Z ", seconds.trim_end_matches('Z'), line.after.subsec_nanos()).bytes());
        }
        out.extend(&line.text);
    }
}

/// Answers a request for the log of a container.
pub(super) fn answer(network: &ClusterNetwork, pod: &Arc<Pod>, name: &str, query: &QueryParameters) -> Response<Body> {
    if find_container(pod, name).is_none() {
        return text(StatusCode::NOT_FOUND, format!("container {name:?} not found in pod {:?}", pod.name()));
    }
    let run = match run_of(pod, name, query.flag("previous") == Some(true)) {
        Ok(run) => run,
        Err(message) => return text(StatusCode::BAD_REQUEST, message),
    };
    let options = LogOptions::parse(query);
    let follower = Follower::new(network, pod, name, run, options);
    let mut response = Response::new(Body::new(stream::unfold(follower, async |mut follower| {
        let part = follower.next().await?;
        Some((Ok(part), follower))
    })));
    let kind = http::HeaderValue::from_static("text/plain");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

/// Sends the new lines of a container to a client, until it ends. Returns its exit code.
pub(super) async fn follow_new(
    network: &ClusterNetwork,
    pod: &Arc<Pod>,
    name: &str,
    output: mpsc::Sender<Bytes>,
) -> i32 {
    let Ok(run) = run_of(pod, name, false) else { return 0 };
    let options =
        LogOptions { follow: true, timestamps: false, since: None, tail: Some(0), limit: usize::MAX, has_output: true };
    let mut follower = Follower::new(network, pod, name, run, options);
    while let Some(part) = follower.next().await {
        if output.send(part).await.is_err() {
            return 0;
        }
    }
    follower.exit_code().unwrap_or_default()
}

/// The run of a container whose log is wanted. The error is that of a kubelet.
fn run_of(pod: &Pod, name: &str, previous: bool) -> Result<Run, String> {
    let (pod_name, statuses) = (pod.name(), pod.status.as_ref());
    // A kubelet has not written anything yet.
    let waiting = |reason: &str| format!("container {name:?} in pod {pod_name:?} is waiting to start: {reason}");
    let status = statuses.and_then(|status| find_status(status, name)).ok_or_else(|| waiting("ContainerCreating"))?;
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let state = status.state.as_ref();
    let ended = |terminated: &ContainerStateTerminated, restarts: i32| Run {
        restarts,
        started: terminated.started_at.or(terminated.finished_at).unwrap_or(Time::ZERO),
        ended: Some(terminated.finished_at.unwrap_or(Time::ZERO)),
    };
    let running = state.and_then(|state| state.running.as_ref());
    let waits = state.and_then(|state| state.waiting.as_ref());
    // While a container waits for its restart, the restart is not counted yet.
    let last_restarts = if waits.is_some() { status.restart_count } else { status.restart_count - 1 };
    if previous {
        let missing = || format!("previous terminated container {name:?} in pod {pod_name:?} not found");
        return last.map(|last| ended(last, last_restarts)).ok_or_else(missing);
    }
    if let Some(running) = running {
        let started = running.started_at.unwrap_or(Time::ZERO);
        return Ok(Run { restarts: status.restart_count, started, ended: None });
    }
    if let Some(terminated) = state.and_then(|state| state.terminated.as_ref()) {
        return Ok(ended(terminated, status.restart_count));
    }
    match (last, waits) {
        (Some(last), _) => Ok(ended(last, last_restarts)),
        (None, Some(waits)) => Err(waiting(waits.reason.as_deref().unwrap_or_default())),
        (None, None) => Err(format!("container {name:?} in pod {pod_name:?} is waiting to start - no logs yet")),
    }
}

fn find_status<'a>(status: &'a kubewright_api::core::v1::PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    status.init_container_statuses.iter().chain(&status.container_statuses).find(|status| status.name == *name)
}

/// Gives the log of a run in parts, as it grows.
struct Follower {
    network: ClusterNetwork,
    pod: Arc<Pod>,
    name: String,
    run: Run,
    options: LogOptions,
    /// Computed lines that are not sent yet.
    lines: VecDeque<LogLine>,
    /// The time up to which lines are computed.
    computed: Option<Duration>,
}

impl Follower {
    fn new(network: &ClusterNetwork, pod: &Arc<Pod>, name: &str, run: Run, options: LogOptions) -> Self {
        let mut follower = Follower {
            network: network.clone(),
            pod: Arc::clone(pod),
            name: name.to_owned(),
            run,
            options,
            lines: VecDeque::new(),
            computed: None,
        };
        let past = follower.elapsed();
        follower.compute(past);
        if let Some(tail) = follower.options.tail {
            let dropped = follower.lines.len().saturating_sub(tail);
            follower.lines.drain(..dropped);
        }
        follower
    }

    /// The time since the start of the run, or its length.
    fn elapsed(&self) -> Duration {
        match self.run.ended {
            // Times of objects have no fractions.
            Some(ended) => ended.duration_since(self.run.started).unwrap_or_default() + Duration::from_secs(1),
            None => since(self.run.started, clock::now_micros()),
        }
    }

    /// Computes lines up to a time.
    fn compute(&mut self, until: Duration) {
        let Some(container) = find_container(&self.pod, &self.name) else { return };
        let node = self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let restarts = u32::try_from(self.run.restarts).unwrap_or_default();
        let plan = Plan::new(&self.pod, container, restarts).slowed(self.network.view().slowdown(node));
        let computed = self.computed.replace(until);
        let lines = plan.log(until).into_iter().filter(|line| computed.is_none_or(|computed| line.after > computed));
        self.lines.extend(lines);
    }

    /// The next part; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let elapsed = self.elapsed();
            let mut part = Vec::new();
            while self.lines.front().is_some_and(|line| line.after <= elapsed)
                && let Some(line) = self.lines.pop_front()
            {
                self.options.show(&self.run, &line, &mut part);
                if part.len() >= PART {
                    break;
                }
            }
            if !part.is_empty() {
                part.truncate(self.options.limit);
                self.options.limit -= part.len();
                return (!part.is_empty()).then(|| part.into());
            }
            if self.run.ended.is_some() || !self.options.follow || self.options.limit == 0 {
                return None;
            }
            self.refresh();
            if self.run.ended.is_some() {
                // The last lines.
                self.compute_rest();
                continue;
            }
            if self.computed.is_none_or(|computed| computed <= elapsed) {
                self.compute(elapsed + WINDOW);
                continue;
            }
            let wait = self.lines.front().map_or(POLL, |line| line.after.saturating_sub(elapsed).min(POLL));
            sleep(wait.max(Duration::from_millis(1))).await;
        }
    }

    fn compute_rest(&mut self) {
        let until = self.elapsed();
        if self.computed.is_some_and(|computed| computed > until) {
            self.lines.retain(|line| line.after <= until);
        } else {
            self.compute(until);
        }
    }

    /// Looks whether the run has ended.
    fn refresh(&mut self) {
        let newest = self.network.view().pod(self.pod.namespace(), self.pod.name());
        let newest = newest.filter(|pod| pod.uid() == self.pod.uid());
        let ended = match &newest {
            Some(pod) => match run_of(pod, &self.name, false) {
                Ok(run) if run.restarts == self.run.restarts => run.ended,
                // It has been restarted since.
                _ => run_of(pod, &self.name, true).ok().and_then(|run| run.ended).or(Some(clock::now())),
            },
            None => Some(clock::now()),
        };
        self.run.ended = ended;
        self.pod = newest.unwrap_or_else(|| Arc::clone(&self.pod));
    }

    /// The exit code of the container, if it has ended.
    fn exit_code(&self) -> Option<i32> {
        let status = find_status(self.pod.status.as_ref()?, &self.name)?;
        let of = |state: &Option<kubewright_api::core::v1::ContainerState>| {
            Some(state.as_ref()?.terminated.as_ref()?.exit_code)
        };
        of(&status.state).or_else(|| of(&status.last_state))
    }
}

/// The time from a start to now.
fn since(start: Time, now: MicroTime) -> Duration {
    let whole = Time::from(now);
    let microseconds = u64::try_from(now.as_unix_micros().rem_euclid(1_000_000)).unwrap_or_default();
    whole.duration_since(start).unwrap_or_default() + Duration::from_micros(microseconds)
}
