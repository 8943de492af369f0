//! Controllers over the embedded server: no-op reconciles, from a write to its reconcile, a storm
//! of custom resources.

use super::{KUBE, OURS};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process::{self, Server};
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "controller",
    title: "Controller: no-op reconciles, latency, a storm of custom resources",
    charted: "reconciles/CPU s",
    packages: &["bench-controller"],
    go: &[],
    play,
    goals,
};

const IN_MEMORY: &str = "kubewright, in memory";

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let seconds = if session.quick { "2" } else { "5" };
    let ours = || session.programs.rust("bench-controller");
    let server = Server::start(ours().args(["serve", "1000"]))?;
    let url = server.url()?;
    for _ in 0..session.repetitions().max(5) {
        for (contestant, program) in [(OURS, "bench-controller"), (KUBE, "kube-controller")] {
            let line = process::line(session.programs.rust(program).args(["noop", &url, seconds]))?;
            figures.add("no-op", contestant, "reconciles/CPU s", line.number("reconciles")? / line.number("cpu_s")?);
            let line = process::line(session.programs.rust(program).args(["latency", &url]))?;
            latency(figures, contestant, &line)?;
        }
        latency(figures, IN_MEMORY, &process::line(ours().arg("latency"))?)?;
        let line = process::line(ours().args(["storm", "10000"]))?;
        figures.add("storm of 10k", OURS, "API calls each", line.number("calls_each")?);
        figures.add("storm of 10k", OURS, "wall s", line.number("wall_s")?);
        figures.add("storm of 10k", OURS, "CPU s, server included", line.number("cpu_s")?);
    }
    Ok(())
}

fn latency(figures: &mut Figures, contestant: &str, line: &crate::bench::json::Line) -> Result<(), String> {
    figures.add("write to reconcile", contestant, "p50 µs", line.number("median_us")?);
    figures.add("write to reconcile", contestant, "p99 µs", line.number("p99_us")?);
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    let rate = |who| figures.median("no-op", who, "reconciles/CPU s");
    goals.at_least("no-op reconciles a CPU second, times kube-rs's", ratio(rate(OURS), rate(KUBE)), 5.0);
    goals.at_most(
        "write to reconcile in memory, p99 µs",
        figures.median("write to reconcile", IN_MEMORY, "p99 µs"),
        1000.0,
    );
    goals.at_most("API calls for each object of a storm", figures.median("storm of 10k", OURS, "API calls each"), 3.0);
}
