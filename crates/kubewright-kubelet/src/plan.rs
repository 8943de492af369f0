//! The log and the end of a container, computed ahead.
//!
//! A plan follows from the annotations of the pod, and else from the command of the container. It
//! has no state: logs and ends are computed from the time since the start of the container, so they
//! are the same after a restart of the controllers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use kubewright_api::core::v1::{Container, Pod};
use kubewright_core::{Object, Time};

use crate::behaviour::{Behaviour, RunTime};
use crate::environment;
use crate::files::Files;
use crate::shell::{Input, Interrupt, Output, Recording, Shell, ShellClock, Streams};

/// How many commands of a program are played to find its end. One that has not ended by then is
/// said to run forever.
const STEPS_TO_END: u32 = 1000;
/// So is one that takes longer.
const TIME_TO_END: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How many earlier runs are played for what they left in volumes.
const RUNS_REPLAYED: u32 = 8;
/// How many commands of a program are played for its log.
const STEPS_OF_LOG: u32 = 200_000;
/// Maximum number of lines of a log.
const LINES_MAX: usize = 100_000;
/// Maximum size of a log, as of a kubelet's `containerLogMaxSize`.
const LOG_MAX: usize = 10 << 20;

/// The end of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The time from its start.
    pub after: Duration,
    /// Its exit code.
    pub code: i32,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The time since the start of the container.
    pub after: Duration,
    /// The text with its end of line; the last one may lack it.
    pub text: Bytes,
}

/// The log and the end of one run of a container.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    pod: &'a Pod,
    container: &'a Container,
    behaviour: Behaviour,
    /// The number of restarts before this start.
    restarts: u32,
    /// The factor by which its node is slow.
    slowdown: f64,
}

/// How a program ends.
enum ProgramEnd {
    Ends(End),
    RunsForever,
    /// It is not known to the shell.
    Unknown,
}

impl<'a> Plan<'a> {
    /// The plan of a container after so many restarts.
    pub fn new(pod: &'a Pod, container: &'a Container, restarts: u32) -> Self {
        Plan { pod, container, behaviour: Behaviour::of(pod, &container.name), restarts, slowdown: 1.0 }
    }

    /// Multiplies all times by the slowdown of the node.
    #[must_use]
    pub fn slowed(mut self, slowdown: f64) -> Self {
        self.slowdown = slowdown;
        self
    }

    /// The annotations about the container.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// When and how the container ends. `None` if it runs until its pod is deleted.
    ///
    /// Programs that are not known run forever, unless `default` says how long they run.
    /// `annotated` is the run time of containers of which annotations only say that they end.
    pub fn end(&self, default: Option<Duration>, annotated: Duration) -> Option<End> {
        let end = self.unslowed_end(default, annotated)?;
        let after = Duration::try_from_secs_f64(end.after.as_secs_f64() * self.slowdown).unwrap_or(Duration::MAX);
        Some(End { after, ..end })
    }

    fn unslowed_end(&self, default: Option<Duration>, annotated: Duration) -> Option<End> {
        let Behaviour { run_time, exit_code, restarts, .. } = &self.behaviour;
        let is_well = restarts.is_some_and(|restarts| self.restarts >= restarts);
        if is_well && self.is_restarted_after_success() {
            return None;
        }
        let after = match run_time {
            Some(RunTime::Forever) => return None,
            Some(RunTime::For(time)) => Some(*time),
            None => None,
        };
        // The common case needs no look at the program.
        let end = match (after, exit_code) {
            (Some(after), Some(code)) => End { after, code: *code },
            (after, code) => {
                let (program, code) = (self.program_end(), *code);
                let default = default.or(code.map(|_| annotated)).or(restarts.map(|_| annotated));
                match program {
                    ProgramEnd::Ends(end) => End { after: after.unwrap_or(end.after), code: code.unwrap_or(end.code) },
                    ProgramEnd::RunsForever if code.is_none() && restarts.is_none() => {
                        End { after: after?, code: code.unwrap_or_default() }
                    }
                    _ => {
                        // A container that recovers after some restarts has failed before.
                        let code = code.unwrap_or_else(|| i32::from(restarts.is_some()));
                        End { after: after.or(default)?, code }
                    }
                }
            }
        };
        Some(if is_well { End { code: 0, ..end } } else { end })
    }

    /// Whether the container is started again although it ended successfully.
    fn is_restarted_after_success(&self) -> bool {
        let of_pod = self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        let is_init = self
            .pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.init_containers.iter().any(|one| one.name == self.container.name));
        match self.container.restart_policy.as_deref() {
            Some(policy) => policy == "Always",
            None => !is_init && of_pod.unwrap_or("Always") == "Always",
        }
    }

    /// The command with its arguments. Empty if the image determines it.
    pub fn command(&self) -> Vec<String> {
        environment::command(self.pod, self.container)
    }

    fn program_end(&self) -> ProgramEnd {
        let command = self.command();
        if !command.first().is_some_and(|name| Shell::knows(name)) {
            return ProgramEnd::Unknown;
        }
        if is_interactive(&command, self.container) {
            return ProgramEnd::RunsForever;
        }
        let (mut shell, streams) = (self.shell(TIME_TO_END, STEPS_TO_END), Streams::null());
        let ended = shell.run(&command, &streams).now_or_never();
        match ended {
            Some(Ok(code)) => ProgramEnd::Ends(End { after: shell.elapsed(), code }),
            Some(Err(Interrupt::Unknown)) => ProgramEnd::Unknown,
            // A virtual run never waits.
            Some(Err(_)) | None => ProgramEnd::RunsForever,
        }
    }

    /// The files of the container at this time since its start, and whether its program is known so
    /// far. Of a program that is not known, the files of the image are.
    pub fn files(&self, until: Duration) -> (Files, bool) {
        let command = self.command();
        let files = Arc::new(Mutex::new(self.initial_files()));
        let is_known = command.first().is_some_and(|name| Shell::knows(name)) && {
            let until = Duration::try_from_secs_f64(until.as_secs_f64() / self.slowdown).unwrap_or(Duration::MAX);
            let mut shell = self.shell_over(Arc::clone(&files), until, STEPS_TO_END);
            let played = shell.run(&command, &Streams::null()).now_or_never();
            !matches!(played, Some(Err(Interrupt::Unknown)))
        };
        let files = files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (files, is_known)
    }

    /// The files at the start: those of the image, and what earlier runs left in `emptyDir`
    /// volumes.
    fn initial_files(&self) -> Files {
        let of_image = || environment::files(self.pod, self.container);
        let (mut files, command) = (of_image(), self.command());
        let kept: Vec<&str> = self.kept_folders().collect();
        if kept.is_empty() || !command.first().is_some_and(|name| Shell::knows(name)) {
            return files;
        }
        for _ in self.restarts.saturating_sub(RUNS_REPLAYED)..self.restarts {
            let run = Arc::new(Mutex::new(files));
            let mut shell = self.shell_over(Arc::clone(&run), TIME_TO_END, STEPS_TO_END);
            let _ = shell.run(&command, &Streams::null()).now_or_never();
            files = of_image();
            let left = run.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().for_each(|folder| files.copy_below(&left, folder));
        }
        files
    }

    /// The folders at which `emptyDir` volumes are mounted.
    fn kept_folders(&self) -> impl Iterator<Item = &str> {
        let volumes = self.pod.spec.iter().flat_map(|spec| spec.volumes.iter());
        let is_kept =
            move |name: &str| volumes.clone().any(|volume| volume.name == *name && volume.empty_dir.is_some());
        let mounts = self.container.volume_mounts.iter().filter(move |mount| is_kept(&mount.name));
        mounts.map(|mount| mount.mount_path.trim_end_matches('/'))
    }

    fn shell(&self, until: Duration, steps: u32) -> Shell {
        let files = Arc::new(Mutex::new(self.initial_files()));
        self.shell_over(files, until, steps)
    }

    fn shell_over(&self, files: Arc<Mutex<Files>>, until: Duration, steps: u32) -> Shell {
        let clock = ShellClock::Virtual { start: self.pod.creation_timestamp().unwrap_or(Time::ZERO), until };
        let shell = Shell::new(files, environment::variables(self.pod, self.container), clock, steps);
        shell.in_folder(self.container.working_dir.as_deref().unwrap_or("/"))
    }

    /// The lines of the log up to this time since the start, the oldest first.
    pub fn log(&self, until: Duration) -> Vec<LogLine> {
        let until = Duration::try_from_secs_f64(until.as_secs_f64() / self.slowdown).unwrap_or(Duration::MAX);
        let mut lines = match &self.behaviour.log_lines {
            Some(lines) => self.annotated_log(lines, until),
            None => self.program_log(until),
        };
        for line in &mut lines {
            line.after = Duration::try_from_secs_f64(line.after.as_secs_f64() * self.slowdown).unwrap_or(Duration::MAX);
        }
        lines
    }

    fn annotated_log(&self, lines: &[String], until: Duration) -> Vec<LogLine> {
        let line = |after, text: &String| LogLine { after, text: format!("{text}\n").into() };
        let Some(interval) = self.behaviour.log_interval else {
            return lines.iter().map(|text| line(Duration::ZERO, text)).collect();
        };
        let count = (until.as_nanos() / interval.as_nanos()).saturating_add(1);
        // Only the newest lines are kept.
        let average = lines.iter().map(|line| line.len() + 1).sum::<usize>() / lines.len().max(1);
        let kept = (LOG_MAX / average.max(1)).min(LINES_MAX) as u128;
        let first = count.saturating_sub(kept);
        let numbers = first..count;
        let numbers = numbers.filter_map(|number| {
            let text = &lines[usize::try_from(number % lines.len() as u128).ok()?];
            let nanoseconds = u64::try_from(interval.as_nanos().checked_mul(number)?).ok()?;
            Some(line(Duration::from_nanos(nanoseconds), text))
        });
        numbers.collect()
    }

    fn program_log(&self, until: Duration) -> Vec<LogLine> {
        let command = self.command();
        if !command.first().is_some_and(|name| Shell::knows(name)) {
            return Vec::new();
        }
        let recording = Recording::new(LOG_MAX);
        let output = Output::Recording(recording.clone());
        let streams = Streams { input: Input::of(""), output: output.clone(), error: output };
        let mut shell = self.shell(until, STEPS_OF_LOG);
        // The log is complete at the end of the program, or at the limits.
        let _ = shell.run(&command, &streams).now_or_never();
        into_lines(recording.take())
    }
}

/// Whether a program waits for a client that attaches to it: a shell with an input, or `cat`.
pub(crate) fn is_interactive(command: &[String], container: &Container) -> bool {
    let name = command.first().map_or("", |name| name.rsplit('/').next().unwrap_or_default());
    let flags = || command[1..].iter().all(|flag| matches!(flag.as_str(), "-i" | "-l" | "-il"));
    container.stdin == Some(true) && matches!(name, "sh" | "ash" | "bash" | "cat") && flags()
}

/// Splits output at line ends. A line has the time of its first byte.
fn into_lines(entries: impl IntoIterator<Item = (Duration, Bytes)>) -> Vec<LogLine> {
    let (mut lines, mut open): (Vec<LogLine>, Option<(Duration, Vec<u8>)>) = (Vec::new(), None);
    for (after, bytes) in entries {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (since, mut text) = open.take().unwrap_or_else(|| (after, Vec::new()));
            text.extend(part);
            if text.ends_with(b"\n") {
                lines.push(LogLine { after: since, text: text.into() });
            } else {
                open = Some((since, text));
            }
        }
    }
    lines.extend(open.map(|(after, text)| LogLine { after, text: text.into() }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pod;

    const SECOND: Duration = Duration::from_secs(1);

    fn plan_of(annotations: &str, policy: &str, command: &str, then: impl FnOnce(&Plan<'_>)) {
        let pod = pod(&format!(
            r#"{{"metadata":{{"name":"p","annotations":{annotations}}},"spec":{{"restartPolicy":"{policy}",
            "containers":[{{"name":"a","env":[{{"name":"GREETING","value":"hi"}}],"command":{command}}}]}}}}"#
        ));
        then(&Plan::new(&pod, &pod.spec.as_ref().unwrap().containers[0], 0));
    }

    fn end(command: &str) -> Option<(u64, i32)> {
        let mut found = None;
        plan_of("{}", "Always", command, |plan| {
            found = plan.end(None, SECOND).map(|end| (end.after.as_secs(), end.code));
        });
        found
    }

    #[test]
    fn programs_end_as_their_commands_say() {
        for (command, want) in [
            (r#"["sleep","30"]"#, Some((30, 0))),
            (r#"["sleep","1m","5"]"#, Some((65, 0))),
            (r#"["sleep","infinity"]"#, None),
            (r#"["sh","-c","sleep 5; exit 3"]"#, Some((5, 3))),
            (r#"["/bin/sh","-ec","echo a && sleep 2 && false"]"#, Some((2, 1))),
            (r#"["true"]"#, Some((0, 0))),
            (r#"["false"]"#, Some((0, 1))),
            (r#"["echo","$(GREETING)"]"#, Some((0, 0))),
            (r#"["sh","-c","while true; do echo a; sleep 1; done"]"#, None),
            (r#"["sh","-c","for i in 1 2 3; do sleep $i; done; exit $i"]"#, Some((6, 3))),
            (r#"["sh","-c","sleep 2; nginx"]"#, None),
            (r#"["nginx","-g","daemon off;"]"#, None),
            (r#"["sh","-c","case x in esac"]"#, None),
            (r#"["sleep","x"]"#, Some((0, 1))),
            ("[]", None),
        ] {
            assert_eq!(end(command), want, "{command}");
        }
    }

    #[test]
    fn annotations_precede_the_command() {
        let check = |annotations: &str, policy: &str, command: &str, restarts: u32, want: Option<(u64, i32)>| {
            plan_of(annotations, policy, command, |plan| {
                let plan = Plan { restarts, ..plan.clone() };
                let end = plan.end(None, SECOND).map(|end| (end.after.as_secs(), end.code));
                assert_eq!(end, want, "{annotations} {policy} {command} {restarts}");
            });
        };
        let (failing, forever) = (r#"{"kubewright.dev/exit-code":"2"}"#, r#"{"kubewright.dev/run-time":"forever"}"#);
        check(failing, "Always", r#"["sleep","30"]"#, 0, Some((30, 2)));
        check(failing, "Always", r#"["nginx"]"#, 0, Some((1, 2)));
        check(forever, "Always", r#"["false"]"#, 0, None);
        check(r#"{"kubewright.dev/run-time":"9s"}"#, "Never", r#"["nginx"]"#, 0, Some((9, 0)));
        check(r#"{"kubewright.dev/run-time":"9s"}"#, "Never", r#"["sleep","infinity"]"#, 0, Some((9, 0)));
        let recovering = r#"{"kubewright.dev/restarts":"2"}"#;
        check(recovering, "Always", "[]", 1, Some((1, 1)));
        check(recovering, "Always", "[]", 2, None);
        check(recovering, "OnFailure", r#"["sh","-c","exit 4"]"#, 1, Some((0, 4)));
        check(recovering, "OnFailure", r#"["sh","-c","exit 4"]"#, 2, Some((0, 0)));
    }

    #[test]
    fn an_empty_dir_outlives_a_run() {
        let of_volume = |source: &str, restarts: u32| {
            let script = "if [[ -r /data/foo ]]; then exit 0; else touch /data/foo; exit 1; fi";
            let pod = pod(&format!(
                r#"{{"metadata":{{"name":"p"}},"spec":{{"restartPolicy":"OnFailure","volumes":[{{"name":"v",{source}}}],
                "containers":[{{"name":"a","command":["sh","-c","{script}"],"volumeMounts":[{{"name":"v","mountPath":"/data"}}]}}]}}}}"#
            ));
            Plan::new(&pod, &pod.spec.as_ref().unwrap().containers[0], restarts).end(None, SECOND).map(|end| end.code)
        };
        let empty_dir = r#""emptyDir":{}"#;
        assert_eq!([0, 1, 100].map(|restarts| of_volume(empty_dir, restarts)), [Some(1), Some(0), Some(0)]);
        assert_eq!(of_volume(r#""configMap":{"name":"m"}"#, 1), Some(1));
    }

    #[test]
    fn a_slow_node_takes_longer() {
        plan_of("{}", "Never", r#"["sh","-c","echo a; sleep 2; echo b"]"#, |plan| {
            let slow = plan.clone().slowed(2.5);
            assert_eq!(slow.end(None, SECOND), Some(End { after: 5 * SECOND, code: 0 }));
            let times: Vec<u64> = slow.log(10 * SECOND).iter().map(|line| line.after.as_secs()).collect();
            assert_eq!(times, [0, 5]);
        });
    }

    #[test]
    fn logs_are_what_programs_print_in_time() {
        let texts = |lines: Vec<LogLine>| {
            let text = |line: &LogLine| format!("{} {}", line.after.as_secs(), String::from_utf8_lossy(&line.text));
            lines.iter().map(text).collect::<Vec<_>>()
        };
        let script =
            r#"["sh","-c","echo $GREETING; i=0; while true; do i=$((i+1)); printf '%s-' $i; echo; sleep 2; done"]"#;
        plan_of("{}", "Always", script, |plan| {
            assert_eq!(texts(plan.log(4 * SECOND)), ["0 hi\n", "0 1-\n", "2 2-\n", "4 3-\n"]);
        });
        plan_of("{}", "Always", r#"["sh","-c","echo a; exec nginx"]"#, |plan| {
            assert_eq!(texts(plan.log(4 * SECOND)), ["0 a\n"]);
        });
        let annotated = r#"{"kubewright.dev/log-lines":"a\nb","kubewright.dev/log-interval":"2s"}"#;
        plan_of(annotated, "Always", "[]", |plan| {
            assert_eq!(texts(plan.log(5 * SECOND)), ["0 a\n", "2 b\n", "4 a\n"]);
            // Ten years of it are bounded.
            let lines = plan.log(Duration::from_secs(300_000_000));
            assert!(lines.iter().map(|line| line.text.len()).sum::<usize>() <= LOG_MAX);
        });
        let once = r#"{"kubewright.dev/log-lines":"a\nb"}"#;
        plan_of(once, "Always", r#"["echo","c"]"#, |plan| {
            assert_eq!(texts(plan.log(5 * SECOND)), ["0 a\n", "0 b\n"]);
        });
    }

    #[test]
    fn a_long_log_keeps_its_newest_part() {
        let script = format!(r#"["sh","-c","while true; do echo {}; sleep 1; done"]"#, "x".repeat(1000));
        plan_of("{}", "Always", &script, |plan| {
            let lines = plan.log(Duration::from_secs(20_000));
            assert!(lines.len() <= LOG_MAX / 1001 && lines.last().unwrap().after == Duration::from_secs(20_000));
        });
    }
}
