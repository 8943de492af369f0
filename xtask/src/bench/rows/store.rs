//! The store alone and under a writer at full speed: 100,000 small pods, two indexes.

use super::{GO, KUBE, OURS};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "store",
    title: "Store of 100k pods: get, by_index, list, alone and under a writer",
    charted: "ns/op",
    packages: &["bench-store", "peer-kube-rs"],
    go: &[("peers/client-go/micro", "micro-client-go")],
    play,
    goals,
};

/// Case names of the programs and of the table.
const CASES: [(&str, &str); 13] = [
    ("store_get", "get"),
    ("store_get_warm", "get, a thousand keys again and again"),
    ("store_by_index_ns_500", "by_index, 500 hits"),
    ("store_by_index_node_200", "by_index, 200 hits"),
    ("store_list", "list"),
    ("store_list_copied", "list, copied"),
    ("store_get_with_updater", "get under a writer"),
    ("store_get_warm_with_updater", "get, a thousand keys, under a writer"),
    ("store_by_index_ns_500_with_updater", "by_index, 500 hits, under a writer"),
    ("store_by_index_node_200_with_updater", "by_index, 200 hits, under a writer"),
    ("store_list_with_updater", "list under a writer"),
    ("store_list_copied_with_updater", "list, copied, under a writer"),
    ("store_update_alone", "update"),
];

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    for _ in 0..session.repetitions() {
        for contestant in [OURS, GO, KUBE] {
            let command = match contestant {
                GO => session.programs.go_program("micro-client-go"),
                KUBE => Some(session.programs.rust("micro-kube-rs")),
                _ => Some(session.programs.rust("bench-store")),
            };
            let Some(mut command) = command else { continue };
            match contestant {
                GO => command.args(["-only", "store"]),
                KUBE => command.args(["only", "store"]),
                _ => &mut command,
            };
            for line in process::lines(&mut command)? {
                // Without an index, kube-rs scans all pods for those of a namespace.
                let name = line.string("bench").replace("store_filter_ns_500", "store_by_index_ns_500");
                // Peers always copy the list; both of our variants are compared with that.
                let copied = name.replace("store_list", "store_list_copied");
                let is_it = |known: &str| known == name || contestant != OURS && known == copied;
                for (_, case) in CASES.iter().filter(|(known, _)| is_it(known)) {
                    figures.add(case, contestant, "ns/op", line.number("wall_s")? * 1e9 / line.number("ops")?);
                    figures.add(case, contestant, "writer's updates/s", line.number("updates_per_s").unwrap_or(0.0));
                }
            }
        }
    }
    Ok(())
}

fn goals(figures: &Figures, goals: &mut Goals) {
    for (_, case) in CASES {
        let (ours, theirs) = (figures.median(case, OURS, "ns/op"), figures.least(&[case], &[GO, KUBE], "ns/op"));
        // An update pays for the snapshot of readers; `cache/src/store/mod.rs` has the decision.
        let bound = if case == "update" { 2.5 } else { 1.0 };
        goals.at_most(&format!("{case}, times the better peer's"), ratio(ours, theirs), bound);
    }
    // Random reads of 100,000 objects miss the CPU cache; a thousand objects fit into it.
    for case in ["get", "get, a thousand keys again and again"] {
        goals.at_most(&format!("{case}, ns"), figures.median(case, OURS, "ns/op"), 100.0);
    }
    goals.at_most("list, ms", figures.median("list", OURS, "ns/op").map(|time| time / 1e6), 1.0);
}
