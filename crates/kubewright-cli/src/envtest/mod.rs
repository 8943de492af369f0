//! `kubewright envtest`, and the programs that it installs: `kube-apiserver` and `etcd`.
//!
//! envtest starts two programs from a folder, `kube-apiserver` and `etcd`, and tells them by flags
//! where to listen and which certificates to trust. Here both are links to this command, which
//! looks at the name that it was called by. Go's tests run on it without a change:
//! `KUBEBUILDER_ASSETS=DIR go test ./...`.

mod etcd;
mod feature_gates;
mod flags;
mod known_feature_gates;
mod kube_apiserver;
mod kube_apiserver_flags;
mod storage;

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::{failure, output};

/// Text after the help of `kubewright envtest`.
pub const HELP: &str = "\
Example:
  kubewright envtest ./assets
  KUBEBUILDER_ASSETS=$PWD/assets go test ./...

The servers keep their objects in memory, unless kube-apiserver is given a real etcd. kubectl is linked as well if it is installed.";

/// The programs that envtest starts.
const KUBE_APISERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";

/// Options of the command.
#[derive(Debug, Args)]
pub struct EnvtestOptions {
    /// The folder for the programs. It is created if it is missing.
    directory: PathBuf,
}

/// Installs the programs.
#[allow(clippy::print_stderr)]
pub fn install(options: &EnvtestOptions) -> Result<(), Box<dyn Error>> {
    let directory = &options.directory;
    let about = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(directory).map_err(|error| about(directory, error))?;
    let directory = directory.canonicalize().map_err(|error| about(directory, error))?;
    let own = std::env::current_exe()?;
    for name in [KUBE_APISERVER, ETCD] {
        link(&own, &directory.join(name))?;
    }
    match find_program("kubectl", &directory) {
        Some(kubectl) => link(&kubectl, &directory.join("kubectl"))?,
        None => eprintln!("kubectl is not installed; tests that call it will fail"),
    }
    output::print(format!("KUBEBUILDER_ASSETS={}\n", directory.display()))?;
    Ok(())
}

/// Links `path` to the program, in place of an earlier link. Other files are never replaced.
fn link(program: &Path, path: &Path) -> Result<(), Box<dyn Error>> {
    let about = |error: std::io::Error| format!("{}: {error}", path.display());
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => std::fs::remove_file(path).map_err(about)?,
        Ok(_) => {
            let why = "there is another program; remove it, or choose another folder";
            return Err(format!("{}: {why}", path.display()).into());
        }
        Err(_) => {}
    }
    #[cfg(unix)]
    return std::os::unix::fs::symlink(program, path).map_err(|error| about(error).into());
    #[cfg(not(unix))]
    return std::fs::copy(program, path.with_extension("exe")).map(drop).map_err(|error| about(error).into());
}

/// A program of the search path, outside of `directory`.
fn find_program(name: &str, directory: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).filter(|folder| folder.canonicalize().is_ok_and(|it| it != directory));
    folders.map(|folder| folder.join(name)).find_map(|program| program.canonicalize().ok())
}

/// Runs as `kube-apiserver` or `etcd` if that is the name of the program. `None` otherwise.
pub async fn run_by_name(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = PathBuf::from(arguments.next()?);
    let name = program.file_stem().and_then(OsStr::to_str)?;
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>();
    match name {
        KUBE_APISERVER => Some(report(kube_apiserver::run(&arguments).await)),
        ETCD => Some(report(etcd::run(&arguments).await)),
        _ => None,
    }
}

/// Errors begin as those of Go's commands.
#[allow(clippy::print_stderr)]
fn report(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {}", failure::chain(&*error));
            ExitCode::FAILURE
        }
    }
}
