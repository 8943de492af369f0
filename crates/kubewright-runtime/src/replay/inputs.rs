//! The recorded clock readings, random draws and reads of a reconcile.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::MicroTime;
use kubewright_net::clock;
use kubewright_net::observation::{ObservedWork, ReconcileEnd};
use kubewright_recording::{Began, Entry, Read};

use super::server::ReplayServer;

/// The inputs of all reconciles, by number.
#[derive(Debug, Default)]
pub(super) struct RecordedInputs {
    readings: HashMap<u64, VecDeque<i64>>,
    draws: HashMap<u64, VecDeque<u64>>,
    reads: HashMap<u64, Vec<Read>>,
}

impl RecordedInputs {
    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut inputs = RecordedInputs::default();
        for entry in entries {
            match entry {
                Entry::Clock(entry) => inputs.readings.entry(entry.reconcile).or_default().push_back(entry.reading),
                Entry::Random(entry) => inputs.draws.entry(entry.reconcile).or_default().push_back(entry.draw),
                Entry::Read(entry) => inputs.reads.entry(entry.reconcile).or_default().push(*entry),
                _ => {}
            }
        }
        inputs
    }

    /// Takes the inputs of a reconcile that begins now.
    pub(super) fn take(&mut self, began: &Began, server: &ReplayServer) -> Arc<ReplayedWork> {
        let number = began.reconcile;
        Arc::new(ReplayedWork {
            number,
            began: (began.at, clock::unobserved_now().as_unix_micros()),
            readings: Mutex::new(self.readings.remove(&number).unwrap_or_default()),
            draws: Mutex::new(self.draws.remove(&number).unwrap_or_default()),
            reads: self.reads.remove(&number).unwrap_or_default(),
            read_counts: Mutex::default(),
            server: server.clone(),
        })
    }
}

/// Supplies the recorded inputs. Readings and draws that were not recorded continue from the
/// recorded start.
pub(super) struct ReplayedWork {
    number: u64,
    /// When the reconcile began: as recorded, and in the replay.
    began: (i64, i64),
    readings: Mutex<VecDeque<i64>>,
    draws: Mutex<VecDeque<u64>>,
    reads: Vec<Read>,
    /// The number of reads of each cache so far.
    read_counts: Mutex<HashMap<u64, u64>>,
    server: ReplayServer,
}

impl ObservedWork for ReplayedWork {
    fn number(&self) -> u64 {
        self.number
    }

    fn clock(&self, reading: MicroTime) -> MicroTime {
        let recorded = self.readings.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let (began, began_here) = self.began;
        let micros = recorded.unwrap_or_else(|| began + (reading.as_unix_micros() - began_here).max(0));
        let difference = Duration::from_micros(micros.abs_diff(reading.as_unix_micros()));
        if micros >= reading.as_unix_micros() {
            reading.checked_add(difference).unwrap_or(reading)
        } else {
            reading.checked_sub(difference).unwrap_or(reading)
        }
    }

    fn random(&self, draw: u64) -> u64 {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(draw)
    }

    /// Shows the generation that this read saw in the recording, or the last one before it.
    fn cache_reading(&self, cache: u64) {
        let mut counts = self.read_counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(cache).or_default();
        *count += 1;
        let seen = self.reads.iter().rev().find(|read| read.cache == cache && read.read <= *count);
        if let Some(seen) = seen {
            self.server.catch_up_cache(cache, seen.generation);
        }
    }

    fn cache_read(&self, _: u64, _: u64) {}

    fn ended(&self, _: ReconcileEnd<'_>) {}
}
