//! Instruction counts of codec, store and queue, compared with the committed baseline. They do not
//! depend on the machine's load.
//!
//! Needs valgrind; without it the check is skipped with a message.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::programs::succeed;

/// Hashes are seeded at random, which moves counts by a little.
const TOLERANCE: f64 = 0.05;

/// Counts all cases and compares them with `instructions/baseline.txt`, or writes it.
pub fn run(bench: &Path, update: bool) -> Result<String, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok("SKIPPED instruction counts: no valgrind on PATH".into());
    }
    let bench = bench.canonicalize().map_err(|error| format!("{}: {error}", bench.display()))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| bench.join("target"), Into::into);
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--profile", "instructions", "-p", "bench-instructions"]).current_dir(&bench);
    succeed(build.env("CARGO_TARGET_DIR", &target))?;
    let program = target.join("instructions/bench-instructions");
    let cases = Command::new(&program).output().map_err(|error| format!("{}: {error}", program.display()))?;
    let mut counts = BTreeMap::new();
    for case in String::from_utf8_lossy(&cases.stdout).lines() {
        counts.insert(case.to_owned(), count(&program, case)?);
    }
    let file = bench.join("instructions/baseline.txt");
    if update {
        let text: String = counts.iter().map(|(case, count)| format!("{case} {count}\n")).collect();
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    compare(&counts, &fs::read_to_string(&file).unwrap_or_default())
}

/// Instructions of what is measured in one case, from callgrind's summary.
fn count(program: &Path, case: &str) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--collect-atstart=no",
        "--toggle-collect=measured",
    ]);
    let output = command.arg(program).arg(case).output().map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    collected.filter(|count| *count > 0 && output.status.success()).ok_or_else(|| format!("{case}: {text}"))
}

fn compare(counts: &BTreeMap<String, u64>, baseline: &str) -> Result<String, String> {
    let known: BTreeMap<&str, u64> = baseline
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(case, count)| Some((case, count.parse().ok()?)))
        .collect();
    let (mut out, mut worse) = (String::new(), Vec::new());
    for (case, &count) in counts {
        let change = known.get(case.as_str()).map(|&before| count as f64 / before as f64 - 1.0);
        match change {
            Some(change) => writeln!(out, "{case:22} {count:>12} {:+.1} %", change * 100.0),
            None => writeln!(out, "{case:22} {count:>12} new"),
        }
        .expect("a string takes everything");
        if change.is_none_or(|change| change > TOLERANCE) {
            worse.push(case.as_str());
        }
    }
    out.push_str("Counts that fall for good: `cargo xtask bench --instructions --update`.");
    if worse.is_empty() {
        Ok(out)
    } else {
        Err(format!("{out}\nmore instructions than the baseline, or none known: {}", worse.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_above_the_tolerance_fails() {
        let counts = |count| BTreeMap::from([("store-get".to_owned(), count)]);
        assert!(compare(&counts(1040), "store-get 1000\n").is_ok());
        assert!(compare(&counts(500), "store-get 1000\n").is_ok());
        assert!(compare(&counts(1060), "store-get 1000\n").is_err());
        assert!(compare(&counts(1000), "").is_err());
    }
}
