//! Syncing 10,000 and 100,000 pods.

use super::{COMPACT, GO, KUBE, OURS, size};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::informer;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "sync",
    title: "Sync of 10k and 100k pods",
    charted: "sync CPU s",
    packages: informer::PACKAGES,
    go: informer::GO,
    play,
    goals,
};

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let runs = session.informers()?;
    for run in &runs.done {
        let case = format!("{} {}", size(run.pods), run.variant);
        let mut add = |metric, value| figures.add(&case, run.contestant, metric, value);
        let (steady, peak) = (run.line.number("rss_settled_kb")?, run.line.number("rss_peak_sync_kb")?);
        add("sync CPU s", run.line.number("sync_cpu_s")?);
        add("sync wall s", run.line.number("sync_wall_s")?);
        add("steady MiB", steady / 1024.0);
        add("as is MiB", run.line.number("rss_asis_kb")? / 1024.0);
        add("peak MiB", peak / 1024.0);
        add("bytes/pod", steady * 1024.0 / run.pods as f64);
        // Operators see the memory right after the sync. All contestants may return freed memory
        // before the second sample.
        add("peak over steady", peak / steady);
    }
    runs.whole()
}

/// Goals for 100,000 pods.
fn goals(figures: &Figures, goals: &mut Goals) {
    let (json, pb) = (["100k json-list", "100k json-watchlist"], ["100k pb-list", "100k pb-watchlist"]);
    let least = |cases: &[&str], who, metric| figures.least(cases, &[who], metric);
    let steady = least(&pb, OURS, "steady MiB");
    let theirs = least(&pb, GO, "steady MiB");
    goals.at_most("steady memory, times client-go's", ratio(steady, theirs), 0.4);
    goals.at_most("steady memory, times kube-rs's", ratio(steady, least(&json, KUBE, "steady MiB")), 0.2);
    goals.at_most(
        "steady memory of compact storage, times client-go's",
        ratio(least(&pb, COMPACT, "steady MiB"), theirs),
        1.0 / 6.0,
    );
    for case in pb.iter().chain(&json) {
        let text = format!("peak while syncing, times steady, {case}");
        goals.at_most(&text, figures.median(case, OURS, "peak over steady"), 1.15);
    }
    let cpu = |cases: &[&str], who| least(cases, who, "sync CPU s");
    goals.at_most("CPU of JSON, times kube-rs's", ratio(cpu(&json, OURS), cpu(&json, KUBE)), 1.0 / 3.0);
    goals.at_most("CPU of JSON, times client-go's with protobuf", ratio(cpu(&json, OURS), cpu(&pb, GO)), 1.0);
    goals.at_most("CPU of protobuf, times client-go's", ratio(cpu(&pb, OURS), cpu(&pb, GO)), 1.0 / 3.0);
}
