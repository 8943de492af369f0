//! Many handlers on one informer, and one that never returns: 10,000 pods, 5,000 events at 1,000 a
//! second.

use super::{GO, OURS};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::informer;
use crate::bench::process::{self, Server};
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "handlers",
    title: "1, 10 and 100 handlers, one of them stalled",
    charted: "event to handler, p99 µs",
    packages: informer::PACKAGES,
    go: informer::GO,
    play,
    goals,
};

const CASES: [(&str, usize, bool); 4] =
    [("1", 1, false), ("10", 10, false), ("10, one stalled", 10, true), ("100, one stalled", 100, true)];

/// kube-rs is not a contestant: its streams have one consumer, and shared streams wait for the
/// slowest one.
fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let mut command = session.programs.rust("replay");
    let server = Server::start(command.args(["--pods", "10000", "--events", "5000", "--formats", "pb"]))?;
    let url = server.url()?;
    for _ in 0..session.repetitions() {
        for (case, handlers, stalled) in CASES {
            for contestant in [OURS, GO] {
                let Some(mut command) = informer::program(&session.programs, contestant) else { continue };
                let dashes = if contestant == GO { "-" } else { "--" };
                command.arg(format!("{dashes}server")).arg(&url).arg(format!("{dashes}variant")).arg("pb-watchlist");
                command.args(
                    ["pods", "10000", "events", "5000", "settle", "0.5", "rate", "1000"]
                        .chunks(2)
                        .flat_map(|pair| [format!("{dashes}{}", pair[0]), pair[1].to_owned()]),
                );
                command.arg(format!("{dashes}handlers")).arg(handlers.to_string());
                if stalled {
                    command.args(if contestant == GO { vec!["-stalled=true"] } else { vec!["--stalled", "true"] });
                }
                let line = process::line(&mut command)?;
                let mut add = |metric, value| figures.add(case, contestant, metric, value);
                add("CPU s", line.number("events_cpu_s")?);
                add("event to handler, p50 µs", line.number("late_p50_us")?);
                add("event to handler, p99 µs", line.number("late_p99_us")?);
                add("steady MiB", line.number("rss_after_events_settled_kb")? / 1024.0);
            }
        }
    }
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    let ours = |case, metric| figures.median(case, OURS, metric);
    goals.at_most("CPU of 10 handlers, times that of one", ratio(ours("10", "CPU s"), ours("1", "CPU s")), 2.0);
    let stalled = ratio(ours("10, one stalled", "event to handler, p50 µs"), ours("10", "event to handler, p50 µs"));
    goals.at_most("p50 with one of ten stalled, times that with none", stalled, 1.5);
    let flat = ratio(ours("100, one stalled", "event to handler, p50 µs"), ours("1", "event to handler, p50 µs"));
    goals.at_most("p50 of 100 handlers, times that of one", flat, 2.0);
    let case = "100, one stalled";
    let p99 = |who| figures.median(case, who, "event to handler, p99 µs");
    goals.at_most("p99 of 100 handlers, times client-go's", ratio(p99(OURS), p99(GO)), 1.0);
}
