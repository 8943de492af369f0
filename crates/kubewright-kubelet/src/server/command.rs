//! Processes of exec and attach, in the shell of a container.

use std::sync::Arc;

use bytes::Bytes;
use kubewright_api::core::v1::{Container, ContainerStatus, Pod};

use kubewright_streaming::command::{ProcessEnd, ProcessStreams};
use tokio::sync::mpsc;

use super::terminal::Terminal;
use super::{ClusterNetwork, find_container, logs};
use crate::environment;
use crate::shell::{Input, Interrupt, Output, Shell, ShellClock, Streams};

/// How many commands a process may run before it is killed.
const STEPS: u32 = 1_000_000;

/// A process that can be started.
pub(super) struct Process {
    network: ClusterNetwork,
    pod: Arc<Pod>,
    container: String,
    kind: ProcessKind,
}

enum ProcessKind {
    Exec {
        shell: Box<Shell>,
        command: Vec<String>,
    },
    /// An interactive container.
    Interactive(Box<Shell>),
    /// The new lines of a log.
    Log,
}

/// A command in a running container. The error is a text for the user.
pub(super) fn exec(
    network: &ClusterNetwork,
    pod: &Arc<Pod>,
    container: &str,
    command: Vec<String>,
) -> Result<Process, String> {
    let shell = Box::new(shell(network, pod, container)?);
    let kind = ProcessKind::Exec { shell, command };
    Ok(Process { network: network.clone(), pod: Arc::clone(pod), container: container.to_owned(), kind })
}

/// A running container itself. The error is a text for the user.
pub(super) fn attach(network: &ClusterNetwork, pod: &Arc<Pod>, container: &str) -> Result<Process, String> {
    let (of, _) = running(pod, container)?;
    let kind = if crate::plan::is_interactive(&environment::command(pod, of), of) {
        ProcessKind::Interactive(Box::new(shell(network, pod, container)?))
    } else {
        ProcessKind::Log
    };
    Ok(Process { network: network.clone(), pod: Arc::clone(pod), container: container.to_owned(), kind })
}

fn running<'a>(pod: &'a Pod, name: &str) -> Result<(&'a Container, &'a ContainerStatus), String> {
    let statuses =
        pod.status.iter().flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses));
    let is_running = |status: &&ContainerStatus| {
        status.name == *name && status.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    let status = statuses.into_iter().find(is_running);
    let not_found = || format!("container not found ({name:?})");
    Ok((find_container(pod, name).ok_or_else(not_found)?, status.ok_or_else(not_found)?))
}

fn shell(network: &ClusterNetwork, pod: &Arc<Pod>, name: &str) -> Result<Shell, String> {
    let (container, status) = running(pod, name)?;
    let files = network.files().enter(pod, container, status);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let clock = ShellClock::Real { slowdown: network.view().slowdown(node) };
    let shell = Shell::new(files, environment::variables(pod, container), clock, STEPS);
    Ok(shell.in_folder(container.working_dir.as_deref().unwrap_or("/")))
}

impl Process {
    /// Runs it over these streams.
    pub(super) async fn run(self, streams: ProcessStreams, tty: bool) -> ProcessEnd {
        let Process { network, pod, container, kind } = self;
        if let ProcessKind::Log = kind {
            let Some(output) = streams.stdout.or(streams.stderr) else { return ProcessEnd::Exited(0) };
            let code = logs::follow_new(&network, &pod, &container, output).await;
            return ProcessEnd::Exited(code);
        }
        let output = |sender: Option<mpsc::Sender<Bytes>>| sender.map_or(Output::Null, Output::Channel);
        let (mut shell, command) = match kind {
            ProcessKind::Exec { shell, command } => (shell, command),
            ProcessKind::Interactive(shell) => (shell, vec!["sh".to_owned()]),
            ProcessKind::Log => return ProcessEnd::Exited(0),
        };
        let is_shell = matches!(
            command.first().map(|name| name.rsplit('/').next().unwrap_or_default()),
            Some("sh" | "bash" | "ash")
        );
        let is_interactive = is_shell && command[1..].iter().all(|flag| matches!(flag.as_str(), "-i" | "-l" | "-il"));
        if let Some(name) = command.first().filter(|name| !Shell::knows(name)) {
            return ProcessEnd::Failed(format!(
                "error executing command in container: failed to exec in container: failed to start exec: OCI runtime \
                 exec failed: exec failed: unable to start container process: exec: {name:?}: executable file not found \
                 in $PATH: unknown"
            ));
        }
        if tty {
            let Some(stdout) = streams.stdout else { return ProcessEnd::Exited(0) };
            let (terminal, inner) = Terminal::new(streams.stdin, stdout);
            let running = async move {
                let ended =
                    if is_interactive { shell.interact(&inner).await } else { shell.run(&command, &inner).await };
                drop(inner);
                ended
            };
            return exited(terminal.run(running).await);
        }
        let streams = Streams {
            input: Input::live(streams.stdin),
            output: output(streams.stdout),
            error: output(streams.stderr),
        };
        exited(shell.run(&command, &streams).await)
    }
}

fn exited(ended: Result<i32, Interrupt>) -> ProcessEnd {
    match ended {
        Ok(code) | Err(Interrupt::Exit(code)) => ProcessEnd::Exited(code),
        Err(_) => ProcessEnd::Exited(0),
    }
}
