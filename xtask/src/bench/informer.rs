//! Informers of all contestants over the pods of the replay server: the runs behind the rows
//! `sync`, `updates`, `relist` and `growth`.

use std::process::Command;

use super::json::Line;
use super::process::{self, Server};
use super::programs::Programs;
use super::session::Session;

/// Number of events after each sync.
pub const EVENTS: u64 = 50_000;

/// One run of one contestant.
pub struct Run {
    pub contestant: &'static str,
    /// Encoding and kind of the initial list: `pb-list`, `json-watchlist`.
    pub variant: &'static str,
    pub pods: u64,
    pub line: Line,
}

/// All runs, and the errors of failed ones: a failing contestant must not invalidate the others'
/// figures.
#[derive(Default)]
pub struct Runs {
    pub done: Vec<Run>,
    failures: Vec<String>,
}

impl Runs {
    /// Fails if any run did.
    pub fn whole(&self) -> Result<(), String> {
        if self.failures.is_empty() { Ok(()) } else { Err(self.failures.join("; ")) }
    }
}

/// A contestant in one variant, with the program's name for it.
type Entry = (&'static str, &'static str, &'static str);

/// All contestants drop managed fields: kubewright by default, the others with hooks.
const ENTRIES: &[Entry] = &[
    ("kubewright", "pb-list", "pb-list"),
    ("client-go", "pb-list", "pb-list-drop"),
    ("kubewright", "pb-watchlist", "pb-watchlist"),
    ("client-go", "pb-watchlist", "pb-watchlist-drop"),
    ("kubewright", "json-list", "json-list"),
    ("kube-rs", "json-list", "json-list-drop"),
    ("kubewright, compact", "pb-watchlist", "pb-watchlist-compact"),
];

/// Skipped in quick runs with many pods: slow (client-go needs 80 s), and similar to the others.
const MORE: &[Entry] = &[
    ("kubewright", "json-watchlist", "json-watchlist"),
    ("kube-rs", "json-watchlist", "json-watchlist-drop"),
    ("client-go", "json-list", "json-list-drop"),
    ("client-go", "json-watchlist", "json-watchlist-drop"),
];

/// The packages and Go programs that the runs need.
pub const PACKAGES: &[&str] = &["replay", "peer-kubewright", "peer-kube-rs"];
pub const GO: &[(&str, &str)] = &[("peers/client-go/informer", "peer-client-go")];

/// 10,000 and 100,000 pods: synced, relisted after an error 410, updated 50,000 times.
pub fn play(session: &Session) -> Result<Runs, String> {
    let mut runs = Runs::default();
    for pods in [10_000, 100_000].into_iter().filter(|pods| *pods <= session.most_pods) {
        let more = if session.quick && pods > 10_000 { &[] } else { MORE };
        let entries: Vec<Entry> = ENTRIES.iter().chain(more).copied().collect();
        let repetitions = if session.quick { 2 } else { 3 };
        let more = play_size(&session.programs, &entries, pods, EVENTS, repetitions, true, false)?;
        runs.done.extend(more.done);
        runs.failures.extend(more.failures);
    }
    Ok(runs)
}

/// This many pods without events, to measure growth: protobuf lists, or JSON for contestants
/// without protobuf.
pub fn play_growth(session: &Session, pods: u64) -> Result<Runs, String> {
    let free = free_memory_gb();
    let wanted = |&&(contestant, variant, _): &&Entry| {
        if !(variant == "pb-list" || (contestant == "kube-rs" && variant == "json-list")) {
            return false;
        }
        // Upper bounds for a million pods: the contestant's memory, plus 4 GB for the server.
        let needed = if pods < 1_000_000 { 0.0 } else { 4.0 + if contestant == "kubewright" { 4.0 } else { 28.0 } };
        if needed > free {
            eprintln!(
                "SKIPPED {contestant} {variant} with {pods} pods: it takes {needed} GB of memory, {free:.0} are free"
            );
        }
        needed <= free
    };
    let entries: Vec<Entry> = ENTRIES.iter().filter(wanted).copied().collect();
    play_size(&session.programs, &entries, pods, 0, if pods < 100_000 { 3 } else { 1 }, false, false)
}

/// 10,000 pods with different templates, so that sibling pods share few values.
pub fn play_diverse(session: &Session) -> Result<Runs, String> {
    let repetitions = if session.quick { 2 } else { 3 };
    play_size(&session.programs, ENTRIES, 10_000, EVENTS, repetitions, false, true)
}

fn free_memory_gb() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes: f64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    kilobytes / 1048576.0
}

fn play_size(
    programs: &Programs,
    entries: &[Entry],
    pods: u64,
    events: u64,
    repetitions: usize,
    relist: bool,
    diverse: bool,
) -> Result<Runs, String> {
    // Without events or streaming lists, the server needs half the memory, which a million pods
    // make worth saving.
    let (streamed, kube) = (events > 0, entries.iter().any(|entry| entry.1.starts_with("json")));
    let mut command = programs.rust("replay");
    command.args(["--pods", &pods.to_string(), "--events", &events.to_string(), "--streamed", &streamed.to_string()]);
    command.args(["--diverse", &diverse.to_string()]);
    let server = Server::start(command.args(["--formats", if kube { "json,pb" } else { "pb" }]))?;
    let url = server.url()?;
    let mut runs = Runs::default();
    // Repetitions are the outer loop, so that noise affects all contestants alike.
    for repetition in 0..repetitions {
        for &(contestant, variant, word) in entries {
            let Some(mut command) = program(programs, contestant) else { continue };
            command.args(["-server", &url, "-variant", word, "-settle", "1"].map(|word| flag(contestant, word)));
            command
                .args(["-pods", &pods.to_string(), "-events", &events.to_string()].map(|word| flag(contestant, word)));
            if relist {
                // Go's boolean flags take no separate value.
                command.args(if contestant == "client-go" { vec!["-relist=true"] } else { vec!["--relist", "true"] });
            }
            let run = process::line(&mut command).and_then(|line| checked(line, pods, events));
            let line = match run {
                Ok(line) => line,
                Err(failure) => {
                    eprintln!("FAILED {contestant} {variant}: {failure}");
                    runs.failures.push(format!("{contestant} {variant} with {pods} pods: {failure}"));
                    continue;
                }
            };
            let (cpu, rss) = (line.number("sync_cpu_s")?, line.number("rss_settled_kb")? / 1024.0);
            eprintln!("{pods} pods, round {repetition}, {contestant} {variant}: sync {cpu:.2} CPU s, {rss:.0} MiB");
            runs.done.push(Run { contestant, variant, pods, line });
        }
    }
    Ok(runs)
}

/// A run without lost events.
fn checked(line: Line, pods: u64, events: u64) -> Result<Line, String> {
    let (held, seen) = (line.number("store_len")?, line.number("events_seen").unwrap_or(0.0));
    if held != pods as f64 || (events > 0 && seen != events as f64) {
        return Err(format!("lost some: {held} of {pods} pods, {seen} of {events} events"));
    }
    Ok(line)
}

/// The program of a contestant, if it could be built.
pub fn program(programs: &Programs, contestant: &str) -> Option<Command> {
    match contestant {
        "client-go" => programs.go_program("peer-client-go"),
        "kube-rs" => Some(programs.rust("peer-kube-rs")),
        _ => Some(programs.rust("peer-kubewright")),
    }
}

/// Go's flags have one dash, ours have two.
fn flag(contestant: &str, word: &str) -> String {
    if word.starts_with('-') && contestant != "client-go" { format!("-{word}") } else { word.to_owned() }
}
