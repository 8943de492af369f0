//! Work queues: a million adds, drained by workers; a million keys delayed or failing.

use super::{GO, OURS};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "queue",
    title: "Work queue: a million adds",
    charted: "CPU ns/call",
    packages: &["bench-workqueue"],
    go: &[("workqueue/client-go", "bench-workqueue-client-go")],
    play,
    goals,
};

const ADDS: f64 = 1e6;

/// Cases, and whether the memory of their keys is measured too.
const CASES: [(&str, bool); 8] = [
    ("1/1 distinct", false),
    ("4/4 distinct", false),
    ("64/64 distinct", false),
    ("1/1 hot", false),
    ("4/4 hot", false),
    ("64/64 hot", false),
    ("delayed", true),
    ("failures", true),
];

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    // A run takes 0.2 s, so many repetitions average out noise.
    for _ in 0..3 * session.repetitions() {
        for (case, held) in CASES {
            let ours = Some(session.programs.rust("bench-workqueue"));
            for (contestant, command) in [(OURS, ours), (GO, session.programs.go_program("bench-workqueue-client-go"))]
            {
                let Some(mut command) = command else { continue };
                let line = process::line(command.arg(case))?;
                // With hot keys most adds find the key queued; the share depends on scheduling.
                let calls = ADDS + 2.0 * line.number("delivered")?;
                let cpu = line.number("cpu_s")?;
                figures.add(case, contestant, "CPU ns/call", cpu * 1e9 / calls);
                figures.add(case, contestant, "calls/CPU s", calls / cpu);
                if held {
                    figures.add(case, contestant, "bytes/key", line.number("bytes")? / ADDS);
                }
            }
        }
    }
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    for (case, held) in CASES {
        let times = |metric| ratio(figures.median(case, GO, metric), figures.median(case, OURS, metric));
        // The goal for delayed keys is half of the CPU and memory.
        let bound = if held { 2.0 } else { 3.0 };
        goals.at_least(&format!("{case}: times less CPU than client-go"), times("CPU ns/call"), bound);
        if held {
            goals.at_least(&format!("{case}: times less memory than client-go"), times("bytes/key"), 2.0);
        }
    }
}
