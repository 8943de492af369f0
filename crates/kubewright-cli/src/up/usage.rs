//! Resource usage of the process.

use std::fmt;
use std::time::Duration;

/// Ticks per second of `/proc`, on all current Linux systems.
const TICKS: f64 = 100.0;

/// Resource usage so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Current memory in bytes.
    pub memory: u64,
    /// Peak memory in bytes.
    pub peak: u64,
    /// CPU time of all threads.
    pub cpu: Duration,
}

/// The usage so far; `None` if the system does not report it.
pub fn now() -> Option<Usage> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = |field: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
    };
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    Some(Usage {
        memory: kilobytes("VmRSS:")? << 10,
        peak: kilobytes("VmHWM:")? << 10,
        cpu: Duration::from_secs_f64(ticks(&stat)? as f64 / TICKS),
    })
}

/// User and system time, the 14th and 15th field; the second is the name in parentheses, which may
/// have blanks.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes >> 20;
        write!(f, "memory {} MiB (peak {}), ", mebibytes(self.memory), mebibytes(self.peak))?;
        write!(f, "CPU {:.1} s", self.cpu.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) name) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 1000 1 1";
        assert_eq!(ticks(stat), Some(300));
    }
}
