//! Finds a minimal history that still fails.
//!
//! A history consists of units: the reconciles, and the changes of caches. Any subset is a history
//! that a slower or luckier run could have had, since a cache may skip states of an object. First
//! all units of one object are left out together, then ever smaller groups of units (ddmin).

use std::collections::{BTreeMap, HashSet};

use kubewright_core::Value;
use kubewright_recording::{Applied, CacheEntry, Entry, Recording};

use super::served_cache::key_of;
use super::{Replay, ReplayError, ReplayOutcome};
use crate::controller::BoxError;
use crate::manager::Manager;

/// Options of shrinking.
#[derive(Debug, Clone)]
pub struct ShrinkOptions {
    max_replays: usize,
}

impl Default for ShrinkOptions {
    fn default() -> Self {
        ShrinkOptions { max_replays: 2000 }
    }
}

impl ShrinkOptions {
    /// Maximum number of replays; the best history so far is then returned. 2,000 by default.
    #[must_use]
    pub fn max_replays(mut self, replays: usize) -> Self {
        self.max_replays = replays;
        self
    }
}

/// A part of a history that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Unit {
    /// A reconcile, by its number.
    Reconcile(u64),
    /// A change: its place in the recording, and within the entry.
    Change(usize, usize),
}

impl<F> Replay<F>
where
    F: Fn(&mut Manager) -> Result<(), BoxError> + Sync,
{
    /// The smallest recording found for which `fails` holds, such as `|outcome|
    /// outcome.difference.is_some()`. A replay that is not possible does not fail.
    ///
    /// # Errors
    /// If the whole recording cannot be replayed. `None` if it does not fail.
    pub fn shrink(
        &self,
        options: &ShrinkOptions,
        fails: impl Fn(&ReplayOutcome) -> bool,
    ) -> Result<Option<Recording>, ReplayError> {
        if !fails(&self.run()?) {
            return Ok(None);
        }
        let check = |candidate: &Recording| self.run_recording(candidate, false).is_ok_and(|outcome| fails(&outcome));
        Ok(Some(minimal(&self.recording, options.max_replays, check)))
    }
}

/// The smallest recording found for which `fails` holds, with at most so many checks. It must hold
/// for the whole recording.
fn minimal(recording: &Recording, max_checks: usize, fails: impl Fn(&Recording) -> bool) -> Recording {
    let mut search = Search { recording, left_out: HashSet::new(), checks_left: max_checks, fails: &fails };
    let groups = units_by_object(recording);
    search.reduce(groups.into_values().collect());
    // Later changes first: what happened after the failure is irrelevant.
    let singles: Vec<Vec<Unit>> = search.remaining().into_iter().rev().map(|unit| vec![unit]).collect();
    search.reduce(singles);
    without(recording, &search.left_out)
}

/// Finds a minimal recording for a command, as `kubewright replay --shrink` does.
///
/// `fails` is called with candidates. It must hold for the whole recording.
pub fn shrink_by(recording: &Recording, options: &ShrinkOptions, fails: impl Fn(&Recording) -> bool) -> Recording {
    minimal(recording, options.max_replays, fails)
}

struct Search<'a> {
    recording: &'a Recording,
    left_out: HashSet<Unit>,
    checks_left: usize,
    fails: &'a dyn Fn(&Recording) -> bool,
}

impl Search<'_> {
    /// Leaves out as many groups as possible, in ever smaller numbers at a time.
    fn reduce(&mut self, mut groups: Vec<Vec<Unit>>) {
        let mut size = groups.len().div_ceil(2);
        while size > 0 {
            let (mut kept, mut has_changed) = (Vec::new(), false);
            for several in groups.chunks(size) {
                if self.leave_out(several.iter().flatten().copied()) {
                    has_changed = true;
                } else {
                    kept.extend_from_slice(several);
                }
            }
            groups = kept;
            if !has_changed || size > groups.len() {
                size = if size == 1 { usize::from(has_changed) } else { size.div_ceil(2).min(groups.len()) };
            }
            if self.checks_left == 0 {
                return;
            }
        }
    }

    /// Leaves units out if the rest still fails.
    fn leave_out(&mut self, units: impl Iterator<Item = Unit>) -> bool {
        if self.checks_left == 0 {
            return false;
        }
        self.checks_left -= 1;
        let mut left_out = self.left_out.clone();
        left_out.extend(units);
        let does_fail = (self.fails)(&without(self.recording, &left_out));
        if does_fail {
            self.left_out = left_out;
        }
        does_fail
    }

    fn remaining(&self) -> Vec<Unit> {
        let mut units: Vec<(usize, Unit)> = Vec::new();
        for (place, entry) in self.recording.entries().iter().enumerate() {
            match entry {
                Entry::Began(began) => units.push((place, Unit::Reconcile(began.reconcile))),
                Entry::Applied(applied) => {
                    units.extend((0..applied.changes.len()).map(|index| (place, Unit::Change(place, index))));
                }
                _ => {}
            }
        }
        units.into_iter().map(|(_, unit)| unit).filter(|unit| !self.left_out.contains(unit)).collect()
    }
}

/// The units of each key. Objects of several kinds share one, as an owner and its dependent often
/// do.
fn units_by_object(recording: &Recording) -> BTreeMap<String, Vec<Unit>> {
    let mut groups: BTreeMap<String, Vec<Unit>> = BTreeMap::new();
    for (place, entry) in recording.entries().iter().enumerate() {
        match entry {
            Entry::Began(began) => groups.entry(began.key.clone()).or_default().push(Unit::Reconcile(began.reconcile)),
            Entry::Applied(applied) => {
                for (index, change) in applied.changes.iter().enumerate() {
                    let key = match change {
                        CacheEntry::Set(json) => {
                            Value::from_json(json.get().as_bytes()).map(|object| key_of(&object)).unwrap_or_default()
                        }
                        CacheEntry::Deleted(key) => key.clone(),
                    };
                    groups.entry(key).or_default().push(Unit::Change(place, index));
                }
            }
            _ => {}
        }
    }
    groups
}

/// The recording without these units, and without what belongs to the reconciles among them.
fn without(recording: &Recording, left_out: &HashSet<Unit>) -> Recording {
    let is_out = |reconcile: u64| left_out.contains(&Unit::Reconcile(reconcile));
    let (mut requests_out, mut synced) = (HashSet::new(), HashSet::new());
    let entries = recording.entries().iter().enumerate().filter_map(|(place, entry)| match entry {
        Entry::Applied(applied) => {
            let changes = applied.changes.iter().enumerate();
            let changes = changes.filter(|(index, _)| !left_out.contains(&Unit::Change(place, *index)));
            let changes: Vec<CacheEntry> = changes.map(|(_, change)| change.clone()).collect();
            // The first changes of a cache show that it has synced, even if there are none.
            if !synced.insert(applied.cache) && changes.is_empty() {
                return None;
            }
            Some(Entry::Applied(Applied { changes, version: applied.version.clone(), ..applied.clone() }))
        }
        Entry::Request(request) if request.reconcile.is_some_and(is_out) => {
            requests_out.insert(request.request);
            None
        }
        Entry::Response(response) if requests_out.contains(&response.request) => None,
        entry if entry.reconcile().is_some_and(is_out) => None,
        entry => Some(entry.clone()),
    });
    Recording::from_entries(recording.header().clone(), entries.collect())
}

#[cfg(test)]
mod tests {
    use kubewright_recording::{Began, Header};

    use super::*;

    #[test]
    fn only_the_units_that_matter_remain() {
        let header = Header { format: String::new(), version: 1, program: String::new(), started: 0, redacted: false };
        let began = |number: u64| {
            Entry::Began(Began {
                at: 0,
                reconcile: number,
                controller: "c".to_owned(),
                key: format!("default/{}", number % 10),
                reasons: Vec::new(),
                attempt: 1,
                id: 0,
            })
        };
        let recording = Recording::from_entries(header, (0..100).map(began).collect());
        let wanted = [17, 42, 77];
        let numbers =
            |recording: &Recording| -> Vec<u64> { recording.entries().iter().filter_map(Entry::reconcile).collect() };
        let minimal = shrink_by(&recording, &ShrinkOptions::default(), |candidate| {
            let has = numbers(candidate);
            wanted.iter().all(|number| has.contains(number))
        });
        assert_eq!(numbers(&minimal), wanted);
    }
}
