//! Test helpers that check for linear running time.

use std::time::Duration;

/// The CPU time of this thread.
pub(crate) fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = statistics.split_whitespace().next().and_then(|time| time.parse().ok());
    Duration::from_nanos(nanoseconds.expect("it begins with the time on the processor"))
}

/// Fails if four times the input takes eight times as long in each of several attempts. `work`
/// returns its CPU time at the start of the measurement.
#[track_caller]
pub(crate) fn assert_linear(small: usize, mut work: impl FnMut(usize) -> Duration) {
    let mut time = |size| {
        let start = work(size);
        (processor_time() - start).as_secs_f64()
    };
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let before = time(small);
        let ratio = time(4 * small) / before;
        if ratio < 8.0 {
            return;
        }
        ratios.push(ratio);
    }
    panic!("four times the input takes longer by {ratios:.1?}");
}
