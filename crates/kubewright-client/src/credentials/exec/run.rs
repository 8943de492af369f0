//! One run of the program.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::{Exec, ExecCredential, ExecError, ExecPolicy, V1, exchange};
use crate::config::InteractiveMode;
use crate::task::BoxFuture;

/// No credentials are longer; what is cut off here is no JSON any more.
const OUTPUT_MAX: u64 = 1 << 20;

/// Runs the program and reads what it prints. Ends the program when the future is dropped.
pub(super) async fn run(exec: &Exec) -> Result<ExecCredential, ExecError> {
    let config = &exec.config;
    let command = config.command.clone().unwrap_or_default();
    if !is_allowed(&exec.policy, &command) {
        return Err(ExecError::Denied { command });
    }
    let is_interactive = match config.interactive_mode.unwrap_or(InteractiveMode::IfAvailable) {
        InteractiveMode::Never => false,
        InteractiveMode::IfAvailable => std::io::stdin().is_terminal(),
        InteractiveMode::Always if std::io::stdin().is_terminal() => true,
        InteractiveMode::Always => return Err(ExecError::NoTerminal { command }),
    };
    let version = config.api_version.as_deref().unwrap_or(V1);
    let cluster = config.provide_cluster_info.then_some(&exec.cluster);
    let mut process = Command::new(&command);
    process
        .args(config.args.expose())
        .envs(config.env.iter().map(|variable| (&variable.name, variable.value.expose())))
        .env("KUBERNETES_EXEC_INFO", exchange::info(version, is_interactive, cluster))
        .stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() })
        .stdout(Stdio::piped())
        // What the program says to the person is none of our business.
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let (status, output) = match tokio::time::timeout(exec.timeout, finish(process)).await {
        Err(_) => return Err(ExecError::Timeout { command, limit: exec.timeout }),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
            return Err(ExecError::NotFound { command, install_hint: config.install_hint.as_deref().map(printable) });
        }
        Ok(Err(source)) => return Err(ExecError::Start { command, source }),
        Ok(Ok(finished)) => finished,
    };
    if !status.success() {
        return Err(ExecError::Failed { command, status: status.to_string(), code: status.code() });
    }
    exchange::read(version, &output).map_err(|problem| ExecError::Output { command, problem })
}

/// Waits for the end, and for what was printed, of which too much is not taken.
fn finish(mut process: Command) -> BoxFuture<'static, io::Result<(ExitStatus, Vec<u8>)>> {
    Box::pin(async move {
        let mut child = process.spawn()?;
        let mut output = Vec::new();
        if let Some(printed) = child.stdout.take() {
            printed.take(OUTPUT_MAX).read_to_end(&mut output).await?;
        }
        Ok((child.wait().await?, output))
    })
}

fn is_allowed(policy: &ExecPolicy, command: &str) -> bool {
    match policy {
        ExecPolicy::AllowAll => true,
        ExecPolicy::DenyAll => false,
        ExecPolicy::Allow(list) => {
            let wanted = found(Path::new(command));
            list.iter().any(|allowed| found(allowed) == wanted)
        }
    }
}

/// The file that a command stands for.
fn found(command: &Path) -> PathBuf {
    if command.components().count() > 1 || command.is_absolute() {
        return std::path::absolute(command).unwrap_or_else(|_| command.to_owned());
    }
    let search: OsString = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&search).map(|directory| directory.join(command));
    candidates.into_iter().find(|file| file.is_file()).unwrap_or_else(|| command.to_owned())
}

/// A text without what could move a terminal's cursor or change its colours.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // KC-10
    #[test]
    fn hints_cannot_play_with_the_terminal() {
        assert_eq!(printable("get it\u{1b}[31m\nhere\u{7}\u{9b}"), "get it[31m\nhere");
    }

    // AU-1
    #[test]
    fn policies_name_programs_by_name_or_path() {
        assert!(is_allowed(&ExecPolicy::AllowAll, "sh"));
        assert!(!is_allowed(&ExecPolicy::DenyAll, "sh"));
        let shell = found(Path::new("sh"));
        assert!(is_allowed(&ExecPolicy::Allow(vec![shell.clone()]), "sh"));
        assert!(is_allowed(&ExecPolicy::Allow(vec!["sh".into()]), &shell.to_string_lossy()));
        assert!(!is_allowed(&ExecPolicy::Allow(vec![shell]), "/elsewhere/sh"));
    }
}
