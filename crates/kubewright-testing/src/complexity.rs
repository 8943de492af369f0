//! Checks for linear running time, by CPU time instead of a clock.

use std::time::Duration;

/// The CPU time of this thread.
pub fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = statistics.split_whitespace().next().and_then(|time| time.parse().ok());
    Duration::from_nanos(nanoseconds.expect("it begins with the time on the processor"))
}

/// The shortest time that is measured. The CPU time of a thread advances in ticks of milliseconds.
const MEASURABLE: Duration = Duration::from_millis(20);

/// Fails if four times the input takes eight times as long in each of several attempts. `work`
/// returns its CPU time at the start of the measurement.
#[track_caller]
pub fn assert_linear(small: usize, mut work: impl FnMut(usize) -> Duration) {
    let mut time = |size| {
        let start = work(size);
        processor_time() - start
    };
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let (mut before, mut runs) = (Duration::ZERO, 0);
        while before < MEASURABLE {
            before += time(small);
            runs += 1;
        }
        let after: Duration = (0..runs).map(|_| time(4 * small)).sum();
        let ratio = after.as_secs_f64() / before.as_secs_f64();
        if ratio < 8.0 {
            return;
        }
        ratios.push(ratio);
    }
    panic!("four times the input takes longer by {ratios:.1?}");
}
