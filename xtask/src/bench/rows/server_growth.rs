//! Growth of the embedded server's costs with objects, watches and definitions.

use super::OURS;
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "server growth",
    title: "Embedded server: growth with objects, watches and definitions",
    charted: "create µs",
    packages: &["bench-server"],
    go: &[],
    play,
    goals,
};

/// A case with its sizes. `costs` pairs the name that the program prints with the one in the table.
struct Case {
    name: &'static str,
    sizes: &'static [u64],
    costs: &'static [(&'static str, &'static str)],
}

const CASES: [Case; 3] = [
    Case {
        name: "objects",
        sizes: &[1000, 10_000, 100_000, 1_000_000],
        costs: &[
            ("create_us", "create µs"),
            ("get_us", "get µs"),
            ("page_us", "page of 500 µs"),
            ("list_cpu_s", "list CPU s"),
            ("list_us_per_object", "list µs/object"),
            ("table_us_per_object", "table µs/object"),
            ("protobuf_us_per_object", "protobuf µs/object"),
            ("bytes_per_object", "bytes/object"),
            ("peak_bytes_per_object", "peak bytes/object"),
        ],
    },
    Case {
        name: "watches",
        sizes: &[10, 100, 1000, 10_000],
        costs: &[("event_us", "create and event µs"), ("bytes_per_watch", "bytes/watch")],
    },
    Case {
        name: "definitions",
        sizes: &[10, 100, 1000, 5000],
        costs: &[
            ("install_us", "install µs"),
            ("last_install_us", "last installs µs"),
            ("discovery_ms", "discovery ms"),
            ("openapi_v2_ms", "OpenAPI v2 ms"),
            ("openapi_v3_ms", "OpenAPI v3 index ms"),
            ("openapi_v3_group_ms", "OpenAPI v3 of a group ms"),
            ("bytes_per_definition", "bytes/definition"),
        ],
    },
];

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    for Case { name, sizes, costs } in &CASES {
        for size in sizes.iter().filter(|size| **size <= session.most_pods) {
            let line = process::line(session.programs.rust("bench-server").args([name, size.to_string().as_str()]))?;
            for (cost, shown) in *costs {
                figures.add(&case(*size, name), OURS, shown, line.number(cost)?);
            }
        }
    }
    Ok(())
}

fn case(size: u64, name: &str) -> String {
    if size < 1000 { format!("{size} {name}") } else { format!("{} {name}", super::size(size)) }
}

fn goals(figures: &Figures, goals: &mut Goals) {
    let of = |size: u64, name: &str, cost: &str| figures.median(&case(size, name), OURS, cost);
    // 50 % tolerance for CPU cache misses.
    for cost in ["create µs", "page of 500 µs", "list µs/object", "table µs/object", "protobuf µs/object"] {
        let grown = ratio(of(1_000_000, "objects", cost), of(100_000, "objects", cost));
        goals.at_most(&format!("{cost} of 1M objects, times that of 100k"), grown, 1.5);
    }
    goals.at_most("list of 1M objects, CPU s", of(1_000_000, "objects", "list CPU s"), 3.0);
    goals.at_most("bytes for an object of 1 KB", of(1_000_000, "objects", "bytes/object"), 1300.0);
    let grown = ratio(of(10_000, "watches", "create and event µs"), of(100, "watches", "create and event µs"));
    goals.at_most("an event with 10k watches by node, times that with 100", grown, 2.0);
    let grown = ratio(of(5000, "definitions", "last installs µs"), of(100, "definitions", "last installs µs"));
    goals.at_most("an install after 5k definitions, times that after 100", grown, 2.0);
}
