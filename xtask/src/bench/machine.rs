//! Load of the machine during a measurement.

use std::fs;

/// A sample of the kernel's counters.
pub struct Machine {
    load: String,
    /// Ticks of all cores, and the ticks stolen by the host.
    ticks: u64,
    stolen: u64,
}

impl Machine {
    pub fn now() -> Machine {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted as users
        // already.
        let ticks: Vec<u64> = fields.take(8).filter_map(|field| field.parse().ok()).collect();
        Machine {
            load: load.split_whitespace().next().unwrap_or("unknown").to_owned(),
            ticks: ticks.iter().sum(),
            stolen: ticks.get(7).copied().unwrap_or_default(),
        }
    }

    /// Describes the load of the machine between two samples.
    pub fn until(&self, later: &Machine) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let (ticks, stolen) = (later.ticks.saturating_sub(self.ticks), later.stolen.saturating_sub(self.stolen));
        let percent = 100.0 * stolen as f64 / ticks.max(1) as f64;
        let (before, after) = (&self.load, &later.load);
        format!("{cores} cores, load {before} before and {after} after, {percent:.1} % of the time taken by the host")
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;

    #[test]
    fn stolen_time_is_a_share_of_all_cores() {
        let look = |load: &str, ticks, stolen| Machine { load: load.into(), ticks, stolen };
        let text = look("0.50", 1000, 10).until(&look("1.25", 3000, 60));
        assert!(text.ends_with("load 0.50 before and 1.25 after, 2.5 % of the time taken by the host"), "{text}");
    }
}
