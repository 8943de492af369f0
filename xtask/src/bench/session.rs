//! One run of the bench: its programs and its options.

use std::cell::OnceCell;

use super::informer;
use super::programs::Programs;

/// The shared state of a bench run.
pub struct Session {
    pub programs: Programs,
    /// Fewer repetitions: half an hour in all.
    pub quick: bool,
    /// Larger sizes are skipped, for small machines.
    pub most_pods: u64,
    /// Runs shared by several rows.
    pub informers: OnceCell<Result<informer::Runs, String>>,
}

impl Session {
    /// The informer runs, executed for the first row that needs them.
    pub fn informers(&self) -> Result<&informer::Runs, String> {
        self.informers.get_or_init(|| informer::play(self)).as_ref().map_err(Clone::clone)
    }

    /// Number of repetitions of a case.
    pub fn repetitions(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }
}
