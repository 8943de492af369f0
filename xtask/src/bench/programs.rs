//! Builds the programs of all contestants. The report lists missing ones with reasons.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::row::Row;

/// The folder of the built programs.
pub struct Programs {
    pub bench: PathBuf,
    pub target: PathBuf,
    /// Programs that could not be built, with the reasons.
    pub skipped: Vec<String>,
    has_go: bool,
}

impl Programs {
    /// Builds the programs of the rows, or uses existing builds. Programs of kubewright and kube-rs
    /// must build; those of client-go are skipped without Go or its sources.
    pub fn find(bench: &Path, rows: &[&Row], build: bool) -> Result<Programs, String> {
        let bench = bench.canonicalize().map_err(|error| format!("{}: {error}", bench.display()))?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| bench.join("target"), PathBuf::from);
        let mut programs = Programs { bench, target, skipped: Vec::new(), has_go: false };
        if !build {
            programs.has_go = programs.target.join("go").is_dir();
            return Ok(programs);
        }
        let mut built: Vec<&str> = Vec::new();
        for package in rows.iter().flat_map(|row| row.packages) {
            if !built.contains(package) {
                built.push(package);
                eprintln!("== building {package}");
                programs.cargo(package)?;
            }
        }
        let folders: Vec<_> = rows.iter().flat_map(|row| row.go).collect();
        match go_sources() {
            _ if folders.is_empty() => {}
            Ok(sources) => {
                programs.has_go = true;
                for (folder, name) in folders {
                    eprintln!("== building {name}");
                    programs.go(&sources, folder, name)?;
                }
            }
            Err(reason) => programs.skip(format!("client-go: {reason}")),
        }
        Ok(programs)
    }

    /// Records and prints that a program is skipped.
    fn skip(&mut self, what: String) {
        eprintln!("SKIPPED {what}");
        self.skipped.push(what);
    }

    /// A program that cargo built.
    pub fn rust(&self, name: &str) -> Command {
        Command::new(self.target.join("release").join(name))
    }

    /// A program that Go built, if available.
    pub fn go_program(&self, name: &str) -> Option<Command> {
        self.has_go.then(|| Command::new(self.target.join("go").join(name)))
    }

    /// One package at a time, so that they do not share features.
    fn cargo(&self, package: &str) -> Result<(), String> {
        // The command belongs to the main workspace, its peers to that of the bench.
        let folder = if package == "kubewright-cli" { self.bench.join("..") } else { self.bench.clone() };
        let mut command = Command::new("cargo");
        command
            .args(["build", "--quiet", "--release", "-p", package])
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", &self.target);
        succeed(&mut command)
    }

    fn go(&self, sources: &Path, folder: &str, name: &str) -> Result<(), String> {
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(self.target.join("go").join(name)).arg(".");
        go_environment(&mut command, sources).current_dir(self.bench.join(folder));
        succeed(&mut command)
    }
}

/// Sets the environment for a Go build from a GOPATH without a module proxy.
fn go_environment<'a>(command: &'a mut Command, sources: &Path) -> &'a mut Command {
    command.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("GOFLAGS", "").env("GOPATH", sources)
}

/// The GOPATH with the sources of client-go: `GOCODE`, where Debian has it, or Go's own.
fn go_sources() -> Result<PathBuf, String> {
    let found = Command::new("go").args(["env", "GOPATH"]).output();
    let own = found.map_err(|_| "no `go` on PATH (Debian: golang-go)")?;
    let own = String::from_utf8_lossy(&own.stdout).trim().to_owned();
    let folders = [std::env::var("GOCODE").unwrap_or_default(), "/usr/share/gocode".into(), own];
    let found = folders.into_iter().map(PathBuf::from).find(|folder| folder.join("src/k8s.io/client-go").is_dir());
    found.ok_or_else(|| {
        "no sources of client-go: set GOCODE to a GOPATH with them (Debian: golang-k8s-client-go-dev)".into()
    })
}

pub fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
