//! Annotations that set the behaviour of simulated pods.
//!
//! `kubewright.dev/NAME` applies to each container of a pod. `NAME.kubewright.dev/CONTAINER`
//! applies to one container and takes precedence. This module parses all of them. A malformed value
//! counts as absent, and [`problems`] describes it.

use std::time::Duration;

use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, Quantity};

use crate::files::resolve;

/// Delay until a scheduled pod starts: `kubewright.dev/start-delay: 5s`.
pub const START_DELAY_ANNOTATION: &str = "kubewright.dev/start-delay";
/// Delay until a running container is ready, or `never`: `kubewright.dev/ready-delay: 10s`.
pub const READY_DELAY_ANNOTATION: &str = "kubewright.dev/ready-delay";
/// How long a container runs, or `forever`: `kubewright.dev/run-time: 30s`.
pub const RUN_TIME_ANNOTATION: &str = "kubewright.dev/run-time";
/// Containers with this annotation end, with this exit code: `kubewright.dev/exit-code: "1"`.
pub const EXIT_CODE_ANNOTATION: &str = "kubewright.dev/exit-code";
/// After so many restarts a container is well: it runs on, or ends successfully if its pod is not
/// restarted then. `kubewright.dev/restarts: "2"`.
pub const RESTARTS_ANNOTATION: &str = "kubewright.dev/restarts";
/// The lines that a container logs: `kubewright.dev/log-lines: "one\ntwo"`.
pub const LOG_LINES_ANNOTATION: &str = "kubewright.dev/log-lines";
/// The time between two lines of the log, which are then repeated as long as the container runs:
/// `kubewright.dev/log-interval: 1s`.
pub const LOG_INTERVAL_ANNOTATION: &str = "kubewright.dev/log-interval";
/// The body of HTTP responses of a container: `kubewright.dev/http-response: hello`.
pub const HTTP_RESPONSE_ANNOTATION: &str = "kubewright.dev/http-response";
/// The status code of HTTP responses of a container: `kubewright.dev/http-status: "503"`.
pub const HTTP_STATUS_ANNOTATION: &str = "kubewright.dev/http-status";
/// The folder whose files a container serves over HTTP: `kubewright.dev/http-files: /srv/www`.
pub const HTTP_FILES_ANNOTATION: &str = "kubewright.dev/http-files";
/// Whether images can be pulled: `ok`, `not-found` or `denied`.
/// `kubewright.dev/image-pull: denied`.
pub const IMAGE_PULL_ANNOTATION: &str = "kubewright.dev/image-pull";
/// CPU usage of each container: a quantity, or a percentage of its request.
///
/// `kubewright.dev/cpu-usage: 250m` or `kubewright.dev/cpu-usage: 80%`. For one container:
/// `cpu-usage.kubewright.dev/CONTAINER`.
pub const CPU_USAGE_ANNOTATION: &str = "kubewright.dev/cpu-usage";
/// Memory usage of each container: a quantity, or a percentage of its request.
///
/// `kubewright.dev/memory-usage: 64Mi` or `kubewright.dev/memory-usage: 50%`. For one container:
/// `memory-usage.kubewright.dev/CONTAINER`.
pub const MEMORY_USAGE_ANNOTATION: &str = "kubewright.dev/memory-usage";

/// Behaviours that init containers and sidecars have only by annotations of their own.
const LIFECYCLE: [&str; 4] = ["ready-delay", "run-time", "exit-code", "restarts"];

const DOMAIN: &str = "kubewright.dev";
/// Longer times count as this one, which no test waits for.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The shortest time between two lines of a log.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The behaviour of a container by annotations. `None` for those that are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Behaviour {
    /// Delay until its pod starts. That of the pod if it is for all containers.
    pub start_delay: Option<Duration>,
    /// When it becomes ready.
    pub ready_delay: Option<ReadyDelay>,
    /// How long it runs.
    pub run_time: Option<RunTime>,
    /// The code with which it ends.
    pub exit_code: Option<i32>,
    /// After how many restarts it is well.
    pub restarts: Option<u32>,
    /// The lines that it logs.
    pub log_lines: Option<Vec<String>>,
    /// The time between two of them.
    pub log_interval: Option<Duration>,
    /// The body of its HTTP responses.
    pub http_response: Option<String>,
    /// The status code of its HTTP responses.
    pub http_status: Option<u16>,
    /// The folder whose files it serves over HTTP.
    pub http_files: Option<String>,
    /// Whether its image can be pulled.
    pub image_pull: Option<ImagePull>,
    /// Its CPU usage.
    pub cpu_usage: Option<Amount>,
    /// Its memory usage.
    pub memory_usage: Option<Amount>,
}

/// When a running container becomes ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyDelay {
    /// After this time.
    After(Duration),
    /// Never.
    Never,
}

/// Whether an image can be pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImagePull {
    /// It can.
    Succeeds,
    /// The registry does not have it.
    NotFound,
    /// The registry does not give it.
    Denied,
}

/// How long a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunTime {
    /// For this time.
    For(Duration),
    /// Until its pod is deleted.
    Forever,
}

/// An amount of a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// A quantity.
    Quantity(Quantity),
    /// A percentage of the request.
    Percent(f64),
}

impl Behaviour {
    /// The behaviour of a container.
    pub fn of(pod: &Pod, container: &str) -> Self {
        let mut behaviour = Behaviour::default();
        let spec = pod.spec.as_ref();
        let is_init = spec.is_some_and(|spec| spec.init_containers.iter().any(|one| one.name == *container));
        // Annotations of the container come last, so that they take precedence.
        for is_specific in [false, true] {
            for (annotation, value) in pod.annotations().iter() {
                match Key::parse(annotation) {
                    // A pod that fails is not one that never starts.
                    Some(Key { name, container: None }) if is_init && LIFECYCLE.contains(&name) => {}
                    Some(Key { name, container: None }) if !is_specific => drop(behaviour.set(name, value)),
                    Some(Key { name, container: Some(of) }) if is_specific && of == container => {
                        drop(behaviour.set(name, value));
                    }
                    _ => {}
                }
            }
        }
        behaviour
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "start-delay" => self.start_delay = Some(time(value)?),
            "ready-delay" if value == "never" => self.ready_delay = Some(ReadyDelay::Never),
            "ready-delay" => self.ready_delay = Some(ReadyDelay::After(time(value)?)),
            "run-time" if value == "forever" => self.run_time = Some(RunTime::Forever),
            "run-time" => self.run_time = Some(RunTime::For(time(value)?)),
            "exit-code" => self.exit_code = Some(number(value, 0..=255)? as i32),
            "restarts" => self.restarts = Some(number(value, 0..=1_000_000)? as u32),
            "log-lines" => self.log_lines = Some(value.trim_end_matches('\n').split('\n').map(str::to_owned).collect()),
            "log-interval" => match time(value)? {
                interval if interval < INTERVAL_MIN => return Err("must be at least 1ms".to_owned()),
                interval => self.log_interval = Some(interval),
            },
            "http-response" => self.http_response = Some(value.to_owned()),
            "http-status" => self.http_status = Some(number(value, 200..=599)? as u16),
            "http-files" if value.starts_with('/') => self.http_files = Some(resolve("/", value)),
            "http-files" => return Err("must be an absolute path".to_owned()),
            "image-pull" => {
                self.image_pull = Some(match value {
                    "ok" => ImagePull::Succeeds,
                    "not-found" => ImagePull::NotFound,
                    "denied" => ImagePull::Denied,
                    _ => return Err("must be ok, not-found or denied".to_owned()),
                });
            }
            "cpu-usage" => self.cpu_usage = Some(amount(value)?),
            "memory-usage" => self.memory_usage = Some(amount(value)?),
            _ => return Err("there is no such behaviour".to_owned()),
        }
        Ok(())
    }
}

/// Describes annotations of a pod that are malformed, for its user.
pub fn problems(pod: &Pod) -> Vec<String> {
    let containers = |pod: &Pod, name: &str| {
        let spec = pod.spec.as_ref();
        spec.is_some_and(|spec| spec.init_containers.iter().chain(&spec.containers).any(|one| one.name == *name))
    };
    let mut problems = Vec::new();
    for (annotation, value) in pod.annotations().iter() {
        let Some(key) = Key::parse(annotation) else { continue };
        let read = match key.container {
            Some(container) if !containers(pod, container) => Err(format!("there is no container {container:?}")),
            Some(_) if key.name == "start-delay" => Err("it cannot be set for one container".to_owned()),
            _ => Behaviour::default().set(key.name, value),
        };
        if let Err(why) = read {
            let value: String = value.chars().take(80).collect();
            problems.push(format!("annotation {annotation}: {value:?} is ignored: {why}"));
        }
    }
    problems
}

/// The parts of an annotation's key.
struct Key<'a> {
    name: &'a str,
    container: Option<&'a str>,
}

impl<'a> Key<'a> {
    fn parse(annotation: &'a str) -> Option<Self> {
        let (prefix, rest) = annotation.split_once('/')?;
        if prefix == DOMAIN {
            return Some(Key { name: rest, container: None });
        }
        let name = prefix.strip_suffix(DOMAIN)?.strip_suffix('.')?;
        Some(Key { name, container: Some(rest) })
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let parsed = text.trim().parse::<kubewright_core::Duration>().map_err(|error| error.to_string())?;
    let time = Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())?;
    Ok(time.min(TIME_MAX))
}

fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
    let number = text.trim().parse::<i64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("must be a number from {} to {}", range.start(), range.end()))
}

fn amount(text: &str) -> Result<Amount, String> {
    let text = text.trim();
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse::<f64>().ok().filter(|percent| percent.is_finite() && *percent >= 0.0);
        return percent.map(Amount::Percent).ok_or_else(|| "must be a percentage".to_owned());
    }
    let quantity = text.parse::<Quantity>().ok().filter(|amount| amount.signum() >= 0);
    quantity.map(Amount::Quantity).ok_or_else(|| "must be a quantity or a percentage".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pod;

    #[test]
    fn annotations_of_a_container_precede_those_of_its_pod() {
        let pod = pod(r#"{"metadata":{"name":"p","annotations":{"kubewright.dev/start-delay":"5s",
            "kubewright.dev/ready-delay":"never","ready-delay.kubewright.dev/a":"1m","kubewright.dev/run-time":"forever",
            "run-time.kubewright.dev/a":"1h30m","exit-code.kubewright.dev/a":"3","kubewright.dev/restarts":"2",
            "kubewright.dev/log-lines":"one\ntwo\n","kubewright.dev/log-interval":"2s","other.dev/run-time":"x"}},
            "spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#);
        let (a, b) = (Behaviour::of(&pod, "a"), Behaviour::of(&pod, "b"));
        assert_eq!((a.start_delay, a.restarts), (Some(Duration::from_secs(5)), Some(2)));
        assert_eq!(
            (a.ready_delay, b.ready_delay),
            (Some(ReadyDelay::After(Duration::from_secs(60))), Some(ReadyDelay::Never))
        );
        assert_eq!((a.run_time, b.run_time), (Some(RunTime::For(Duration::from_secs(5400))), Some(RunTime::Forever)));
        assert_eq!((a.exit_code, b.exit_code), (Some(3), None));
        assert_eq!(b.log_lines, Some(vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(problems(&pod), [""; 0]);
    }

    #[test]
    fn values_that_cannot_be_read_are_reported_and_ignored() {
        let pod = pod(r#"{"metadata":{"name":"p","annotations":{"kubewright.dev/exit-code":"-1",
            "kubewright.dev/restarts":"many","kubewright.dev/run-time":"5","kubewright.dev/start-delay":"-5s",
            "kubewright.dev/log-interval":"0s","cpu-usage.kubewright.dev/gone":"1","kubewright.dev/runtime":"5s",
            "kubewright.dev/memory-usage":"x%","start-delay.kubewright.dev/a":"1s"}},
            "spec":{"containers":[{"name":"a"}]}}"#);
        let without_delay = Behaviour { start_delay: None, ..Behaviour::of(&pod, "a") };
        assert_eq!(without_delay, Behaviour::default());
        let problems = problems(&pod);
        assert_eq!(problems.len(), 9, "{problems:#?}");
        let has = |text: &str| problems.iter().any(|problem| problem == text);
        assert!(has(r#"annotation kubewright.dev/exit-code: "-1" is ignored: must be a number from 0 to 255"#));
        assert!(has(r#"annotation cpu-usage.kubewright.dev/gone: "1" is ignored: there is no container "gone""#));
        assert!(has(r#"annotation kubewright.dev/runtime: "5s" is ignored: there is no such behaviour"#));
    }
}
