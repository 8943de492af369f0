//! CPU time and memory of another process, from procfs.

use std::fs::read_to_string;

/// CPU seconds that a process has used, in user and system mode; zero if it has ended.
pub fn cpu_seconds(id: u32) -> f64 {
    let stat = read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // The kernel counts in hundredths of a second.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Bytes of memory that a process holds.
pub fn resident_bytes(id: u32) -> f64 {
    let statm = read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0
}
