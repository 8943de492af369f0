//! The operator of a project: its build, and its process.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::project::ProjectRecord;

/// How long a stopping operator may take. It finishes its reconciles, and releases its lease.
const GRACE: Duration = Duration::from_secs(15);

/// Where its endpoints listen: any free port, since the defaults may be in use.
const ADDRESSES: [&str; 3] =
    ["--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--webhook-address=127.0.0.1:0"];

/// Builds and runs the program of a project.
#[derive(Debug)]
pub struct Operator {
    project: PathBuf,
    name: String,
    /// Where generated manifests are written.
    folder: PathBuf,
    kubeconfig: OsString,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl Operator {
    /// Not built yet. `kubeconfig` is the value of `KUBECONFIG`.
    pub fn new(
        project: &Path,
        record: &ProjectRecord,
        folder: &Path,
        kubeconfig: OsString,
        arguments: &[String],
    ) -> Self {
        let (project, folder) = (project.to_owned(), folder.to_owned());
        let name = record.project.clone();
        Operator { project, name, folder, kubeconfig, arguments: arguments.to_vec(), process: None }
    }

    /// Builds the program. The compiler writes to the terminal.
    pub async fn build(&self) -> Result<(), Box<dyn Error>> {
        let mut cargo = self.cargo("build");
        let status = cargo.status().await.map_err(|error| format!("cargo does not run: {error}"))?;
        if status.success() { Ok(()) } else { Err("the build failed".into()) }
    }

    /// Writes the definitions of the program to a file.
    pub async fn definitions(&self) -> Result<PathBuf, Box<dyn Error>> {
        let folder = self.folder.join("generated");
        for part in ["manifests", "chart/files"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        let mut cargo = self.cargo("run");
        cargo.args(["--quiet", "--", "manifests"]).arg(&folder).stdout(std::process::Stdio::null());
        let status = cargo.status().await.map_err(|error| format!("cargo does not run: {error}"))?;
        if status.success() {
            Ok(folder.join("manifests/10-crds.yaml"))
        } else {
            Err("the program does not write its manifests".into())
        }
    }

    /// Starts the program.
    pub fn start(&mut self) -> Result<(), Box<dyn Error>> {
        // On Unix, `cargo run` becomes the program, so that signals reach it.
        let mut cargo = self.cargo("run");
        cargo.args(["--quiet", "--"]).args(ADDRESSES).args(&self.arguments).env("KUBECONFIG", &self.kubeconfig);
        self.process = Some(cargo.spawn().map_err(|error| format!("cargo does not run: {error}"))?);
        tracing::info!("started {}", self.name);
        Ok(())
    }

    /// How the process ended, once.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.process.as_mut()?.try_wait().ok()??;
        self.process = None;
        Some(ended)
    }

    /// Stops the process, if there is one.
    pub async fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let id = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(id) = id {
            let _ = kill_process(id, Signal::TERM);
        }
        if tokio::time::timeout(GRACE, process.wait()).await.is_err() {
            tracing::warn!("{} does not stop within {GRACE:?}, and is killed", self.name);
            let _ = process.kill().await;
        }
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // A build that is no longer waited for stops, too.
        cargo.current_dir(&self.project).arg(command).kill_on_drop(true);
        if self.has_dashboard() {
            cargo.args(["--features", "dashboard"]);
        }
        cargo
    }

    /// Whether the project still has the feature of the template.
    fn has_dashboard(&self) -> bool {
        let manifest = std::fs::read_to_string(self.project.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line.starts_with("dashboard ="))
    }
}
