//! The cost of a recording: a storm of custom resources, with and without one.

use super::OURS;
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "recording",
    title: "Recording: a storm of custom resources with and without one",
    charted: "CPU s, server included",
    packages: &["bench-controller"],
    go: &[],
    play,
    goals,
};

const RECORDED: &str = "kubewright, recorded";

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let objects = if session.quick { "2000" } else { "10000" };
    let file = std::env::temp_dir().join(format!("kubewright-bench-{}.kwrec", std::process::id()));
    for _ in 0..session.repetitions().max(5) {
        let ours = || session.programs.rust("bench-controller");
        let plain = process::line(ours().args(["storm", objects]))?;
        figures.add("storm", OURS, "CPU s, server included", plain.number("cpu_s")?);
        let recorded = process::line(ours().args(["storm", objects]).arg(&file))?;
        figures.add("storm", RECORDED, "CPU s, server included", recorded.number("cpu_s")?);
        let size = std::fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?.len();
        figures.add("storm", RECORDED, "bytes for each object", size as f64 / objects.parse().unwrap_or(1.0));
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    let cpu = |who| figures.median("storm", who, "CPU s, server included");
    goals.at_most("CPU of a recorded storm, times that of an unrecorded one", ratio(cpu(RECORDED), cpu(OURS)), 1.05);
}
