//! 50,000 updates at full speed.

use super::{GO, KUBE, OURS, size};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::informer::{self, EVENTS};
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "updates",
    title: "50k updates",
    charted: "CPU s",
    packages: informer::PACKAGES,
    go: informer::GO,
    play,
    goals,
};

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let runs = session.informers()?;
    for run in &runs.done {
        let case = format!("{} {}", size(run.pods), run.variant);
        let cpu = run.line.number("events_cpu_s")?;
        figures.add(&case, run.contestant, "CPU s", cpu);
        figures.add(&case, run.contestant, "µs CPU/event", cpu * 1e6 / EVENTS as f64);
        figures.add(&case, run.contestant, "events/s", EVENTS as f64 / run.line.number("events_wall_s")?);
        figures.add(&case, run.contestant, "peak MiB", run.line.number("rss_peak_events_kb")? / 1024.0);
    }
    runs.whole()
}

fn goals(figures: &Figures, goals: &mut Goals) {
    for pods in ["10k", "100k"] {
        for (format, peers) in [("pb", &[GO][..]), ("json", &[GO, KUBE])] {
            let cases = [format!("{pods} {format}-list"), format!("{pods} {format}-watchlist")];
            let cases = [cases[0].as_str(), cases[1].as_str()];
            let (ours, theirs) = (figures.least(&cases, &[OURS], "CPU s"), figures.least(&cases, peers, "CPU s"));
            goals.at_most(&format!("CPU for {pods} {format}, times the better peer's"), ratio(ours, theirs), 1.0 / 3.0);
        }
    }
}
