//! Probes of running containers.
//!
//! A probe fails only if something known says so: the status code of an annotation, a file that is
//! not served, or a command over the files of a known program. All other probes succeed, since the
//! program that they ask does not run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use kubewright_api::core::v1::{Container, ContainerStatus, ExecAction, HTTPGetAction, Pod, Probe};

use crate::behaviour::Behaviour;
use crate::container_files::{ContainerFiles, program_files};
use crate::environment;
use crate::files::{File, Files, resolve};
use crate::image::served_folder;
use crate::shell::{Input, Output, Recording, Shell, ShellClock, Streams};

/// How many commands a probe may run.
const STEPS: u32 = 1000;
/// How long the commands of a probe may take, if the probe does not say so.
const TIMEOUT: u64 = 1;
/// Maximum length of the output of a probe in its message, as of a kubelet.
const OUTPUT_MAX: usize = 10 << 10;

/// A running container whose probes are asked for.
#[derive(Debug, Clone, Copy)]
pub struct ProbedContainer<'a> {
    /// Its pod.
    pub pod: &'a Pod,
    /// Its specification.
    pub container: &'a Container,
    /// Its status.
    pub status: &'a ContainerStatus,
    /// The files that commands have changed.
    pub files: &'a ContainerFiles,
}

impl ProbedContainer<'_> {
    /// Runs a probe.
    ///
    /// # Errors
    /// The text of a probe that fails.
    pub fn run(&self, probe: &Probe) -> Result<(), String> {
        match (&probe.http_get, &probe.exec) {
            (Some(http), _) => self.http(http),
            (None, Some(exec)) => self.exec(exec, probe.timeout_seconds),
            // Ports of simulated containers accept all connections.
            (None, None) => Ok(()),
        }
    }

    /// Whether the result of a probe can change without a change of the pod.
    pub fn may_change(&self, probe: &Probe) -> bool {
        match (&probe.http_get, &probe.exec) {
            (Some(_), _) => self.is_entered() && served_folder(self.pod, self.container).is_some(),
            (None, Some(exec)) => {
                let program = environment::command(self.pod, self.container);
                let is_known = |command: Option<&str>| command.is_some_and(Shell::knows);
                is_known(exec.command.first().map(|name| &**name)) && is_known(program.first().map(|name| &**name))
            }
            (None, None) => false,
        }
    }

    fn is_entered(&self) -> bool {
        self.files.get(self.pod, self.container, self.status).is_some()
    }

    fn http(&self, probe: &HTTPGetAction) -> Result<(), String> {
        let annotated = Behaviour::of(self.pod, &self.container.name).http_status;
        let code = annotated.unwrap_or_else(|| match served_folder(self.pod, self.container) {
            Some(folder) => {
                let path = probe.path.as_deref().unwrap_or_default();
                let path = path.split(['?', '#']).next().unwrap_or_default();
                let files = self.current_files().0;
                let files = files.lock().unwrap_or_else(PoisonError::into_inner);
                if served_file(&files, &folder, path).is_some() { 200 } else { 404 }
            }
            None => 200,
        });
        if code < 400 { Ok(()) } else { Err(format!("HTTP probe failed with statuscode: {code}")) }
    }

    fn exec(&self, probe: &ExecAction, timeout: Option<i32>) -> Result<(), String> {
        let command: Vec<String> = probe.command.iter().map(ToString::to_string).collect();
        if !command.first().is_some_and(|name| Shell::knows(name)) {
            return Ok(());
        }
        let (files, true) = self.current_files() else { return Ok(()) };
        let until = Duration::from_secs(timeout.and_then(|seconds| seconds.try_into().ok()).unwrap_or(TIMEOUT).max(1));
        let clock = ShellClock::Virtual { start: kubewright_net::clock::now(), until };
        let variables = environment::variables(self.pod, self.container);
        let shell = Shell::new(files, variables, clock, STEPS);
        let mut shell = shell.in_folder(self.container.working_dir.as_deref().unwrap_or("/"));
        let recording = Recording::new(OUTPUT_MAX);
        let output = Output::Recording(recording.clone());
        let streams = Streams { input: Input::of(""), output: output.clone(), error: output };
        match shell.run(&command, &streams).now_or_never() {
            Some(Ok(code)) if code != 0 => {
                let bytes: Vec<u8> = recording.take().into_iter().flat_map(|(_, bytes)| bytes.to_vec()).collect();
                Err(String::from_utf8_lossy(&bytes).into_owned())
            }
            // A command that the shell does not know, or that takes too long for it, is not judged.
            _ => Ok(()),
        }
    }

    /// The files of the container, and whether its program is known.
    fn current_files(&self) -> (Arc<Mutex<Files>>, bool) {
        let (of_program, is_known) = program_files(self.pod, self.container, self.status);
        let entered = self.files.get(self.pod, self.container, self.status);
        (entered.unwrap_or_else(|| Arc::new(Mutex::new(of_program))), is_known)
    }
}

/// The file or folder that a server of files gives for the path of a URL. A folder with an
/// `index.html` is that file.
pub(crate) fn served_file<'a>(files: &'a Files, folder: &str, path: &str) -> Option<&'a File> {
    // `..` stays in the folder.
    let path = format!("{}{}", folder.trim_end_matches('/'), resolve("/", path));
    let path = resolve("/", &path);
    let found = files.get(&path)?;
    let index = || files.get(&format!("{}/index.html", path.trim_end_matches('/')));
    Some(if *found == File::Folder { index().unwrap_or(found) } else { found })
}

#[cfg(test)]
mod tests {
    use kubewright_net::clock;

    use super::*;
    use crate::tests::pod;

    /// The result of the probe of a container that has run for so many seconds.
    fn result(annotations: &str, container: &str, probe: &str, seconds: i64) -> (Result<(), String>, bool) {
        let started = clock::now().checked_sub(Duration::from_secs(seconds.unsigned_abs())).unwrap();
        let pod = pod(&format!(
            r#"{{"metadata":{{"name":"p","annotations":{annotations}}},
            "spec":{{"containers":[{{"name":"a",{container},"readinessProbe":{probe}}}]}},
            "status":{{"containerStatuses":[{{"name":"a","state":{{"running":{{"startedAt":"{started}"}}}}}}]}}}}"#
        ));
        let (container, files) = (&pod.spec.as_ref().unwrap().containers[0], ContainerFiles::default());
        let status = &pod.status.as_ref().unwrap().container_statuses[0];
        let probed = ProbedContainer { pod: &pod, container, status, files: &files };
        let probe = container.readiness_probe.as_ref().unwrap();
        (probed.run(probe), probed.may_change(probe))
    }

    #[test]
    fn commands_are_played_over_the_files_of_a_known_program() {
        let probe = r#"{"exec":{"command":["cat","/tmp/healthy"]}}"#;
        let program = r#""args":["/bin/sh","-c","touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600"]"#;
        assert_eq!(result("{}", program, probe, 10), (Ok(()), true));
        let failed = Err("cat: can't open '/tmp/healthy': No such file or directory\n".to_owned());
        assert_eq!(result("{}", program, probe, 40), (failed, true));
        // Nobody knows what these programs write.
        assert_eq!(result("{}", r#""image":"postgres""#, probe, 10), (Ok(()), false));
        assert_eq!(result("{}", r#""command":["sh","-c","./start && sleep 60"]"#, probe, 10), (Ok(()), true));
        let unknown = r#"{"exec":{"command":["pg_isready"]}}"#;
        assert_eq!(result("{}", program, unknown, 40), (Ok(()), false));
    }

    #[test]
    fn requests_get_the_annotated_status_or_a_served_file() {
        let probe = r#"{"httpGet":{"path":"/healthz?full","port":80}}"#;
        let failed = |code: u32| Err(format!("HTTP probe failed with statuscode: {code}"));
        assert_eq!(result("{}", r#""image":"app""#, probe, 0), (Ok(()), false));
        let busy = r#"{"kubewright.dev/http-status":"503"}"#;
        assert_eq!(result(busy, r#""image":"app""#, probe, 0).0, failed(503));
        assert_eq!(result("{}", r#""image":"httpd:2.4""#, probe, 0).0, failed(404));
        let index = r#"{"httpGet":{"path":"/../index.html","port":80}}"#;
        assert_eq!(result("{}", r#""image":"httpd:2.4""#, index, 0).0, Ok(()));
        let of_program = r#""args":["sh","-c","mkdir -p /srv/www; echo ok > /srv/www/healthz; sleep 9"]"#;
        assert_eq!(result(r#"{"kubewright.dev/http-files":"/srv/www"}"#, of_program, probe, 1).0, Ok(()));
        assert_eq!(result("{}", r#""image":"app""#, r#"{"tcpSocket":{"port":5432}}"#, 0), (Ok(()), false));
    }
}
