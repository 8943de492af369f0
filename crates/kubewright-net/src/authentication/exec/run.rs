//! Runs an exec plugin.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::credential::ExecCredential;
use super::error::ExecError;
use super::exchange;
use crate::credentials::{Exec, ExecPolicy};
use crate::kubeconfig::{EXEC_V1, InteractiveMode};
use crate::task::{self, BoxFuture};

/// Limit on the output; a truncated credential is not valid JSON.
const OUTPUT_MAX: u64 = 1 << 20;

/// Runs the program and parses its output. Kills the program when the future is dropped.
pub(super) async fn run(exec: &Exec) -> Result<ExecCredential, ExecError> {
    let config = &exec.config;
    let command = config.command.clone().unwrap_or_default();
    let missing =
        |command| ExecError::NotFound { command, install_hint: config.install_hint.as_deref().map(printable) };
    if exec.policy == ExecPolicy::DenyAll {
        return Err(ExecError::Denied { command });
    }
    // Looked up once, so that the file that runs is the one that the policy approved.
    let (name, policy) = (PathBuf::from(&command), exec.policy.clone());
    let looked_up = task::blocking(move || {
        let program = found(&name)?;
        let is_allowed = is_allowed(&policy, &program);
        Some((program, is_allowed))
    });
    let program = match looked_up.await {
        None => return Err(missing(command)),
        Some((_, false)) => return Err(ExecError::Denied { command }),
        Some((program, true)) => program,
    };
    let is_interactive = match config.interactive_mode.unwrap_or(InteractiveMode::IfAvailable) {
        InteractiveMode::Never => false,
        InteractiveMode::IfAvailable => std::io::stdin().is_terminal(),
        InteractiveMode::Always if std::io::stdin().is_terminal() => true,
        InteractiveMode::Always => return Err(ExecError::NoTerminal { command }),
    };
    let version = config.api_version.as_deref().unwrap_or(EXEC_V1);
    let cluster = config.provide_cluster_info.then_some(&exec.cluster);
    let mut process = Command::new(program);
    process
        .args(config.args.expose())
        .envs(config.env.iter().map(|variable| (&variable.name, variable.value.expose())))
        .env("KUBERNETES_EXEC_INFO", exchange::info(version, is_interactive, cluster))
        .stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() })
        .stdout(Stdio::piped())
        // The program may print messages for the user.
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let (status, output) = match tokio::time::timeout(exec.timeout, finish(process)).await {
        Err(_) => return Err(ExecError::Timeout { command, limit: exec.timeout }),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => return Err(missing(command)),
        Ok(Err(source)) => return Err(ExecError::Start { command, source: source.into() }),
        Ok(Ok(finished)) => finished,
    };
    if !status.success() {
        return Err(ExecError::Failed { command, status: status.to_string(), code: status.code() });
    }
    exchange::read(version, &output).map_err(|problem| ExecError::Output { command, problem })
}

/// Waits for the exit status and the output, up to the limit.
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

fn is_allowed(policy: &ExecPolicy, program: &Path) -> bool {
    match policy {
        ExecPolicy::AllowAll => true,
        ExecPolicy::DenyAll => false,
        ExecPolicy::Allow(list) => list.iter().any(|allowed| found(allowed).is_some_and(|allowed| allowed == program)),
    }
}

/// The file of a command by the `PATH` of this process: the `PATH` in a kubeconfig applies to the
/// program, not to its lookup.
fn found(command: &Path) -> Option<PathBuf> {
    found_in(&std::env::var_os("PATH").unwrap_or_default(), command)
}

fn found_in(search: &OsStr, command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 || command.is_absolute() {
        // Whether it can be executed is left to the system, for its error message.
        return std::path::absolute(command).ok();
    }
    // Relative directories in `PATH` are ignored, because they depend on the working directory.
    let directories = std::env::split_paths(search).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(command)).find_map(program_at)
}

#[cfg(unix)]
fn program_at(file: PathBuf) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(file)
}

#[cfg(not(unix))]
fn program_at(file: PathBuf) -> Option<PathBuf> {
    // As the system does for names without an extension.
    let file = if file.extension().is_none() { file.with_extension(std::env::consts::EXE_EXTENSION) } else { file };
    file.is_file().then_some(file)
}

/// Removes control characters, which could manipulate the terminal.
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
        let shell = found(Path::new("sh")).expect("there is a shell");
        assert!(is_allowed(&ExecPolicy::AllowAll, &shell));
        assert!(!is_allowed(&ExecPolicy::DenyAll, &shell));
        assert!(is_allowed(&ExecPolicy::Allow(vec![shell.clone()]), &shell));
        assert!(is_allowed(&ExecPolicy::Allow(vec!["sh".into()]), &shell));
        assert!(!is_allowed(&ExecPolicy::Allow(vec!["sh".into()]), Path::new("/elsewhere/sh")));
        assert!(!is_allowed(&ExecPolicy::Allow(vec!["/elsewhere/sh".into()]), &shell));
        // Two names without a file are not the same program.
        assert!(!is_allowed(&ExecPolicy::Allow(vec!["no-such-program".into()]), Path::new("no-such-program")));
    }

    // AU-1
    #[test]
    #[cfg(unix)]
    fn only_files_that_can_be_run_are_found() {
        let shell = found(Path::new("sh")).expect("there is a shell");
        let directory = shell.parent().expect("it is in a directory");
        let found_in = |search: &[&Path], command: &str| {
            found_in(&std::env::join_paths(search).expect("no colons"), Path::new(command))
        };
        assert_eq!(found_in(&[directory], "sh"), Some(shell.clone()));
        assert_eq!(found_in(&[Path::new("/elsewhere"), directory], "sh"), Some(shell));
        assert_eq!(found_in(&[Path::new("/elsewhere")], "sh"), None);
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(found_in(&[here], "Cargo.toml"), None, "a file, but no program");
        let path = here.join("Cargo.toml");
        assert_eq!(found_in(&[], &path.to_string_lossy()), Some(path.clone()), "a path is what it says");
        assert_eq!(found_in(&[here], "src"), None, "a directory");
        assert_eq!(found_in(&[Path::new(""), Path::new(".")], "sh"), None, "wherever we happen to be");
    }
}
