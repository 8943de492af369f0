//! A relist after an expired watch.

use super::{OURS, size};
use crate::bench::figures::Figures;
use crate::bench::goals::Goals;
use crate::bench::informer;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "relist",
    title: "Relist after an error 410",
    charted: "peak over steady",
    packages: informer::PACKAGES,
    go: informer::GO,
    play,
    goals,
};

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let runs = session.informers()?;
    for run in &runs.done {
        let case = format!("{} {}", size(run.pods), run.variant);
        let (steady, peak) = (run.line.number("rss_settled_kb")?, run.line.number("rss_peak_relist_kb")?);
        figures.add(&case, run.contestant, "peak over steady", peak / steady);
        figures.add(&case, run.contestant, "peak MiB", peak / 1024.0);
        figures.add(&case, run.contestant, "CPU s", run.line.number("relist_cpu_s")?);
    }
    runs.whole()
}

fn goals(figures: &Figures, goals: &mut Goals) {
    for case in ["10k pb-list", "100k pb-list", "100k pb-watchlist", "100k json-list"] {
        goals.at_most(&format!("peak over steady, {case}"), figures.median(case, OURS, "peak over steady"), 1.2);
    }
}
