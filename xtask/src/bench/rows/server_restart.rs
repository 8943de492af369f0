//! The embedded server with a data directory: restart after SIGKILL, and the cost of durable
//! writes.

use std::path::Path;

use super::OURS;
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process::{self, Server};
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "server restart",
    title: "Embedded server with a data directory: restart after SIGKILL, durable writes",
    charted: "start s",
    packages: &["bench-server"],
    go: &[],
    play,
    goals,
};

const INFORMERS: &str = "100 informers over 100k objects";
const MILLION: &str = "1M objects";
/// The name of each case, its objects, and its informers.
const RESTARTS: [(&str, u64, u64); 2] = [(INFORMERS, 100_000, 100), (MILLION, 1_000_000, 1)];

const CREATES: &str = "creates of 64 clients";
const UNSAFE: &str = "kubewright --unsafe-fast";
const MEMORY: &str = "kubewright, in memory";

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let folder = session.programs.target.join(format!("bench-restart-data-{}", std::process::id()));
    for (case, objects, informers) in RESTARTS.into_iter().filter(|(_, objects, _)| *objects <= session.most_pods) {
        in_new_folder(&folder, || restart(session, figures, case, [objects, informers], &folder))?;
    }
    for _ in 0..session.repetitions() {
        for (who, options) in [(OURS, &["--data"][..]), (UNSAFE, &["--unsafe-fast", "--data"]), (MEMORY, &[])] {
            in_new_folder(&folder, || creates(session, figures, who, options, &folder))?;
        }
    }
    Ok(())
}

fn in_new_folder(folder: &Path, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let done = work();
    let _ = std::fs::remove_dir_all(folder);
    done
}

fn restart(
    session: &Session,
    figures: &mut Figures,
    case: &str,
    numbers: [u64; 2],
    folder: &Path,
) -> Result<(), String> {
    let mut program = session.programs.rust("bench-server");
    program.arg("restart").args(numbers.map(|number| number.to_string())).arg(folder);
    let line = process::line(&mut program)?;
    for (cost, shown) in [
        ("start_s", "start s"),
        ("start_cpu_s", "start CPU s"),
        ("resumed_s", "resumed after s"),
        ("lists", "lists after restart"),
        ("list_cpu_s", "full list CPU s"),
        ("bytes_per_object", "bytes/object"),
    ] {
        figures.add(case, OURS, shown, line.number(cost)?);
    }
    Ok(())
}

fn creates(session: &Session, figures: &mut Figures, who: &str, options: &[&str], folder: &Path) -> Result<(), String> {
    let kubeconfig = folder.join("kubeconfig");
    let mut program = session.programs.rust("bench-server");
    program.arg("serve").arg(&kubeconfig).args(options);
    if !options.is_empty() {
        program.arg(folder.join("data"));
    }
    let server = Server::start(&mut program)?;
    let before = server.process.cpu_seconds();
    let seconds = if session.quick { "3" } else { "10" };
    let mut driver = session.programs.rust("bench-server");
    let line = process::line(driver.env("KUBECONFIG", &kubeconfig).args(["creates", "64", seconds]))?;
    figures.add(CREATES, who, "creates/s", line.number("creates_per_s")?);
    let cpu = server.process.cpu_seconds() - before;
    figures.add(CREATES, who, "server CPU µs/create", cpu * 1e6 / line.number("creates")?);
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    let million = |cost: &str| figures.median(MILLION, OURS, cost);
    goals.at_most("start with 1M objects after SIGKILL, s", million("start s"), 10.0);
    goals.at_most("full list of 1M objects, CPU s", million("full list CPU s"), 3.0);
    goals.at_most("bytes for an object of 1 KB after the start", million("bytes/object"), 1300.0);
    let lists = figures.median(INFORMERS, OURS, "lists after restart");
    goals.at_most("lists of 100 informers after a restart", lists, 0.0);
    let cpu = |who| figures.median(CREATES, who, "server CPU µs/create");
    goals.at_most("server CPU of a durable create, times one in memory", ratio(cpu(OURS), cpu(MEMORY)), 2.0);
}
