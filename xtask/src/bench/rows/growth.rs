//! Growth of costs from a thousand to a million objects.

use super::{GO, KUBE, OURS, size};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::informer;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "growth",
    title: "Growth from 1k to 1M pods",
    charted: "sync µs CPU/pod",
    packages: informer::PACKAGES,
    go: informer::GO,
    play,
    goals,
};

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    for pods in [1000, 10_000, 100_000, 1_000_000].into_iter().filter(|pods| *pods <= session.most_pods) {
        let runs = informer::play_growth(session, pods)?;
        for run in &runs.done {
            let case = size(pods);
            let (steady, peak) =
                (run.line.number("rss_settled_kb")? / 1024.0, run.line.number("rss_peak_sync_kb")? / 1024.0);
            let cpu = run.line.number("sync_cpu_s")?;
            figures.add(&case, run.contestant, "sync CPU s", cpu);
            figures.add(&case, run.contestant, "sync µs CPU/pod", cpu * 1e6 / pods as f64);
            figures.add(&case, run.contestant, "steady MiB", steady);
            figures.add(&case, run.contestant, "peak MiB", peak);
        }
        runs.whole()?;
    }
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    // 50 % tolerance for CPU cache misses and noise.
    for (from, to) in [("10k", "100k"), ("100k", "1M")] {
        let grown = |metric| ratio(figures.median(to, OURS, metric), figures.median(from, OURS, metric));
        goals.at_most(&format!("CPU for a pod at {to}, times that at {from}"), grown("sync µs CPU/pod"), 1.5);
        goals.at_most(&format!("steady memory at {to}, times that at {from}"), grown("steady MiB"), 10.5);
    }
    goals.at_most("peak of 1M pods, MiB", figures.median("1M", OURS, "peak MiB"), 6.0 * 1024.0);
    for peer in [GO, KUBE] {
        let costs = |who| figures.median("100k", who, "sync µs CPU/pod");
        goals.at_most(&format!("CPU at 100k, times {peer}'s"), ratio(costs(OURS), costs(peer)), 1.0 / 3.0);
    }
}
