//! Measurements shared by both contestants.

use std::time::Duration;

/// CPU time of this process so far. The kernel counts in hundredths of a second, so measure for
/// seconds.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in parentheses").split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// Prints the median and the 99th percentile of times.
pub fn print_times(mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e6;
    println!(r#"{{"count": {}, "median_us": {:.1}, "p99_us": {:.1}}}"#, times.len(), at(50), at(99));
}
