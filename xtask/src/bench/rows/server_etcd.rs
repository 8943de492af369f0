//! The embedded server over etcd beside kube-apiserver over the same etcd, and a million objects
//! there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::OURS;
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process::{self, Background, Server};
use crate::bench::real_server::{Etcd, RealServer};
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "server etcd",
    title: "Embedded server over etcd: creates, events, a million objects",
    charted: "server CPU µs/create",
    packages: &["bench-server"],
    go: &[],
    play,
    goals,
};

const REAL: &str = "kube-apiserver";
const CREATES: &str = "creates of 8 clients";
const EVENTS: &str = "20 watchers of 500 creates";
const MILLION: u64 = 1_000_000;

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let folder = session.programs.target.join(format!("bench-etcd-data-{}", std::process::id()));
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let assets = assets.filter(|folder| folder.join("kube-apiserver").exists() && folder.join("etcd").exists());
    if assets.is_none() {
        eprintln!("SKIPPED {REAL}: KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd");
    }
    let program = assets.as_deref().map_or_else(|| PathBuf::from("etcd"), |folder| folder.join("etcd"));
    for round in 0..session.repetitions() {
        let folder = folder.join(round.to_string());
        in_new_folder(&folder, || {
            ours(session, figures, &program, &folder)?;
            assets.as_deref().map_or(Ok(()), |assets| real(session, figures, assets, &folder.join("real")))
        })?;
    }
    if session.most_pods >= MILLION {
        in_new_folder(&folder, || restart(session, figures, &program, &folder))?;
    }
    Ok(())
}

fn in_new_folder(folder: &Path, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let done = work();
    let _ = std::fs::remove_dir_all(folder);
    done
}

fn ours(session: &Session, figures: &mut Figures, etcd: &Path, folder: &Path) -> Result<(), String> {
    let etcd = Etcd::start(etcd, folder)?;
    etcd.wait()?;
    let kubeconfig = folder.join("kubeconfig");
    let mut program = session.programs.rust("bench-server");
    let server = Server::start(program.arg("serve").arg(&kubeconfig).args(["--etcd", &etcd.url]))?;
    drive(session, figures, OURS, &kubeconfig, (&server.process, &etcd.process))
}

fn real(session: &Session, figures: &mut Figures, assets: &Path, folder: &Path) -> Result<(), String> {
    let server = RealServer::start(assets, folder)?;
    process::line(driver(session, &server.kubeconfig).arg("ready"))?;
    drive(session, figures, REAL, &server.kubeconfig, (&server.apiserver, &server.etcd.process))
}

fn driver(session: &Session, kubeconfig: &Path) -> Command {
    let mut command = session.programs.rust("bench-server");
    command.env("KUBECONFIG", kubeconfig);
    command
}

fn drive(
    session: &Session,
    figures: &mut Figures,
    who: &str,
    kubeconfig: &Path,
    (server, etcd): (&Background, &Background),
) -> Result<(), String> {
    // The server and the client warm up.
    process::line(driver(session, kubeconfig).args(["creates", "8", "1"]))?;
    let before = (server.cpu_seconds(), etcd.cpu_seconds());
    let seconds = if session.quick { "3" } else { "10" };
    let line = process::line(driver(session, kubeconfig).args(["creates", "8", seconds]))?;
    let creates = line.number("creates")?;
    figures.add(CREATES, who, "creates/s", line.number("creates_per_s")?);
    figures.add(CREATES, who, "server CPU µs/create", (server.cpu_seconds() - before.0) * 1e6 / creates);
    figures.add(CREATES, who, "etcd CPU µs/create", (etcd.cpu_seconds() - before.1) * 1e6 / creates);
    let line = process::line(driver(session, kubeconfig).args(["latency", "20", "500"]))?;
    figures.add(EVENTS, who, "create to event, p50 ms", line.number("p50_ms")?);
    figures.add(EVENTS, who, "create to event, p99 ms", line.number("p99_ms")?);
    Ok(())
}

/// Fills the server, kills it, and starts it again.
fn restart(session: &Session, figures: &mut Figures, etcd: &Path, folder: &Path) -> Result<(), String> {
    let etcd = Etcd::start(etcd, folder)?;
    etcd.wait()?;
    let mut program = session.programs.rust("bench-server");
    program.arg("restart").args([MILLION.to_string(), "1".to_owned()]).arg(folder).arg(&etcd.url);
    let line = process::line(&mut program)?;
    for (cost, shown) in [
        ("fill_s", "creates of all, s"),
        ("start_s", "start s"),
        ("start_cpu_s", "start CPU s"),
        ("list_cpu_s", "full list CPU s"),
        ("bytes_per_object", "bytes/object"),
    ] {
        figures.add("1M objects", OURS, shown, line.number(cost)?);
    }
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    let times = |case, metric| ratio(figures.median(case, REAL, metric), figures.median(case, OURS, metric));
    let creates = times(CREATES, "server CPU µs/create");
    goals.at_least("creates per CPU second of the server, times kube-apiserver's", creates, 2.0);
    let p99 = "create to event, p99 ms";
    let share = ratio(figures.median(EVENTS, OURS, p99), figures.median(EVENTS, REAL, p99));
    goals.at_most("create to event, 99th percentile, times kube-apiserver's", share, 1.0);
}
