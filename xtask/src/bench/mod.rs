//! `cargo xtask bench`: kubewright beside client-go and kube-rs on the same input, each contestant
//! in its own process.
//!
//! Builds the available contestants, runs the rows in `rows/`, writes `bench/results/LATEST.md`
//! with a chart, and fails if a goal is missed. `bench/README.md` describes rows and programs.

#![allow(clippy::print_stderr, reason = "progress is no part of the report that goes to standard output")]

mod chart;
mod figures;
mod goals;
mod informer;
mod instructions;
mod json;
mod machine;
mod process;
mod programs;
mod real_server;
mod report;
mod row;
mod rows;
mod session;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use goals::Goals;
use machine::Machine;
use programs::Programs;
use row::Row;
use session::Session;

pub const USAGE: &str =
    "cargo xtask bench [--quick] [--no-build] [--pods MOST] [--only PART|PART…] [--list] [--instructions [--update]]";

/// Runs the command with the arguments after `bench`.
pub fn run(words: &[&str]) -> Result<String, String> {
    let (mut quick, mut only, mut words) = (false, "", words.iter());
    let mut most_pods = u64::MAX;
    let (mut instructions, mut update, mut build) = (false, false, true);
    while let Some(word) = words.next() {
        match *word {
            "--quick" => quick = true,
            "--only" => only = words.next().ok_or("--only needs parts of the names of rows")?,
            "--pods" => {
                let count = words.next().and_then(|word| word.parse().ok());
                most_pods = count.ok_or("--pods needs a number")?;
            }
            "--no-build" => build = false,
            "--instructions" => instructions = true,
            "--update" => update = true,
            "--list" => {
                let lines = rows::ALL.iter().map(|row| format!("{:12} {}", row.name, row.title));
                return Ok(lines.collect::<Vec<_>>().join("\n"));
            }
            other => return Err(format!("{other}: unknown; usage: {USAGE}")),
        }
    }
    if instructions {
        return instructions::run(&bench_folder(), update);
    }
    let wanted = |name: &str| only.is_empty() || only.split('|').any(|part| name.contains(part));
    let rows: Vec<&Row> = rows::ALL.iter().filter(|row| wanted(row.name)).collect();
    let began = Machine::now();
    let session = Session {
        programs: Programs::find(&bench_folder(), &rows, build)?,
        quick,
        most_pods,
        informers: OnceCell::new(),
    };
    let partial = !only.is_empty() || most_pods < u64::MAX;
    let count = rows.len();
    let mut markdown = String::new();
    let mut plays: Vec<report::Played> = Vec::new();
    for row in rows {
        eprintln!("== {}: {}", row.name, row.title);
        let mut figures = figures::Figures::default();
        // A failed row must not invalidate the others' figures, but the run must fail.
        let failure = (row.play)(&session, &mut figures).err();
        if let Some(failure) = &failure {
            eprintln!("FAILED {}: {failure}", row.name);
        }
        let mut goals = Goals::default();
        (row.goals)(&figures, &mut goals);
        plays.push(report::Played { row, figures, goals, failure });
        // Written after each row, so that an interrupted run keeps its results.
        let is_partial = partial || plays.len() < count;
        let kind = report::Kind { quick, partial: is_partial, machine: began.until(&Machine::now()) };
        markdown = save(&plays, &kind, &session.programs.skipped)?;
    }
    println!("{markdown}");
    let missed = plays.iter().flat_map(|played| played.goals.missed()).count();
    let failed = plays.iter().filter(|played| played.failure.is_some()).count();
    match (missed, failed) {
        (0, 0) => Ok("all goals that could be measured are met".into()),
        _ => Err(format!("{missed} goals missed, {failed} rows failed")),
    }
}

/// Writes the results so far. A partial run does not replace the report of a complete one.
fn save(plays: &[report::Played], kind: &report::Kind, skipped: &[String]) -> Result<String, String> {
    let (results, name) = (bench_folder().join("results"), if kind.partial { "PARTIAL" } else { "LATEST" });
    let markdown = report::markdown(plays, kind, skipped).replace("LATEST.svg", &format!("{name}.svg"));
    write(&results, &format!("{name}.md"), &markdown)?;
    write(&results, &format!("{name}.svg"), &chart::svg(plays))?;
    Ok(markdown)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn bench_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench")
}
