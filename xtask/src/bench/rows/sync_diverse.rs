//! Syncing 10,000 pods of 10,000 templates.

use super::{GO, KUBE, OURS};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::informer;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "sync-diverse",
    title: "Sync of 10k pods, each with its own template",
    charted: "bytes/pod",
    packages: informer::PACKAGES,
    go: informer::GO,
    play,
    goals,
};

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let runs = informer::play_diverse(session)?;
    for run in &runs.done {
        let mut add = |metric, value| figures.add(run.variant, run.contestant, metric, value);
        add("sync CPU s", run.line.number("sync_cpu_s")?);
        add("bytes/pod", run.line.number("rss_settled_kb")? * 1024.0 / run.pods as f64);
    }
    runs.whole()
}

fn goals(figures: &Figures, goals: &mut Goals) {
    let bytes = |case, who| figures.median(case, who, "bytes/pod");
    goals.at_most("memory, times client-go's", ratio(bytes("pb-list", OURS), bytes("pb-list", GO)), 0.4);
    goals.at_most("memory, times kube-rs's", ratio(bytes("json-list", OURS), bytes("json-list", KUBE)), 0.25);
}
