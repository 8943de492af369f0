//! The embedded server beside kube-apiserver and etcd: start, idle memory, creates, fan-out of
//! watches.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::OURS;
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process::{self, Server};
use crate::bench::real_server::RealServer;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "server",
    title: "Embedded server: start, idle memory, creates, watch fan-out",
    charted: "creates/s",
    packages: &["bench-server"],
    go: &[],
    play,
    goals,
};

const REAL: &str = "kube-apiserver + etcd";
const CASE: &str = "8 clients, 200 watchers";
const EVENTS: usize = 500;
const WATCHERS: usize = 200;

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let folder = session.programs.target.join("bench-server-data");
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let assets = assets.filter(|folder| folder.join("kube-apiserver").exists() && folder.join("etcd").exists());
    if assets.is_none() {
        eprintln!("SKIPPED {REAL}: KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd");
    }
    for round in 0..session.repetitions().max(5) {
        let folder = folder.join(format!("{}-{round}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let done = play_round(session, figures, assets.as_deref(), &folder);
        let _ = std::fs::remove_dir_all(&folder);
        done?;
    }
    Ok(())
}

fn play_round(session: &Session, figures: &mut Figures, assets: Option<&Path>, folder: &Path) -> Result<(), String> {
    // Over TLS and HTTP/2, as with the real server.
    let kubeconfig = folder.join("kubeconfig-embedded");
    let server = Server::start(session.programs.rust("bench-server").arg("serve").arg(&kubeconfig))?;
    figures.add(CASE, OURS, "start ms", server.took.as_secs_f64() * 1e3);
    let (cpu, memory) = (|| server.process.cpu_seconds(), || server.process.resident_mib());
    let ids = server.process.id().to_string();
    drive(session, figures, OURS, (&kubeconfig, &ids), &cpu, &memory)?;
    let Some(assets) = assets else { return Ok(()) };
    let start = Instant::now();
    let server = RealServer::start(assets, &folder.join("real"))?;
    process::line(driver(session, &server.kubeconfig).arg("ready"))?;
    figures.add(CASE, REAL, "start ms", start.elapsed().as_secs_f64() * 1e3);
    let ids = format!("{},{}", server.etcd.process.id(), server.apiserver.id());
    let target = (server.kubeconfig.as_path(), ids.as_str());
    drive(session, figures, REAL, target, &|| server.cpu_seconds(), &|| server.resident_mib())
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
    (kubeconfig, ids): (&Path, &str),
    cpu_seconds: &dyn Fn() -> f64,
    resident_mib: &dyn Fn() -> f64,
) -> Result<(), String> {
    thread::sleep(Duration::from_secs(1));
    figures.add(CASE, who, "idle MiB", resident_mib());
    let seconds = if session.quick { "3" } else { "5" };
    let before = cpu_seconds();
    let line = process::line(driver(session, kubeconfig).args(["creates", "8", seconds]))?;
    figures.add(CASE, who, "creates/s", line.number("creates_per_s")?);
    figures.add(CASE, who, "server CPU µs/create", (cpu_seconds() - before) * 1e6 / line.number("creates")?);
    let arguments = ["fanout".to_owned(), WATCHERS.to_string(), EVENTS.to_string()];
    let line = process::line(driver(session, kubeconfig).env("SERVER_PIDS", ids).args(arguments))?;
    figures.add(CASE, who, "watch deliveries/s", line.number("deliveries_per_s")?);
    figures.add(CASE, who, "server CPU µs/delivery", line.number("cpu_us_per_delivery")?);
    Ok(())
}

/// The driver shares the two cores, so the server's CPU time is more meaningful than the rate.
fn goals(figures: &Figures, goals: &mut Goals) {
    let times = |metric| ratio(figures.median(CASE, REAL, metric), figures.median(CASE, OURS, metric));
    goals.at_least("start, times sooner than kube-apiserver + etcd", times("start ms"), 10.0);
    goals.at_least("idle memory, times less", times("idle MiB"), 10.0);
    goals.at_least("server CPU for a create, times less", times("server CPU µs/create"), 10.0);
    let rates = ratio(figures.median(CASE, OURS, "creates/s"), figures.median(CASE, REAL, "creates/s"));
    goals.at_least("creates a second, times more", rates, 10.0);
    goals.at_least("server CPU for a watch delivery, times less", times("server CPU µs/delivery"), 10.0);
}
