//! `kubewright replay`: a recording in the dashboard, and its smallest part that still fails.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use kubewright_dashboard::RecordingDashboard;
use kubewright_recording::Recording;
use kubewright_runtime::replay::{FILE_VARIABLE, ShrinkOptions, shrink_by};

use crate::log::Verbosity;
use crate::output;
use crate::signals::TerminationSignals;

/// Options of `replay`.
#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// The recording, as `--record` or `ManagerOptions::record` wrote it.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Reads a recording whose program was killed, up to its last complete entry.
    #[arg(long)]
    truncated: bool,
    /// Where the page is served: a loopback address; port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", conflicts_with = "shrink")]
    dashboard: SocketAddr,
    /// Finds a minimal recording for which COMMAND still fails, and writes it to OUTPUT.
    ///
    /// COMMAND is a test that uses `replay!`. It is run with the environment variable
    /// KUBEWRIGHT_REPLAY_FILE, which replaces the file of `replay!`.
    #[arg(long, value_name = "OUTPUT", requires = "command")]
    shrink: Option<PathBuf>,
    /// Maximum number of times that COMMAND is run.
    #[arg(long, value_name = "N", default_value_t = 500, requires = "shrink")]
    max_runs: usize,
    /// The command, after `--`.
    #[arg(last = true, value_name = "COMMAND", requires = "shrink")]
    command: Vec<String>,
    #[command(flatten)]
    verbosity: Verbosity,
}

pub const HELP: &str = "\
Examples:
  kubewright up --record run.kwrec                     record, until Ctrl-C
  kubewright replay run.kwrec                          step through it in a browser
  kubewright replay --shrink min.kwrec run.kwrec -- cargo test the_bad_run_is_repeated";

/// Serves the dashboard of a recording, or shrinks it.
pub async fn replay(options: ReplayOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = TerminationSignals::new()?;
    options.verbosity.start();
    let recording =
        if options.truncated { Recording::open_prefix(&options.file)? } else { Recording::open(&options.file)? };
    if let Some(output) = &options.shrink {
        let output = output.clone();
        let work = tokio::task::spawn_blocking(move || shrink(&recording, &output, options.max_runs, &options.command));
        return work.await?.map_err(|error| -> Box<dyn Error> { error });
    }
    let dashboard = RecordingDashboard::new(recording).listen(options.dashboard).start().await?;
    output::print(format!("ready {}\n", dashboard.url()))?;
    signals.wait().await;
    dashboard.stop().await;
    Ok(())
}

/// Runs the command with ever smaller recordings.
fn shrink(
    recording: &Recording,
    output: &Path,
    max_runs: usize,
    command: &[String],
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let [program, arguments @ ..] = command else { return Err("--shrink needs a command after --".into()) };
    if output.exists() {
        return Err(format!("{}: the file exists, and is not overwritten", output.display()).into());
    }
    let candidate = output.with_extension("candidate");
    let fails = |recording: &Recording| -> Result<bool, Box<dyn Error + Send + Sync>> {
        let _ = std::fs::remove_file(&candidate);
        recording.write(&candidate)?;
        let status = Command::new(program)
            .args(arguments)
            .env(FILE_VARIABLE, std::path::absolute(&candidate)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| format!("{program}: {error}"))?;
        Ok(!status.success())
    };
    let does_fail = fails(recording);
    if !does_fail? {
        let _ = std::fs::remove_file(&candidate);
        return Err("the command does not fail with the whole recording, so that there is nothing to shrink".into());
    }
    let options = ShrinkOptions::default().max_replays(max_runs);
    let minimal = shrink_by(recording, &options, |candidate| fails(candidate).unwrap_or(false));
    std::fs::remove_file(&candidate)?;
    minimal.write(output)?;
    let count = |recording: &Recording| recording.entries().len();
    tracing::info!(from = count(recording), to = count(&minimal), file = %output.display(), "shrunk");
    Ok(())
}
